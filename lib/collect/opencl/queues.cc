// SPDX-License-Identifier: Apache-2.0
#include "collect/opencl/queues.h"

#include <algorithm>
#include <cstring>

namespace pitot::opencl {

void DeviceClock::Learn(const CommandTimes& times) noexcept {
  const int64_t age_ns = std::max<int64_t>(times.seen_ns - times.before_ns, 0) / kDriftNs;
  const int64_t least = times.before_ns - times.queued - age_ns;
  const int64_t most = std::max(least, std::min(times.after_ns - times.queued + age_ns, times.seen_ns - times.end));
  const int64_t drift_ns = std::max<int64_t>(times.seen_ns - learned_ns_, 0) / kDriftNs;
  least_ -= drift_ns, most_ += drift_ns;
  const bool agrees = is_known_ && std::max(least, least_) <= std::min(most, most_);
  least_ = agrees ? std::max(least, least_) : least;
  most_ = agrees ? std::min(most, most_) : most;
  learned_ns_ = std::max(learned_ns_, times.seen_ns);
  is_known_ = true;
}

bool Queues::Add(Handle queue, Handle device, const char* device_name, uint32_t compute_units,
                 bool is_unordered) noexcept {
  const base::MutexLock lock(&mutex_);
  uint8_t on = 0;
  const auto handle_at = [&](uint8_t at) { return device_handles_[at].load(std::memory_order_relaxed); };
  while (on < kMaxDevices && handle_at(on) != nullptr && handle_at(on) != device) ++on;
  if (on == kMaxDevices) return false;
  if (handle_at(on) == nullptr) {
    std::strncpy(devices_[on].name, device_name, sizeof devices_[on].name - 1);
    devices_[on].compute_units = compute_units;
    device_handles_[on].store(device, std::memory_order_release);
  }
  const uint16_t count = count_.load(std::memory_order_relaxed);
  uint16_t at = Search(queue);  // the driver destroyed it at another's wish, and used its handle again
  for (uint16_t free = 0; at == kMaxQueues && free < count; ++free)
    if (queues_[free].handle.load(std::memory_order_acquire) == nullptr) at = free;
  if (at == kMaxQueues) at = count;
  if (at == kMaxQueues) return false;
  queues_[at].number.store(++last_number_, std::memory_order_relaxed);
  queues_[at].references.store(1, std::memory_order_relaxed);
  queues_[at].device.store(on, std::memory_order_relaxed);
  queues_[at].is_unordered.store(is_unordered, std::memory_order_relaxed);
  queues_[at].handle.store(queue, std::memory_order_release);
  if (at == count) count_.store(static_cast<uint16_t>(count + 1), std::memory_order_release);
  return true;
}

void Queues::Retain(Handle queue) noexcept {
  const uint16_t at = Search(queue);
  if (at != kMaxQueues) queues_[at].references.fetch_add(1, std::memory_order_relaxed);
}

void Queues::Release(Handle queue) noexcept {
  const uint16_t at = Search(queue);
  if (at != kMaxQueues && queues_[at].references.fetch_sub(1, std::memory_order_acq_rel) == 1)
    queues_[at].handle.store(nullptr, std::memory_order_release);
}

uint16_t Queues::Search(Handle queue) const noexcept {
  if (queue == nullptr) return kMaxQueues;
  const uint16_t count = count_.load(std::memory_order_acquire);
  uint16_t at = 0;
  while (at < count && queues_[at].handle.load(std::memory_order_acquire) != queue) ++at;
  return at < count ? at : kMaxQueues;
}

Queues::Place Queues::Find(Handle queue) const noexcept {
  const uint16_t at = Search(queue);
  return at != kMaxQueues ? PlaceOf(queues_[at]) : Place{};
}

uint8_t Queues::FindDevice(Handle device) const noexcept {
  uint8_t at = 0;
  while (at < kMaxDevices && device_handles_[at].load(std::memory_order_acquire) != device) ++at;
  return device != nullptr ? at : static_cast<uint8_t>(kMaxDevices);
}

uint8_t Queues::device_count() const noexcept {
  uint8_t count = 0;
  while (count < kMaxDevices && device_handles_[count].load(std::memory_order_acquire) != nullptr) ++count;
  return count;
}

Queues::Times Queues::Learn(uint8_t device, const CommandTimes& times, int64_t begin) noexcept {
  const base::MutexLock lock(&mutex_);
  DeviceClock& clock = clocks_[device];
  clock.Learn(times);
  return {clock.HostNs(begin), clock.HostNs(times.end)};
}

Device Queues::device(uint8_t place) noexcept {
  const base::MutexLock lock(&mutex_);
  return devices_[place];
}

int64_t Queues::clock_error_ns(uint8_t device) noexcept {
  const base::MutexLock lock(&mutex_);
  return clocks_[device].error_ns();
}

}  // namespace pitot::opencl
