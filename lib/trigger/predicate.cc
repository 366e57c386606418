// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/predicate.h"

#include <atomic>
#include <new>

#include "trigger/firing_rules.h"
#include "trigger/make.h"

namespace pitot::trigger {
namespace {

class PredicateTrigger final : public Trigger {
 public:
  PredicateTrigger(const PredicateTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        is_usable_name_(NameFilter(options.cause).IsUsable()),
        cool_down_(options.cool_down_ms, clock) {
    cause_.Add("%.*s", static_cast<int>(kMaxNameBytes), options.cause == nullptr ? "" : options.cause);
  }

  Status Check() const noexcept override {
    OptionsCheck check("PredicateTriggerOptions");
    check.Require(options_.predicate != nullptr, "predicate", "must be set");
    check.Require(options_.cause != nullptr && is_usable_name_, "cause", "must be a name of 1 to 120 bytes");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    return check.Take();
  }

  void OnFinish(const RequestView& request, FiringSink& sink) noexcept override {
    if (options_.predicate == nullptr || !Ask(request)) return;
    bool joins_only = false;
    if (!cool_down_.Allows(0, sink, &joins_only)) return;  // one cause for all routes, so one cool-down

    Detail detail;
    detail.Add("%s, %s after %.1f ms", request.route, OutcomeName(request.outcome), Milliseconds(request.latency_ns));
    cool_down_.Fire(
        0, {request.id, cause_.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only},
        sink);
  }

 private:
  // Asks the predicate. If it throws, although it must not, it is not asked again: the host lives on.
  bool Ask(const RequestView& request) noexcept {
    if (has_thrown_.load(std::memory_order_relaxed)) return false;
    try {
      return options_.predicate(options_.context, request);
    } catch (...) {
      has_thrown_.store(true, std::memory_order_relaxed);
      return false;
    }
  }

  const PredicateTriggerOptions options_;  // its strings are the host's: cause_ holds the copy
  const bool is_usable_name_;
  Cause cause_;
  std::atomic<bool> has_thrown_ = false;
  CoolDown cool_down_;
};

}  // namespace

std::unique_ptr<Trigger> MakePredicate(const PredicateTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) PredicateTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakePredicateTrigger(const PredicateTriggerOptions& options) noexcept {
  return trigger::MakePredicate(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
