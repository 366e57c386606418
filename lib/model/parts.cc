// SPDX-License-Identifier: Apache-2.0
#include "model/parts.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <set>
#include <utility>

#include "base/columns.h"
#include "base/gpu_counters.h"

namespace pitot::model {
namespace {

constexpr std::string_view kAfterPart = ": ";
constexpr size_t kMostListed = 8;

// "a, b: dump 1.4; c: Kineto JSON", by the text of each part.
std::string ListBy(const std::vector<Part>& parts, const std::vector<std::string>& texts) {
  std::vector<std::pair<std::string_view, std::vector<std::string_view>>> groups;
  for (size_t i = 0; i < parts.size(); ++i) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const auto& one) { return one.first == texts[i]; });
    if (group == groups.end()) group = groups.insert(groups.end(), {texts[i], {}});
    group->second.push_back(parts[i].name);
  }
  std::string list;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i == kMostListed) return list + "; and " + std::to_string(groups.size() - i) + " more";
    const std::vector<std::string_view>& names = groups[i].second;
    list += i == 0 ? "" : "; ";
    for (size_t k = 0; k < std::min(names.size(), kMostListed); ++k) list.append(k == 0 ? "" : ", ").append(names[k]);
    if (names.size() > kMostListed) list += " and " + std::to_string(names.size() - kMostListed) + " more";
    list.append(kAfterPart).append(groups[i].first);
  }
  return list;
}

std::string ProcessText(const Part& part) {
  std::string text(part.process);
  if (part.pid != 0) text += (text.empty() ? "(pid " : " (pid ") + std::to_string(part.pid) + ")";
  if (text.empty()) text = "(unknown)";
  return part.host.empty() ? text : text + " on " + std::string(part.host);
}

}  // namespace

Parts::Parts(const Trace& trace) : trace_(trace) {
  for (const Attribute& attribute : trace.attributes) {
    std::string_view key = trace.strings[attribute.key];
    const std::string_view value = trace.strings[attribute.value];
    if (!key.starts_with(kJoinedKey)) continue;
    key.remove_prefix(kJoinedKey.size());
    size_t number = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), number);
    if (error != std::errc()) continue;
    key.remove_prefix(static_cast<size_t>(end - key.data()));
    if (key.empty() && number == parts_.size()) {
      by_name_.try_emplace(value, static_cast<uint32_t>(number));
      parts_.emplace_back().name = value;
    }
    if (number >= parts_.size()) continue;
    if (key == kPartFormat) parts_[number].format = value;
    if (key == kPartProcess) parts_[number].process = value;
    if (key == kPartHost) parts_[number].host = value;
    if (key == kPartPid) std::from_chars(value.data(), value.data() + value.size(), parts_[number].pid);
  }
}

std::vector<uint32_t> Parts::All() const {
  if (!is_joined()) return {kNone};
  std::vector<uint32_t> all(size());
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// The longest name of a part counts: a name may have a colon, too.
Parts::Name Parts::Split(std::string_view name) const {
  Name split = {kNone, name};
  if (!is_joined()) return split;
  for (size_t at = name.find(kAfterPart); at != std::string_view::npos; at = name.find(kAfterPart, at + 1)) {
    const auto found = by_name_.find(name.substr(0, at));
    if (found != by_name_.end()) split = {found->second, name.substr(at + kAfterPart.size())};
  }
  const auto whole = by_name_.find(name);
  return whole != by_name_.end() ? Name{whole->second, {}} : split;
}

std::string Parts::NameOf(uint32_t part, std::string_view own) const {
  if (part >= size()) return std::string(own);
  return std::string(parts_[part].name) + (own.empty() ? "" : std::string(kAfterPart)) + std::string(own);
}

std::vector<uint32_t> Parts::OfThreads() const {
  std::vector<uint32_t> parts;
  for (const ThreadRow& thread : trace_.threads) parts.push_back(Split(trace_.strings[thread.name]).part);
  return parts;
}

std::string_view Parts::AttributeOf(uint32_t part, std::string_view key) const {
  return part == 0 || part >= size() ? trace_.AttributeOf(key) : trace_.AttributeOf(NameOf(part, key));
}

std::string Parts::FormatsText() const {
  std::vector<std::string> texts;
  for (const Part& part : parts_) texts.emplace_back(part.format.empty() ? "(unknown)" : part.format);
  return ListBy(parts_, texts);
}

std::string Parts::ProcessesText() const {
  std::vector<std::string> texts;
  for (const Part& part : parts_) texts.push_back(ProcessText(part));
  return ListBy(parts_, texts);
}

std::vector<GpuStateCounter> GpuStateCounters(const Trace& trace) {
  const Parts parts(trace);
  std::vector<GpuStateCounter> all;
  std::set<std::pair<std::string_view, std::string_view>> known;  // by host
  for (uint32_t row = 0; row < trace.counters.size(); ++row) {
    const std::string_view name = trace.strings[trace.counters[row].name];
    const auto [part, own] = parts.Split(name);
    const auto split = base::SplitGpuCounter(own);
    if (!split) continue;
    const std::string_view host = parts.is_joined() ? parts[part == kNone ? 0 : part].host : std::string_view();
    if (!host.empty() && !known.insert({host, own}).second) continue;
    const std::string_view gpu = name.substr(0, name.size() - kAfterPart.size() - split->counter.size());
    all.push_back({row, part, split->index, gpu, split->counter});
  }
  return all;
}

}  // namespace pitot::model
