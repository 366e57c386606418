// SPDX-License-Identifier: Apache-2.0
#include "model/lacking.h"

#include <algorithm>

namespace pitot::model {
namespace {

constexpr std::string_view kBetweenLacks = "; ", kBeforeReason = " (";

std::string_view Subject(std::string_view entry) { return entry.substr(0, entry.find(kBeforeReason)); }

bool HasSubject(const std::vector<std::string_view>& lacks, std::string_view what) {
  return std::any_of(lacks.begin(), lacks.end(), [&](std::string_view entry) { return Subject(entry) == what; });
}

}  // namespace

std::vector<std::string_view> LacksOf(const Trace& trace) {
  std::vector<std::string_view> lacks;
  std::string_view list = trace.AttributeOf(kNotRecorded);
  while (!list.empty()) {
    const size_t size = std::min(list.find(kBetweenLacks), list.size());
    lacks.push_back(list.substr(0, size));
    list.remove_prefix(std::min(size + kBetweenLacks.size(), list.size()));
  }
  return lacks;
}

void AddLack(std::string_view lack, std::vector<std::string_view>* lacks) {
  if (!HasSubject(*lacks, Subject(lack))) lacks->push_back(lack);
}

std::string LacksText(const std::vector<std::string_view>& lacks) {
  std::string text;
  for (const std::string_view lack : lacks) text.append(text.empty() ? "" : kBetweenLacks).append(lack);
  return text;
}

bool IsLacking(const Trace& trace, std::string_view what) { return HasSubject(LacksOf(trace), what); }

bool AreLossesUnknown(const Trace& trace) { return trace.losses.empty() && IsLacking(trace, "losses"); }

bool IsLackingThreads(const Trace& trace) {
  return IsLacking(trace, "the threads that work for a request") || IsLacking(trace, "what threads did");
}

}  // namespace pitot::model
