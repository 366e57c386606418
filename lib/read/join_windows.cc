// SPDX-License-Identifier: Apache-2.0
#include "read/join_windows.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "base/message.h"
#include "model/one_start.h"
#include "model/recorded.h"
#include "read/sort_rows.h"

namespace pitot::read {
namespace {

using model::DepthRow;
using model::Trace;

bool HasWork(const Trace& trace) { return !trace.requests.empty() || !trace.batches.empty(); }

// `told` one after another, without gaps in the time of the trace. `otherwise`: the depth if nothing is told.
std::vector<DepthRow> WithoutGaps(const Trace& trace, const std::vector<DepthRow>& told, Depth otherwise) {
  int64_t told_ns = trace.window_begin_ns;
  if (!trace.requests.empty()) told_ns = std::min(told_ns, trace.requests.front().begin_ns);
  std::vector<DepthRow> rows;
  const auto add = [&](int64_t begin_ns, int64_t end_ns, Depth depth) {
    if (begin_ns < end_ns && (depth != Depth::kScopes || HasWork(trace))) rows.push_back({begin_ns, end_ns, depth});
  };
  if (told.empty()) add(told_ns, trace.window_end_ns, otherwise);
  for (const DepthRow& row : told) {
    add(told_ns, row.begin_ns, Depth::kScopes);
    add(row.begin_ns, row.end_ns, row.depth);
    told_ns = std::max(told_ns, row.end_ns);
  }
  if (!told.empty()) add(told_ns, trace.window_end_ns, Depth::kScopes);
  return rows;
}

// At each moment the least and the most of all parts.
std::vector<DepthRow> LeastAndMost(const std::vector<std::vector<DepthRow>>& parts) {
  std::map<int64_t, std::map<Depth, int64_t>> changes;  // by moment: of the number of rows
  for (const std::vector<DepthRow>& part : parts) {
    for (const DepthRow& row : part) ++changes[row.begin_ns][row.depth], --changes[row.end_ns][row.depth];
  }
  std::vector<DepthRow> joined;
  std::map<Depth, int64_t> counts;  // without zeros
  int64_t since_ns = 0;
  for (const auto& [at_ns, by] : changes) {
    if (!counts.empty()) joined.push_back({since_ns, at_ns, counts.begin()->first});
    if (counts.size() > 1) joined.push_back({since_ns, at_ns, counts.rbegin()->first});
    for (const auto& [depth, more] : by) {
      if ((counts[depth] += more) == 0) counts.erase(depth);
    }
    since_ns = at_ns;
  }
  return joined;
}

}  // namespace

void EndOpenRows(Trace* trace) {
  const auto end = [&](int64_t begin_ns, int64_t* duration_ns) {
    if (*duration_ns == model::kOpen) *duration_ns = std::max<int64_t>(0, trace->window_end_ns - begin_ns);
  };
  for (auto& row : trace->requests) {
    end(row.begin_ns, &row.duration_ns);
    for (auto& stage : row.stages) end(stage.begin_ns, &stage.duration_ns);
  }
  for (auto& row : trace->batches) end(row.begin_ns, &row.duration_ns);
  for (auto& row : trace->asyncs) end(row.begin_ns, &row.duration_ns);
  for (uint32_t row = 0; row < trace->calls.size(); ++row)
    end(trace->calls.begin_ns[row], &trace->calls.duration_ns[row]);
  for (uint32_t row = 0; row < trace->events.size(); ++row)
    end(trace->events.begin_ns[row], &trace->events.duration_ns[row]);
  SortRows(trace);  // open events may be before or after others with their begin
}

std::vector<DepthRow> JoinDepths(const std::vector<TracePart>& parts) {
  bool is_told = false;
  std::set<Depth> distinct;
  std::vector<std::vector<DepthRow>> rows;
  for (const TracePart& part : parts) {
    is_told |= !part.trace.depths.empty();
    const Depth otherwise = model::HasGpuWork(part.trace) ? model::DepthOf(part.trace, 0, 0) : Depth::kScopes;
    rows.push_back(WithoutGaps(part.trace, part.trace.depths, otherwise));
    for (const DepthRow& row : rows.back()) distinct.insert(row.depth);
  }
  if (!is_told && distinct.size() <= 1) return {};
  return LeastAndMost(rows);
}

std::vector<DepthRow> JoinOperatorDepths(const std::vector<TracePart>& parts) {
  bool is_told = false;
  std::vector<std::vector<DepthRow>> rows;
  for (const TracePart& part : parts) {
    is_told |= !part.trace.operator_depths.empty();
    rows.push_back(WithoutGaps(part.trace, part.trace.operator_depths, Depth::kScopes));
  }
  return is_told ? LeastAndMost(rows) : std::vector<DepthRow>();
}

std::vector<std::string> PartsApart(const std::vector<TracePart>& parts) {
  std::vector<std::string> names;
  for (const TracePart& part : parts) {
    const bool is_apart = std::none_of(parts.begin(), parts.end(), [&](const TracePart& other) {
      return &other != &part && model::DoOverlap(other.trace, part.trace);
    });
    if (is_apart && parts.size() > 1) names.push_back(part.name);
  }
  return names;
}

Status CheckProcesses(const std::vector<TracePart>& parts) {
  for (size_t i = 0; i < parts.size(); ++i) {
    for (size_t k = i + 1; k < parts.size(); ++k) {
      const Trace &a = parts[i].trace, &b = parts[k].trace;
      if (model::DoOverlap(a, b) && model::MayBeOfOneProcess(a, b))
        return base::Error(StatusCode::kInvalidArgument, "%s and %s are of one process, and their windows overlap",
                           parts[i].name.c_str(), parts[k].name.c_str());
    }
  }
  return {};
}

}  // namespace pitot::read
