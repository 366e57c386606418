// SPDX-License-Identifier: Apache-2.0
//
// The queues and devices of the process, by the handles of OpenCL. They are found without a lock.
#ifndef PITOT_LIB_COLLECT_OPENCL_QUEUES_H_
#define PITOT_LIB_COLLECT_OPENCL_QUEUES_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "collect/opencl/abi.h"

namespace pitot::opencl {

inline constexpr uint16_t kMaxQueues = 256, kMaxDevices = 16;

// When a command was queued and ended, on the device's clock, and what the host's clock read around that.
struct CommandTimes {
  int64_t queued, end;
  int64_t before_ns, after_ns;  // it was queued between these
  int64_t seen_ns;              // it had ended by then
};

// The difference between a device's clock and CLOCK_MONOTONIC. Each command narrows it. In between it widens by the
// most that two clocks drift apart. A command that still contradicts shows a step, as after a suspend: its own bounds
// then hold.
class DeviceClock {
 public:
  void Learn(const CommandTimes& times) noexcept;
  int64_t HostNs(int64_t device_ns) const noexcept { return device_ns + (least_ + most_) / 2; }
  // The largest error of HostNs just after the newest command.
  int64_t error_ns() const noexcept { return (most_ - least_) / 2; }

 private:
  static constexpr int64_t kDriftNs = 5000;  // in which 1 ns may be gained or lost: 200 ppm

  bool is_known_ = false;
  int64_t least_ = 0, most_ = 0;  // of host - device
  int64_t learned_ns_ = 0;        // when the newest command was seen
};

struct Device {
  char name[96] = "";
  uint32_t compute_units = 0;
};

// The context of a stream in the trace. A device's in-order queues share one, where their number tells them apart. Each
// out-of-order queue has its own, for its lanes.
constexpr uint32_t ContextOf(uint32_t queue, uint8_t device, bool is_unordered) {
  return is_unordered ? kMaxDevices + queue : device + 1u;
}
static_assert(ContextOf(1, 0, true) > ContextOf(0, kMaxDevices - 1, false), "queues are numbered from 1 on");

class Queues {
 public:
  struct Place {
    uint32_t number = 0;  // from 1 on, in the order of creation, never used again; 0: the queue is unknown
    uint8_t device = kMaxDevices;
    bool is_unordered = false;
  };

  // Adds a queue with one reference. Its handle may be that of an earlier queue. False: there is no room.
  bool Add(Handle queue, Handle device, const char* device_name, uint32_t compute_units, bool is_unordered) noexcept;
  // Counts the host's references. The last one frees the place. Threads: any.
  void Retain(Handle queue) noexcept;
  void Release(Handle queue) noexcept;
  // Threads: any. Cost: a load for each place before it.
  Place Find(Handle queue) const noexcept;
  // The device's place; kMaxDevices if unknown. Threads: any.
  uint8_t FindDevice(Handle device) const noexcept;

  // The devices that had a queue have the places below this. Threads: any.
  uint8_t device_count() const noexcept;

  // The times of a command, on the host's clock. Threads: any.
  struct Times {
    int64_t begin_ns, end_ns;
  };
  Times Learn(uint8_t device, const CommandTimes& times, int64_t begin) noexcept;

  // Calls `function(Place)` for each existing queue. Threads: any.
  template <class Function> void ForEach(Function function) const {
    const uint16_t count = count_.load(std::memory_order_acquire);
    for (uint16_t at = 0; at < count; ++at) {
      if (queues_[at].handle.load(std::memory_order_acquire) != nullptr) function(PlaceOf(queues_[at]));
    }
  }
  Device device(uint8_t place) noexcept;
  int64_t clock_error_ns(uint8_t device) noexcept;

 private:
  // A handle is published after the rest, and null while the place is free.
  struct Queue {
    std::atomic<Handle> handle{nullptr};
    std::atomic<uint32_t> number{0}, references{0};
    std::atomic<uint8_t> device{0};
    std::atomic<bool> is_unordered{false};
  };

  static Place PlaceOf(const Queue& queue) noexcept {
    return {queue.number.load(std::memory_order_relaxed), queue.device.load(std::memory_order_relaxed),
            queue.is_unordered.load(std::memory_order_relaxed)};
  }
  // kMaxQueues if unknown.
  uint16_t Search(Handle queue) const noexcept;

  std::array<Queue, kMaxQueues> queues_{};
  std::atomic<uint16_t> count_{0};  // places ever used
  std::array<std::atomic<Handle>, kMaxDevices> device_handles_{};
  base::Mutex mutex_;
  uint32_t last_number_ PITOT_GUARDED_BY(mutex_) = 0;
  std::array<Device, kMaxDevices> devices_ PITOT_GUARDED_BY(mutex_){};
  std::array<DeviceClock, kMaxDevices> clocks_ PITOT_GUARDED_BY(mutex_){};
};

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_QUEUES_H_
