// SPDX-License-Identifier: Apache-2.0
#include "trace/profile_runs.h"

#include <algorithm>
#include <atomic>

#include "trace/clock.h"
#include "trace/process.h"

namespace pitot::trace {
namespace {

struct RunSlot {
  std::atomic<int64_t> begin_ns{0}, end_ns{0};  // a begin of 0: it is being written
  std::atomic<uint32_t> fork_epoch{0};
};
constinit RunSlot g_runs[kMostProfileRuns];
constinit std::atomic<uint64_t> g_runs_begun{0};

}  // namespace

ProfileRun::ProfileRun() noexcept {
  const uint64_t number = g_runs_begun.load();
  RunSlot& slot = g_runs[number % kMostProfileRuns];
  slot.begin_ns.store(0);
  slot.end_ns.store(INT64_MAX);
  slot.fork_epoch.store(ForkEpoch());
  slot.begin_ns.store(MonotonicNs());
  g_runs_begun.store(number + 1);
}

ProfileRun::~ProfileRun() { g_runs[(g_runs_begun.load() - 1) % kMostProfileRuns].end_ns.store(MonotonicNs()); }

ProfileRuns ProfileRunsWithin(int64_t begin_ns, int64_t end_ns) noexcept {
  ProfileRuns found;
  const uint64_t begun = g_runs_begun.load(), kept = std::min<uint64_t>(begun, kMostProfileRuns);
  bool reaches_back = kept == begun;
  for (uint64_t i = begun; i > begun - kept; --i) {
    const RunSlot& slot = g_runs[(i - 1) % kMostProfileRuns];
    const int64_t from_ns = slot.begin_ns.load(), until_ns = slot.end_ns.load();
    const bool is_ours = slot.fork_epoch.load() == ForkEpoch();
    if (from_ns == 0 || slot.begin_ns.load() != from_ns) break;  // a newer run takes the place
    if (!is_ours || until_ns <= begin_ns) {
      reaches_back = true;  // those before are a parent's, or earlier
      break;
    }
    if (from_ns < end_ns) found.runs[found.count++] = {from_ns, until_ns};
  }
  found.are_all = reaches_back;
  return found;
}

}  // namespace pitot::trace
