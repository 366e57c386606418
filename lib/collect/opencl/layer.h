// SPDX-License-Identifier: Apache-2.0
//
// The functions that the loader calls in place of the driver's, and what they leave for the collector.
#ifndef PITOT_LIB_COLLECT_OPENCL_LAYER_H_
#define PITOT_LIB_COLLECT_OPENCL_LAYER_H_

#include <atomic>
#include <cstdint>

#include "collect/opencl/abi.h"
#include "collect/opencl/recording.h"
#include "collect/opencl/work.h"
#include "pitot/export.h"
#include "pitot/trace.h"

namespace pitot::opencl {

inline constexpr char kCollectorName[] = "opencl";

// Names are in the process's table for its life.
struct Names {
  Name collector = Intern(kCollectorName);
  Name kernel = Intern("clEnqueueNDRangeKernel"), read = Intern("clEnqueueReadBuffer"),
       blocking_read = Intern("clEnqueueReadBuffer (blocking)"), write = Intern("clEnqueueWriteBuffer"),
       blocking_write = Intern("clEnqueueWriteBuffer (blocking)"), copy = Intern("clEnqueueCopyBuffer"),
       fill = Intern("clEnqueueFillBuffer"), finish = Intern("clFinish"), wait = Intern("clWaitForEvents");
  Name to_host = Intern("DtoH"), to_device = Intern("HtoD"), on_device = Intern("DtoD"), set = Intern("memset");
};

class Layer {
 public:
  // The one of the process, made at the first call. It is never freed, because commands may finish after the collector
  // stopped. Null: no memory.
  static Layer* Get() noexcept;

  // Takes the loader's table and returns our own; null if the loader is too old.
  const void* const* Init(const void* const* next, uint32_t entries, uint32_t* own_entries) noexcept;
  bool is_loaded() const noexcept { return is_loaded_.load(std::memory_order_acquire); }

  // What is known of this process; null: no memory. The child of a fork begins with nothing. Threads: any.
  // Cost: two loads, and an allocation at the first call of a process.
  Recording* Now() noexcept;

 private:
  friend struct Functions;

  // Runs `enqueue(Handle* event)`, and records the call and, once it is done, the work. `wait`: the call also waits
  // for it.
  template <class Enqueue>
  Result Record(Name api, Handle queue, const Work& work, bool is_wait, Handle* event, const Enqueue& enqueue) noexcept;
  bool IsRecording() noexcept {
    const Recording* const recording = Now();
    return recording != nullptr && recording->Session() != 0;
  }
  Name NameOfKernel(Handle kernel) const noexcept;
  uint8_t DeviceOf(Handle queue, const Recording& recording) const noexcept;
  void AddQueue(Handle queue, Handle device, bool is_unordered) noexcept;
  void CountNoProfiling() noexcept;
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
  std::atomic<Recording*> recording_{nullptr};
};

}  // namespace pitot::opencl

// For the layer's module, which finds it by name.
extern "C" PITOT_EXPORT const void* const* pitot_opencl_layer(const void* const* next, uint32_t entries,
                                                              uint32_t* own_entries);

#endif  // PITOT_LIB_COLLECT_OPENCL_LAYER_H_
