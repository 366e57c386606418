// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/tokens.h"

#include <algorithm>
#include <new>
#include <optional>

#include "base/causes.h"
#include "trigger/firing_rules.h"
#include "trigger/make.h"
#include "trigger/quantile_cells.h"

namespace pitot::trigger {
namespace {

// Marks before a quantile counts. Among fewer than 1 / (1 - quantile) it would be the maximum.
uint32_t WarmUp(const TokensTriggerOptions& options, double quantile) noexcept {
  const double least = 1 / (1 - quantile) + 0.5;
  return std::max(options.warm_up_marks, least < 1e9 ? static_cast<uint32_t>(least) : 1'000'000'000u);
}

// One kind of wait for tokens: what fires.
class Threshold {
 public:
  Threshold(double above_ms, double quantile, const TokensTriggerOptions& options) noexcept
      : above_ns_(Nanoseconds(above_ms)), quantile_(quantile) {
    if (quantile > 0 && quantile < 1 && options.memory > 0)
      cells_.emplace(quantile, options.memory, WarmUp(options, quantile), options.route != nullptr);
  }
  bool HasMemory() const noexcept { return !cells_ || cells_->is_allocated(); }

  // Learns a time, and says above what it was, for people; false: it does not fire.
  bool IsAbove(const RequestView& request, uint32_t size_bucket, uint64_t ns, Line<96>* above) noexcept {
    uint64_t quantile_ns = 0;
    uint32_t count = 0;
    if (cells_ && cells_->is_allocated()) {
      if (QuantileCells::Cell* cell = cells_->Find(request.route_index, size_bucket)) {
        quantile_ns = cells_->Threshold(cell, &count);
        cells_->Teach(cell, ns);
      }
    }
    if (above_ns_ != 0 && ns > above_ns_) {
      above->Add("%.1f ms", Milliseconds(above_ns_));
      return true;
    }
    if (__builtin_expect(quantile_ns == 0 || ns <= quantile_ns, 1)) return false;
    above->Add("p%g = %.1f ms of ", quantile_ * 100, Milliseconds(quantile_ns));
    above->AddCount(count);
    above->Add(" of its %s", size_bucket != 0 ? "route and size" : "route");
    return true;
  }

 private:
  const uint64_t above_ns_;
  const double quantile_;
  std::optional<QuantileCells> cells_;
};

class TokensTrigger final : public Trigger {
 public:
  TokensTrigger(const TokensTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        first_token_(options.first_token_above_ms, options.first_token_or_above_quantile, options),
        gap_(options.gap_above_ms, options.gap_or_above_quantile, options),
        route_(options.route),
        cool_down_(options.cool_down_ms, clock) {}

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("TokensTriggerOptions");
    const double first_token = options_.first_token_or_above_quantile, gap = options_.gap_or_above_quantile;
    check.RequireName(route_, "route");
    check.RequireThreshold(options_.first_token_above_ms, "first_token_above_ms");
    check.RequireThreshold(options_.gap_above_ms, "gap_above_ms");
    check.RequireQuantile(first_token, "first_token_or_above_quantile");
    check.RequireQuantile(gap, "gap_or_above_quantile");
    check.Require(options_.first_token_above_ms > 0 || options_.gap_above_ms > 0 || first_token > 0 || gap > 0,
                  "first_token_above_ms", "or another threshold must be set");
    check.Require(options_.memory >= 64 && options_.memory <= 1000000000, "memory", "must be 64 to 1,000,000,000");
    check.Require(options_.warm_up_marks <= 1000000000, "warm_up_marks", "must be at most 1,000,000,000");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    if (Status status = check.Take(); !status.ok()) return status;
    if (!first_token_.HasMemory() || !gap_.HasMemory())
      return Status(StatusCode::kResourceExhausted, "no memory for the tokens trigger's histograms");
    return Status();
  }

  bool WatchesTokens() const noexcept override { return true; }
  void OnTokens(const RequestView& request, uint64_t gap_ns, FiringSink& sink) noexcept override {
    if (!route_.Matches(request.route)) return;
    const bool is_first = gap_ns == request.first_token_ns;  // the first mark's gap counts from arrival
    Line<96> above;
    // A prompt's size makes a first token late; gaps depend on who else is in the batch.
    if (is_first ? !first_token_.IsAbove(request, request.size_bucket, gap_ns, &above)
                 : !gap_.IsAbove(request, 0, gap_ns, &above))
      return;
    bool joins_only = false;
    if (!cool_down_.Allows(request.route_index, sink, &joins_only, gap_ns)) return;

    Cause cause;
    cause.Add("%s %s", is_first ? base::kFirstToken : base::kTokenGap, request.route);
    Detail detail;
    if (is_first) {
      detail.Add("first token after %.1f ms, above %s", Milliseconds(gap_ns), above.text());
    } else {
      detail.Add("%.1f ms between tokens, above %s, %u tokens into the request", Milliseconds(gap_ns), above.text(),
                 request.output_tokens);
    }
    cool_down_.Fire(
        request.route_index,
        {request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only}, sink);
  }

 private:
  const TokensTriggerOptions options_;  // its strings are the host's: route_ holds the copy
  Threshold first_token_, gap_;
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
