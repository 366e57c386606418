// SPDX-License-Identifier: Apache-2.0
//
// The recorder's triggers: asked about each finished request and each mark of tokens on the host's threads, and about
// open work by the watcher. Their firings go on to the pipeline of incidents.
#ifndef PITOT_LIB_SESSION_TRIGGERS_H_
#define PITOT_LIB_SESSION_TRIGGERS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "pitot/extend/trigger.h"
#include "pitot/status.h"
#include "session/firing_taker.h"
#include "session/host_calls.h"
#include "session/site_names.h"

namespace pitot::session {

class Triggers {
 public:
  static constexpr uint32_t kMost = 32;

  // All outlive it.
  Triggers(bool slow_clock, const HostCalls* host, FiringTaker* firings)
      : slow_clock_(slow_clock), host_(*host), firings_(*firings) {}

  // Threads: any.
  Status Add(std::unique_ptr<Trigger> trigger) noexcept PITOT_EXCLUDES(mutex_);
  // The latency from which a request of this route is late for any of them, ns; 0: never.
  uint64_t LateAfterNs(const char* route) noexcept;

  // On the host's threads.
  void OnFinish(const RequestView& request, uint64_t begin_ticks) noexcept {
    Sink sink(&firings_, &FiringTaker::Push, begin_ticks);
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnFinish(request, sink);
  }
  void OnTokens(const RequestView& request, uint64_t before_ticks, uint64_t gap_ns) noexcept {
    Sink sink(&firings_, &FiringTaker::Push, before_ticks);
    const uint32_t count = count_.load(std::memory_order_acquire);
    for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnTokens(request, gap_ns, sink);
  }

  // The watcher's.
  struct Watched {
    bool requests, scopes;
  };
  // The open work that any of them watches.
  Watched WatchedWork() const noexcept;
  void LookForStalledRequests() noexcept;
  // Returns how long the newest open scope has been, ns. Waits do not count: idle threads have some. INT64_MAX: there
  // is none.
  int64_t LookForStalledScopes() noexcept;

 private:
  // Passes on firings about a request or a scope, with its begin.
  class Sink final : public FiringSink {
   public:
    using Fired = bool (FiringTaker::*)(const Firing& firing, uint64_t begin_ticks) noexcept;
    Sink(FiringTaker* firings, Fired fired, uint64_t begin_ticks)
        : firings_(*firings), fired_(fired), begin_ticks_(begin_ticks) {}
    bool Fire(const Firing& firing) noexcept override { return (firings_.*fired_)(firing, begin_ticks_); }
    bool MayJoin() noexcept override { return firings_.MayJoin(); }

   private:
    FiringTaker& firings_;
    const Fired fired_;
    const uint64_t begin_ticks_;
  };

  const bool slow_clock_;
  const HostCalls& host_;
  FiringTaker& firings_;

  base::Mutex mutex_;  // held while one is added
  std::atomic<uint32_t> count_{0};
  std::unique_ptr<Trigger> triggers_[kMost];  // written once, below the count, then only read

  SiteNames site_names_;  // used by the watcher only
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_TRIGGERS_H_
