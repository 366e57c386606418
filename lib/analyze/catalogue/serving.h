// SPDX-License-Identifier: Apache-2.0
//
// Shared parts of the analyzers of servers: whole requests, and a finding for unrecorded facts.
#ifndef PITOT_LIB_ANALYZE_CATALOGUE_SERVING_H_
#define PITOT_LIB_ANALYZE_CATALOGUE_SERVING_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "analyze/catalogue/namespace.h"
#include "analyze/facts/subjects.h"
#include "model/request_text.h"
#include "pitot/analyze/walks.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::catalogue {

inline std::string RouteName(const model::Trace& trace, model::StringId route) {
  return route == 0 ? "(no route)" : std::string(trace.strings[route]);
}

// Walked requests by route, for routes with enough of them.
inline std::map<std::string, std::vector<const RequestBlame*>> WalksByRoute(const model::Trace& trace,
                                                                            const Walks& walks, double least) {
  std::map<std::string, std::vector<const RequestBlame*>> routes;
  for (const RequestBlame& blame : walks.blames)
    routes[RouteName(trace, trace.requests[blame.request].route)].push_back(&blame);
  for (auto route = routes.begin(); route != routes.end();)
    route = static_cast<double>(route->second.size()) < least ? routes.erase(route) : std::next(route);
  return routes;
}

// The GPU time of requests. O(n log n) to make. The trace must outlive this.
class KnownGpuTime {
 public:
  explicit KnownGpuTime(const model::Trace& trace) : time(trace), requests_(trace), coverage_(trace) {}

  // Returns those whose GPU time is known. A GPU time of 0 is known only if all of the request's time was recorded.
  std::vector<uint32_t> Of(const std::vector<uint32_t>& requests) const {
    std::vector<uint32_t> known;
    for (const uint32_t request : requests) {
      if (time.Request(request) != 0 || coverage_.Of(requests_, request).IsWhole()) known.push_back(request);
    }
    return known;
  }

  const model::GpuTime time;

 private:
  const model::RequestIndex requests_;
  const model::CoverageIndex coverage_;
};

// The evidence of a request.
inline Evidence RequestEvidence(const model::Trace& trace, uint32_t request, const char* note) {
  const model::RequestRow& row = trace.requests[request];
  return {EvidenceTable::kWindow, 0, 0, row.begin_ns, trace.RequestEnd(row), note};
}

inline constexpr size_t kMostNamed = 3;

// "request 00000000000000ab, cmpl-17": the first few, as `pitot why --request` takes them.
inline std::string RequestNames(const model::Trace& trace, const std::vector<uint32_t>& requests) {
  std::string names;
  for (size_t i = 0; i < std::min(kMostNamed, requests.size()); ++i)
    names += (i == 0 ? "request " : ", ") + model::RequestName(trace, requests[i]);
  return names;
}

// Adds a finding that the trace lacks the facts for the question, instead of a guess.
inline void AddNotKnown(Analysis& analysis, const char* code, const char* summary, const char* recommendation) {
  Finding finding = facts::Judged(code, facts::kAll, "recorded", 0, Threshold{"recorded", 1, "1", "pitot"});
  finding.is_undetermined = true;
  finding.summary = summary;
  finding.recommendation = recommendation;
  analysis.Add(finding);
}

}  // namespace pitot::catalogue

#endif  // PITOT_LIB_ANALYZE_CATALOGUE_SERVING_H_
