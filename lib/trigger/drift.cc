// SPDX-License-Identifier: Apache-2.0
#include "pitot/trigger/drift.h"

#include <math.h>

#include <new>

#include "trigger/firing_rules.h"
#include "trigger/make.h"
#include "trigger/quantile_cells.h"

namespace pitot::trigger {
namespace {

constexpr uint32_t kWarmUp = 4;     // times the recent requests
constexpr double kTypical = 1.125;  // a request is typical up to this factor from the median
constexpr uint32_t kSlowly = 8;     // one of so many requests
constexpr uint32_t kMostRecent = 1000000, kMostReference = 1000000000;

class DriftTrigger final : public Trigger {
 public:
  DriftTrigger(const DriftTriggerOptions& options, base::ClockFunction clock) noexcept
      : options_(options),
        factor_(1 + options.above_percent / 100),
        route_(options.route),
        recent_(0.5, AtLeastOne(options.recent_requests), options.recent_requests, !route_.matches_all()),
        reference_(0.5, AtLeastOne(options.reference_requests), WarmUp(options.recent_requests), !route_.matches_all()),
        cool_down_(options.cool_down_ms, clock) {}

  const char* Route() const noexcept override { return route_.name(); }
  Status Check() const noexcept override {
    OptionsCheck check("DriftTriggerOptions");
    check.RequireName(route_, "route");
    check.Require(isfinite(options_.above_percent) && options_.above_percent >= 5 && options_.above_percent <= 1000,
                  "above_percent", "must be 5 to 1000");
    check.Require(options_.recent_requests >= 100 && options_.recent_requests <= kMostRecent, "recent_requests",
                  "must be 100 to 1,000,000");
    check.Require(
        options_.reference_requests / 10 >= options_.recent_requests && options_.reference_requests <= kMostReference,
        "reference_requests", "must be ten times recent_requests to 1,000,000,000");
    check.RequireWindows(options_.pre_window_ms, options_.post_window_ms);
    if (Status status = check.Take(); !status.ok()) return status;
    if (!IsAllocated()) return Status(StatusCode::kResourceExhausted, "no memory for the drift trigger's histograms");
    return Status();
  }

  void OnFinish(const RequestView& request, FiringSink& sink) noexcept override {
    if (!Counts(request) || !IsAllocated()) return;
    QuantileCells::Cell* recent = recent_.Find(request.route_index, request.size_bucket);
    QuantileCells::Cell* reference = reference_.Find(request.route_index, request.size_bucket);
    if (recent == nullptr || reference == nullptr) return;
    recent_.Teach(recent, request.latency_ns);
    uint32_t count = 0, reference_count = 0;
    const uint64_t now_ns = recent_.Threshold(recent, &count);
    const uint64_t before_ns = reference_.Threshold(reference, &reference_count);
    const double ratio = Ratio(now_ns, before_ns);
    std::atomic<bool>& has_fired =
        has_fired_[request.route_index % kMaxRoutes * kMaxSizeBuckets + request.size_bucket % kMaxSizeBuckets];
    // A possible drift enters the reference slowly until it has fired; otherwise it would hide itself.
    const bool is_suspect = ratio >= (1 + factor_) / 2;
    if (!is_suspect || has_fired.load(std::memory_order_relaxed) || IsOneOfFew(recent))
      reference_.Teach(reference, request.latency_ns);
    if (__builtin_expect(!is_suspect, 1)) {
      // Latency is as before, or the reference has followed it: the next change is another.
      if (has_fired.load(std::memory_order_relaxed)) has_fired.store(false);
      return;
    }
    if (ratio < factor_) return;
    if (has_fired.load(std::memory_order_relaxed) || !IsTypical(request.latency_ns, now_ns)) return;
    bool joins_only = false;
    if (has_fired.exchange(true) || !cool_down_.Allows(request.route_index, sink, &joins_only)) return;
    Say(request, now_ns, before_ns, count, reference_count, joins_only, sink);
  }

 private:
  bool IsAllocated() const noexcept { return recent_.is_allocated() && reference_.is_allocated(); }
  // Failed requests show no latency.
  bool Counts(const RequestView& request) const noexcept {
    return request.outcome == Outcome::kOk && route_.Matches(request.route);
  }
  // 0 if nothing is known of before.
  static double Ratio(uint64_t now_ns, uint64_t before_ns) noexcept {
    return before_ns != 0 ? static_cast<double>(now_ns) / static_cast<double>(before_ns) : 0;
  }
  static bool IsTypical(uint64_t latency_ns, uint64_t median_ns) noexcept {
    const double to_median = static_cast<double>(latency_ns) / static_cast<double>(median_ns);
    return to_median <= kTypical && to_median >= 1 / kTypical;
  }
  // Whether the finish counted last is one in kSlowly.
  static bool IsOneOfFew(QuantileCells::Cell* cell) noexcept {
    return std::atomic_ref(cell->finishes).load(std::memory_order_relaxed) % kSlowly == 0;
  }
  static uint32_t AtLeastOne(uint32_t requests) noexcept { return requests != 0 ? requests : 1; }
  static uint32_t WarmUp(uint32_t recent) noexcept { return recent <= kMostRecent ? kWarmUp * recent : 1; }

  [[gnu::noinline]] void Say(const RequestView& request, uint64_t now_ns, uint64_t before_ns, uint32_t count,
                             uint32_t reference_count, bool joins_only, FiringSink& sink) noexcept {
    Cause cause;
    cause.Add("drift %s", request.route);
    Detail detail;
    detail.Add("median %.1f ms of the last ", Milliseconds(now_ns));
    detail.AddCount(count);
    detail.Add(" requests, %+.0f %% to %.1f ms of ",
               100 * (static_cast<double>(now_ns) / static_cast<double>(before_ns) - 1), Milliseconds(before_ns));
    detail.AddCount(reference_count);
    sink.Fire({request.id, cause.text(), detail.text(), options_.pre_window_ms, options_.post_window_ms, joins_only});
  }

  const DriftTriggerOptions options_;  // its string is the host's: route_ holds the copy
  const double factor_;
  const NameFilter route_;
  QuantileCells recent_, reference_;
  std::atomic<bool> has_fired_[kMaxRoutes * kMaxSizeBuckets] = {};
  CoolDown cool_down_;
};

}  // namespace

std::unique_ptr<Trigger> MakeDrift(const DriftTriggerOptions& options, base::ClockFunction clock) noexcept {
  return std::unique_ptr<Trigger>(new (std::nothrow) DriftTrigger(options, clock));
}

}  // namespace pitot::trigger

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Trigger> MakeDriftTrigger(const DriftTriggerOptions& options) noexcept {
  return trigger::MakeDrift(options, base::MonotonicNs);
}

PITOT_NAMESPACE_END
