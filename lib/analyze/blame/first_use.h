// SPDX-License-Identifier: Apache-2.0
//
// First uses take longer. A kernel's code is loaded at its first launch and compiled before that, and libraries choose
// how to compute a batch of a size they have not seen. Analyzer a25 counts first uses, and the walk blames them.
//
// A window does not hold the process's past: the first in it need not be new, and at its beginning everything is first.
// So a first use must also take longer than `BlameOptions::first_use_ns`, and longer than 99 % of its like that are not
// first. Where launches are counted instead of recorded, only slow ones have a record, and it says no kernel: a rare
// one is taken for a first use, unless its queue was full.
#ifndef PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_
#define PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/blame/namespace.h"
#include "analyze/blame/walk_gpu.h"
#include "analyze/blame/walk_threads.h"
#include "pitot/analyze/why.h"

namespace pitot::blame {

// How long the like of a first use take. O(n).
struct Like {
  explicit Like(std::vector<int64_t> like_ns);
  bool is_known;  // there are enough of them
  int64_t p99_ns = 0, median_ns = 0;
};
// How much longer than the median of its like the first of a kind took; 0 if they are unknown, or it does not stand
// out.
int64_t FirstCostNs(int64_t first_ns, const Like& like, double least_ns);

// The first launch of a kernel, if it stands out.
struct FirstLaunch {
  uint32_t call = model::kNone;
  model::StringId kernel = 0;
  int64_t cost_ns = 0;
  bool is_new = false;  // calls had been recorded before it for longer than any later pause between its launches
};
// The first launches by kernel, without those in CUDA graphs. O(n log n), and these kernels times changes of depth.
std::vector<FirstLaunch> SlowFirstLaunches(const model::Trace& trace, double least_ns);

class FirstUses {
 public:
  // O(n log n). The trace and the indexes must outlive this.
  FirstUses(const model::Trace& trace, const Threads& threads, const GpuOps& gpu, const BlameOptions& options);

  // How long the kernel's code took to load in a launch; mostly 0.
  int64_t LoadNs(uint32_t call) const;
  // Whether that is a guess: the kernel is not known.
  bool IsGuess(uint32_t call) const;
  // Whether a segment's loading is proved: by a call that does nothing else, or because the kernel was new and not only
  // the first in the trace. O(1).
  bool IsLoadProved(const BlameSegment& segment) const;
  // Whether code of a thread, up to its end, led to a call that loads or compiles code. O(log n).
  bool IsLoading(uint32_t thread, const Piece& code) const;
  bool IsFirstOfSize(uint32_t batch) const { return first_batches_.count(batch) != 0; }
  // "first use of gemm", "its thread's first batch of 4": the first use in a segment, as far as the trace knows.
  // O(log n).
  std::string Of(const BlameSegment& segment) const;

 private:
  // What follows code of unusual length.
  struct Use {
    model::StringId kernel = 0;  // launched for the first time; 0: unknown
    bool is_load = false;        // the call does nothing but load
  };
  void FindSlowLaunches(const BlameOptions& options, const GpuOps& gpu);
  void FindCode(const Threads& threads, const GpuOps& gpu, int64_t least_ns);
  void FindBatches(double least_ns);
  const Use* After(uint32_t thread, const Piece& code) const;

  const model::Trace& trace_;
  const Threads& threads_;
  std::unordered_map<uint32_t, FirstLaunch> launches_;  // by call
  std::unordered_map<uint32_t, Use> after_code_;        // by the call that follows
  std::unordered_set<uint32_t> first_batches_;
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_
