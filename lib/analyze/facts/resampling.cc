// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/resampling.h"

#include <set>

#include "analyze/facts/random.h"
#include "pitot/model/classes.h"

namespace pitot::facts {

using model::kNone;

Units::Units(const model::Trace& trace)
    : batches_(static_cast<uint32_t>(trace.batches.size())), requests_(static_cast<uint32_t>(trace.requests.size())) {
  if (batches_ + requests_ != 0) return;
  const model::Steps steps(trace);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (steps.IsSite(trace.events.site[event]))
      steps_.emplace_back(trace.events.begin_ns[event], trace.EventEnd(event));
  }
  std::sort(steps_.begin(), steps_.end());
}

uint32_t Units::OfStep(int64_t at_ns) const {
  const auto after = std::upper_bound(steps_.begin(), steps_.end(), std::pair(at_ns, INT64_MAX));
  if (after == steps_.begin() || (after - 1)->second <= at_ns) return kNone;
  return static_cast<uint32_t>(after - 1 - steps_.begin()) % kMostGroups;
}

void GroupTimes::Merge() {
  std::sort(times_.begin(), times_.end());
  size_t kept = 0;
  for (size_t i = 1; i < times_.size(); ++i) {
    if (times_[i].first == times_[kept].first) {
      times_[kept].second += times_[i].second;
    } else {
      times_[++kept] = times_[i];
    }
  }
  if (!times_.empty()) times_.resize(kept + 1);
}

std::vector<double> FindAboveNext(const std::vector<GroupTimes*>& rows) {
  std::set<uint32_t> seen;
  for (GroupTimes* const row : rows) {
    row->Merge();
    for (const auto& [group, ns] : row->times()) seen.insert(group);
  }
  seen.erase(kNone);
  const std::vector<uint32_t> groups(seen.begin(), seen.end());
  std::vector<double> above(rows.empty() ? 0 : rows.size() - 1), sums(rows.size());
  std::vector<uint32_t> drawn(Units::kMostGroups);
  Random random;
  for (uint32_t i = 0; i < kResamples && !groups.empty(); ++i) {
    std::fill(drawn.begin(), drawn.end(), 0);
    for (size_t k = 0; k < groups.size(); ++k) ++drawn[groups[random.Below(groups.size())]];
    for (size_t row = 0; row < rows.size(); ++row) {
      sums[row] = 0;
      for (const auto& [group, ns] : rows[row]->times())
        sums[row] += static_cast<double>(ns) * (group == kNone ? 1 : drawn[group]);
    }
    for (size_t row = 0; row + 1 < rows.size(); ++row)
      above[row] += sums[row] > sums[row + 1] ? 1 : sums[row] == sums[row + 1] ? 0.5 : 0;
  }
  for (double& share : above) share /= kResamples;
  return above;
}

}  // namespace pitot::facts
