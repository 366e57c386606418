// SPDX-License-Identifier: Apache-2.0
#include "session/host_calls.h"

#include <sched.h>

#include <chrono>

#include "base/message.h"
#include "session/options.h"

namespace pitot::session {
namespace {

using base::Error;

}  // namespace

bool HostCalls::Enter() const noexcept {
  // Sequentially consistent, with is_silent_: either Silence sees this call or the call sees the end.
  inside_.fetch_add(1);
  if (!is_silent_.load()) return true;
  inside_.fetch_sub(1);
  return false;
}

void HostCalls::Silence(int64_t patience_ns) noexcept {
  is_silent_.store(true);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_ns);
  while (inside_.load() != 0 && std::chrono::steady_clock::now() < deadline) sched_yield();
}

void HostCalls::Log(LogLevel level, const char* message) const noexcept {
  if (options_.log == nullptr || muted_.load() != 0) return;
  const Entry entry(this);
  if (entry.is_allowed()) CallLog(options_, level, message);
}

Status HostCalls::LogError(Status status) const noexcept {
  const bool is_lacking = status.code() == StatusCode::kNotFound;
  if (!status.ok()) Log(is_lacking ? LogLevel::kInfo : LogLevel::kError, status.message());
  return status;
}

void HostCalls::LogFailure(FailuresInARow* row, LogLevel level, uint64_t incident, const char* message) const noexcept {
  const bool is_its_turn = row->Add(incident);
  if (!is_its_turn && !lifetime_.HasGivenUp()) return;
  if (row->count() == 1) return Log(level, message);
  Log(level, Error(StatusCode::kInternal,
                   "%s (%llu failures in a row; only the 1st, 2nd, 4th, 8th, ... are logged, see Stats)", message,
                   static_cast<unsigned long long>(row->count()))
                 .message());
}

void HostCalls::SetHooks(const Hooks& hooks) noexcept {
  const base::MutexLock lock(&mutex_);
  hooks_ = hooks;
}

void HostCalls::Tell(Hook hook, const Incident& incident, const std::string& path, const Status& status,
                     const char* verdict) noexcept {
  Hooks hooks;
  {
    const base::MutexLock lock(&mutex_);
    while (is_telling_ && !lifetime_.HasGivenUp()) told_.Wait(&mutex_);
    if (is_telling_) return;
    is_telling_ = true;
    hooks = hooks_;
  }
  Call(hooks, hook, incident, path, status, verdict);
  EndTelling();
}

bool HostCalls::TellIfFree(Hook hook, const Incident& incident, const std::string& path,
                           const Status& status) noexcept {
  Hooks hooks;
  {
    const base::MutexLock lock(&mutex_);
    if (is_telling_) return false;
    is_telling_ = true;
    hooks = hooks_;
  }
  Call(hooks, hook, incident, path, status, "");
  EndTelling();
  return true;
}

void HostCalls::NoteGivenUp() noexcept {
  const base::MutexLock lock(&mutex_);
  told_.NotifyAll();
}

void HostCalls::EndTelling() noexcept {
  const base::MutexLock lock(&mutex_);
  is_telling_ = false;
  told_.NotifyAll();
}

void HostCalls::Call(const Hooks& hooks, Hook hook, const Incident& incident, const std::string& path,
                     const Status& status, const char* verdict) const noexcept {
  IncidentInfo info{};
  info.number = incident.number;
  info.cause = incident.cause.c_str();
  info.detail = incident.firings.front().detail;
  info.directory = path.empty() ? nullptr : path.c_str();
  info.slow_requests = SlowRequests(incident);
  info.first_request = incident.firings.front().request;
  info.status = status;
  info.again = incident.again;
  info.verdict = verdict;
  if (hooks.*hook == nullptr || muted_.load() != 0) return;
  const Entry entry(this);
  if (!entry.is_allowed()) return;
  try {
    (hooks.*hook)(hooks.context, info);
  } catch (...) {
    Log(LogLevel::kError, "a hook threw an exception");
  }
}

}  // namespace pitot::session
