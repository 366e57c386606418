// SPDX-License-Identifier: Apache-2.0
#include "session/handover.h"

#include <utility>

namespace pitot::session {

using base::MutexLock;
using std::chrono::steady_clock;

// ---- The watcher's. -------------------------------------------------------------------------------------------------

Handover::Room Handover::AwaitRoom(bool waits) noexcept {
  const MutexLock lock(&mutex_);
  if (!is_reserve_in_use_) return Room::kFree;
  if (!waits) return Room::kInUse;
  while (is_reserve_in_use_ && !lifetime_.HasGivenUp()) changed_.Wait(&mutex_);
  return lifetime_.HasGivenUp() ? Room::kGivenUp : Room::kFree;
}

void Handover::Give(std::unique_ptr<Incident> copied) noexcept {
  const MutexLock lock(&mutex_);
  copied_ = std::move(copied);
  is_reserve_in_use_ = true;
  changed_.NotifyAll();
}

bool Handover::IsIdle() noexcept {
  const MutexLock lock(&mutex_);
  return !is_reserve_in_use_ && copied_ == nullptr && !is_busy_;
}

uint64_t Handover::FlushesAsked() noexcept {
  const MutexLock lock(&mutex_);
  return flushes_asked_;
}

void Handover::AnswerFlushes(uint64_t asked) noexcept {
  const MutexLock lock(&mutex_);
  if (copied_ != nullptr || is_busy_ || flushes_done_ >= asked) return;
  flushes_done_ = asked;
  changed_.NotifyAll();
}

bool Handover::IsStopping() noexcept {
  const MutexLock lock(&mutex_);
  return is_stopping_;
}

void Handover::Close() noexcept {
  const MutexLock lock(&mutex_);
  is_closed_ = true;
  changed_.NotifyAll();
}

// ---- The worker's. --------------------------------------------------------------------------------------------------

std::unique_ptr<Incident> Handover::Await() noexcept {
  const MutexLock lock(&mutex_);
  while (copied_ == nullptr && !is_closed_) changed_.Wait(&mutex_);
  is_busy_ = copied_ != nullptr;
  return std::move(copied_);
}

std::unique_ptr<Incident> Handover::TakeWaiting() noexcept {
  const MutexLock lock(&mutex_);
  return std::move(copied_);
}

void Handover::FreeReserve() noexcept {
  const MutexLock lock(&mutex_);
  is_reserve_in_use_ = false;
  changed_.NotifyAll();
  wake_watcher_.Give();
}

void Handover::Done() noexcept {
  const MutexLock lock(&mutex_);
  is_busy_ = false;
  changed_.NotifyAll();
  wake_watcher_.Give();  // for a Flush, answered by the watcher
}

// ---- The host's. ----------------------------------------------------------------------------------------------------

Status Handover::Flush(uint32_t timeout_ms) noexcept {
  const auto deadline = steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  const MutexLock lock(&mutex_);
  const uint64_t asked = ++flushes_asked_;
  wake_watcher_.Give();
  while (flushes_done_ < asked && !is_stopping_ && changed_.WaitUntil(&mutex_, deadline)) {}
  if (flushes_done_ >= asked) return {};
  if (is_stopping_) return Status(StatusCode::kUnavailable, "incidents may be missing; the recorder is being stopped");
  return Status(StatusCode::kUnavailable, "incidents are still being written; the time is up");
}

void Handover::BeginStop() noexcept {
  const MutexLock lock(&mutex_);
  is_stopping_ = true;
  changed_.NotifyAll();
}

bool Handover::AwaitEnd(steady_clock::time_point deadline) noexcept {
  const MutexLock lock(&mutex_);
  while (!IsOver() && changed_.WaitUntil(&mutex_, deadline)) {}
  return IsOver();
}

void Handover::NoteGivenUp() noexcept {
  const MutexLock lock(&mutex_);
  changed_.NotifyAll();
}

}  // namespace pitot::session
