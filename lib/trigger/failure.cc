// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/failure.h"

#include <new>

#include "base/causes.h"
#include "trigger/firing_rules.h"
#include "trigger/make.h"

namespace pitot::trigger {
namespace {

class FailureTrigger final : public Trigger {
 public:
  FailureTrigger(const FailureTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options), route_(options.route), cool_down_(options.cool_down_ms, clock) {}

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("FailureTriggerOptions");
    check.RequireName(route_, "route");
    check.Require(options_.on_failed || options_.on_timed_out || options_.on_abandoned, "on_failed",
                  "or on_timed_out or on_abandoned must be set");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    return check.Take();
  }

  void OnFinish(const RequestView& request, FiringSink& sink) noexcept override {
    const char* what = nullptr;
    if (request.outcome == Outcome::kFailed && options_.on_failed) what = base::kFailed;
    if (request.outcome == Outcome::kTimedOut && options_.on_timed_out) what = base::kTimedOut;
    if (request.outcome == Outcome::kAbandoned && options_.on_abandoned) what = base::kAbandoned;
    bool joins_only = false;
    if (what == nullptr || !route_.Matches(request.route)) return;
    if (!cool_down_.Allows(request.route_index, sink, &joins_only)) return;

    Cause cause;
    cause.Add("%s %s", what, request.route);
    Detail detail;
    detail.Add("%s after %.1f ms", request.outcome == Outcome::kTimedOut ? "timed out" : what,
               Milliseconds(request.latency_ns));
    if (request.deadline_ns != 0) detail.Add(", deadline %.1f ms", Milliseconds(request.deadline_ns));
    cool_down_.Fire(
        request.route_index,
        {request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only}, sink);
  }

 private:
  const FailureTriggerOptions options_;  // its strings are the host's: route_ holds the copy
  const NameFilter route_;
  CoolDown cool_down_;
};

}  // namespace

std::unique_ptr<Trigger> MakeFailure(const FailureTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) FailureTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakeFailureTrigger(const FailureTriggerOptions& options) noexcept {
  return trigger::MakeFailure(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
