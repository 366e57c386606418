// SPDX-License-Identifier: Apache-2.0
#include "governor/switchback.h"

#include <algorithm>
#include <utility>

namespace pitot::governor {
namespace {

void Count(const Relative& work, Tally* tally) noexcept {
  tally->works += 1;
  tally->time += work.duration;
  tally->slow += work.is_slow ? 1 : 0;
}

}  // namespace

void Round::Begin(int64_t now_ns, int64_t block_ns, const Depth (&depths)[kBlocks], Depth base, Lots* lots) noexcept {
  block_ns_ = block_ns;
  base_ = base;
  for (uint32_t i = 0; i < kBlocks; ++i) blocks_[i] = {depths[i], false, 0, 0, {}, {}};
  for (uint32_t i = kBlocks - 1; i > 0; --i) {
    std::swap(blocks_[i], blocks_[static_cast<uint32_t>(lots->Draw() * (i + 1))]);
  }
  stage_ = 0;
  stage_begin_ns_ = now_ns;
  blocks_[0].begin_ns = now_ns;
}

bool Round::Advance(int64_t now_ns) noexcept {
  if (is_over() || now_ns < stage_begin_ns_ + block_ns_) return false;
  if (now_ns - stage_begin_ns_ > 2 * block_ns_) {
    Void();
    return false;
  }
  ++stage_;
  stage_begin_ns_ = now_ns;
  if (stage_ < kBlocks) blocks_[stage_].begin_ns = now_ns;
  return stage_ == kOver;
}

void Round::Take(int64_t begin_ns, const Relative& work) noexcept {
  if (is_over() || !work.is_known) return;
  const int64_t margin_ns = block_ns_ / kMarginsPerBlock;
  for (uint32_t i = 0; i <= stage_ && i < kBlocks; ++i) {
    Block& block = blocks_[i];
    const int64_t end_ns = block.was_cut ? block.cut_ns : block.begin_ns + block_ns_ - margin_ns;
    if (begin_ns < block.begin_ns || begin_ns >= end_ns) continue;
    Count(work, &block.all);
    if (begin_ns >= block.begin_ns + margin_ns) Count(work, &block.works);
  }
}

bool Round::CutIfCatastrophic(int64_t now_ns) noexcept {
  if (stage_ >= kBlocks) return false;
  Block& block = blocks_[stage_];
  if (block.was_cut || block.depth <= base_ || block.all.works < kLeastWorksToCut) return false;
  // Against the classes' usual durations, or this round's own if those show that the server is slow anyway.
  double usual = 1;
  for (uint32_t i = 0; i < stage_; ++i) {
    const Tally& before = blocks_[i].all;
    if (blocks_[i].depth <= base_ && before.works >= kLeastWorksToCut)
      usual = std::max(usual, before.time / before.works);
  }
  if (block.all.time < kCatastrophe * usual * block.all.works) return false;
  block.was_cut = true;
  block.cut_ns = now_ns;
  return true;
}

Depth Round::depth() const noexcept {
  return stage_ < kBlocks && !blocks_[stage_].was_cut ? blocks_[stage_].depth : base_;
}

uint32_t Round::Blocks(Depth depth) const noexcept {
  return static_cast<uint32_t>(
      std::count_if(blocks_, blocks_ + kBlocks, [=](const Block& block) { return block.depth == depth; }));
}

bool Round::WasCut(Depth depth) const noexcept {
  return std::any_of(blocks_, blocks_ + kBlocks,
                     [=](const Block& block) { return block.depth == depth && block.was_cut; });
}

Tally Round::AverageBlock(Depth depth) const noexcept {
  Tally average;
  for (const Block& block : blocks_) {
    if (block.depth != depth) continue;
    average.works += block.works.works / Blocks(depth);
    average.time += block.works.time / Blocks(depth);
    average.slow += block.works.slow / Blocks(depth);
  }
  return average;
}

}  // namespace pitot::governor
