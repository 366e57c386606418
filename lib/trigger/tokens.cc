// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/tokens.h"

#include <new>

#include "base/token_causes.h"
#include "trigger/firing_rules.h"
#include "trigger/make.h"

namespace pitot::trigger {
namespace {

class TokensTrigger final : public Trigger {
 public:
  TokensTrigger(const TokensTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        first_token_above_ns_(Nanoseconds(options.first_token_above_ms)),
        gap_above_ns_(Nanoseconds(options.gap_above_ms)),
        route_(options.route),
        cool_down_(options.cool_down_ms, clock) {}

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("TokensTriggerOptions");
    check.RequireName(route_, "route");
    check.RequireThreshold(options_.first_token_above_ms, "first_token_above_ms");
    check.RequireThreshold(options_.gap_above_ms, "gap_above_ms");
    check.Require(options_.first_token_above_ms > 0 || options_.gap_above_ms > 0, "first_token_above_ms",
                  "or gap_above_ms must be set");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    return check.Take();
  }

  void OnTokens(const RequestView& request, uint64_t gap_ns, FiringSink& sink) noexcept override {
    const bool is_first = gap_ns == request.first_token_ns;  // the first mark's gap counts from arrival
    const uint64_t above_ns = is_first ? first_token_above_ns_ : gap_above_ns_;
    if (above_ns == 0 || gap_ns <= above_ns) return;
    bool joins_only = false;
    if (!route_.Matches(request.route) || !cool_down_.Allows(request.route_index, sink, &joins_only)) return;

    Cause cause;
    cause.Add("%s %s", is_first ? base::kFirstToken : base::kTokenGap, request.route);
    Detail detail;
    if (is_first) {
      detail.Add("first token after %.1f ms, above %.1f ms", Milliseconds(gap_ns), Milliseconds(above_ns));
    } else {
      detail.Add("%.1f ms between tokens, above %.1f ms, %u tokens into the request", Milliseconds(gap_ns),
                 Milliseconds(above_ns), request.output_tokens);
    }
    sink.Fire({request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only});
  }

 private:
  const TokensTriggerOptions options_;  // its strings are the host's: route_ holds the copy
  const uint64_t first_token_above_ns_, gap_above_ns_;
  const NameFilter route_;
  CoolDown cool_down_;
};

}  // namespace

std::unique_ptr<Trigger> MakeTokens(const TokensTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) TokensTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakeTokensTrigger(const TokensTriggerOptions& options) noexcept {
  return trigger::MakeTokens(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
