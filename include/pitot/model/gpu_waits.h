// SPDX-License-Identifier: Apache-2.0
//
// What a call that waits for GPUs waited for (I5). Nothing says it but its end: it returns once that is done.
#ifndef PITOT_MODEL_GPU_WAITS_H_
#define PITOT_MODEL_GPU_WAITS_H_

#include <cstdint>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// A call waited for what ended last in it, of that which was launched before it and which it can have waited for:
//  * a call that copies: its own copy;
//  * one whose stream is known: what is on that stream;
//  * one that waits for a whole device (cudaDeviceSynchronize, cuCtxSynchronize, what frees memory): what is on it; if
//    the call does not say which device that is, on the one that the thread launched on last, else on any;
//  * any other: what was launched for the same batch (outside of batches, for the same request), if any of that ended
//    in it; else, likewise, what the same thread launched; what is on the device that the thread launched on last;
//    anything.
// What has no call may have been launched at any time. Spans are left out where anything else was recorded: they have
// gaps of their own. Many threads may read it.
class PITOT_EXPORT GpuWaits {
 public:
  // A GPU's times are converted to the host's clock: a call may seem to return before what it waited for ended, by so
  // much.
  static constexpr int64_t kLateNs = 5'000;

  // O(n log n). Both must outlive this.
  GpuWaits(const Trace& trace, const LaunchIndex& launches);
  GpuWaits(const GpuWaits&) = delete;
  GpuWaits& operator=(const GpuWaits&) = delete;

  // What `call` waited for until `by_ns` (its end, or a moment in it), a row of `gpu`; kNone: nothing that was
  // recorded. O(log n), and what was launched by others while it waited, kMostLooked at most.
  uint32_t Last(uint32_t call, int64_t by_ns) const;
  // The same of one that waits for a whole device, the last first: of each stream on which anything was waited for.
  std::vector<uint32_t> LastOfStreams(uint32_t call, int64_t by_ns) const;
  // Rows of a device (kNone: of streams whose device is unknown) in the order of their ends.
  RowRange EndsOn(uint32_t device) const { return on_device_.Of(device < devices_ ? device : devices_); }

 private:
  static constexpr uint32_t kMostLooked = 1024;
  // Rows of each of several groups, in the order of their ends.
  struct Groups {
    RowRange Of(uint32_t group) const { return {rows.data() + starts[group], rows.data() + starts[group + 1]}; }
    std::vector<uint32_t> rows, starts;
  };
  struct Wait {
    int64_t begin_ns, by_ns;
  };
  template <class GroupOf> Groups GroupBy(uint32_t groups, const GroupOf& group_of) const;
  int64_t EndNs(uint32_t row) const { return trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]; }
  bool CanHaveBeen(uint32_t row, const Wait& wait) const;
  uint32_t LastIn(RowRange ends, const Wait& wait) const;
  uint32_t ContextOf(uint32_t call) const;
  uint32_t DeviceOf(uint32_t call) const;

  const Trace& trace_;
  const LaunchIndex& launches_;
  const uint32_t devices_;
  std::vector<uint32_t> ends_;                              // rows of all, in the order of their ends
  Groups on_stream_, on_device_, of_thread_, for_context_;  // the last two by who launched them
  std::vector<uint32_t> last_device_;                       // by call: that its thread launched on last; kNone: on none
};

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_GPU_WAITS_H_
