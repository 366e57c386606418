// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/by_size.h"

#include <cstdint>

#include "analyze/blame/token_gap.h"
#include "base/columns.h"

namespace pitot::verdict {

using blame::SizedLengths;
using model::kNone;

namespace {

constexpr uint32_t kLeastOfSize = 8;  // others, needed for a usual median

// Those of its route. Null: it has no size, or is about a token whose size is not the request's.
const SizedLengths* RouteOf(const blame::Index& index, const RequestBlame& blame) {
  if (blame.token == kNone) return index.route_sizes.OfRequest(blame.request);
  return blame::IsFirstToken(index.trace, blame.token) ? index.route_sizes.OfFirstToken(blame.request) : nullptr;
}

// Those of its size.
SizedLengths::Like LikeOf(const blame::Index& index, const RequestBlame& blame) {
  const SizedLengths* const route = RouteOf(index, blame);
  return route == nullptr ? SizedLengths::Like{} : route->OfBucket(index.trace.requests[blame.request].size_bucket);
}

}  // namespace

bool IsSizeKnown(const blame::Index& index, const RequestBlame& blame) {
  return LikeOf(index, blame).count > kLeastOfSize;  // with itself
}

bool MayBeSize(const blame::Index& index, const RequestBlame& blame, double percentile) {
  return !IsSizeKnown(index, blame) || RouteOf(index, blame)->Percentile(LikeOf(index, blame).median_ns) > percentile;
}

void ExplainBySize(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                   Verdict* verdict) {
  const SizedLengths* const route = blame.token == kNone ? RouteOf(index, blame) : nullptr;
  if (verdict->level != Baseline::Level::kCell || verdict->kind == VerdictKind::kMoreWork || !blame.is_reliable ||
      route == nullptr || route->count() < options.least)
    return;
  SizeOfRoute of_route;
  const model::Size& size = index.trace.requests[blame.request].sizes[0];
  of_route.requests = route->count();
  of_route.name = size.name;
  of_route.size = size.value;
  of_route.usual = route->median_size();
  of_route.usual_ns = route->median_ns();
  of_route.percentile = route->Percentile(verdict->latency_ns);
  of_route.more_ns = verdict->typical_ns - of_route.usual_ns;
  const auto excess_ns = static_cast<double>(verdict->latency_ns - of_route.usual_ns);
  const auto more_ns = static_cast<double>(of_route.more_ns);
  const bool is_unusual = of_route.percentile > options.route_percentile;
  // It is no reason if its like take about as long as others.
  const bool is_reason = of_route.size >= kLeastMore * of_route.usual && of_route.more_ns >= options.least_excess_ns &&
                         more_ns >= options.least_share * excess_ns &&
                         route->Percentile(verdict->typical_ns) > options.normal_percentile;
  if (!is_unusual || !is_reason) return;
  const bool is_size_most =
      verdict->causes.empty() && verdict->common_ns == 0 && more_ns >= options.more_work_share * excess_ns;
  // Not unusual: nothing is to be explained.
  if (!is_size_most && verdict->kind == VerdictKind::kNotUnusual) return;
  verdict->of_route = of_route;
  if (!is_size_most) return;
  verdict->kind = VerdictKind::kMoreWork;
  verdict->why_not.clear();
  verdict->more_of = "size";
  verdict->advice = AdviceFor(verdict->kind);
  verdict->more_factor = of_route.size / of_route.usual;
}

std::string SizeOfRouteText(const model::Trace& trace, const SizeOfRoute& of_route) {
  const std::string name(trace.strings[of_route.name]);
  return (name.empty() ? "size" : name) + " " + base::Amount(of_route.size) + "; requests of this route usually have " +
         base::Amount(of_route.usual) + " and take " + base::Duration(of_route.usual_ns);
}

}  // namespace pitot::verdict
