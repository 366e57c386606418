// SPDX-License-Identifier: Apache-2.0
#include "collect/opencl/layer.h"

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "pitot/extend/call.h"
#include "trace/process.h"

namespace pitot::opencl {
namespace {

using base::ClockNs;

constinit std::atomic<Layer*> g_layer{nullptr};
// Of the functions that the loader calls: there is one by then.
Layer& Own() noexcept { return *g_layer.load(std::memory_order_acquire); }

// The driver refuses a buffer that is too small for a name; mangled names are long.
constexpr size_t kMaxNameBytes = 2048;

void Count(std::atomic<uint64_t>* count) noexcept { count->fetch_add(1, std::memory_order_relaxed); }

Work CopyOf(Name name, uint64_t bytes) noexcept {
  Work work{};
  work.kind = GpuKind::kMemcpy;
  work.name = name;
  work.bytes = bytes;
  return work;
}

// The properties with profiling switched on; false if they are too many.
template <size_t kRoom> bool WithProfiling(const uint64_t* given, uint64_t (*properties)[kRoom]) noexcept {
  size_t size = 0;
  bool is_there = false;
  for (; given != nullptr && *given != 0; given += 2) {
    if (size + 4 >= kRoom) return false;
    const bool is_flags = *given == kQueueProperties;
    is_there = is_there || is_flags;
    (*properties)[size++] = given[0];
    (*properties)[size++] = is_flags ? given[1] | kProfilingEnable : given[1];
  }
  if (!is_there) {
    (*properties)[size++] = kQueueProperties;
    (*properties)[size++] = kProfilingEnable;
  }
  (*properties)[size] = 0;
  return true;
}

}  // namespace

// The layer's functions, in OpenCL's form.
struct Functions {
  static Handle CreateCommandQueue(Handle context, Handle device, uint64_t properties, Result* result) {
    const auto create = Own().Next<CreateQueue>(kCreateCommandQueue);
    Handle queue = create(context, device, properties | kProfilingEnable, result);
    if (queue == nullptr) {
      queue = create(context, device, properties, result);
      if (queue != nullptr) Count(&Own().counts.no_profiling);
    }
    Own().AddQueue(queue, device);
    return queue;
  }

  static Handle CreateCommandQueueWithProperties(Handle context, Handle device, const uint64_t* given, Result* result) {
    const auto create = Own().Next<opencl::CreateQueueWithProperties>(kCreateCommandQueueWithProperties);
    uint64_t properties[33];
    Handle queue = WithProfiling(given, &properties) ? create(context, device, properties, result) : nullptr;
    if (queue == nullptr) {
      queue = create(context, device, given, result);
      if (queue != nullptr) Count(&Own().counts.no_profiling);
    }
    Own().AddQueue(queue, device);
    return queue;
  }

  static Result EnqueueNDRangeKernel(Handle queue, Handle kernel, uint32_t dimensions, const size_t* offset,
                                     const size_t* global, const size_t* local, uint32_t wait_count,
                                     const Handle* waits, Handle* event) {
    const auto enqueue = [&](Handle* to) {
      return Own().Next<EnqueueKernel>(opencl::kEnqueueNDRangeKernel)(queue, kernel, dimensions, offset, global, local,
                                                                      wait_count, waits, to);
    };
    if (!Own().IsRecording()) return enqueue(event);
    Work work{};
    work.kind = GpuKind::kKernel;
    work.name = Own().NameOfKernel(kernel);
    work.has_shape = global != nullptr && local != nullptr;
    for (uint32_t i = 0; i < 3 && work.has_shape; ++i) {
      const size_t all = i < dimensions ? global[i] : 1, block = std::max<size_t>(i < dimensions ? local[i] : 1, 1);
      work.block[i] = static_cast<uint32_t>(std::min<size_t>(block, UINT32_MAX));
      work.grid[i] = static_cast<uint32_t>(std::min<size_t>((all + block - 1) / block, UINT32_MAX));
    }
    return Own().Record(Own().names_.kernel, queue, work, false, event, enqueue);
  }

  static Result EnqueueReadBuffer(Handle queue, Handle buffer, uint32_t is_blocking, size_t offset, size_t bytes,
                                  void* data, uint32_t wait_count, const Handle* waits, Handle* event) {
    return Own().Record(Own().names_.read, queue, CopyOf(Own().names_.to_host, bytes), is_blocking != 0, event,
                        [&](Handle* to) {
                          return Own().Next<EnqueueRead>(kEnqueueReadBuffer)(queue, buffer, is_blocking, offset, bytes,
                                                                             data, wait_count, waits, to);
                        });
  }

  static Result EnqueueWriteBuffer(Handle queue, Handle buffer, uint32_t is_blocking, size_t offset, size_t bytes,
                                   const void* data, uint32_t wait_count, const Handle* waits, Handle* event) {
    return Own().Record(Own().names_.write, queue, CopyOf(Own().names_.to_device, bytes), is_blocking != 0, event,
                        [&](Handle* to) {
                          return Own().Next<EnqueueWrite>(kEnqueueWriteBuffer)(queue, buffer, is_blocking, offset,
                                                                               bytes, data, wait_count, waits, to);
                        });
  }

