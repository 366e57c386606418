// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/gpu_waits.h"

#include <algorithm>

#include "base/call_class.h"
#include "base/sort_runs.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

using base::CallClass;

bool WaitsForDevice(CallClass call_class) {
  return call_class == CallClass::kDeviceSync || call_class == CallClass::kFree;
}

}  // namespace

template <class GroupOf> GpuWaits::Groups GpuWaits::GroupBy(uint32_t groups, const GroupOf& group_of) const {
  Groups made;
  made.starts.assign(size_t{groups} + 1, 0);
  for (const uint32_t row : ends_) {
    if (const uint32_t group = group_of(row); group != kNone) ++made.starts[group + 1];
  }
  for (size_t i = 1; i < made.starts.size(); ++i) made.starts[i] += made.starts[i - 1];
  made.rows.resize(made.starts.back());
  std::vector<uint32_t> next(made.starts.begin(), made.starts.end() - 1);
  for (const uint32_t row : ends_) {
    if (const uint32_t group = group_of(row); group != kNone) made.rows[next[group]++] = row;
  }
  return made;
}

GpuWaits::GpuWaits(const Trace& trace, const LaunchIndex& launches)
    : trace_(trace), launches_(launches), devices_(static_cast<uint32_t>(trace.devices.size())) {
  const GpuColumns& gpu = trace.gpu;
  has_operations_ = std::any_of(gpu.kind.begin(), gpu.kind.end(), [](GpuKind kind) { return kind != GpuKind::kSpan; });
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (!has_operations_ || gpu.kind[row] != GpuKind::kSpan) ends_.push_back(row);
  }
  base::SortRuns(&ends_, [&](uint32_t a, uint32_t b) { return EndNs(a) < EndNs(b); });

  const auto device_of = [&](uint32_t row) { return trace.streams[gpu.stream[row]].device; };
  on_stream_ = GroupBy(static_cast<uint32_t>(trace.streams.size()), [&](uint32_t row) { return gpu.stream[row]; });
  on_device_ = GroupBy(devices_ + 1, [&](uint32_t row) { return std::min(device_of(row), devices_); });
  of_thread_ = GroupBy(static_cast<uint32_t>(trace.threads.size()), [&](uint32_t row) {
    return gpu.call[row] != kNone ? trace.calls.thread[gpu.call[row]] : kNone;
  });
  for_context_ = GroupBy(static_cast<uint32_t>(trace.batches.size() + trace.requests.size()),
                         [&](uint32_t row) { return gpu.call[row] != kNone ? ContextOf(gpu.call[row]) : kNone; });

  last_device_.reserve(trace.calls.size());
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const bool goes_on =
        call > 0 && trace.calls.thread[call] != kNone && trace.calls.thread[call - 1] == trace.calls.thread[call];
    const RowRange caused = launches.Gpu(call);
    last_device_.push_back(caused.size() != 0 ? device_of(*caused.begin()) : goes_on ? last_device_.back() : kNone);
  }
}

// The batch's row, or the request's after those of all batches. kNone: unknown.
uint32_t GpuWaits::ContextOf(uint32_t call) const {
  const uint32_t batch = trace_.calls.batch[call], request = trace_.calls.request[call];
  if (batch != kNone || request == kNone) return batch;
  return static_cast<uint32_t>(trace_.batches.size()) + request;
}

uint32_t GpuWaits::DeviceOf(uint32_t call) const {
  return trace_.calls.device[call] != kNone ? trace_.calls.device[call] : last_device_[call];
}

// Such a stream may have work without a span, or work with kernels in a row of another collector.
bool GpuWaits::HasSpans(uint32_t stream) const {
  const StreamRow& row = trace_.streams[stream];
  return row.event_count != 0 && trace_.gpu.kind[row.first_event] == GpuKind::kSpan;
}

bool GpuWaits::CanHaveBeen(uint32_t row, const Wait& wait) const {
  const uint32_t launch = trace_.gpu.call[row];
  return EndNs(row) > wait.begin_ns && EndNs(row) <= wait.by_ns + kLateNs && trace_.gpu.begin_ns[row] < wait.by_ns &&
         (launch == kNone || trace_.calls.begin_ns[launch] <= wait.begin_ns);
}

uint32_t GpuWaits::LastIn(RowRange ends, const Wait& wait) const {
  const uint32_t* at =
      std::partition_point(ends.begin(), ends.end(), [&](uint32_t row) { return EndNs(row) <= wait.by_ns + kLateNs; });
  for (uint32_t looked = 0; at != ends.begin() && looked < kMostLooked; ++looked) {
    if (EndNs(*--at) <= wait.begin_ns) break;
    if (CanHaveBeen(*at, wait)) return *at;
  }
  return kNone;
}

uint32_t GpuWaits::Last(uint32_t call, int64_t by_ns) const {
  const CallColumns& calls = trace_.calls;
  const Wait wait{calls.begin_ns[call], by_ns};
  const CallClass call_class = base::CallClassOf(trace_.strings[calls.name[call]]);
  if (base::IsCopy(call_class) && (has_operations_ || launches_.Gpu(call).size() != 0)) {
    uint32_t last = kNone;
    for (const uint32_t row : launches_.Gpu(call)) {
      if (CanHaveBeen(row, wait) && (last == kNone || EndNs(row) > EndNs(last))) last = row;
    }
    return last;
  }
  if (const uint32_t stream = calls.stream[call]; stream != kNone) {
    const uint32_t last = LastIn(on_stream_.Of(stream), wait);
    if (last != kNone || !HasSpans(stream)) return last;
  }
  if (!WaitsForDevice(call_class)) {
    const uint32_t context = ContextOf(call), thread = calls.thread[call];
    const uint32_t own = context != kNone ? LastIn(for_context_.Of(context), wait) : kNone;
    if (own != kNone) return own;
    const uint32_t of_thread = thread != kNone ? LastIn(of_thread_.Of(thread), wait) : kNone;
    if (of_thread != kNone) return of_thread;
  }
  const uint32_t device = DeviceOf(call);
  const uint32_t on_device = device != kNone ? LastIn(on_device_.Of(device), wait) : kNone;
  if (on_device != kNone || calls.device[call] != kNone) return on_device;
  return LastIn({ends_.data(), ends_.data() + ends_.size()}, wait);
}

std::vector<uint32_t> GpuWaits::LastOfStreams(uint32_t call, int64_t by_ns) const {
  const uint32_t last = Last(call, by_ns);
  if (last == kNone) return {};
  std::vector<uint32_t> rows{last};
  const uint32_t stream = trace_.gpu.stream[last];
  const CallClass call_class = base::CallClassOf(trace_.strings[trace_.calls.name[call]]);
  if (trace_.calls.stream[call] != kNone || !WaitsForDevice(call_class)) return rows;
  for (uint32_t other = 0; other < trace_.streams.size(); ++other) {
    if (other == stream || trace_.streams[other].device != trace_.streams[stream].device) continue;
    const uint32_t row = LastIn(on_stream_.Of(other), {trace_.calls.begin_ns[call], by_ns});
    if (row != kNone) rows.push_back(row);
  }
  return rows;
}

}  // namespace model
PITOT_NAMESPACE_END
