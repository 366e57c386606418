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
// For the functions that the loader calls: there is one by then.
Layer& Own() noexcept { return *g_layer.load(std::memory_order_acquire); }

// The driver refuses a buffer that is too small for a name; mangled names are long.
constexpr size_t kMaxNameBytes = 2048;

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

bool IsUnordered(const uint64_t* properties) noexcept {
  for (; properties != nullptr && *properties != 0; properties += 2)
    if (*properties == kQueueProperties) return (properties[1] & kOutOfOrder) != 0;
  return false;
}

}  // namespace

// The layer's functions, in OpenCL's form.
struct Functions {
  static Handle CreateCommandQueue(Handle context, Handle device, uint64_t properties, Result* result) {
    const auto create = Own().Next<CreateQueue>(kCreateCommandQueue);
    Handle queue = create(context, device, properties | kProfilingEnable, result);
    if (queue == nullptr) {
      queue = create(context, device, properties, result);
      if (queue != nullptr) Own().CountNoProfiling();
    }
    Own().AddQueue(queue, device, (properties & kOutOfOrder) != 0);
    return queue;
  }

  static Handle CreateCommandQueueWithProperties(Handle context, Handle device, const uint64_t* given, Result* result) {
    const auto create = Own().Next<opencl::CreateQueueWithProperties>(kCreateCommandQueueWithProperties);
    uint64_t properties[33];
    Handle queue = WithProfiling(given, &properties) ? create(context, device, properties, result) : nullptr;
    if (queue == nullptr) {
      queue = create(context, device, given, result);
      if (queue != nullptr) Own().CountNoProfiling();
    }
    Own().AddQueue(queue, device, IsUnordered(given));
    return queue;
  }

  static Result RetainCommandQueue(Handle queue) {
    const Result result = Own().Next<OfHandle>(kRetainCommandQueue)(queue);
    Recording* const recording = Own().Now();
    if (result == kSuccess && recording != nullptr) recording->queues.Retain(queue);
    return result;
  }

  static Result ReleaseCommandQueue(Handle queue) {
    // Before the driver: afterwards another thread's new queue may have this handle.
    if (Recording* const recording = Own().Now(); recording != nullptr) recording->queues.Release(queue);
    return Own().Next<OfHandle>(kReleaseCommandQueue)(queue);
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
    const Name api = is_blocking != 0 ? Own().names_.blocking_read : Own().names_.read;
    return Own().Record(api, queue, CopyOf(Own().names_.to_host, bytes), is_blocking != 0, event, [&](Handle* to) {
      return Own().Next<EnqueueRead>(kEnqueueReadBuffer)(queue, buffer, is_blocking, offset, bytes, data, wait_count,
                                                         waits, to);
    });
  }

