// SPDX-License-Identifier: Apache-2.0
//
// The functions that the loader calls in place of the driver's, and what they leave for the collector.
#ifndef PITOT_LIB_COLLECT_OPENCL_LAYER_H_
#define PITOT_LIB_COLLECT_OPENCL_LAYER_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "base/newest.h"
#include "collect/opencl/abi.h"
#include "collect/opencl/queues.h"
#include "collect/opencl/work.h"
#include "pitot/export.h"
#include "pitot/trace.h"

namespace pitot::opencl {

inline constexpr char kCollectorName[] = "opencl";

// What was not recorded, since the collector started.
struct Counts {
  std::atomic<uint64_t> no_queue{0};      // of a queue without a place
  std::atomic<uint64_t> no_slot{0};       // too many commands in flight
  std::atomic<uint64_t> no_times{0};      // the driver did not say when it ran
  std::atomic<uint64_t> failed{0};        // the command failed on the device
  std::atomic<uint64_t> no_profiling{0};  // queues that refused profiling, since the process began

  void Clear() noexcept {
    for (auto* count : {&no_queue, &no_slot, &no_times, &failed}) count->store(0, std::memory_order_relaxed);
  }
};

// A command in flight.
struct Command {
  std::atomic<bool> is_taken{false};
  uint32_t session = 0;
  int64_t before_ns = 0, after_ns = 0;
  Work work{};
};

// Names are in the process's table for its life.
struct Names {
  Name collector = Intern(kCollectorName);
  Name kernel = Intern("clEnqueueNDRangeKernel"), read = Intern("clEnqueueReadBuffer"),
       write = Intern("clEnqueueWriteBuffer"), copy = Intern("clEnqueueCopyBuffer"),
       fill = Intern("clEnqueueFillBuffer"), finish = Intern("clFinish"), wait = Intern("clWaitForEvents");
  Name to_host = Intern("DtoH"), to_device = Intern("HtoD"), on_device = Intern("DtoD"), set = Intern("memset");
};

class Layer {
 public:
  static constexpr uint32_t kMaxCommands = 4096;

  // The one of the process, made at the first call. It is never freed, because commands may finish after the collector
  // stopped. Null: no memory.
  static Layer* Get() noexcept;

  // Takes the loader's table and returns our own; null if the loader is too old.
  const void* const* Init(const void* const* next, uint32_t entries, uint32_t* own_entries) noexcept;
  bool is_loaded() const noexcept { return is_loaded_.load(std::memory_order_acquire); }

  // From Start to Stop calls are recorded. One collector at a time; `finished` has memory then.
  void Start(uint32_t fork_epoch) noexcept;
  void Stop() noexcept { session_.store(0, std::memory_order_release); }
  // In flight now.
  uint32_t in_flight() const noexcept;

  Queues queues;
  base::Newest<Work> finished;
  Counts counts;

 private:
  friend struct Functions;

  // Runs `enqueue(Handle* event)`, and records the call and, once it is done, the work. `wait`: the call also waits
  // for it.
  template <class Enqueue>
  Result Record(Name api, Handle queue, const Work& work, bool is_wait, Handle* event, const Enqueue& enqueue) noexcept;
  Command* Take() noexcept;
  bool IsRecording() const noexcept;
  Name NameOfKernel(Handle kernel) const noexcept;
  void AddQueue(Handle queue, Handle device) noexcept;
  static void OnComplete(Handle event, int32_t status, void* data);
  void Finish(Handle event, int32_t status, Command* command) noexcept;

  template <class Function> Function Next(Entry entry) const noexcept {
    return reinterpret_cast<Function>(const_cast<void*>(next_[entry]));
  }

  const Names names_{};
  const void* next_[kEntries] = {};
  const void* own_[kEntries] = {};
  uint32_t entries_ = 0;
  std::atomic<bool> is_loaded_{false};
  std::atomic<uint32_t> session_{0};  // 0: nothing is recorded
  uint32_t last_session_ = 0;
  std::atomic<uint32_t> fork_epoch_{0}, correlation_{0}, next_command_{0};
  std::array<Command, kMaxCommands> commands_{};
};

}  // namespace pitot::opencl

// For the layer's module, which finds it by name.
extern "C" PITOT_EXPORT const void* const* pitot_opencl_layer(const void* const* next, uint32_t entries,
                                                              uint32_t* own_entries);

#endif  // PITOT_LIB_COLLECT_OPENCL_LAYER_H_
