// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/launching.h"

#include <algorithm>

#include "base/call_class.h"
#include "base/quantile.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

constexpr size_t kLeastBatches = 8;  // batches for the usual time of a launch
// Launches into a full queue wait for each other's kernels: they take at least this many times the usual.
constexpr double kSlowFactor = 2;
// Launches with a record are the slow ones. So large a share of all is no first use of kernels.
constexpr double kManySlow = 0.05;

}  // namespace

Launching::Launching(const Trace& trace, const BlameOptions& options) : of_(trace.batches.size()) {
  std::vector<double> times;  // of a launch
  for (const model::BatchRow& batch : trace.batches) {
    if (batch.launches != 0) times.push_back(static_cast<double>(batch.launch_ns) / batch.launches);
  }
  if (times.empty()) return;
  const bool is_usual_known = times.size() >= kLeastBatches;
  const double usual_ns = base::Median(std::move(times));
  std::vector<int64_t> called_ns(trace.batches.size());
  std::vector<uint32_t> slow(trace.batches.size());
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const uint32_t batch = trace.calls.batch[call];
    if (batch == kNone || trace.calls.thread[call] != trace.batches[batch].thread) continue;
    called_ns[batch] += trace.calls.duration_ns[call];
    if (base::CallClassOf(trace.strings[trace.calls.name[call]]) == base::CallClass::kLaunch) ++slow[batch];
  }
  for (uint32_t row = 0; row < trace.batches.size(); ++row) {
    const model::BatchRow& batch = trace.batches[row];
    const int64_t code_ns = batch.duration_ns - called_ns[row];
    if (batch.launches == 0 || code_ns <= 0) continue;
    const auto launch_ns = static_cast<double>(std::min(batch.launch_ns, code_ns));
    double full_ns = launch_ns - usual_ns * batch.launches;
    const bool is_full = is_usual_known && batch.launches >= options.full_queue_depth &&
                         launch_ns > kSlowFactor * usual_ns * batch.launches;
    if (!is_full) full_ns = 0;
    const bool are_many_slow =
        batch.launches >= options.full_queue_depth && slow[row] >= kManySlow * static_cast<double>(batch.launches);
    of_[row] = {(launch_ns - full_ns) / static_cast<double>(code_ns), full_ns / static_cast<double>(code_ns),
                is_full || are_many_slow};
  }
}

}  // namespace pitot::blame
