// SPDX-License-Identifier: Apache-2.0
#include "collect/opencl/recording.h"

#include <algorithm>

#include "base/clock.h"

namespace pitot::opencl {

using base::ClockNs;

Recording::Recording(uint32_t fork_epoch, const Recording* parents) noexcept
    : former(parents), fork_epoch_(fork_epoch) {
  for (Command& command : commands_) command.recording = this;
}

void Recording::Start(uint64_t memory_bytes) {
  finished_.Reserve(memory_bytes);
  const base::MutexLock lock(&mutex_);
  pause_count_ = 0;
  is_paused_.store(false, std::memory_order_relaxed);
  session_.store(++last_session_, std::memory_order_release);
}

void Recording::Stop() noexcept {
  const base::MutexLock lock(&mutex_);
  session_.store(0, std::memory_order_release);
}

void Recording::Pause() noexcept {
  const base::MutexLock lock(&mutex_);
  if (is_paused_.exchange(true)) return;
  paused_ns_ = ClockNs(CLOCK_MONOTONIC);
}

void Recording::Resume() noexcept {
  const base::MutexLock lock(&mutex_);
  if (!is_paused_.exchange(false)) return;
  if (pause_count_ == pauses_.size()) {
    pauses_[0].end_ns = pauses_[1].end_ns;
    std::move(pauses_.begin() + 2, pauses_.end(), pauses_.begin() + 1);
    --pause_count_;
  }
  pauses_[pause_count_++] = {paused_ns_, ClockNs(CLOCK_MONOTONIC)};
}

Command* Recording::Take() noexcept {
  constexpr uint32_t kTries = 16;
  for (uint32_t i = 0; i < kTries; ++i) {
    Command& command = commands_[next_command_.fetch_add(1, std::memory_order_relaxed) % kMaxCommands];
    if (!command.is_taken.exchange(true, std::memory_order_acquire)) return &command;
  }
  return nullptr;
}

uint32_t Recording::NextCorrelation() noexcept {
  uint32_t number = 0;
  while (number == 0) number = correlation_.fetch_add(1, std::memory_order_relaxed);
  return number;
}

void Recording::Finish(const Command& command, const DeviceTimes& times) noexcept {
  Work work = command.work;
  const base::MutexLock lock(&mutex_);
  if (!IsWanted(command)) return;
  const Queues::Times on_host = queues.Learn(
      work.device, {times.queued, times.end, command.before_ns, command.after_ns, ClockNs(CLOCK_MONOTONIC)},
      times.begin);
  work.begin_ns = on_host.begin_ns;
  work.duration_ns = on_host.end_ns - on_host.begin_ns;
  finished_.Add(work);
}

void Recording::Lose(Lost why, const Command& command) noexcept {
  losses.Add(why, command.work.device, command.before_ns, ClockNs(CLOCK_MONOTONIC), command.session);
}

void Recording::Keep(int64_t begin_ns) noexcept {
  {
    const base::MutexLock lock(&mutex_);
    kept_.session = session_.load(std::memory_order_relaxed);
    kept_.begin_ns = begin_ns;
    kept_.end_ns = ClockNs(CLOCK_MONOTONIC);
    kept_.is_paused = is_paused_.load(std::memory_order_relaxed);
    std::copy_n(pauses_.begin(), pause_count_, kept_.pauses.begin());
    kept_.pause_count = pause_count_;
    if (kept_.is_paused) kept_.pauses[kept_.pause_count++] = {paused_ns_, kept_.end_ns};
  }
  finished_.Keep(begin_ns);
}

uint32_t Recording::in_flight() const noexcept {
  return static_cast<uint32_t>(std::count_if(commands_.begin(), commands_.end(), [](const Command& command) {
    return command.is_taken.load(std::memory_order_relaxed);
  }));
}

}  // namespace pitot::opencl
