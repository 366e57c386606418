// SPDX-License-Identifier: Apache-2.0
#include "analyze/diff/diff_gates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "analyze/facts/statistics.h"
#include "base/quantile.h"

namespace pitot::diff {
namespace {

using facts::Estimate;
using facts::Inflation;
using facts::MannWhitney;
using facts::Quantile;
using facts::Shift;

double Mean(const std::vector<double>& values) {
  return values.empty() ? 0 : std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Ratio(double before, double after) {
  if (before == 0) return after == 0 ? 1 : std::numeric_limits<double>::infinity();
  return after / before;
}

DiffGate Gate(const char* name, const char* unit, double limit) {
  DiffGate gate;
  gate.name = name;
  gate.unit = unit;
  gate.limit = 1 + limit;
  return gate;
}

void DecideByBounds(DiffGate* gate) {
  gate->outcome = gate->low > gate->limit     ? DiffOutcome::kRegression
                  : gate->high <= gate->limit ? DiffOutcome::kPass
                                              : DiffOutcome::kInconclusive;
  if (gate->outcome == DiffOutcome::kInconclusive)
    gate->why = "the limit is within the bounds: more requests would decide";
}

double WiderOf(const std::vector<double>& a, const std::vector<double>& b) {
  return std::max(Inflation(a), Inflation(b));
}

bool IsConstant(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [&](double value) { return value == values[0]; });
}

}  // namespace

std::vector<double> Pick(const std::vector<double>& values, const std::vector<uint32_t>& indices) {
  std::vector<double> picked;
  for (const uint32_t index : indices) picked.push_back(values[index]);
  return picked;
}

Matched Match(const std::vector<std::string>& before, const std::vector<std::string>& after, double most_mix_shift) {
  struct Kind {
    std::vector<uint32_t> before, after;
  };
  std::map<std::string, Kind> kinds;
  for (uint32_t i = 0; i < before.size(); ++i) kinds[before[i]].before.push_back(i);
  for (uint32_t i = 0; i < after.size(); ++i) kinds[after[i]].after.push_back(i);
  Matched matched;
  const auto share = [](size_t part, size_t whole) { return static_cast<double>(part) / static_cast<double>(whole); };
  for (const auto& [name, kind] : kinds)
    matched.mix_shift +=
        std::fabs(share(kind.before.size(), before.size()) - share(kind.after.size(), after.size())) / 2;
  const bool takes_all = matched.mix_shift <= most_mix_shift;
  const auto take = [](const std::vector<uint32_t>& from, size_t count, std::vector<uint32_t>* to) {
    for (size_t i = 0; i < count; ++i) to->push_back(from[i * from.size() / count]);
  };
  for (const auto& [name, kind] : kinds) {
    const size_t both = std::min(kind.before.size(), kind.after.size());
    take(kind.before, takes_all ? kind.before.size() : both, &matched.before);
    take(kind.after, takes_all ? kind.after.size() : both, &matched.after);
  }
  std::sort(matched.before.begin(), matched.before.end());
  std::sort(matched.after.begin(), matched.after.end());
  return matched;
}

DiffGate TimeGate(const char* name, const std::vector<double>& before, const std::vector<double>& after, double limit) {
  DiffGate gate = Gate(name, "ns", limit);
  gate.before = Mean(before);
  gate.after = Mean(after);
  const double median = base::Median(before);
  const Estimate shift = Shift(before, after, WiderOf(before, after));
  gate.is_known = shift.is_known && median > 0;
  if (!gate.is_known) {
    gate.why = "too few to compare (" + std::to_string(before.size()) + " before, " + std::to_string(after.size()) +
               " after; requests queued behind each other count less): compare longer traces";
    return gate;
  }
  gate.ratio = 1 + shift.value / median;
  gate.low = 1 + shift.low / median;
  gate.high = 1 + shift.high / median;
  DecideByBounds(&gate);
  return gate;
}

DiffGate QuantileGate(const char* name, double q, const std::vector<double>& before, const std::vector<double>& after,
                      double limit) {
  DiffGate gate = Gate(name, "ns", limit);
  const Estimate a = Quantile(before, q), b = Quantile(after, q);
  gate.before = a.value;
  gate.after = b.value;
  gate.decides = false;
  gate.is_known = a.is_known && b.is_known && a.low > 0;
  if (!gate.is_known) {
    gate.why = "too few for bounds of such a high quantile: compare longer traces";
    return gate;
  }
  gate.ratio = Ratio(a.value, b.value);
  gate.low = b.low / a.high;
  gate.high = b.high / a.low;
  DecideByBounds(&gate);
  return gate;
}

DiffGate CountGate(const char* name, const char* unit, const std::vector<double>& before,
                   const std::vector<double>& after, double limit, double q) {
  DiffGate gate = Gate(name, unit, limit);
  gate.before = Mean(before);
  gate.after = Mean(after);
  if (before.empty() || after.empty()) {
    gate.why = "nothing to compare";
    return gate;
  }
  gate.is_known = true;
  gate.ratio = gate.low = gate.high = Ratio(gate.before, gate.after);
  const bool has_noise = !IsConstant(before) || !IsConstant(after);
  if (gate.ratio <= gate.limit) {
    gate.outcome = DiffOutcome::kPass;
  } else if (!has_noise || MannWhitney(before, after, WiderOf(before, after)) <= q) {
    gate.outcome = DiffOutcome::kRegression;
  } else {
    gate.why = "requests differ by as much among themselves: more requests would decide";
  }
  return gate;
}

}  // namespace pitot::diff
