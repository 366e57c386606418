// SPDX-License-Identifier: Apache-2.0
#include "simulator/gpus.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "simulator/slow.h"

namespace simulator {
namespace {

bool IsSame(const Culprit& a, const Culprit& b) {
  if (a.batch != 0 || b.batch != 0) return a.batch == b.batch;
  return a.request == b.request;
}

}  // namespace

// The way to the next operation on the stream, which could begin from `ready_ns` on, and begins at `begin_ns`. If the
// operation before it is its own and was still unfinished, the way begins after that, with others' work in between.
// Otherwise it begins at `ready_ns`, and others' work may be before it, too. Time that is nobody else's fault is `own`.
Gpus::Way Gpus::WayTo(uint32_t stream, int64_t ready_ns, int64_t begin_ns, const Culprit& whose, const Segment& own,
                      bool* is_after_own) const {
  const std::vector<Kernel>& kernels = streams_[stream];
  size_t first = kernels.size();  // of others it waits behind
  while (first > 0 && kernels[first - 1].end_ns > ready_ns && !IsSame(kernels[first - 1].whose, whose)) --first;
  *is_after_own = first > 0 && kernels[first - 1].end_ns > ready_ns;
  Way way{ready_ns, {}};
  int64_t at_ns = ready_ns;
  if (*is_after_own) {
    way = kernels[first - 1].way;
    at_ns = kernels[first - 1].end_ns;
  }
  for (size_t i = first; i < kernels.size(); ++i) {
    // Up to the end of each; the time after the last one is its fault, too.
    const int64_t until_ns = i + 1 == kernels.size() ? begin_ns : kernels[i].end_ns;
    Segment behind{at_ns, until_ns, Cause::kGpuQueueWait, 0, {}, kernels[i].whose, {}};
    AppendSegment(behind, &way.segments);
    at_ns = until_ns;
  }
  if (first == kernels.size()) {
    Segment between = own;
    between.begin_ns = at_ns;
    between.end_ns = begin_ns;
    AppendSegment(between, &way.segments);
  }
  return way;
}

void Gpus::Launch(uint32_t stream, const std::string& name, const Times& times, const Context& context,
                  const Culprit& whose) {
  last_call_ns_[DeviceOf(stream)] = times.call_ns;
  const int64_t ready_ns = std::max(times.call_ns, DoneNs(stream)), begin_ns = ready_ns + times.dispatch_ns;
  Kernel kernel{name,     times.call_ns, times.call_ns + times.api_ns,
                ready_ns, begin_ns,      EndOfWork(begin_ns, times.kernel_ns, *slow_clocks_),
                whose,    calls_.size(), {}};
  calls_.push_back({kLaunchName, context, kernel.call_ns, kernel.called_ns, kNobody, kNobody});

  Segment own;
  own.cause = Cause::kDispatchGap;
  own.name = name;
  bool is_after_own = false;
  kernel.way = WayTo(stream, kernel.call_ns, kernel.begin_ns, whose, own, &is_after_own);
  const bool waits_for_nobody = DoneNs(stream) <= kernel.call_ns;
  if (waits_for_nobody) {
    kernel.way.segments.clear();
    const int64_t returned_ns = std::min(kernel.called_ns, kernel.begin_ns);
    AppendSegment({kernel.call_ns, returned_ns, Cause::kCall, context.thread, kLaunchName, {}, {}},
                  &kernel.way.segments);
    AppendSegment({returned_ns, kernel.begin_ns, Cause::kLaunchLatency, 0, name, {}, {}}, &kernel.way.segments);
  }
  AppendSegment({kernel.begin_ns, kernel.end_ns, Cause::kKernel, 0, name, {}, {}}, &kernel.way.segments);
  streams_[stream].push_back(kernel);
}

uint32_t Gpus::DoneLast(uint32_t stream) const {
  uint32_t last = stream;
  for (uint32_t other = 0; other < streams_.size(); ++other) {
    if (DeviceOf(other) == DeviceOf(stream) && DoneNs(other) > DoneNs(last)) last = other;
  }
  return last;
}

bool Gpus::EndsWithOwn(uint32_t stream, int64_t at_ns, const Culprit& whose) const {
  return DoneNs(stream) > at_ns && IsSame(streams_[stream].back().whose, whose);
}

Gpus::Way Gpus::Sync(uint32_t stream, const Waiting& waiting, const Context& context, const Culprit& whose) {
  const bool is_of_device = waiting.is_of_device;
  last_call_ns_[DeviceOf(stream)] = waiting.begin_ns;
  calls_.push_back({is_of_device ? kSyncDeviceName : kSyncName, context, waiting.begin_ns, waiting.end_ns,
                    waiting.is_told && !is_of_device ? stream : kNobody,
                    waiting.is_told && is_of_device ? DeviceOf(stream) : kNobody});
  bool is_after_own = false;
  return WayTo(stream, waiting.begin_ns, std::max(waiting.begin_ns, DoneNs(stream)), whose, {}, &is_after_own);
}

void Gpus::AddTo(int64_t now_ns, pitot::model::Trace* trace) const {
  using pitot::model::kNone;
  if (streams_.empty()) return;
  std::map<uint32_t, uint32_t> threads;
  std::map<uint64_t, uint32_t> requests, batches;
  for (uint32_t row = 0; row < trace->threads.size(); ++row) threads[trace->threads[row].number] = row;
  for (uint32_t row = 0; row < trace->requests.size(); ++row) requests[trace->requests[row].id] = row;
  for (uint32_t row = 0; row < trace->batches.size(); ++row) batches[trace->batches[row].id] = row;
  const auto row_of = [](const auto& rows, auto key) {
    const auto found = rows.find(key);
    return found != rows.end() ? found->second : kNone;
  };
  std::vector<size_t> order(calls_.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const uint32_t of_a = row_of(threads, calls_[a].context.thread), of_b = row_of(threads, calls_[b].context.thread);
    return of_a != of_b ? of_a < of_b : calls_[a].begin_ns < calls_[b].begin_ns;
  });
  std::vector<uint32_t> rows(calls_.size(), kNone);
  for (const size_t i : order) {
    const Call& call = calls_[i];
    rows[i] = trace->calls.size();
    trace->calls.begin_ns.push_back(call.begin_ns);
    trace->calls.duration_ns.push_back(call.end_ns <= now_ns ? call.end_ns - call.begin_ns : pitot::model::kOpen);
    trace->calls.thread.push_back(row_of(threads, call.context.thread));
    trace->calls.request.push_back(row_of(requests, call.context.request));
    trace->calls.batch.push_back(row_of(batches, call.context.batch));
    trace->calls.name.push_back(trace->strings.Add(call.name));
    trace->calls.stream.push_back(call.stream != kNobody ? call.stream : kNone);
    trace->calls.device.push_back(call.device != kNobody ? call.device : kNone);
  }
  for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
    const uint32_t device = DeviceOf(stream);
    if (device == trace->devices.size()) trace->devices.push_back({device, 0, 0, 0, 0, 0, 0});
    trace->streams.push_back({device, 1, 7 + stream % streams_per_device_, 0, trace->gpu.size(), 0});
    for (const Kernel& kernel : streams_[stream]) {
      if (kernel.end_ns > now_ns) break;  // devices record finished work
      trace->gpu.begin_ns.push_back(kernel.begin_ns);
      trace->gpu.duration_ns.push_back(kernel.end_ns - kernel.begin_ns);
      trace->gpu.kind.push_back(pitot::model::GpuKind::kKernel);
      trace->gpu.stream.push_back(stream);
      trace->gpu.name.push_back(trace->strings.Add(kernel.name));
      trace->gpu.call.push_back(rows[kernel.call]);
      trace->gpu.shape.push_back(kNone);
      trace->gpu.bytes.push_back(0);
      trace->gpu.graph.push_back(0);
      trace->gpu.node.push_back(0);
      trace->gpu.scope_path.push_back(0);
      ++trace->streams.back().event_count;
    }
  }
}

}  // namespace simulator
