// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL driver whose commands finish when the test says so. Any thread enqueues.
#ifndef PITOT_TEST_COLLECT_OPENCL_FAKE_OPENCL_H_
#define PITOT_TEST_COLLECT_OPENCL_FAKE_OPENCL_H_

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>

#include "base/clock.h"
#include "collect/opencl/abi.h"

namespace fakes {

namespace cl = pitot::opencl;

class FakeOpenCl {
 public:
  struct Queue {
    bool has_profiling = false;
    cl::Handle device = nullptr;
    int references = 1;
  };
  struct Kernel {
    std::string name;
  };
  struct Event {
    Queue* queue = nullptr;
    std::atomic<int> references{1};
    int64_t queued = 0, begin = 0, end = 0;
    cl::EventCallback callback = nullptr;
    void* data = nullptr;
  };
  // The device's clock is this much behind the host's.
  static constexpr int64_t kBehindNs = 5'000'000'000;

  bool refuses_profiling = false, refuses_callbacks = false, gives_no_events = false;
  cl::Result enqueue_result = cl::kSuccess;
  std::function<void()> on_profiling;  // called when an event's times are asked for
  std::deque<Queue> queues;
  std::deque<Event> events;
  int finished = 0, waited = 0;

  static FakeOpenCl& Get() {
    static FakeOpenCl fake;
    return fake;
  }
  void Reset() {
    refuses_profiling = refuses_callbacks = gives_no_events = false;
    enqueue_result = cl::kSuccess;
    on_profiling = nullptr;
    queues.clear();
    events.clear();
    finished = waited = 0;
  }