  static Result EnqueueWriteBuffer(Handle queue, Handle buffer, uint32_t is_blocking, size_t offset, size_t bytes,
                                   const void* data, uint32_t wait_count, const Handle* waits, Handle* event) {
    const Name api = is_blocking != 0 ? Own().names_.blocking_write : Own().names_.write;
    return Own().Record(api, queue, CopyOf(Own().names_.to_device, bytes), is_blocking != 0, event, [&](Handle* to) {
      return Own().Next<EnqueueWrite>(kEnqueueWriteBuffer)(queue, buffer, is_blocking, offset, bytes, data, wait_count,
                                                           waits, to);
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
    Recording* const recording = Own().Now();
    if (begin == 0 || recording == nullptr || recording->Session() == 0) return;
    DeviceCall call{Own().names_.collector, api};
    SetTarget(recording->queues.Find(queue), &call);
    EndCall(begin, call);
  }

  // A wait for an out-of-order queue has an unknown target, because the queue is not one stream.
  static void SetTarget(const Queues::Place& place, DeviceCall* call) {
    if (place.number == 0 || place.is_unordered) return;
    call->context = ContextOf(place.number, place.device, false);
    call->stream = place.number;
  }
};

Layer* Layer::Get() noexcept {
  Layer* known = g_layer.load(std::memory_order_acquire);
  if (known != nullptr) return known;
  // A process may fork before its recorder starts. Without the handler a child would go on with its parent's state.
  (void)trace::WatchForks();
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
  // Without both, references are not known.
  if (next_[kRetainCommandQueue] != nullptr && next_[kReleaseCommandQueue] != nullptr) {
    replace(kRetainCommandQueue, Functions::RetainCommandQueue);
    replace(kReleaseCommandQueue, Functions::ReleaseCommandQueue);
  }
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

Recording* Layer::Now() noexcept {
  Recording* known = recording_.load(std::memory_order_acquire);
  const uint32_t fork_epoch = trace::ForkEpoch();
  if (known != nullptr && known->fork_epoch() == fork_epoch) return known;
  auto* const made = new (std::nothrow) Recording(fork_epoch, known);
  if (made == nullptr || recording_.compare_exchange_strong(known, made, std::memory_order_acq_rel)) return made;
  delete made;
  return known;
}

Name Layer::NameOfKernel(Handle kernel) const noexcept {
  char name[kMaxNameBytes] = "";
  const Result result = Next<GetInfo>(kGetKernelInfo)(kernel, kKernelFunctionName, sizeof name - 1, name, nullptr);
  return Intern(result == kSuccess ? name : "(unknown kernel)");
}

void Layer::AddQueue(Handle queue, Handle device, bool is_unordered) noexcept {
  Recording* const recording = Now();
  if (queue == nullptr || recording == nullptr) return;
  const auto ask = Next<GetInfo>(kGetDeviceInfo);
  char name[kMaxNameBytes] = "";
  uint32_t units = 0;
  if (ask(device, kDeviceName, sizeof name - 1, name, nullptr) != kSuccess) name[0] = '\0';
  if (ask(device, kDeviceMaxComputeUnits, sizeof units, &units, nullptr) != kSuccess) units = 0;
  (void)recording->queues.Add(queue, device, name, units, is_unordered);  // its commands are counted if it fails
}

void Layer::CountNoProfiling() noexcept {
  if (Recording* const recording = Now(); recording != nullptr)
    recording->no_profiling.fetch_add(1, std::memory_order_relaxed);
}

// The place of the device of a queue without a place; kMaxDevices if unknown.
uint8_t Layer::DeviceOf(Handle queue, const Recording& recording) const noexcept {
  Handle device = nullptr;
  const auto ask = Next<GetInfo>(kGetCommandQueueInfo);
  if (ask == nullptr || ask(queue, kQueueDevice, sizeof device, &device, nullptr) != kSuccess) return kMaxDevices;
  return recording.queues.FindDevice(device);
}

template <class Enqueue> Result Layer::Record(Name api, Handle queue, const Work& work, bool is_wait, Handle* event,
                                              const Enqueue& enqueue) noexcept {
  Recording* const recording = Now();
  const uint32_t session = recording != nullptr ? recording->Session() : 0;
  if (session == 0) return enqueue(event);
  const Queues::Place place = recording->queues.Find(queue);
  Command* const command = place.number != 0 ? recording->Take() : nullptr;
  Handle own = nullptr;
  Handle* const to = event == nullptr && command != nullptr ? &own : event;
  DeviceCall call{names_.collector, api};
  const uint64_t begin = BeginCall();
  const int64_t before_ns = ClockNs(CLOCK_MONOTONIC);
  const Result result = enqueue(to);
  const int64_t after_ns = ClockNs(CLOCK_MONOTONIC);
  if (command != nullptr && result == kSuccess && *to != nullptr) {
    call.correlation = recording->NextCorrelation();
    command->session = session;
    command->before_ns = before_ns, command->after_ns = after_ns;
    command->work = work;
    command->work.enqueued_ns = before_ns;
    command->work.queue = place.number, command->work.device = place.device;
    command->work.is_unordered = place.is_unordered;
    command->work.correlation = call.correlation;
    const Handle done = *to;
    if (event != nullptr) Next<OfHandle>(kRetainEvent)(done);
    if (Next<opencl::SetEventCallback>(kSetEventCallback)(done, kComplete, OnComplete, command) != kSuccess) {
      recording->Lose(Lost::kNoTimes, *command);
      Next<OfHandle>(kReleaseEvent)(done);
      command->Free();
    }
  } else {
    if (command != nullptr) command->Free();
    const bool has_place = place.number != 0;
    const Lost why = !has_place ? Lost::kNoQueue : command == nullptr ? Lost::kNoSlot : Lost::kNoTimes;
    if (result == kSuccess)
      recording->Lose(why, has_place ? place.device : DeviceOf(queue, *recording), before_ns, after_ns, session);
  }
  if (is_wait) Functions::SetTarget(place, &call);
  EndCall(begin, call);
  return result;
}

void Layer::OnComplete(Handle event, int32_t status, void* data) {
  Own().Finish(event, status, static_cast<Command*>(data));
}

// On a thread of the driver. In the child of a fork a command of its parent only loses its event.
void Layer::Finish(Handle event, int32_t status, Command* command) noexcept {
  Recording& recording = *command->recording;
  if (recording.fork_epoch() != trace::ForkEpoch()) {
    Next<OfHandle>(kReleaseEvent)(event);
    return;
  }
  if (recording.IsWanted(*command)) {
    DeviceTimes times;
    const auto ask = Next<GetInfo>(kGetEventProfilingInfo);
    const auto time = [&](uint32_t what, int64_t* value) {
      return ask(event, what, sizeof *value, value, nullptr) == kSuccess;
    };
    if (status < 0) {
      recording.Lose(Lost::kFailed, *command);
    } else if (!time(kCommandQueued, &times.queued) || !time(kCommandStart, &times.begin) ||
               !time(kCommandEnd, &times.end) || times.end < times.begin) {
      recording.Lose(Lost::kNoTimes, *command);
    } else {
      recording.Finish(*command, times);
    }
  }
  Next<OfHandle>(kReleaseEvent)(event);
  command->Free();
}

}  // namespace pitot::opencl

const void* const* pitot_opencl_layer(const void* const* next, uint32_t entries, uint32_t* own_entries) {
  pitot::opencl::Layer* const layer = pitot::opencl::Layer::Get();
  return layer != nullptr ? layer->Init(next, entries, own_entries) : nullptr;
}
