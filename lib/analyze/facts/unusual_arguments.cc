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

// How many times the usual; numbers usually 0 come first.
double Times(const UnusualArgument& argument) {
  return argument.usual > 0 ? argument.value / argument.usual : HUGE_VAL;
}

// The medians of the arguments of scopes, in order of their begins.
std::vector<double> UsualOf(const Trace& trace, const std::vector<uint32_t>& like) {
  const model::SiteRow& site = trace.sites[trace.events.site[like[0]]];
  std::vector<double> usual(site.arg_types.size(), NAN);
  for (uint32_t i = 0; i < usual.size() && like.size() >= kLeastLike; ++i) {
    if (!IsNumber(site.arg_types[i])) continue;
    std::vector<double> values;
    for (const uint32_t one : like)
      values.push_back(NumberOf(site.arg_types[i], trace.arg_values[trace.events.args[one] + i]));
    const bool only_grows = std::is_sorted(values.begin(), values.end());
    if (!only_grows && std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); }))
      usual[i] = base::Median(std::move(values));
  }
  return usual;
}

}  // namespace

// Scopes of the same site and name; beyond kMostLike every second, fourth and so on.
struct UsualArguments::Like {
  void Add(uint32_t event) {
    if (found++ % every != 0) return;
    events.push_back(event);
    if (events.size() <= kMostLike) return;
    for (size_t i = 0; 2 * i < events.size(); ++i) events[i] = events[2 * i];
    events.resize((events.size() + 1) / 2);
    every *= 2;
  }
  std::vector<uint32_t> events;
  size_t found = 0, every = 1;
};

UsualArguments::UsualArguments(const Trace& trace, Patience* patience) : trace_(trace) {
  std::vector<bool> has_numbers;
  for (const model::SiteRow& site : trace.sites) has_numbers.push_back(HasNumbers(site));
  if (std::find(has_numbers.begin(), has_numbers.end(), true) == has_numbers.end()) return;
  of_threads_.resize(trace.threads.size());
  std::map<std::pair<uint32_t, model::StringId>, Like> like;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    patience->Count();
    const uint32_t site = trace.events.site[event];
    if (trace.events.args[event] == kNone || !has_numbers[site]) continue;
    Add(event);
    like[{site, EventNameId(trace, event)}].Add(event);
  }
  for (auto& [key, of] : like) {
    patience->Count(of.events.size());
    std::stable_sort(of.events.begin(), of.events.end(),
                     [&](uint32_t a, uint32_t b) { return trace.events.begin_ns[a] < trace.events.begin_ns[b]; });
    usual_[key] = UsualOf(trace, of.events);
  }
}

// Adds a scope with numbers to its thread's.
void UsualArguments::Add(uint32_t event) {
  std::vector<Scope>& scopes = of_threads_[trace_.events.thread[event]];
  uint32_t around = static_cast<uint32_t>(scopes.size()) - 1;
  while (around != kNone && trace_.EventEnd(scopes[around].event) < trace_.EventEnd(event))
    around = scopes[around].around;
  scopes.push_back({event, around});
}

std::vector<UnusualArgument> UsualArguments::FindIn(uint32_t event) const {
  std::vector<UnusualArgument> found;
  if (trace_.events.args[event] == kNone) return found;
  const uint32_t row = trace_.events.site[event];
  const model::SiteRow& site = trace_.sites[row];
  const auto at = usual_.find({row, EventNameId(trace_, event)});
  if (at == usual_.end()) return found;
  for (uint32_t i = 0; i < at->second.size() && i < site.arg_names.size(); ++i) {
    const double usual = at->second[i];
    const double number = NumberOf(site.arg_types[i], trace_.arg_values[trace_.events.args[event] + i]);
    if (usual >= 0 && number > kMuchMore * usual) found.push_back({site.arg_names[i], number, usual});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const UnusualArgument& a, const UnusualArgument& b) { return Times(a) > Times(b); });
  if (found.size() > kMostTold) found.resize(kMostTold);
  return found;
}

// An event and the scopes around it with numbers, the nearest first: they begin before it, and are before it in the
// table.
std::vector<uint32_t> UsualArguments::AndAround(uint32_t event) const {
  std::vector<uint32_t> events = {event};
  const std::vector<Scope>& scopes = of_threads_[trace_.events.thread[event]];
  const auto after =
      std::partition_point(scopes.begin(), scopes.end(), [&](const Scope& it) { return it.event < event; });
  const int64_t end_ns = trace_.EventEnd(event);
  for (uint32_t at = static_cast<uint32_t>(after - scopes.begin()) - 1; at != kNone; at = scopes[at].around) {
    if (trace_.EventEnd(scopes[at].event) >= end_ns) events.push_back(scopes[at].event);
  }
  return events;
}

UnusualArguments UsualArguments::Find(uint32_t event) const {
  if (event == kNone || of_threads_.empty()) return {};
  for (const uint32_t scope : AndAround(event)) {
    std::vector<UnusualArgument> found = FindIn(scope);
    if (!found.empty()) return {scope, std::move(found)};
  }
  return {};
}

std::string UsualArguments::Text(uint32_t event) const {
  const UnusualArguments unusual = Find(event);
  if (unusual.all.empty()) return "";
  std::string text = unusual.scope == event ? "" : " of \"" + base::Cut(trace_.EventName(unusual.scope), 32) + "\"";
  for (const UnusualArgument& one : unusual.all) {
    text += (&one == &unusual.all[0] ? " (" : "; ") + base::Cut(trace_.strings[one.name], 32) +
            base::Format(" %.6g, usually %.6g", one.value, one.usual);
  }
  return text + ")";
}

}  // namespace pitot::facts
