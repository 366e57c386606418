// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/stall.h"

#include <new>
#include <unordered_map>

#include "base/causes.h"
#include "trigger/firing_rules.h"
#include "trigger/make.h"

namespace pitot::trigger {
namespace {

constexpr uint64_t kSameStallNs = 20000000;  // two ticks: two looks may place a scope's begin this far apart
constexpr uint64_t kForgetNs = 1000000000;   // a stall not seen for so long is over
constexpr size_t kForgetAbove = 1024;        // stalls remembered before the first look for stalls that are over

uint64_t HashOf(const char* name, uint32_t thread) noexcept {
  uint64_t hash = 0xcbf29ce484222325u ^ thread;
  for (; *name != 0; ++name) hash = (hash ^ static_cast<unsigned char>(*name)) * 0x100000001b3u;
  return hash;
}

// Stalls that have fired, so that each fires once. On Pitot's own thread only.
class Remembered {
 public:
  // False if the stall of `key` begun at `begin_ns` has fired. A stall begun earlier than the remembered one encloses
  // it (recursion) and is part of it.
  bool IsNew(uint64_t key, uint64_t begin_ns, uint64_t now_ns) noexcept {
    const auto found = stalls_.find(key);
    if (found == stalls_.end()) return true;
    found->second.seen_ns = now_ns;
    return begin_ns > found->second.begin_ns + kSameStallNs;
  }
  void Add(uint64_t key, uint64_t begin_ns, uint64_t now_ns) noexcept {
    try {
      if (stalls_.size() >= forget_at_) {
        for (auto it = stalls_.begin(); it != stalls_.end();) {
          it = now_ns - it->second.seen_ns > kForgetNs ? stalls_.erase(it) : ++it;
        }
        forget_at_ = stalls_.size() * 2 > kForgetAbove ? stalls_.size() * 2 : kForgetAbove;
      }
      stalls_[key] = {begin_ns, now_ns};
    } catch (...) {  // no memory: it may fire again after the cool-down
    }
  }

 private:
  struct Stall {
    uint64_t begin_ns;
    uint64_t seen_ns;
  };
  std::unordered_map<uint64_t, Stall> stalls_;
  size_t forget_at_ = kForgetAbove;
};

class StallTrigger final : public Trigger {
 public:
  StallTrigger(const StallTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        request_open_ns_(Nanoseconds(options.request_open_ms)),
        scope_open_ns_(Nanoseconds(options.scope_open_ms)),
        route_(options.route),
        scope_(options.scope),
        clock_(clock),
        request_cool_down_(options.cool_down_ms, clock),
        scope_cool_down_(options.cool_down_ms, clock) {}

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("StallTriggerOptions");
    check.RequireName(route_, "route");
    check.RequireName(scope_, "scope");
    check.RequireThreshold(options_.request_open_ms, "request_open_ms");
    check.RequireThreshold(options_.scope_open_ms, "scope_open_ms");
    check.Require(options_.request_open_ms > 0 || options_.scope_open_ms > 0, "request_open_ms",
                  "or scope_open_ms must be set");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    return check.Take();
  }

  bool WatchesOpenRequests() const noexcept override { return request_open_ns_ != 0; }
  void OnOpenRequest(const RequestView& request, FiringSink& sink) noexcept override {
    if (request_open_ns_ == 0 || request.latency_ns <= request_open_ns_ || !route_.Matches(request.route)) return;
    const uint64_t now_ns = clock_();
    bool joins_only = false;
    if (!requests_.IsNew(request.id, 0, now_ns)) return;
    if (!request_cool_down_.Allows(request.route_index, sink, &joins_only)) return;

    Cause cause;
    cause.Add("stall request %s", request.route);
    Detail detail;
    detail.Add("open for %.1f ms, above %.1f ms", Milliseconds(request.latency_ns), Milliseconds(request_open_ns_));
    if (sink.Fire(
            {request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only}))
      requests_.Add(request.id, 0, now_ns);
  }

  bool WatchesOpenScopes() const noexcept override { return scope_open_ns_ != 0; }
  void OnOpenScope(const OpenScopeView& scope, FiringSink& sink) noexcept override {
    if (scope_open_ns_ == 0 || scope.open_ns <= scope_open_ns_ || !scope_.Matches(scope.name)) return;
    // An idle thread waits for hours: a wait counts only by its name.
    if (scope.is_wait && scope_.matches_all()) return;
    const uint64_t key = HashOf(scope.name, scope.thread), now_ns = clock_();
    const uint64_t begin_ns = now_ns > scope.open_ns ? now_ns - scope.open_ns : 0;
    bool joins_only = false;
    if (!scopes_.IsNew(key, begin_ns, now_ns)) return;
    if (!scope_cool_down_.Allows(static_cast<uint32_t>(HashOf(scope.name, 0)), sink, &joins_only)) return;

    Cause cause;
    cause.Add("%s%.*s", base::kStalledScope, static_cast<int>(kMaxNameBytes), scope.name);
    Detail detail;
    detail.Add("open for %.1f ms%s%u, above %.1f ms", Milliseconds(scope.open_ns), base::kOnThread, scope.thread,
               Milliseconds(scope_open_ns_));
    if (sink.Fire({0, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only}))
      scopes_.Add(key, begin_ns, now_ns);
  }

 private:
  const StallTriggerOptions options_;  // its strings are the host's: route_ and scope_ hold the copies
  const uint64_t request_open_ns_, scope_open_ns_;
  const NameFilter route_, scope_;
  const base::ClockFunction clock_;
  CoolDown request_cool_down_;  // by route
  CoolDown scope_cool_down_;    // by the name's hash
  Remembered requests_, scopes_;
};

}  // namespace

std::unique_ptr<Trigger> MakeStall(const StallTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) StallTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakeStallTrigger(const StallTriggerOptions& options) noexcept {
  return trigger::MakeStall(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
