// SPDX-License-Identifier: Apache-2.0
//
// The simulator's GPUs. A stream does what was launched on it one after the other; a kernel begins a moment after the
// later of its launch and the end of the one before it. So its whole life is known when it is launched.
#ifndef PITOT_TEST_SIMULATOR_GPUS_H_
#define PITOT_TEST_SIMULATOR_GPUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/model/trace.h"
#include "simulator/simulator.h"

namespace simulator {

class Gpus {
 public:
  static constexpr const char* kLaunchName = "cudaLaunchKernel";
  static constexpr const char* kSyncName = "cudaStreamSynchronize";
  static constexpr const char* kSyncDeviceName = "cudaDeviceSynchronize";

  // In which a call is made; ids, 0: none.
  struct Context {
    uint32_t thread;
    uint64_t request, batch;
  };
  struct Times {
    int64_t call_ns, api_ns;  // when the call begins, and how long it takes
    int64_t kernel_ns;
    int64_t dispatch_ns;  // from when it could begin to when it begins
  };
  // How something on a stream came to pass, and when its host is left for that.
  struct Way {
    int64_t from_ns;
    std::vector<Segment> segments;
  };

  // `slow_clocks`, of all of them, outlives this.
  Gpus(uint32_t streams, uint32_t streams_per_device, const std::vector<Slow>* slow_clocks)
      : streams_per_device_(streams_per_device), slow_clocks_(slow_clocks), streams_(streams), last_call_ns_(streams) {}
  // `whose`: kernels of others are what is not of the same batch, or outside of batches of the same request.
  void Launch(uint32_t stream, const std::string& kernel, const Times& times, const Context& context,
              const Culprit& whose);
  // Whether a call for the stream's device began at that moment: of two in one nanosecond nobody can say which was
  // first.
  bool IsCalled(uint32_t stream, int64_t at_ns) const { return last_call_ns_[DeviceOf(stream)] == at_ns; }
  // When all that was launched is done.
  int64_t DoneNs(uint32_t stream) const { return streams_[stream].empty() ? 0 : streams_[stream].back().end_ns; }
  // Of the stream's device, the stream that is done last.
  uint32_t DoneLast(uint32_t stream) const;
  // Whether what was launched last on the stream is still to be done, and is of its own.
  bool EndsWithOwn(uint32_t stream, int64_t at_ns, const Culprit& whose) const;
  // A call that waits for the stream (of a device: that is done last), and whether it is recorded for what it waits.
  // Returns the way until the stream is done.
  struct Waiting {
    bool is_of_device;
    int64_t begin_ns, end_ns;
    bool is_told;
  };
  Way Sync(uint32_t stream, const Waiting& waiting, const Context& context, const Culprit& whose);

  // What a collector would have recorded by then, as rows.
  void AddTo(int64_t now_ns, pitot::model::Trace* trace) const;

 private:
  struct Kernel {
    std::string name;
    int64_t call_ns, called_ns;  // the call
    int64_t ready_ns;            // from when on it could begin
    int64_t begin_ns, end_ns;
    Culprit whose;
    size_t call;
    Way way;  // to its end
  };
  struct Call {
    const char* name;
    Context context;
    int64_t begin_ns, end_ns;
    uint32_t stream, device;  // that it says it waited for
  };
  uint32_t DeviceOf(uint32_t stream) const { return stream / streams_per_device_; }

  Way WayTo(uint32_t stream, int64_t ready_ns, int64_t begin_ns, const Culprit& whose, const Segment& own,
            bool* is_after_own) const;

  const uint32_t streams_per_device_;
  const std::vector<Slow>* const slow_clocks_;
  std::vector<std::vector<Kernel>> streams_;
  std::vector<int64_t> last_call_ns_;  // by device
  std::vector<Call> calls_;
};

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_GPUS_H_
