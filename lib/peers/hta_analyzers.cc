// SPDX-License-Identifier: Apache-2.0
//
// HTA's temporal breakdown, idle times, launches and queues.
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "analyze/facts/launches.h"
#include "analyze/facts/subjects.h"
#include "base/sort_runs.h"
#include "peers/catalogue.h"
#include "peers/instead.h"
#include "peers/numpy_sort.h"
#include "peers/peers.h"
#include "pitot/model/sweep.h"

namespace pitot::peers {
namespace {

using facts::Add;
using facts::AddLaunches;
using facts::AddNumber;
using facts::kAll;
using facts::Launch;
using facts::Share;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr int64_t kUs = 1000;

// A01.
void TileAsHta(Analysis& analysis) {
  const std::vector<HtaRow> rows = HtaRows(analysis.trace());
  std::vector<HtaRow> compute;
  std::vector<Interval> compute_us, communication_us;
  for (const HtaRow& row : rows) {
    if (row.type == HtaType::kComputation) compute.push_back(row);
    const Interval time = {row.time.begin_us, row.time.EndUs()};
    if (row.type == HtaType::kComputation) compute_us.push_back(time);
    if (row.type == HtaType::kCommunication) communication_us.push_back(time);
  }
  const HtaMerged all = HtaMerge(rows);
  const int64_t kernel_us = all.end_us - all.begin_us, idle_us = kernel_us - all.total_us;
  const int64_t computing_us = HtaMerge(compute).total_us;
  Add(analysis, "kernel_time", kAll, kernel_us * kUs);
  Add(analysis, "idle", kAll, idle_us * kUs);
  Add(analysis, "compute", kAll, computing_us * kUs);
  Add(analysis, "non_compute", kAll, (kernel_us - idle_us - computing_us) * kUs);
  const Intervals communication = Union(std::move(communication_us));
  if (communication.empty()) return;
  AddNumber(analysis, "overlap", kAll,
            Share(TotalNs(Intersection(Union(std::move(compute_us)), communication)), TotalNs(communication)));
}

// A04, by stream: from one row's end to the next one's beginning, which may be negative.
void IdleGaps(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  const auto wait_us = static_cast<int64_t>(analysis.threshold("kernel_wait").value / 1000);
  struct Sums {
    int64_t host_us = 0, kernel_us = 0, other_us = 0, end_us = 0;
    bool has_end = false;
  };
  std::map<uint32_t, Sums> streams;
  for (const HtaRow& row : HtaRows(trace)) {
    if (row.gpu_row == kNone) continue;
    Sums& sums = streams[trace.gpu.stream[row.gpu_row]];
    const uint32_t call = trace.gpu.call[row.gpu_row];
    if (sums.has_end) {
      const int64_t gap_us = row.time.begin_us - sums.end_us;
      const bool is_host =
          call != kNone && ToHta(trace.calls.begin_ns[call], trace.calls.duration_ns[call]).begin_us > sums.end_us;
      (is_host ? sums.host_us : gap_us < wait_us ? sums.kernel_us : sums.other_us) += gap_us;
    }
    sums.end_us = row.time.EndUs();
    sums.has_end = true;
  }
  for (const auto& [stream, sums] : streams) {
    const std::string subject = "stream " + std::to_string(trace.streams[stream].stream);
    Add(analysis, "host_wait", subject, sums.host_us * 1000);
    Add(analysis, "kernel_wait", subject, sums.kernel_us * 1000);
    Add(analysis, "other", subject, sums.other_us * 1000);
  }
}

std::vector<Launch> Launches(const Trace& trace) {
  std::vector<Launch> launches;
  for (const HtaRow& row : HtaRows(trace)) {
    const uint32_t call = row.gpu_row == kNone ? kNone : trace.gpu.call[row.gpu_row];
    if (call == kNone || !HtaLaunches(trace.strings[trace.calls.name[call]])) continue;
    const HtaTime time = ToHta(trace.calls.begin_ns[call], trace.calls.duration_ns[call]);
    launches.push_back({time.duration_us * 1000, row.time.duration_us * 1000,
                        std::max<int64_t>(0, row.time.begin_us - time.EndUs()) * 1000});
  }
  return launches;
}

// A10.
void LaunchOverhead(Analysis& analysis) { AddLaunches(analysis, Launches(analysis.trace())); }

// The changes of each stream's queue in their order. HTA sorts launches, followed by begins, by whole us, with a sort
// that is not stable.
std::map<uint32_t, std::vector<int>> Changes(const Trace& trace) {
  struct Row {
    uint32_t stream;
    int64_t exact_ns, us;
    int by;
  };
  std::vector<bool> launches;  // by name
  for (model::StringId name = 0; name < trace.strings.size(); ++name)
    launches.push_back(HtaLaunches(trace.strings[name]));
  const std::vector<HtaRow> all = HtaRows(trace);
  std::vector<Row> rows, begun;
  rows.reserve(2 * all.size());
  begun.reserve(all.size());
  for (const HtaRow& row : all) {
    const uint32_t call = row.gpu_row == kNone ? kNone : trace.gpu.call[row.gpu_row];
    if (call == kNone || !launches[trace.calls.name[call]]) continue;
    const uint32_t stream = trace.gpu.stream[row.gpu_row];
    const int64_t launched_ns = trace.calls.begin_ns[call];
    rows.push_back({stream, launched_ns, ToHta(launched_ns, 0).begin_us, 1});
    begun.push_back({stream, trace.gpu.begin_ns[row.gpu_row], row.time.begin_us, -1});
  }
  // The order of the file, or close to it: by time.
  const auto is_before = [](const Row& a, const Row& b) { return a.exact_ns < b.exact_ns; };
  base::SortRuns(&rows, is_before);
  base::SortRuns(&begun, is_before);
  rows.insert(rows.end(), begun.begin(), begun.end());
  std::vector<int64_t> times;
  times.reserve(rows.size());
  for (const Row& row : rows) times.push_back(row.us);
  std::map<uint32_t, std::vector<int>> streams;
  for (const uint32_t i : NumpyArgsort(times)) streams[rows[i].stream].push_back(rows[i].by);
  return streams;
}

// A11.
void LaunchQueue(Analysis& analysis) {
  const Trace& trace = analysis.trace();
  for (const auto& [stream, changes] : Changes(trace)) {
    int64_t length = 0, most = 0;
    double sum = 0;
    for (const int change : changes) {
      length += change;
      most = std::max(most, length);
      sum += static_cast<double>(length);
    }
    const auto count = static_cast<double>(changes.size());
    const std::string subject = "stream " + std::to_string(trace.streams[stream].stream);
    AddNumber(analysis, "changes", subject, count);
    AddNumber(analysis, "most", subject, static_cast<double>(most));
    AddNumber(analysis, "mean_of_changes", subject, sum / count);
  }
}

}  // namespace

std::vector<std::unique_ptr<Analyzer>> MakeHtaCatalogue() {
  return With({{"a01", TileAsHta}, {"a04", IdleGaps}, {"a10", LaunchOverhead}, {"a11", LaunchQueue}});
}

}  // namespace pitot::peers
