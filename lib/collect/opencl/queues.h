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

// The difference between a device's clock and CLOCK_MONOTONIC. Each command narrows it; one that contradicts starts
// anew, because clocks drift.
class DeviceClock {
 public:
  void Learn(const CommandTimes& times) noexcept;
  int64_t HostNs(int64_t device_ns) const noexcept { return device_ns + (least_ + most_) / 2; }
  // Of HostNs, at most.
  int64_t error_ns() const noexcept { return (most_ - least_) / 2; }

 private:
  bool is_known_ = false;
  int64_t least_ = 0, most_ = 0;  // of host - device
};

struct Device {
  Handle handle = nullptr;
  char name[96] = "";
  uint32_t compute_units = 0;
};

class Queues {
 public:
  struct Place {
    uint16_t queue, device;
  };
  static constexpr uint16_t kNone = 0xffff;

  // Adds a queue, also one with the handle of a queue that is gone. False: there is no room.
  bool Add(Handle queue, Handle device, const char* device_name, uint32_t compute_units) noexcept;
  // The queue's place, and its device's; kNone if unknown. Threads: any. Cost: a load for each queue before it.
  Place Find(Handle queue) const noexcept;

  // The times of a command, on the host's clock. Threads: any.
  struct Times {
    int64_t begin_ns, end_ns;
  };
  Times Learn(uint16_t device, const CommandTimes& times, int64_t begin) noexcept;

  // Threads: any.
  uint16_t size() const noexcept { return queue_count_.load(std::memory_order_acquire); }
  uint16_t DeviceOf(uint16_t queue) const noexcept { return queues_[queue].device.load(std::memory_order_relaxed); }
  Device device(uint16_t place) noexcept;
  int64_t clock_error_ns(uint16_t device) noexcept;

 private:
  struct Queue {
    std::atomic<Handle> handle{nullptr};
    std::atomic<uint16_t> device{0};
  };

  std::array<Queue, kMaxQueues> queues_{};
  std::atomic<uint16_t> queue_count_{0};
  base::Mutex mutex_;
  std::array<Device, kMaxDevices> devices_ PITOT_GUARDED_BY(mutex_){};
  std::array<DeviceClock, kMaxDevices> clocks_ PITOT_GUARDED_BY(mutex_){};
  uint16_t device_count_ PITOT_GUARDED_BY(mutex_) = 0;
};

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_QUEUES_H_
