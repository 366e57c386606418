// SPDX-License-Identifier: Apache-2.0
//
// Everything by which the recorder calls its host: the log and the hooks. A thread that Stop leaves behind must not
// call the host later, so each call is counted, and Silence ends them all.
#ifndef PITOT_LIB_SESSION_HOST_CALLS_H_
#define PITOT_LIB_SESSION_HOST_CALLS_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "base/mutex.h"
#include "pitot/hooks.h"
#include "pitot/options.h"
#include "pitot/status.h"
#include "session/failures_in_a_row.h"
#include "session/incident.h"
#include "session/lifetime.h"

namespace pitot::session {

class HostCalls {
 public:
  // Both outlive it.
  HostCalls(const Options* options, const Lifetime* lifetime) : options_(*options), lifetime_(*lifetime) {}

  // A call of the host's code for a block: of its log, a hook or a collector. Not allowed once the host is silent.
  class Entry {
   public:
    explicit Entry(const HostCalls* host) noexcept : host_(host), is_allowed_(host->Enter()) {}
    ~Entry() {
      if (is_allowed_) host_->inside_.fetch_sub(1);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    bool is_allowed() const noexcept { return is_allowed_; }

   private:
    const HostCalls* const host_;
    const bool is_allowed_;
  };

  // While one lives, neither the log nor a hook is called: the host's objects may be gone, or locked by a thread that
  // crashed.
  class Muted {
   public:
    explicit Muted(HostCalls* host) noexcept : muted_(host->muted_) { muted_.fetch_add(1); }
    ~Muted() { muted_.fetch_sub(1); }
    Muted(const Muted&) = delete;
    Muted& operator=(const Muted&) = delete;

   private:
    std::atomic<uint32_t>& muted_;
  };

  // Threads: any.
  void Log(LogLevel level, const char* message) const noexcept;
  // Logs an error, and returns the status: hosts rarely look at the result of Add. If the machine lacks something
  // (kNotFound), such as a GPU, it is information.
  Status LogError(Status status) const noexcept;
  // Logs a failure of an incident if its turn has come: a row must not fill the host's log.
  void LogFailure(FailuresInARow* row, LogLevel level, uint64_t incident, const char* message) const noexcept;

  void SetHooks(const Hooks& hooks) noexcept PITOT_EXCLUDES(mutex_);
  // Calls a hook, if it is set, after the call in progress, if there is one; if the recorder gives up meanwhile, it is
  // not called.
  using Hook = void (*Hooks::*)(void* context, const IncidentInfo& incident);
  void Tell(Hook hook, const Incident& incident, const std::string& path, const Status& status,
            const char* verdict) noexcept PITOT_EXCLUDES(mutex_);
  // The same, but false while another call is in progress.
  bool TellIfFree(Hook hook, const Incident& incident, const std::string& path, const Status& status) noexcept
      PITOT_EXCLUDES(mutex_);

  // Called after Lifetime::GiveUp: nobody waits for a call in progress any more.
  void NoteGivenUp() noexcept PITOT_EXCLUDES(mutex_);
  // From now on the host is not called. Waits for calls in progress, at most this long.
  void Silence(int64_t patience_ns) noexcept;

 private:
  bool Enter() const noexcept;
  void Call(const Hooks& hooks, Hook hook, const Incident& incident, const std::string& path, const Status& status,
            const char* verdict) const noexcept;
  void EndTelling() noexcept PITOT_EXCLUDES(mutex_);

  const Options& options_;
  const Lifetime& lifetime_;
  std::atomic<uint32_t> muted_{0};           // how many
  std::atomic<bool> is_silent_{false};       // the host's log and hooks may be gone
  mutable std::atomic<uint32_t> inside_{0};  // calls in progress
  base::Mutex mutex_;
  base::CondVar told_;
  bool is_telling_ PITOT_GUARDED_BY(mutex_) = false;
  Hooks hooks_ PITOT_GUARDED_BY(mutex_);
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_HOST_CALLS_H_
