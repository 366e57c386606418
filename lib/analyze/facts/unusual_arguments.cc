// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/unusual_arguments.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "analyze/facts/arguments.h"
#include "base/columns.h"
#include "base/quantile.h"

namespace pitot::facts {

using model::kNone;
using model::Trace;

namespace {

constexpr size_t kLeastLike = 8, kMostLike = 4096, kMostTold = 2;
constexpr double kMuchMore = 2;  // times the usual

bool IsNumber(ArgType type) { return type == ArgType::kInt || type == ArgType::kUint || type == ArgType::kDouble; }

bool HasNumbers(const model::SiteRow& site) {
  return site.kind == SiteKind::kScope && std::any_of(site.arg_types.begin(), site.arg_types.end(), IsNumber);
}

// Scopes of the same site and name that have arguments, by begin; beyond kMostLike every second, fourth and so on.
// To sort a million of them for each line of a tree would take seconds.
std::vector<uint32_t> LikeOf(const Trace& trace, uint32_t event) {
  std::vector<uint32_t> like;
  size_t found = 0, every = 1;
  for (uint32_t one = 0; one < trace.events.size(); ++one) {
    if (trace.events.site[one] != trace.events.site[event] || trace.events.args[one] == kNone ||
        EventNameId(trace, one) != EventNameId(trace, event) || found++ % every != 0)
      continue;
    like.push_back(one);
    if (like.size() <= kMostLike) continue;
    for (size_t i = 0; 2 * i < like.size(); ++i) like[i] = like[2 * i];
    like.resize((like.size() + 1) / 2);
    every *= 2;
  }
  std::stable_sort(like.begin(), like.end(),
                   [&](uint32_t a, uint32_t b) { return trace.events.begin_ns[a] < trace.events.begin_ns[b]; });
  return like;
}

// How many times the usual; numbers usually 0 come first.
double Times(const UnusualArgument& argument) {
  return argument.usual > 0 ? argument.value / argument.usual : HUGE_VAL;
}

std::vector<UnusualArgument> FindIn(const Trace& trace, uint32_t event) {
  std::vector<UnusualArgument> found;
  if (trace.events.args[event] == kNone) return found;
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  if (!HasNumbers(site)) return found;
  const std::vector<uint32_t> like = LikeOf(trace, event);
  if (like.size() < kLeastLike) return found;
  for (uint32_t i = 0; i < site.arg_types.size() && i < site.arg_names.size(); ++i) {
    if (!IsNumber(site.arg_types[i])) continue;
    const auto number = [&](uint32_t one) {
      return NumberOf(site.arg_types[i], trace.arg_values[trace.events.args[one] + i]);
    };
    std::vector<double> values;
    for (const uint32_t one : like) values.push_back(number(one));
    const bool only_grows = std::is_sorted(values.begin(), values.end());
    if (only_grows || !std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
      continue;
    const double usual = base::Median(std::move(values));
    if (usual >= 0 && number(event) > kMuchMore * usual) found.push_back({site.arg_names[i], number(event), usual});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const UnusualArgument& a, const UnusualArgument& b) { return Times(a) > Times(b); });
  if (found.size() > kMostTold) found.resize(kMostTold);
  return found;
}

// An event and the scopes around it with numbers, the nearest first: they begin before it, and are before it in the
// table.
std::vector<uint32_t> AndAround(const Trace& trace, uint32_t event) {
  const int64_t end_ns = trace.EventEnd(event);
  std::vector<uint32_t> scopes = {event};
  for (uint32_t one = event; one-- > trace.threads[trace.events.thread[event]].first_event;) {
    if (trace.events.args[one] != kNone && trace.EventEnd(one) >= end_ns &&
        HasNumbers(trace.sites[trace.events.site[one]]))
      scopes.push_back(one);
  }
  return scopes;
}

}  // namespace

UnusualArguments FindUnusualArguments(const Trace& trace, uint32_t event) {
  if (event == kNone || std::none_of(trace.sites.begin(), trace.sites.end(), HasNumbers)) return {};
  for (const uint32_t scope : AndAround(trace, event)) {
    std::vector<UnusualArgument> found = FindIn(trace, scope);
    if (!found.empty()) return {scope, std::move(found)};
  }
  return {};
}

std::string UnusualText(const Trace& trace, uint32_t event) {
  const UnusualArguments unusual = FindUnusualArguments(trace, event);
  if (unusual.all.empty()) return "";
  std::string text = unusual.scope == event ? "" : " of \"" + base::Cut(trace.EventName(unusual.scope), 32) + "\"";
  for (const UnusualArgument& one : unusual.all) {
    text += (&one == &unusual.all[0] ? " (" : "; ") + base::Cut(trace.strings[one.name], 32) +
            base::Format(" %.6g, usually %.6g", one.value, one.usual);
  }
  return text + ")";
}

}  // namespace pitot::facts
