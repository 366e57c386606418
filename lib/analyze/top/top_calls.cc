// SPDX-License-Identifier: Apache-2.0
#include "analyze/top/top_calls.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/facts/host_work.h"
#include "pitot/model/index.h"

namespace pitot::top {
namespace {

using facts::FirstCalls;
using facts::GpuShares;
using facts::InWindow;
using facts::IsInWindow;
using model::Interval;
using model::kNone;
using model::StringId;
using model::Trace;

class CallCounter {
 public:
  CallCounter(const TopIndex& index, const Selection& selection, Rows* rows)
      : trace_(index.trace), shares_(index.shares), selection_(selection), waiting_(index.trace), rows_(*rows) {}

  void Count() {
    const std::vector<uint32_t> first = FirstCalls(trace_);
    for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread)
      CountThread(thread, first[thread], first[thread + 1]);
    // Each call of an unknown thread counts alone: they may be of several threads.
    const auto threads = static_cast<uint32_t>(trace_.threads.size());
    for (uint32_t call = first.back(); call < trace_.calls.size(); ++call)
      CountThread(threads + (call - first.back()), call, call + 1);
    for (uint32_t gpu_row = 0; gpu_row < trace_.gpu.size(); ++gpu_row) CountGpu(gpu_row);
  }

 private:
  struct Open {
    uint32_t call;
    int64_t end_ns;
  };

  // A moment belongs to the innermost call: the driver's calls may be recorded within the runtime's.
  void CountThread(uint32_t thread, uint32_t first, uint32_t last) {
    open_.clear();
    now_ns_ = trace_.window_begin_ns;
    for (uint32_t call = first; call < last; ++call) {
      const Interval whole = {trace_.calls.begin_ns[call], trace_.CallEnd(call)};
      const Interval known = {std::clamp(whole.begin_ns, trace_.window_begin_ns, trace_.window_end_ns),
                              std::clamp(whole.end_ns, trace_.window_begin_ns, trace_.window_end_ns)};
      if (whole.end_ns < trace_.window_begin_ns || whole.begin_ns >= trace_.window_end_ns) continue;
      Advance(known.begin_ns);
      open_.push_back({call, known.end_ns});
      if (!HasCall(call)) continue;
      const bool is_cut = trace_.calls.duration_ns[call] == model::kOpen || known.begin_ns != whole.begin_ns ||
                          known.end_ns != whole.end_ns;
      Tally& tally = rows_[RowOf(call)];
      ++tally.row.calls;
      tally.row.cut_calls += is_cut;
      tally.AddCpuTotal(thread, known.begin_ns, known.end_ns);
      if (!is_cut) tally.cpu_ns.Add(known.end_ns - known.begin_ns);
    }
    Advance(trace_.window_end_ns);
  }

  // Passes time to the innermost open call.
  void Advance(int64_t to_ns) {
    while (!open_.empty()) {
      const Open innermost = open_.back();
      const int64_t until_ns = std::min(innermost.end_ns, to_ns);
      if (until_ns > now_ns_) AddSelf(innermost.call, until_ns - now_ns_);
      now_ns_ = std::max(now_ns_, until_ns);
      if (innermost.end_ns > to_ns) return;
      open_.pop_back();
    }
    now_ns_ = std::max(now_ns_, to_ns);
  }

  void AddSelf(uint32_t call, int64_t ns) {
    if (!HasCall(call)) return;
    Tally& tally = rows_[RowOf(call)];
    tally.AddSelfCpu(rows_.UnitOfCall(call), ns);
    if (waiting_.Has(call)) tally.row.self_wait_ns += ns;
  }

  void CountGpu(uint32_t gpu_row) {
    if (trace_.gpu.kind[gpu_row] == model::GpuKind::kSpan || !IsInWindow(trace_, gpu_row) ||
        !selection_.HasGpu(gpu_row))
      return;
    const uint32_t call = trace_.gpu.call[gpu_row];
    Tally& tally = rows_[call == kNone ? rows_.Of("(launch unknown)") : RowOf(call)];
    const Interval time = InWindow(trace_, gpu_row);
    ++tally.row.gpu_records;
    tally.AddSelfGpu(rows_.UnitOfGpu(gpu_row), time.end_ns - time.begin_ns);
    tally.row.gpu_total_ns = tally.row.self_gpu_ns;
    tally.busy += shares_.busy[gpu_row];
    tally.exposed += shares_.exposed[gpu_row];
  }

  bool HasCall(uint32_t call) const { return selection_.Has(trace_.calls.request[call], trace_.calls.batch[call]); }

  uint32_t RowOf(uint32_t call) {
    const auto [found, is_new] = of_names_.try_emplace(trace_.calls.name[call], kNone);
    if (is_new) {
      const std::string_view name = trace_.strings[trace_.calls.name[call]];
      found->second = rows_.Of(name.empty() ? "(unnamed)" : name);
    }
    return found->second;
  }

  const Trace& trace_;
  const GpuShares& shares_;
  const Selection& selection_;
  const model::WaitingCalls waiting_;
  Rows& rows_;
  std::unordered_map<StringId, uint32_t> of_names_;
  std::vector<Open> open_;  // of the thread, the innermost last
  int64_t now_ns_ = 0;
};

}  // namespace

void CountCalls(const TopIndex& index, const Selection& selection, Rows* rows) {
  CallCounter(index, selection, rows).Count();
}

}  // namespace pitot::top