  static Result EnqueueCopyBuffer(Handle queue, Handle source, Handle target, size_t from, size_t at, size_t bytes,
                                  uint32_t wait_count, const Handle* waits, Handle* event) {
    return Own().Record(Own().names_.copy, queue, CopyOf(Own().names_.on_device, bytes), false, event, [&](Handle* to) {
      return Own().Next<EnqueueCopy>(kEnqueueCopyBuffer)(queue, source, target, from, at, bytes, wait_count, waits, to);
    });
  }

  static Result EnqueueFillBuffer(Handle queue, Handle buffer, const void* pattern, size_t pattern_bytes, size_t offset,
                                  size_t bytes, uint32_t wait_count, const Handle* waits, Handle* event) {
    Work work = CopyOf(Own().names_.set, bytes);
    work.kind = GpuKind::kMemset;
    return Own().Record(Own().names_.fill, queue, work, false, event, [&](Handle* to) {
      return Own().Next<EnqueueFill>(kEnqueueFillBuffer)(queue, buffer, pattern, pattern_bytes, offset, bytes,
                                                         wait_count, waits, to);
    });
  }

  static Result Finish(Handle queue) {
    const uint64_t begin = BeginCall();
    const Result result = Own().Next<OfHandle>(kFinish)(queue);
    EndWait(begin, Own().names_.finish, queue);
    return result;
  }

  static Result WaitForEvents(uint32_t count, const Handle* events) {
    Handle queue = nullptr;
    // The events must exist now; afterwards another thread may release them.
    if (Own().IsRecording() && count > 0 && events != nullptr) queue = QueueOf(count, events);
    const uint64_t begin = BeginCall();
    const Result result = Own().Next<opencl::WaitForEvents>(kWaitForEvents)(count, events);
    EndWait(begin, Own().names_.wait, queue);
    return result;
  }

  // The queue of all events; null if they have several.
  static Handle QueueOf(uint32_t count, const Handle* events) {
    constexpr uint32_t kMost = 16;
    Handle common = nullptr;
    for (uint32_t i = 0; i < count; ++i) {
      Handle queue = nullptr;
      const auto ask = Own().Next<GetInfo>(kGetEventInfo);
      if (i == kMost || ask(events[i], kEventCommandQueue, sizeof queue, &queue, nullptr) != kSuccess) return nullptr;
      if (i != 0 && queue != common) return nullptr;
      common = queue;
    }
    return common;
  }

