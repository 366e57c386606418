// SPDX-License-Identifier: Apache-2.0
#include "session/overhead.h"

#include <cstdio>
#include <set>
#include <string>
#include <string_view>

#include "base/columns.h"
#include "base/depth_name.h"
#include "session/depth_history.h"

namespace pitot::session {
namespace {

// For this many fired requests an incident says how deep each was recorded.
constexpr size_t kMostRequests = 16;

// "0.4 % [0.1, 0.8]".
std::string Text(const governor::Estimate& estimate) {
  if (!estimate.is_known) return "unknown";
  char text[96];
  std::snprintf(text, sizeof text, "%.1f %% [%.1f, %.1f]", estimate.percent, estimate.low_percent,
                estimate.high_percent);
  return text;
}

// The collectors' attributes about lasting costs.
std::string LastingCosts(const model::Trace& trace) {
  std::string keys;
  for (const model::Attribute& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key.ends_with(".lasting_cost")) keys += (keys.empty() ? "" : ", ") + std::string(key);
  }
  return keys;
}

}  // namespace

void AddOverhead(const Incident& incident, Depth fixed, double budget_percent, model::Trace* trace) {
  if (incident.overhead == nullptr) return;
  const governor::Report& report = *incident.overhead;
  const auto add = [trace](const std::string& key, const std::string& value) {
    trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
  };
  const auto add_depth = [&](const std::string& key, int64_t begin_ns, int64_t end_ns) {
    if (const std::string text = DepthText(incident.depths, begin_ns, end_ns); !text.empty()) add(key, text);
  };
  add_depth("depth.of_window", trace->window_begin_ns, trace->window_end_ns);
  std::set<uint64_t> fired;
  for (const model::FiringRow& firing : trace->firings) {
    if (firing.request_id != 0 && fired.size() < kMostRequests) fired.insert(firing.request_id);
  }
  for (const model::RequestRow& request : trace->requests) {
    if (fired.count(request.id) != 0)
      add_depth("depth.of_request." + base::RequestId(request.id), request.begin_ns, trace->RequestEnd(request));
  }
  add("depth", std::string(base::DepthName(report.depth)) + (fixed != Depth::kAuto ? ", fixed by the host" : ""));
  if (fixed != Depth::kAuto)
    return add("overhead.mean",
               "not measured: the depth is fixed, and only Depth::kAuto has another depth to compare it with");
  char budget[64];
  std::snprintf(budget, sizeof budget, "%g %%", budget_percent);
  add("overhead.budget", budget);
  add("overhead.state", report.state);
  add("overhead.mean", report.cost.is_known ? Text(report.cost) : "unknown: no depth was measured for long enough");
  // Lasting costs are there at every depth, so comparing depths does not show them.
  if (const std::string lasting = LastingCosts(*trace); !lasting.empty())
    add("overhead.left_out", "a cost at every depth, in none of these figures: " + lasting);
  for (size_t i = 1; i < governor::kDepths; ++i) {
    const governor::DepthReport& depth = report.depths[i];
    if (!depth.is_available) continue;
    char rest[160];
    std::snprintf(rest, sizeof rest, ", on the p99 %s, from %.0f rounds with %.0f works; %.1f %% of the time",
                  Text(depth.p99).c_str(), depth.rounds, depth.works, depth.time_percent);
    add(std::string("overhead.") + base::DepthName(static_cast<Depth>(i)), "on the mean " + Text(depth.mean) + rest);
  }
  if (report.notes_lost != 0) add("overhead.works_lost", std::to_string(report.notes_lost));
}

}  // namespace pitot::session
