// SPDX-License-Identifier: Apache-2.0
#include "collect/opencl/queues.h"

#include <algorithm>
#include <cstring>

namespace pitot::opencl {

void DeviceClock::Learn(const CommandTimes& times) noexcept {
  const int64_t least = times.before_ns - times.queued;
  const int64_t most = std::max(least, std::min(times.after_ns - times.queued, times.seen_ns - times.end));
  const bool agrees = is_known_ && std::max(least, least_) <= std::min(most, most_);
  least_ = agrees ? std::max(least, least_) : least;
  most_ = agrees ? std::min(most, most_) : most;
  is_known_ = true;
}

bool Queues::Add(Handle queue, Handle device, const char* device_name, uint32_t compute_units) noexcept {
  const base::MutexLock lock(&mutex_);
  uint16_t at = 0;
  while (at < device_count_ && devices_[at].handle != device) ++at;
  if (at == kMaxDevices) return false;
  if (at == device_count_) {
    devices_[at].handle = device;
    std::strncpy(devices_[at].name, device_name, sizeof devices_[at].name - 1);
    devices_[at].compute_units = compute_units;
    ++device_count_;
  }
  const uint16_t count = queue_count_.load(std::memory_order_relaxed);
  uint16_t place = 0;
  while (place < count && queues_[place].handle.load(std::memory_order_relaxed) != queue) ++place;
  if (place == kMaxQueues) return false;
  queues_[place].device.store(at, std::memory_order_relaxed);
  queues_[place].handle.store(queue, std::memory_order_release);
  if (place == count) queue_count_.store(static_cast<uint16_t>(count + 1), std::memory_order_release);
  return true;
}

Queues::Place Queues::Find(Handle queue) const noexcept {
  const uint16_t count = queue_count_.load(std::memory_order_acquire);
  for (uint16_t place = 0; place < count; ++place) {
    if (queues_[place].handle.load(std::memory_order_acquire) == queue)
      return {place, queues_[place].device.load(std::memory_order_relaxed)};
  }
  return {kNone, kNone};
}

Queues::Times Queues::Learn(uint16_t device, const CommandTimes& times, int64_t begin) noexcept {
  const base::MutexLock lock(&mutex_);
  DeviceClock& clock = clocks_[device];
  clock.Learn(times);
  return {clock.HostNs(begin), clock.HostNs(times.end)};
}

Device Queues::device(uint16_t place) noexcept {
  const base::MutexLock lock(&mutex_);
  return devices_[place];
}

int64_t Queues::clock_error_ns(uint16_t device) noexcept {
  const base::MutexLock lock(&mutex_);
  return clocks_[device].error_ns();
}

}  // namespace pitot::opencl