  static void EndWait(uint64_t begin, Name api, Handle queue) {
    if (begin == 0 || !Own().IsRecording()) return;
    DeviceCall call{Own().names_.collector, api};
    const Queues::Place place = Own().queues.Find(queue);
    if (place.queue != Queues::kNone) call.context = place.device + 1u, call.stream = place.queue + 1u;
    EndCall(begin, call);
  }
};

Layer* Layer::Get() noexcept {
  Layer* known = g_layer.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  auto* const made = new (std::nothrow) Layer;
  if (made == nullptr || g_layer.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
  delete made;
  return known;
}

const void* const* Layer::Init(const void* const* next, uint32_t entries, uint32_t* own_entries) noexcept {
  // Named twice, or asked by a second loader: the table below is our own, and calls would never leave it.
  if (entries > kFinish && next[kFinish] == reinterpret_cast<const void*>(Functions::Finish)) return nullptr;
  entries_ = std::min(entries, kEntries);
  if (entries_ < kEntriesOfOpenCl11) entries_ = 0;
  std::copy_n(next, entries_, next_);
  const auto replace = [this](Entry entry, auto function) {
    if (entry < entries_ && next_[entry] != nullptr) own_[entry] = reinterpret_cast<const void*>(function);
  };
  replace(kCreateCommandQueue, Functions::CreateCommandQueue);
  replace(kCreateCommandQueueWithProperties, Functions::CreateCommandQueueWithProperties);
  replace(kEnqueueNDRangeKernel, Functions::EnqueueNDRangeKernel);
  replace(kEnqueueReadBuffer, Functions::EnqueueReadBuffer);
  replace(kEnqueueWriteBuffer, Functions::EnqueueWriteBuffer);
  replace(kEnqueueCopyBuffer, Functions::EnqueueCopyBuffer);
  replace(kEnqueueFillBuffer, Functions::EnqueueFillBuffer);
  replace(kFinish, Functions::Finish);
  replace(kWaitForEvents, Functions::WaitForEvents);
  *own_entries = entries_;
  is_loaded_.store(entries_ != 0, std::memory_order_release);
  return own_;
}

void Layer::Start(uint32_t fork_epoch) noexcept {
  counts.Clear();
  fork_epoch_.store(fork_epoch, std::memory_order_relaxed);
  if (++last_session_ == 0) ++last_session_;
  session_.store(last_session_, std::memory_order_release);
}

bool Layer::IsRecording() const noexcept {
  return session_.load(std::memory_order_acquire) != 0 &&
         fork_epoch_.load(std::memory_order_relaxed) == trace::ForkEpoch();
}

uint32_t Layer::in_flight() const noexcept {
  return static_cast<uint32_t>(std::count_if(commands_.begin(), commands_.end(), [](const Command& command) {
    return command.is_taken.load(std::memory_order_relaxed);
  }));
}

Command* Layer::Take() noexcept {
  constexpr uint32_t kTries = 16;
  for (uint32_t i = 0; i < kTries; ++i) {
    Command& command = commands_[next_command_.fetch_add(1, std::memory_order_relaxed) % kMaxCommands];
    if (!command.is_taken.exchange(true, std::memory_order_acquire)) return &command;
  }
  Count(&counts.no_slot);
  return nullptr;
}

Name Layer::NameOfKernel(Handle kernel) const noexcept {
  char name[kMaxNameBytes] = "";
  const Result result = Next<GetInfo>(kGetKernelInfo)(kernel, kKernelFunctionName, sizeof name - 1, name, nullptr);
  return Intern(result == kSuccess ? name : "(unknown kernel)");
}

void Layer::AddQueue(Handle queue, Handle device) noexcept {
  if (queue == nullptr) return;
  const auto ask = Next<GetInfo>(kGetDeviceInfo);
  char name[kMaxNameBytes] = "";
  uint32_t units = 0;
  if (ask(device, kDeviceName, sizeof name - 1, name, nullptr) != kSuccess) name[0] = '\0';
  if (ask(device, kDeviceMaxComputeUnits, sizeof units, &units, nullptr) != kSuccess) units = 0;
  (void)queues.Add(queue, device, name, units);
}

template <class Enqueue> Result Layer::Record(Name api, Handle queue, const Work& work, bool is_wait, Handle* event,
                                              const Enqueue& enqueue) noexcept {
  if (!IsRecording()) return enqueue(event);
  const Queues::Place place = queues.Find(queue);
  if (place.queue == Queues::kNone) Count(&counts.no_queue);
  Command* const command = place.queue != Queues::kNone ? Take() : nullptr;
  Handle own = nullptr;
  Handle* const to = event == nullptr && command != nullptr ? &own : event;
  DeviceCall call{names_.collector, api};
  const uint64_t begin = BeginCall();
  const int64_t before_ns = ClockNs(CLOCK_MONOTONIC);
  const Result result = enqueue(to);
  const int64_t after_ns = ClockNs(CLOCK_MONOTONIC);
  if (command != nullptr && result == kSuccess && *to != nullptr) {
    while (call.correlation = correlation_.fetch_add(1, std::memory_order_relaxed), call.correlation == 0) {}
    command->session = session_.load(std::memory_order_relaxed);
    command->before_ns = before_ns, command->after_ns = after_ns;
    command->work = work;
    command->work.queue = place.queue, command->work.device = place.device;
    command->work.correlation = call.correlation;
    const Handle done = *to;
    if (event != nullptr) Next<OfHandle>(kRetainEvent)(done);
    if (Next<opencl::SetEventCallback>(kSetEventCallback)(done, kComplete, OnComplete, command) != kSuccess) {
      Count(&counts.no_times);
      Next<OfHandle>(kReleaseEvent)(done);
      command->is_taken.store(false, std::memory_order_release);
    }
  } else if (command != nullptr) {
    command->is_taken.store(false, std::memory_order_release);
  }
  if (is_wait && place.queue != Queues::kNone) call.context = place.device + 1u, call.stream = place.queue + 1u;
  EndCall(begin, call);
  return result;
}

void Layer::OnComplete(Handle event, int32_t status, void* data) {
  Own().Finish(event, status, static_cast<Command*>(data));
}

// On a thread of the driver.
void Layer::Finish(Handle event, int32_t status, Command* command) noexcept {
  if (IsRecording() && command->session == session_.load(std::memory_order_relaxed)) {
    const auto ask = Next<GetInfo>(kGetEventProfilingInfo);
    int64_t queued = 0, begin = 0, end = 0;
    const auto time = [&](uint32_t what, int64_t* value) {
      return ask(event, what, sizeof *value, value, nullptr) == kSuccess;
    };
    if (status < 0) {
      Count(&counts.failed);
    } else if (!time(kCommandQueued, &queued) || !time(kCommandStart, &begin) || !time(kCommandEnd, &end) ||
               end < begin) {
      Count(&counts.no_times);
    } else {
      Work& work = command->work;
      const Queues::Times times = queues.Learn(
          work.device, {queued, end, command->before_ns, command->after_ns, ClockNs(CLOCK_MONOTONIC)}, begin);
      work.begin_ns = times.begin_ns;
      work.duration_ns = times.end_ns - times.begin_ns;
      finished.Add(work);
    }
  }
  Next<OfHandle>(kReleaseEvent)(event);
  command->is_taken.store(false, std::memory_order_release);
}

}  // namespace pitot::opencl

const void* const* pitot_opencl_layer(const void* const* next, uint32_t entries, uint32_t* own_entries) {
  pitot::opencl::Layer* const layer = pitot::opencl::Layer::Get();
  return layer != nullptr ? layer->Init(next, entries, own_entries) : nullptr;
}
