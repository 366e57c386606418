// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/drift.h"

#include <algorithm>
#include <cmath>
#include <new>

#include "analyze/verdict/depths.h"
#include "analyze/verdict/mechanism.h"
#include "base/columns.h"
#include "base/quantile.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

constexpr double kMedianError = 1.2533;    // of a median relative to a mean, for a normal distribution
constexpr size_t kFewestReferences = 2;    // periods before
constexpr size_t kFewestForSpread = 4;     // of these, to know their spread
constexpr std::ptrdiff_t kRarelySlow = 4;  // at most one of so many
constexpr size_t kMostParts = 3;           // named for a drift
constexpr double kLeastPart = 0.1;         // of the difference

double Spread(const std::vector<int64_t>& values) {
  const int64_t median = base::Median(values);
  std::vector<int64_t> far;
  for (const int64_t value : values) far.push_back(std::abs(value - median));
  return base::kMadToSigma * static_cast<double>(base::Median(far));
}

}  // namespace

Status Regimes::Add(std::string_view route, uint32_t size_bucket, const BaselineRow& row) noexcept {
  try {
    const auto is_it = [&](const Cell& cell) { return cell.size_bucket == size_bucket && cell.route == route; };
    auto cell = std::find_if(cells_.begin(), cells_.end(), is_it);
    if (cell == cells_.end()) {
      if (cells_.size() >= options_.most_cells) {
        // Reuse the cell that was silent for longest, if it was silent for as long as all its summaries reach back.
        cell = std::min_element(cells_.begin(), cells_.end(),
                                [](auto& a, auto& b) { return a.period_begin_ns < b.period_begin_ns; });
        if (row.at_ns - cell->period_begin_ns < options_.period_ns * options_.periods) return Status();
        *cell = Cell();
      } else {
        cell = cells_.insert(cell, Cell());
      }
      cell->route = route;
      cell->size_bucket = size_bucket;
      cell->period_begin_ns = row.at_ns;
      cell->rows.reserve(options_.requests_per_period);
      cell->summaries.reserve(options_.periods);
    }
    if (row.at_ns - cell->period_begin_ns >= options_.period_ns) {
      if (cell->rows.size() >= options_.least && options_.periods > 0) {
        const Summary summary = Summarize(*cell);
        if (cell->summaries.size() >= options_.periods) cell->summaries.erase(cell->summaries.begin());
        cell->summaries.push_back(summary);
      }
      cell->rows.clear();
      cell->period_begin_ns = row.at_ns;
    }
    if (cell->rows.size() >= options_.requests_per_period) return Status();
    const bool is_whole = verdict::IsWhole(row.work.depth, row.blame, verdict::kByCounters | verdict::kByWaits);
    Row kept{row.blame.Total(), {}, is_whole ? verdict::ForGpus(row.work.depth) : Depth::kAuto, row.work.steps != 0};
    for (uint32_t k = 0; k < kBlames; ++k)
      kept.parts_us[k] = static_cast<int32_t>(std::min<int64_t>(row.blame.ns[k] / 1000, INT32_MAX));
    cell->rows.push_back(kept);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the cell of a regime");
  }
}

Regimes::Summary Regimes::Summarize(const Cell& cell) {
  std::vector<int64_t> latencies;
  for (const Row& row : cell.rows) latencies.push_back(row.latency_ns);
  const int64_t p25 = base::Quantile(latencies, 0.25), p75 = base::Quantile(latencies, 0.75);
  Summary summary;
  summary.begin_ns = cell.period_begin_ns;
  summary.requests = static_cast<uint32_t>(cell.rows.size());
  summary.median_ns = base::Median(latencies);
  summary.deviation_ns = std::llround(Spread(latencies));
  std::vector<const Row*> typical;
  for (const Row& row : cell.rows) {
    if (row.latency_ns >= p25 && row.latency_ns <= p75) typical.push_back(&row);
  }
  for (const Depth depth : {Depth::kScopes, Depth::kGraphs, Depth::kKernels}) {
    const auto is_other = [&](const Row* row) { return row->depth != depth; };
    if (2 * std::count_if(typical.begin(), typical.end(), is_other) >= std::ssize(typical)) continue;
    typical.erase(std::remove_if(typical.begin(), typical.end(), is_other), typical.end());
    summary.depth = depth;
  }
  for (const Row* row : typical) {
    summary.has_batches = summary.has_batches && row->has_batches;
    for (uint32_t k = 0; k < kBlames; ++k) summary.mean.ns[k] += int64_t{row->parts_us[k]} * 1000;
  }
  for (int64_t& part : summary.mean.ns) part /= std::max<int64_t>(std::ssize(typical), 1);
  return summary;
}

