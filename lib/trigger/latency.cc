// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/latency.h"

#include <new>
#include <optional>

#include "trigger/firing_rules.h"
#include "trigger/make.h"
#include "trigger/quantile_cells.h"

namespace pitot::trigger {
namespace {

// Requests before the quantile counts. Among fewer than 1 / (1 - quantile) it would be the maximum.
uint32_t WarmUp(const LatencyTriggerOptions& options) noexcept {
  const double beyond = 1 - options.or_above_quantile;
  const uint32_t least = beyond > 1e-6 ? static_cast<uint32_t>(1 / beyond + 0.5) : 1000000;
  return options.warm_up_requests > least ? options.warm_up_requests : least;
}

class LatencyTrigger final : public Trigger {
 public:
  LatencyTrigger(const LatencyTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        above_ns_(Nanoseconds(options.above_ms)),
        n_(options.n >= 1 && options.n <= 64 ? options.n : 1),
        route_(options.route),
        cool_down_(options.cool_down_ms, clock) {
    if (options.or_above_quantile > 0 && options.memory > 0) {
      cells_.emplace(options.or_above_quantile, options.memory, WarmUp(options), !route_.matches_all());
    }
  }

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("LatencyTriggerOptions");
    const double quantile = options_.or_above_quantile;
    check.RequireName(route_, "route");
    check.RequireThreshold(options_.above_ms, "above_ms");
    check.RequireQuantile(quantile, "or_above_quantile");
    check.Require(options_.above_ms > 0 || quantile > 0, "above_ms", "or or_above_quantile must be set");
    check.Require(options_.memory >= 64 && options_.memory <= 1000000000, "memory", "must be 64 to 1,000,000,000");
    check.Require(options_.warm_up_requests <= 1000000000, "warm_up_requests", "must be at most 1,000,000,000");
    check.Require(options_.n >= 1 && options_.n <= 64, "n", "must be 1 to 64");
    check.Require(options_.k >= 1 && options_.k <= options_.n, "k", "must be 1 to n");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    if (Status status = check.Take(); !status.ok()) return status;
    if (cells_ && !cells_->is_allocated()) {
      return Status(StatusCode::kResourceExhausted, "no memory for the latency trigger's histograms");
    }
    return Status();
  }

  void OnFinish(const RequestView& request, FiringSink& sink) noexcept override {
    if (!route_.Matches(request.route)) return;
    bool is_above = above_ns_ != 0 && request.latency_ns > above_ns_;
    Like like;
    if (cells_ && cells_->is_allocated()) {
      if (QuantileCells::Cell* cell = cells_->Find(request.route_index, request.size_bucket)) {
        like.threshold_ns = cells_->Threshold(cell, &like.count);
        like.is_of_its_size = request.size_bucket != 0 && cells_->IsOfOneSize(cell);
        is_above |= like.threshold_ns != 0 && request.latency_ns > like.threshold_ns;
        if (request.outcome == Outcome::kOk) cells_->Teach(cell, request.latency_ns);
      }
    }
    uint32_t above_of_last = 1;
    if (n_ > 1) above_of_last = Remember(request.route_index, is_above);
    if (__builtin_expect(!is_above, 1)) return;
    bool joins_only = false;
    if (above_of_last < options_.k || !cool_down_.Allows(request.route_index, sink, &joins_only, request.latency_ns))
      return;
    Say(request, like, above_of_last, joins_only, sink);
  }

  uint64_t LateAfterNs(const char* route) noexcept override { return route_.Matches(route) ? above_ns_ : 0; }

 private:
  // The requests compared with.
  struct Like {
    uint64_t threshold_ns = 0;
    uint32_t count = 0;
    bool is_of_its_size = false;
  };

  // Shifts the finish into the route's register; returns how many of the last n were above.
  uint32_t Remember(uint32_t route_index, bool is_above) noexcept {
    std::atomic<uint64_t>& last = last_[route_index % kMaxRoutes];
    uint64_t before = last.load(std::memory_order_relaxed), after;
    do {
      after = before << 1 | (is_above ? 1 : 0);
    } while (!last.compare_exchange_weak(before, after, std::memory_order_relaxed));
    return static_cast<uint32_t>(__builtin_popcountll(after << (64 - n_)));
  }

  [[gnu::noinline]] void Say(const RequestView& request, const Like& like, uint32_t above_of_last, bool joins_only,
                             FiringSink& sink) noexcept {
    Cause cause;
    cause.Add("latency %s", request.route);
    Detail detail;
    detail.Add("%.1f ms, above ", Milliseconds(request.latency_ns));
    if (above_ns_ != 0 && request.latency_ns > above_ns_) {
      detail.Add("%g ms", Milliseconds(above_ns_));
    } else {
      detail.Add("p%g = %.1f ms of ", options_.or_above_quantile * 100, Milliseconds(like.threshold_ns));
      detail.AddCount(like.count);
      detail.Add(like.is_of_its_size ? " requests of its size" : " requests of its route");
    }
    if (n_ > 1) detail.Add(", %u of the last %u requests were", above_of_last, n_);
    cool_down_.Fire(
        request.route_index,
        {request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only}, sink);
  }

  const LatencyTriggerOptions options_;  // its strings are the host's: route_ holds the copy
  const uint64_t above_ns_;
  const uint32_t n_;
  const NameFilter route_;
  std::optional<QuantileCells> cells_;
  std::atomic<uint64_t> last_[kMaxRoutes] = {};  // finished requests per route, the last in bit 0: 1 is above
  CoolDown cool_down_;
};

}  // namespace

std::unique_ptr<Trigger> MakeLatency(const LatencyTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) LatencyTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakeLatencyTrigger(const LatencyTriggerOptions& options) noexcept {
  return trigger::MakeLatency(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
