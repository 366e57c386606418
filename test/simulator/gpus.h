// SPDX-License-Identifier: Apache-2.0
//
// The simulator's GPUs. A stream does its launches one after the other; a kernel begins a moment after the later of its
// launch and the end of the one before it. So its whole life is known at its launch.
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

  // The context of a call; ids, 0: none.
  struct Context {
    uint32_t thread;
    uint64_t request, batch;
  };
  struct Times {
    int64_t call_ns, api_ns;  // when the call begins, and how long it takes
    int64_t kernel_ns;
    int64_t dispatch_ns;  // from its earliest possible begin to its begin
  };
  // How an operation on a stream came about, and since when its host is left for it.
  struct Way {
    int64_t from_ns;
    std::vector<Segment> segments;
  };

  // `slow_clocks`, of all of them, outlives this.
  Gpus(uint32_t streams, uint32_t streams_per_device, const std::vector<Slow>* slow_clocks)
      : streams_per_device_(streams_per_device), slow_clocks_(slow_clocks), streams_(streams), last_call_ns_(streams) {}
  // `whose`: its owner. Kernels are others' if their batch differs or, outside of batches, their request.
  void Launch(uint32_t stream, const std::string& kernel, const Times& times, const Context& context,
              const Culprit& whose);
  // Whether a call for the stream's device began at that moment: the order of two in one nanosecond is unknown.
  bool IsCalled(uint32_t stream, int64_t at_ns) const { return last_call_ns_[DeviceOf(stream)] == at_ns; }
  // When everything launched is done.
  int64_t DoneNs(uint32_t stream) const { return streams_[stream].empty() ? 0 : streams_[stream].back().end_ns; }
  // The stream of the same device that is done last.
  uint32_t DoneLast(uint32_t stream) const;
  // Whether the last launch on the stream is its own and still unfinished.
  bool EndsWithOwn(uint32_t stream, int64_t at_ns, const Culprit& whose) const;
  // A call that waits for the stream (of a device: for the one done last), and whether its stream or device is
  // recorded. Returns the way until the stream is done.
  struct Waiting {
    bool is_of_device;
    int64_t begin_ns, end_ns;
    bool is_told;
  };
  Way Sync(uint32_t stream, const Waiting& waiting, const Context& context, const Culprit& whose);

  // Adds a collector's records up to then, as rows.
  void AddTo(int64_t now_ns, pitot::model::Trace* trace) const;

 private:
  struct Kernel {
    std::string name;
    int64_t call_ns, called_ns;  // the call
    int64_t ready_ns;            // its earliest possible begin
    int64_t begin_ns, end_ns;
    Culprit whose;
    size_t call;
    Way way;  // to its end
  };
  struct Call {
    const char* name;
    Context context;
    int64_t begin_ns, end_ns;
    uint32_t stream, device;  // recorded as the awaited ones
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
