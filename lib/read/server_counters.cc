// SPDX-License-Identifier: Apache-2.0
#include "read/server_counters.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "read/texts.h"

namespace pitot::read {
namespace {

constexpr size_t kMostCounters = 256, kMostEngines = 64, kMostNameBytes = 64;

}  // namespace

bool ServerCounters::Take(std::string_view engine, std::string_view fields, int64_t at_ns) {
  if (engine.size() > kMostNameBytes) return false;
  auto found = engines_.find(std::string(engine));
  if (found == engines_.end()) {
    if (engines_.size() >= kMostEngines) return false;
    found = engines_.try_emplace(std::string(engine), static_cast<int64_t>(engines_.size())).first;
    builder_.NameProcess(found->second, engine);
  }
  bool is_any = false;
  while (!fields.empty()) {
    const size_t size = std::min(fields.find(", "), fields.size());
    is_any |= TakeField(found->second, fields.substr(0, size), at_ns);
    fields.remove_prefix(std::min(size + 2, fields.size()));
  }
  return is_any;
}

// "#running-req: 3", "GPU KV cache usage: 1.5%", "gen throughput (token/s): 12.5".
bool ServerCounters::TakeField(int64_t engine, std::string_view field, int64_t at_ns) {
  const size_t colon = field.find(": ");
  if (colon == std::string_view::npos) return false;
  std::string_view name = field.substr(0, colon), value = field.substr(colon + 2), unit;
  if (name.starts_with('#')) name.remove_prefix(1);
  if (const size_t bracket = name.find(" ("); bracket != std::string_view::npos && name.ends_with(')')) {
    unit = name.substr(bracket + 2, name.size() - bracket - 3);
    name = name.substr(0, bracket);
  }
  double number;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || name.empty() || name.size() > kMostNameBytes) return false;
  value.remove_prefix(static_cast<size_t>(end - value.data()));
  if (value.ends_with('.')) value.remove_suffix(1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (unit.empty()) unit = value;
  if (unit.size() > kMostNameBytes || unit.find(' ') != std::string_view::npos) return false;
  std::pair<int64_t, std::string> key(engine, name);
  auto found = counters_.find(key);
  if (found == counters_.end()) {
    if (counters_.size() >= kMostCounters) return false;
    found = counters_.try_emplace(std::move(key), builder_.NewCounter()).first;
    builder_.NameCounter(found->second, engine, name);
    trace_.counters[found->second].unit = Intern(unit, &trace_);
  }
  return builder_.AddSample(found->second, at_ns, number);
}

}  // namespace pitot::read
