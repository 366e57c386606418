// SPDX-License-Identifier: Apache-2.0
//
// A round of the switchback: three blocks of time, at scopes only, at the base depth and at the depth in question, in
// an order drawn by lot. Then follows time for works begun in them to end. docs/reference/governor.md has the reasons
// for this layout.
#ifndef PITOT_LIB_GOVERNOR_SWITCHBACK_H_
#define PITOT_LIB_GOVERNOR_SWITCHBACK_H_

#include <stdint.h>

#include "governor/classes.h"
#include "governor/contrast.h"
#include "pitot/depth.h"

namespace pitot::governor {

// Pseudo-random draws from a seed (SplitMix64, Steele et al. 2014).
class Lots {
 public:
  explicit Lots(uint64_t seed) noexcept : state_(seed) {}
  // Uniform in [0, 1).
  double Draw() noexcept {
    uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

// Not thread-safe; no clock of its own. Times are ns of the caller's clock and do not go back.
class Round {
 public:
  static constexpr uint32_t kBlocks = 3;
  // A work that begins at either end of a block does not count. At the beginning earlier works still disturb it, and at
  // the end it would run into the next block.
  static constexpr int64_t kMarginsPerBlock = 5;

  void Begin(int64_t now_ns, int64_t block_ns, const Depth (&depths)[kBlocks], Depth base, Lots* lots) noexcept;
  void Void() noexcept { stage_ = kOver; }
  // Moves on to the round's place at this time. True once: the round is over and its tallies are whole. A tick more
  // than a block late voids the round.
  bool Advance(int64_t now_ns) noexcept;

  // Counts a work for the block in which it began, however long it took. If works were chosen by their end, a depth
  // that makes them longer would hide its longest. A work begun elsewhere does not count.
  void Take(int64_t begin_ns, const Relative& work) noexcept;
  // Leaves the block at once if its depth, deeper than the base, makes works take twice as long. True if it did.
  bool CutIfCatastrophic(int64_t now_ns) noexcept;

  bool is_over() const noexcept { return stage_ == kOver; }
  // When it is to move on; not once it is over.
  int64_t DueNs() const noexcept { return stage_begin_ns_ + block_ns_; }
  // The depth at this moment of the round.
  Depth depth() const noexcept;
  bool Uses(Depth depth) const noexcept { return Blocks(depth) != 0; }
  bool WasCut(Depth depth) const noexcept;
  // The works of an average block at this depth, not of all its blocks: rounds have one or two blocks of a depth. In
  // sums over rounds a drift of the load would then pass for a difference between depths (Simpson's paradox).
  Tally AverageBlock(Depth depth) const noexcept;

 private:
  uint32_t Blocks(Depth depth) const noexcept;

  // An average over fewer works is chance.
  static constexpr double kLeastWorksToCut = 10, kCatastrophe = 2;
  static constexpr uint32_t kSettling = kBlocks, kOver = kBlocks + 1;
  struct Block {
    Depth depth;
    bool was_cut;
    int64_t begin_ns, cut_ns;
    Tally works;
    Tally all;  // with those of its first margin, because a catastrophe cannot wait
  };

  int64_t block_ns_ = 0;
  int64_t stage_begin_ns_ = 0;
  Depth base_ = Depth::kScopes;
  uint32_t stage_ = kOver;  // the block at this time, or kSettling, or kOver
  Block blocks_[kBlocks] = {};
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_SWITCHBACK_H_
