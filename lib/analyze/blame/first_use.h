// SPDX-License-Identifier: Apache-2.0
//
// What is done for the first time takes longer: a kernel's code is loaded at its first launch, code is compiled before
// that, libraries choose how to compute a batch of a size that they have not seen. What a25 counts, and the walk
// blames.
//
// A window does not hold the process's past: what is first in it need not be new, and at its beginning everything is
// first. So first is what also took longer than `BlameOptions::first_use_ns` and than 99 % of its like that are not.
#ifndef PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_
#define PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analyze/blame/walk_gpu.h"
#include "analyze/blame/walk_threads.h"
#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// How long the like of a first use take. O(n).
struct Like {
  explicit Like(std::vector<int64_t> like_ns);
  bool is_known;  // there are enough
  int64_t p99_ns = 0, median_ns = 0;
};
// How much longer than the median of its like the first of its kind took; 0 where these are not known, or it does not
// stand out.
int64_t FirstCostNs(int64_t first_ns, const Like& like, double least_ns);

// The first launch of a kernel, of those that stand out.
struct FirstLaunch {
  uint32_t call = model::kNone;
  model::StringId kernel = 0;
  int64_t cost_ns = 0;
  bool is_new = false;  // calls had been recorded before for longer than it ever paused after
};
// Launches in CUDA graphs are left out. By kernel. O(n log n), and of those kernels times changes of depth.
std::vector<FirstLaunch> SlowFirstLaunches(const model::Trace& trace, double least_ns);

class FirstUses {
 public:
  // O(n log n). The trace and the indexes must outlive this.
  FirstUses(const model::Trace& trace, const Threads& threads, const GpuOps& gpu, const BlameOptions& options);

  // How long its kernel's code took to load, of a launch; 0 of most.
  int64_t LoadNs(uint32_t call) const;
  // Whether what a segment calls loading is proved: by a call that does nothing else, or because the kernel was new,
  // not only the first in the trace. O(1).
  bool IsLoadProved(const BlameSegment& segment) const;
  // Whether code of a thread, up to its end, led to a call that loads or compiles code. O(log n).
  bool IsLoading(uint32_t thread, const Piece& code) const;
  bool IsFirstOfSize(uint32_t batch) const { return first_batches_.count(batch) != 0; }
  // "first use of gemm", "its thread's first batch of 4": what of it was done in a segment, as far as the trace knows.
  // O(log n).
  std::string Of(const BlameSegment& segment) const;

 private:
  // What follows code that took unusually long.
  struct Use {
    model::StringId kernel = 0;  // that was launched for the first time; 0: none is known
    bool is_load = false;        // by a call that does nothing else
  };
  void FindCode(const Threads& threads, const GpuOps& gpu, int64_t least_ns);
  void FindBatches(double least_ns);
  const Use* After(uint32_t thread, const Piece& code) const;

  const model::Trace& trace_;
  const Threads& threads_;
  std::unordered_map<uint32_t, FirstLaunch> launches_;  // by call
  std::unordered_map<uint32_t, Use> after_code_;        // by the call that follows
  std::unordered_set<uint32_t> first_batches_;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_BLAME_FIRST_USE_H_
