// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_doses.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <vector>

#include "pitot/trace.h"
#include "server_common/reply.h"

namespace scoreboard {
namespace {

constexpr uint64_t kNoticeableWaitNs = 100'000;  // a shorter wait for the lock is not logged

}  // namespace

uint64_t SpinUntil(uint64_t end_ns) {
  const uint64_t before_ns = ThreadCpuNs();
  while (MonotonicNs() < end_ns) {}
  return ThreadCpuNs() - before_ns;
}

void SleepFor(uint64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

void TouchColdMemory(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // one fault a page
  for (uint64_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  munmap(memory, bytes);
}

uint64_t HopUnrecorded(uint64_t ns) {
  return std::async(std::launch::async, [ns] { return SpinUntil(MonotonicNs() + ns); }).get();
}

void HeldLock::Pass(FaultSchedule* faults, size_t kind, uint64_t request) {
  const uint64_t begin_ns = MonotonicNs();
  std::unique_lock lock(mutex_);
  const uint64_t locked_ns = MonotonicNs();
  const bool waited = locked_ns - begin_ns >= kNoticeableWaitNs && held_until_ns_ >= begin_ns;
  const uint64_t holder = holder_;

  Fault fault;
  const bool holds = faults->Draw(kind, &fault);
  if (holds) {
    SleepFor(fault.dose_ns);
    holder_ = request;
    held_until_ns_ = MonotonicNs();
  }
  const uint64_t held_ns = held_until_ns_ - locked_ns;
  lock.unlock();

  if (waited) {
    faults->Log(
        kind, begin_ns, request, locked_ns - begin_ns,
        ",\"lock\":\"" + name_ + "\",\"role\":\"waiter\",\"holder\":\"" + server_common::RequestIdText(holder) + "\"");
  }
  if (!holds) return;
  faults->Log(kind, locked_ns, request, held_ns, ",\"role\":\"holder\"");
  Delays delays;
  delays.slept_ns = held_ns;
  faults->log().WriteDelays(locked_ns, request, delays);
}

Spinners::~Spinners() {
  if (spinner_.joinable()) spinner_.join();
}

void Spinners::MayBegin(FaultSchedule* faults, size_t kind, uint64_t request) {
  Fault fault;
  if (!faults->Draw(kind, &fault) || is_spinning_.exchange(true)) return;
  std::lock_guard lock(mutex_);
  if (spinner_.joinable()) spinner_.join();
  spinner_ = std::thread([this, faults, request, fault] {
    pitot::SetThreadName("spinner");
    const size_t count = fault.threads > 0 ? fault.threads : std::max(1u, std::thread::hardware_concurrency());
    const uint64_t begin_ns = MonotonicNs(), end_ns = begin_ns + fault.dose_ns;
    std::atomic<uint64_t> cpu_ns{0};
    std::vector<std::thread> others;
    for (size_t i = 1; i < count; ++i) others.emplace_back([&] { cpu_ns += SpinUntil(end_ns); });
    cpu_ns += SpinUntil(end_ns);
    for (std::thread& other : others) other.join();
    faults->Log(fault.kind, begin_ns, request, MonotonicNs() - begin_ns,
                CpuTaken(cpu_ns) + ",\"threads\":" + std::to_string(count));
    is_spinning_ = false;
  });
}

}  // namespace scoreboard
