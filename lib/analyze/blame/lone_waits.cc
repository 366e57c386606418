// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/lone_waits.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "base/call_class.h"
#include "base/quantile.h"

namespace pitot::blame {

using model::kNone;

LoneWaits::LoneWaits(const model::Trace& trace, const GpuOps& gpu, const BlameOptions& options) : trace_(trace) {
  const std::vector<model::GpuKind>& kinds = trace.gpu.kind;
  const bool has_spans = std::find(kinds.begin(), kinds.end(), model::GpuKind::kSpan) != kinds.end();
  if (!has_spans) return;
  std::map<uint32_t, std::vector<uint32_t>> by_thread;
  const model::CallColumns& calls = trace.calls;
  for (uint32_t call = 0; call < calls.size(); ++call) {
    if (calls.thread[call] == kNone || calls.batch[call] != kNone || calls.request[call] != kNone) continue;
    if (calls.stream[call] == kNone && trace.devices.size() > 1) continue;
    if (gpu.ClassOf(call) == base::CallClass::kSync) by_thread[calls.thread[call]].push_back(call);
  }
  const auto length_ns = [&](uint32_t call) { return trace.CallEnd(call) - calls.begin_ns[call]; };
  for (const auto& [thread, all] : by_thread) {
    std::vector<int64_t> lengths;
    for (const uint32_t call : all) lengths.push_back(length_ns(call));
    const int64_t usual_ns = all.size() >= options.least_samples ? base::Median(std::move(lengths)) : 0;
    std::copy_if(all.begin(), all.end(), std::back_inserter(waits_),
                 [&](uint32_t call) { return length_ns(call) / kUnusual > usual_ns; });
  }
  std::sort(waits_.begin(), waits_.end(),
            [&](uint32_t a, uint32_t b) { return calls.begin_ns[a] < calls.begin_ns[b]; });
  for (const uint32_t call : waits_)
    ended_ns_.push_back(std::max(trace.CallEnd(call), ended_ns_.empty() ? INT64_MIN : ended_ns_.back()));
}

}  // namespace pitot::blame