  const void* const* table() {
    const auto set = [this](cl::Entry entry, auto function) { table_[entry] = reinterpret_cast<void*>(function); };
    set(
        cl::kGetDeviceInfo, +[](cl::Handle, uint32_t what, size_t size, void* value, size_t*) -> cl::Result {
          if (what == cl::kDeviceMaxComputeUnits) std::memcpy(value, &kUnits, sizeof kUnits);
          if (what == cl::kDeviceName) std::strncpy(static_cast<char*>(value), "fake device", size);
          return cl::kSuccess;
        });
    set(
        cl::kCreateCommandQueue, +[](cl::Handle, cl::Handle device, uint64_t properties, cl::Result*) {
          return Get().Create(device, (properties & cl::kProfilingEnable) != 0);
        });
    set(
        cl::kRetainCommandQueue,
        +[](cl::Handle queue) -> cl::Result { return ++static_cast<Queue*>(queue)->references, cl::kSuccess; });
    set(
        cl::kReleaseCommandQueue,
        +[](cl::Handle queue) -> cl::Result { return --static_cast<Queue*>(queue)->references, cl::kSuccess; });
    set(
        cl::kGetCommandQueueInfo, +[](cl::Handle queue, uint32_t what, size_t, void* value, size_t*) -> cl::Result {
          for (const Queue& known : Get().queues) {
            if (&known != queue || what != cl::kQueueDevice) continue;
            std::memcpy(value, &known.device, sizeof known.device);
            return cl::kSuccess;
          }
          return -36;
        });
    set(
        cl::kCreateCommandQueueWithProperties,
        +[](cl::Handle, cl::Handle device, const uint64_t* properties, cl::Result*) {
          bool has_profiling = false;
          for (; properties != nullptr && *properties != 0; properties += 2)
            has_profiling = has_profiling || (properties[0] == cl::kQueueProperties && (properties[1] & 2) != 0);
          return Get().Create(device, has_profiling);
        });
    set(
        cl::kGetKernelInfo, +[](cl::Handle kernel, uint32_t, size_t size, void* value, size_t*) -> cl::Result {
          const std::string& name = static_cast<Kernel*>(kernel)->name;
          if (size < name.size() + 1) return -30;
          std::memcpy(value, name.c_str(), name.size() + 1);
          return cl::kSuccess;
        });
    set(
        cl::kWaitForEvents, +[](uint32_t, const cl::Handle*) -> cl::Result { return ++Get().waited, cl::kSuccess; });
    set(
        cl::kFinish, +[](cl::Handle) -> cl::Result { return ++Get().finished, cl::kSuccess; });
    set(
        cl::kGetEventInfo, +[](cl::Handle event, uint32_t, size_t, void* value, size_t*) -> cl::Result {
          std::memcpy(value, &static_cast<Event*>(event)->queue, sizeof(cl::Handle));
          return cl::kSuccess;
        });
    set(
        cl::kRetainEvent,
        +[](cl::Handle event) -> cl::Result { return ++static_cast<Event*>(event)->references, cl::kSuccess; });
    set(
        cl::kReleaseEvent,
        +[](cl::Handle event) -> cl::Result { return --static_cast<Event*>(event)->references, cl::kSuccess; });
    set(
        cl::kGetEventProfilingInfo, +[](cl::Handle event, uint32_t what, size_t, void* value, size_t*) -> cl::Result {
          const Event& of = *static_cast<Event*>(event);
          if (Get().on_profiling) Get().on_profiling();
          if (!of.queue->has_profiling) return -7;
          const int64_t time = what == cl::kCommandQueued ? of.queued : what == cl::kCommandStart ? of.begin : of.end;
          std::memcpy(value, &time, sizeof time);
          return cl::kSuccess;
        });
    set(
        cl::kSetEventCallback, +[](cl::Handle event, int32_t, cl::EventCallback callback, void* data) -> cl::Result {
          if (Get().refuses_callbacks) return -5;
          static_cast<Event*>(event)->callback = callback, static_cast<Event*>(event)->data = data;
          return cl::kSuccess;
        });
    set(
        cl::kEnqueueReadBuffer, +[](cl::Handle queue, cl::Handle, uint32_t, size_t, size_t, void*, uint32_t,
                                    const cl::Handle*, cl::Handle* event) { return Get().Enqueue(queue, event); });
    set(
        cl::kEnqueueWriteBuffer, +[](cl::Handle queue, cl::Handle, uint32_t, size_t, size_t, const void*, uint32_t,
                                     const cl::Handle*, cl::Handle* event) { return Get().Enqueue(queue, event); });
    set(
        cl::kEnqueueCopyBuffer, +[](cl::Handle queue, cl::Handle, cl::Handle, size_t, size_t, size_t, uint32_t,
                                    const cl::Handle*, cl::Handle* event) { return Get().Enqueue(queue, event); });
    set(
        cl::kEnqueueFillBuffer, +[](cl::Handle queue, cl::Handle, const void*, size_t, size_t, size_t, uint32_t,
                                    const cl::Handle*, cl::Handle* event) { return Get().Enqueue(queue, event); });
    set(
        cl::kEnqueueNDRangeKernel,
        +[](cl::Handle queue, cl::Handle, uint32_t, const size_t*, const size_t*, const size_t*, uint32_t,
            const cl::Handle*, cl::Handle* event) { return Get().Enqueue(queue, event); });
    return table_;
  }

  // The device runs a command from so long after it was queued, for so long.
  static void Complete(Event* event, int64_t after_ns, int64_t for_ns, int32_t status = cl::kComplete) {
    event->begin = event->queued + after_ns;
    event->end = event->begin + for_ns;
    if (event->callback != nullptr) event->callback(event, status, event->data);
  }

 private:
  static constexpr uint32_t kUnits = 24;

  cl::Handle Create(cl::Handle device, bool has_profiling) {
    if (has_profiling && refuses_profiling) return nullptr;
    return &queues.emplace_back(Queue{has_profiling, device});
  }
  cl::Result Enqueue(cl::Handle queue, cl::Handle* event) {
    if (enqueue_result != cl::kSuccess) return enqueue_result;
    if (event == nullptr || gives_no_events) return cl::kSuccess;
    const std::lock_guard lock(mutex_);
    Event& made = events.emplace_back();
    made.queue = static_cast<Queue*>(queue);
    made.queued = pitot::base::ClockNs(CLOCK_MONOTONIC) - kBehindNs;
    *event = &made;
    return cl::kSuccess;
  }

  std::mutex mutex_;
  void* table_[cl::kEntries] = {};
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_OPENCL_FAKE_OPENCL_H_
