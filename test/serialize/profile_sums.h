// SPDX-License-Identifier: Apache-2.0
//
// A profile as its readers add it up, for the tests of formats of profiles.
#ifndef PITOT_TEST_SERIALIZE_PROFILE_SUMS_H_
#define PITOT_TEST_SERIALIZE_PROFILE_SUMS_H_

#include <stdint.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pitot/analyze/top.h"
#include "pitot/model/trace.h"

namespace pitot::test {

struct ProfileSums {
  using ByName = std::map<std::string, int64_t>;
  std::map<std::string, ByName> flat, cumulative;  // by sample type
  std::map<std::string, ByName> labels;            // of "gpu", by key
  std::map<std::string, int64_t> total;

  // The innermost frame comes first.
  void Add(const std::string& of, const std::vector<std::string>& frames,
           const std::map<std::string, std::string>& labels_of_sample, int64_t value) {
    if (value == 0) return;
    total[of] += value;
    flat[of][frames.at(0)] += value;
    // A piece of GPU work is the innermost frame. It may have the name of a scope.
    for (const std::string& frame : std::set<std::string>(frames.begin() + (of == "gpu"), frames.end()))
      cumulative[of][frame] += value;
    if (of != "gpu") return;
    for (const auto& [key, text] : labels_of_sample) labels[key][text] += value;
  }
};

// For readable failures.
inline std::string Text(const ProfileSums::ByName& sums) {
  std::string text;
  for (const auto& [name, ns] : sums) text += name + ": " + std::to_string(ns) + "\n";
  return text;
}

inline analyze::TopTable TopOf(const model::Trace& trace, analyze::TopBy by) {
  analyze::TopTable table;
  analyze::TopOptions options;
  options.by = by;
  REQUIRE(analyze::FindTop(trace, options, &table).ok());
  return table;
}

template <class Value> ProfileSums::ByName ByName(const analyze::TopTable& table, const Value& value) {
  ProfileSums::ByName sums;
  for (const analyze::TopRow& row : table.rows) {
    if (value(row) != 0) sums[row.name] += value(row);
  }
  return sums;
}

inline void CheckAgainstTop(const model::Trace& trace, ProfileSums sums) {
  using analyze::TopBy;
  const analyze::TopTable scopes = TopOf(trace, TopBy::kScope), kernels = TopOf(trace, TopBy::kKernel),
                          requests = TopOf(trace, TopBy::kRequest);

  CHECK(Text(sums.flat["host"]) == Text(ByName(scopes, [](const auto& row) { return row.self_cpu_ns; })));
  CHECK(Text(sums.cumulative["host"]) == Text(ByName(scopes, [](const auto& row) { return row.cpu_total_ns; })));
  CHECK(sums.total["wait"] == scopes.wait_ns);
  CHECK(Text(sums.flat["gpu"]) == Text(ByName(kernels, [](const auto& row) { return row.self_gpu_ns; })));
  CHECK(Text(sums.cumulative["gpu"]) == Text(ByName(scopes, [](const auto& row) { return row.gpu_total_ns; })));
  CHECK(Text(sums.flat["request_gpu"]) == Text(ByName(requests, [](const auto& row) { return row.self_gpu_ns; })));
}

}  // namespace pitot::test

#endif  // PITOT_TEST_SERIALIZE_PROFILE_SUMS_H_
