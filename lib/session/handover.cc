// SPDX-License-Identifier: Apache-2.0
#include "session/handover.h"

#include <new>
#include <utility>

namespace pitot::session {

using base::MutexLock;
using std::chrono::steady_clock;

void Handover::Begin(const snapshot::Reserve& reserve) noexcept {
  const MutexLock lock(&mutex_);
  rooms_.Begin(reserve);
}

// ---- The watcher's. -------------------------------------------------------------------------------------------------

void Handover::Limit(uint64_t bytes) noexcept {
  const MutexLock lock(&mutex_);
  rooms_.Limit(bytes / 8);
}

snapshot::Reserve Handover::AwaitRoom(bool waits) noexcept {
  const MutexLock lock(&mutex_);
  for (;;) {
    const snapshot::Reserve room = rooms_.Room();
    if (room.first != room.last || !waits) return room;
    if (lifetime_.HasGivenUp()) return {};
    changed_.Wait(&mutex_);
  }
}

void Handover::Give(std::unique_ptr<Incident> copied) {
  const MutexLock lock(&mutex_);
  rooms_.Take(copied->filled);
  const snapshot::Filled filled = copied->filled;
  try {
    copied_.push_back(std::move(copied));
  } catch (const std::bad_alloc&) {
    rooms_.Free(filled);
    throw;
  }
  ++unfinished_;
  changed_.NotifyAll();
}

bool Handover::IsIdle() noexcept {
  const MutexLock lock(&mutex_);
  return unfinished_ == 0;
}

uint64_t Handover::FlushesAsked() noexcept {
  const MutexLock lock(&mutex_);
  return flushes_asked_;
}

void Handover::AnswerFlushes(uint64_t asked) noexcept {
  const MutexLock lock(&mutex_);
  if (unfinished_ != 0 || flushes_done_ >= asked) return;
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

// ---- The writer's and the worker's. ---------------------------------------------------------------------------------

std::unique_ptr<Incident> Handover::Await() noexcept {
  const MutexLock lock(&mutex_);
  while (copied_.empty() && !is_closed_) changed_.Wait(&mutex_);
  return Next();
}

std::unique_ptr<Incident> Handover::TakeWaiting() noexcept {
  const MutexLock lock(&mutex_);
  return Next();
}

std::unique_ptr<Incident> Handover::Next() noexcept {
  if (copied_.empty()) return nullptr;
  std::unique_ptr<Incident> next = std::move(copied_.front());
  copied_.pop_front();
  return next;
}

void Handover::FreeRoom(const snapshot::Filled& filled) noexcept {
  const MutexLock lock(&mutex_);
  rooms_.Free(filled);
  changed_.NotifyAll();
  wake_watcher_.Give();
}

void Handover::Finish() noexcept {
  const MutexLock lock(&mutex_);
  --unfinished_;
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
