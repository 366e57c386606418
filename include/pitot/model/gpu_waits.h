// SPDX-License-Identifier: Apache-2.0
//
// Finds the work that a call waiting for GPUs waited for. The trace only shows when the call ended: it returns once
// that work is done.
#ifndef PITOT_MODEL_GPU_WAITS_H_
#define PITOT_MODEL_GPU_WAITS_H_

#include <cstdint>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// A call waited for the work that ended last during the call. Candidates were launched before it, and match it:
//  * a call that copies: its own copy. Where only spans were recorded, it is as any other call;
//  * a call with a known stream: work on that stream. If the stream has spans and none of them fits, it is as if the
//    stream was unknown: not all work has a span;
//  * a call that waits for a whole device (cudaDeviceSynchronize, cuCtxSynchronize, freeing memory): work on it. If the
//    call does not name the device, it is the one its thread launched on last, otherwise any;
//  * any other call: work launched for the same batch (outside of batches, for the same request), if any of that ended
//    during the call. Otherwise work launched by the same thread, then work on the device its thread launched on last,
//    then any work.
// Work without a known call may have been launched at any time. Spans are left out if anything else was recorded,
// because they include gaps. Many threads may read it.
class PITOT_EXPORT GpuWaits {
 public:
  // GPU times are converted to the host's clock. Because of the error a call may seem to return this much before the
  // work it waited for.
  static constexpr int64_t kLateNs = 5'000;

  // O(n log n). Both must outlive this.
  GpuWaits(const Trace& trace, const LaunchIndex& launches);
  GpuWaits(const GpuWaits&) = delete;
  GpuWaits& operator=(const GpuWaits&) = delete;

  // Returns the row of `gpu` that `call` waited for until `by_ns` (its end, or a moment in it); kNone: nothing
  // recorded. O(log n), plus others' launches while it waited, at most kMostLooked.
  uint32_t Last(uint32_t call, int64_t by_ns) const;
  // For a call that waits for a whole device, the same for each stream with such work; the result of Last comes first.
  std::vector<uint32_t> LastOfStreams(uint32_t call, int64_t by_ns) const;
  // Rows of a device (kNone: of streams whose device is unknown), by end.
  RowRange EndsOn(uint32_t device) const { return on_device_.Of(device < devices_ ? device : devices_); }

 private:
  static constexpr uint32_t kMostLooked = 1024;
  // Rows of several groups; within a group by end.
  struct Groups {
    RowRange Of(uint32_t group) const { return {rows.data() + starts[group], rows.data() + starts[group + 1]}; }
    std::vector<uint32_t> rows, starts;
  };
  struct Wait {
    int64_t begin_ns, by_ns;
  };
  template <class GroupOf> Groups GroupBy(uint32_t groups, const GroupOf& group_of) const;
  int64_t EndNs(uint32_t row) const { return trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]; }
  bool HasSpans(uint32_t stream) const;
  bool CanHaveBeen(uint32_t row, const Wait& wait) const;
  uint32_t LastIn(RowRange ends, const Wait& wait) const;
  uint32_t ContextOf(uint32_t call) const;
  uint32_t DeviceOf(uint32_t call) const;

  const Trace& trace_;
  const LaunchIndex& launches_;
  const uint32_t devices_;
  bool has_operations_ = false;                             // anything but spans
  std::vector<uint32_t> ends_;                              // all rows, by end
  Groups on_stream_, on_device_, of_thread_, for_context_;  // the last two by launcher
  std::vector<uint32_t> last_device_;                       // by call: the device its thread launched on last, or kNone
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_GPU_WAITS_H_