bool Regimes::FindIn(const Cell& cell, Drift* drift) const {
  std::vector<Summary> all = cell.summaries;
  if (cell.rows.size() >= options_.least) all.push_back(Summarize(cell));
  if (all.size() < 1 + kFewestReferences) return false;
  const Summary now = all.back();
  all.pop_back();
  std::vector<int64_t> medians;
  for (const Summary& summary : all) medians.push_back(summary.median_ns);
  const int64_t usual_ns = base::Median(medians);
  const Summary& before = *std::min_element(all.begin(), all.end(), [&](const Summary& a, const Summary& b) {
    return std::abs(a.median_ns - usual_ns) < std::abs(b.median_ns - usual_ns);
  });

  const auto difference = static_cast<double>(now.median_ns - before.median_ns);
  if (static_cast<double>(now.median_ns) < options_.least_ratio * static_cast<double>(before.median_ns)) return false;
  const auto error = [](const Summary& one) {
    return kMedianError * static_cast<double>(one.deviation_ns) / std::sqrt(static_cast<double>(one.requests));
  };
  if (difference < options_.least_z * std::hypot(error(now), error(before))) return false;

  // Go back over the slow periods to their beginning. If earlier periods were often as slow, this is normal and not a
  // drift.
  const auto is_slow = [&](const Summary& one) {
    return static_cast<double>(one.median_ns) >= options_.least_ratio * static_cast<double>(before.median_ns);
  };
  auto since = all.end();
  while (since != all.begin() && is_slow(*(since - 1))) --since;
  if (std::count_if(all.begin(), since, is_slow) * kRarelySlow > since - all.begin()) return false;
  medians.clear();
  for (auto one = all.begin(); one != since; ++one) medians.push_back(one->median_ns);
  if (medians.size() >= kFewestForSpread && difference < options_.least_z * Spread(medians)) return false;

  drift->route = cell.route;
  drift->size_bucket = cell.size_bucket;
  drift->before_ns = before.median_ns;
  drift->after_ns = now.median_ns;
  drift->before_requests = before.requests;
  drift->after_requests = now.requests;
  drift->before = before.mean;
  drift->after = now.mean;
  drift->is_coarse = before.depth != now.depth || now.depth == Depth::kAuto;
  if (drift->is_coarse) {
    const bool has_batches = before.has_batches && now.has_batches;
    verdict::MakeCoarse(&drift->before, has_batches);
    verdict::MakeCoarse(&drift->after, has_batches);
  }
  drift->since_ns = since != all.end() ? since->begin_ns : now.begin_ns;
  return true;
}

std::vector<Drift> Regimes::Find() const {
  std::vector<Drift> drifts;
  for (const Cell& cell : cells_) {
    if (Drift drift; FindIn(cell, &drift)) drifts.push_back(std::move(drift));
  }
  std::stable_sort(drifts.begin(), drifts.end(),
                   [](const Drift& a, const Drift& b) { return a.after_ns - a.before_ns > b.after_ns - b.before_ns; });
  return drifts;
}

size_t Regimes::memory_bytes() const {
  size_t bytes = cells_.capacity() * sizeof(Cell);
  for (const Cell& cell : cells_)
    bytes += cell.rows.capacity() * sizeof(Row) + cell.summaries.capacity() * sizeof(Summary) + cell.route.capacity();
  return bytes;
}

std::string DriftText(const Drift& drift, int64_t now_ns) {
  using base::Format;
  const auto ms = [](int64_t ns) { return static_cast<double>(ns) * 1e-6; };
  std::string text = drift.route;
  if (drift.size_bucket != 0) text += Format(" (sizes from %llu)", 1ull << (drift.size_bucket - 1));
  text += Format(
      " as a whole is slower: typically %.1f ms, %.1f before (%+.0f %%), for %.0f minutes: ", ms(drift.after_ns),
      ms(drift.before_ns), 100 * (static_cast<double>(drift.after_ns) / static_cast<double>(drift.before_ns) - 1),
      ms(now_ns - drift.since_ns) / 60'000);
  std::vector<std::pair<int64_t, uint32_t>> parts;
  for (uint32_t k = 0; k < kBlames; ++k) parts.emplace_back(drift.before.ns[k] - drift.after.ns[k], k);
  std::sort(parts.begin(), parts.end());
  const double all = ms(drift.after.Total() - drift.before.Total());
  std::string most;
  for (size_t i = 0; i < kMostParts && ms(-parts[i].first) > kLeastPart * all && all > 0; ++i)
    most += std::string(i == 0 ? "a request " : ", ") +
            verdict::Mechanism({static_cast<Blame>(parts[i].second), Format("%.1f ms more", ms(-parts[i].first))}) +
            " (" + BlameName(static_cast<Blame>(parts[i].second)) + ")";
  text += most.empty() ? "no part stands out" : most;
  if (drift.is_coarse)
    text +=
        "; recorded at different depths: time on GPUs counts as " + std::string(BlameName(Blame::kHostOncpuFramework));
  base::Lines lines;
  lines.AddWrapped(0, "drift       ", text);
  return lines.text();
}

}  // namespace analyze
PITOT_NAMESPACE_END
