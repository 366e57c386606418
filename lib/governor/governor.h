// SPDX-License-Identifier: Apache-2.0
//
// The governor decides how deep the process records at any moment. Recording then costs the host's work at most a
// budget, on the mean and on the p99 of its durations, as measured on the live traffic. Host threads note finished
// works, and the watcher ticks; there is no thread or clock in here. docs/reference/governor.md says what it does and
// why.
#ifndef PITOT_LIB_GOVERNOR_GOVERNOR_H_
#define PITOT_LIB_GOVERNOR_GOVERNOR_H_

#include <stdint.h>

#include <memory>

#include "governor/classes.h"
#include "governor/contrast.h"
#include "governor/notes.h"
#include "governor/policy.h"
#include "governor/report.h"
#include "governor/switchback.h"
#include "pitot/depth.h"

namespace pitot::governor {

struct Options {
  // The cost allowed for recording, percent of the mean and of the p99 of works' durations, above 0.
  double budget_percent = 1;
  // Seed of the lots that order blocks. If it were the same in all processes of a fleet, they would all switch
  // together.
  uint64_t seed = 1;
  // The shortest block, ns, at least 50 ms. The default is twenty ticks of the watcher, so that a late one is a small
  // part, and a thousand times the cost of a switch. It is short enough for much the same load of the server in all of
  // a round. Blocks are longer if works are: five times their p99.
  int64_t block_ns = 200'000'000;
};

// Threads: Note any; everything else one thread, the watcher. Memory: 270 KiB, all of it at Make.
class Governor {
 public:
  // Null if there is no memory.
  static std::unique_ptr<Governor> Make(const Options& options) noexcept;
  explicit Governor(const Options& options) noexcept;

  // Notes a finished unit of work: a batch or, without batches, a request. Times are ns of Tick's clock. Works of a
  // class are alike: one route or executor, one bucket of sizes; all classes beyond 64 count as one. False, and
  // counted, if there is no room until the next tick. Threads: any. Cost: about 5 ns, some tens if threads meet; no
  // lock, no allocation.
  bool Note(uint32_t work_class, int64_t begin_ns, int64_t end_ns) noexcept {
    return notes_.Push({begin_ns, end_ns, work_class});
  }

  // The depth from now on. Call it every 10 ms or so, less often while nothing happens. A time before the last one
  // counts as the last one. Cost: about 15 ns for each note, 0.1 us otherwise; once a second some us for each class.
  Depth Tick(int64_t now_ns) noexcept;
  // The depth from now on: the deepest available, until `until_ns` but at most kLongestArmNs from now. Its cost does
  // not matter: armed time is in no measurement, and only up to three quarters of the budget are kept back for it.
  Depth Arm(int64_t now_ns, int64_t until_ns) noexcept;
  static constexpr int64_t kLongestArmNs = 60'000'000'000;
  // Sets, as BitOf, the depths that record more than the one before; scopes always do. Measurements of a depth are
  // forgotten when others before it come or go. In force with the next Tick or Arm.
  void SetAvailable(uint32_t depths) noexcept;

  bool IsArmed() const noexcept { return armed_until_ns_ != 0; }
  // When Tick has something to do although no work is noted: a block or an arming ends, or a round may begin.
  // INT64_MAX: never.
  int64_t DueNs() const noexcept;
  Report GetReport() const noexcept;
  // Report::state alone.
  void Describe(char* text, size_t size) const noexcept;

 private:
  void Account(int64_t now_ns) noexcept;
  void Drain() noexcept;
  void Take(const governor::Note& note) noexcept;
  void Move() noexcept;
  void Draw() noexcept;
  bool HasWork() const noexcept;
  void VoidRound() noexcept;
  Overhead Cost() const noexcept;

  const Options options_;
  NoteQueue notes_;
  Classes classes_;
  Lots lots_;
  Policy policy_;
  Round round_;

  bool has_ticked_ = false;
  int64_t now_ns_ = 0;
  int64_t rest_until_ns_ = 0;   // no round before this
  int64_t armed_until_ns_ = 0;  // 0: not armed
  int64_t last_work_ns_ = 0;    // when notes were last drained; 0: never
  int64_t refreshed_ns_ = 0;
  Depth depth_ = Depth::kScopes;
  double shares_[kDepths] = {}, armed_share_ = 0;  // of recent time

  int64_t depth_ns_[kDepths] = {};
  int64_t armed_ns_ = 0;
  uint64_t rounds_begun_ = 0, rounds_void_ = 0;
  uint64_t notes_taken_ = 0, notes_refused_ = 0;
};

}  // namespace pitot::governor

#endif  // PITOT_LIB_GOVERNOR_GOVERNOR_H_
