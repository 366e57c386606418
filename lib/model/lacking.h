// SPDX-License-Identifier: Apache-2.0
//
// What the file of a trace could not say: a missing value is then unknown.
#ifndef PITOT_LIB_MODEL_LACKING_H_
#define PITOT_LIB_MODEL_LACKING_H_

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::model {

// The attribute with the list. Writers keep it, because a format that can say more does not know more.
inline constexpr std::string_view kNotRecorded = "not_recorded", kBetweenLacks = "; ";

// The entries of the list: what the trace's format says nothing about ("queues"). A reason may follow:
// "GPU work (the file has no stages of a GPU)".
inline std::vector<std::string_view> LacksOf(const Trace& trace) {
  std::vector<std::string_view> lacks;
  std::string_view list = trace.AttributeOf(kNotRecorded);
  while (!list.empty()) {
    const size_t size = std::min(list.find(kBetweenLacks), list.size());
    lacks.push_back(list.substr(0, size));
    list.remove_prefix(std::min(size + kBetweenLacks.size(), list.size()));
  }
  return lacks;
}

// Whether an entry is about `what`, with a reason or without.
inline bool IsAbout(std::string_view entry, std::string_view what) { return entry.substr(0, entry.find(" (")) == what; }

// Appends an entry, unless one is about the same.
inline void AddLack(std::string_view lack, std::vector<std::string_view>* lacks) {
  const std::string_view what = lack.substr(0, lack.find(" ("));
  if (std::none_of(lacks->begin(), lacks->end(), [&](std::string_view entry) { return IsAbout(entry, what); }))
    lacks->push_back(lack);
}

inline std::string LacksText(const std::vector<std::string_view>& lacks) {
  std::string text;
  for (const std::string_view lack : lacks) text.append(text.empty() ? "" : kBetweenLacks).append(lack);
  return text;
}

inline bool IsLacking(const Trace& trace, std::string_view what) {
  const std::vector<std::string_view> lacks = LacksOf(trace);
  return std::any_of(lacks.begin(), lacks.end(), [&](std::string_view entry) { return IsAbout(entry, what); });
}

// Whether nothing says what its threads lost. A reader may have found losses of GPUs, or damage.
inline bool AreLossesUnknown(const Trace& trace) { return trace.losses.empty() && IsLacking(trace, "losses"); }
inline constexpr char kLossesUnknown[] = "the format does not say what was lost";

// Whether it does not say which thread worked for a request: a CPU time of 0 is then unknown.
inline bool IsLackingThreads(const Trace& trace) {
  return IsLacking(trace, "the threads that work for a request") || IsLacking(trace, "what threads did");
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_LACKING_H_
