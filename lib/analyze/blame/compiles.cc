// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/compiles.h"

#include <algorithm>

namespace pitot::blame {

using model::kNone;

namespace {

constexpr std::string_view kPrefix = "compile: ";

}  // namespace

Compiles::Compiles(const model::Trace& trace) : trace_(trace) {
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (Function(event).empty()) continue;
    of_threads_.resize(trace.threads.size());
    std::vector<Scope>& scopes = of_threads_[trace.events.thread[event]];
    scopes.push_back({trace.events.begin_ns[event], trace.EventEnd(event), event, 0});
  }
  for (std::vector<Scope>& scopes : of_threads_) {
    std::stable_sort(scopes.begin(), scopes.end(),
                     [](const Scope& a, const Scope& b) { return a.begin_ns < b.begin_ns; });
    int64_t latest_ns = INT64_MIN;
    for (Scope& scope : scopes) scope.latest_end_ns = latest_ns = std::max(latest_ns, scope.end_ns);
  }
}

std::string_view Compiles::Function(uint32_t event) const {
  if (trace_.sites[trace_.events.site[event]].kind != SiteKind::kScope) return {};
  const std::string_view name = trace_.EventName(event);
  return name.substr(0, kPrefix.size()) == kPrefix ? name.substr(kPrefix.size()) : std::string_view();
}

Piece Compiles::Before(uint32_t thread, int64_t at_ns) const {
  Piece piece;
  if (thread >= of_threads_.size()) return piece;
  const std::vector<Scope>& scopes = of_threads_[thread];
  auto after =
      std::partition_point(scopes.begin(), scopes.end(), [&](const Scope& scope) { return scope.begin_ns < at_ns; });
  int64_t inner_end_ns = INT64_MIN;  // of those within it, before `at_ns`
  for (; after != scopes.begin() && (after - 1)->latest_end_ns >= at_ns; --after) {
    const Scope& scope = *(after - 1);
    if (scope.end_ns >= at_ns) return {std::max(scope.begin_ns, inner_end_ns), scope.end_ns, scope.event, kNone};
    inner_end_ns = std::max(inner_end_ns, scope.end_ns);
  }
  return piece;
}

}  // namespace pitot::blame
