// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk_gpu.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "analyze/facts/copies.h"
#include "analyze/facts/gpu_counters.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/quality.h"
#include "analyze/facts/subjects.h"
#include "base/quantile.h"
#include "pitot/model/classes.h"

namespace pitot::blame {

using model::GpuKind;
using model::kNone;
using model::Trace;

namespace {

using facts::AreGpuTimesKnown;
using facts::DeviceOf;
using facts::DirectionOf;
using facts::GpuCounters;
using facts::GpuCountersOf;
using facts::GpuKey;

// How long a device may stand still after an allocation, in lengths of its call: 1.3 to 1.7 on an H100
// (docs/reference/walk.md#allocations).
constexpr int64_t kAfterAllocation = 2;
constexpr uint32_t kMostAllocations = 8;  // looked at, the newest first

}  // namespace

GpuOps::GpuOps(const Trace& trace, const BlameOptions& options)
    : trace_(trace),
      launches_(trace),
      waiting_(trace),
      waits_(trace, launches_),
      streams_(trace.streams.size()),
      place_(trace.gpu.size(), kNone),
      classes_(trace.strings.size(), CallClass::kOther),
      communicates_(trace.strings.size()),
      calls_of_(trace.requests.size()),
      ops_of_request_(trace.requests.size()),
      ops_of_batch_(trace.batches.size()),
      waits_of_request_(trace.requests.size()),
      waits_of_batch_(trace.batches.size()),
      members_(trace.batches.size()),
      span_of_batch_(trace.batches.size(), kNone),
      are_times_known_(AreGpuTimesKnown(trace, {})) {
  const std::vector<GpuKind>& kinds = trace.gpu.kind;
  has_operations_ = std::any_of(kinds.begin(), kinds.end(), [](auto k) { return k != GpuKind::kSpan; });
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) members_[batch] = trace.batches[batch].member_count;
  std::unordered_map<uint64_t, std::vector<uint32_t>> alike;
  std::vector<bool> is_name_known(trace.strings.size());
  for (uint32_t op = 0; op < trace.gpu.size(); ++op) {
    const model::StringId kernel = trace.gpu.name[op];
    if (!is_name_known[kernel]) communicates_[kernel] = model::IsCommunicationKernel(trace.strings[kernel]);
    is_name_known[kernel] = true;
    if (has_operations_ && IsSpan(op)) continue;
    std::vector<uint32_t>& stream = streams_[trace.gpu.stream[op]];
    place_[op] = static_cast<uint32_t>(stream.size());
    stream.push_back(op);
    if (const uint32_t call = trace.gpu.call[op]; call != kNone) {
      const uint32_t batch = trace.calls.batch[call], request = trace.calls.request[call];
      if (IsSpan(op)) {
        if (batch != kNone && IsLonger(op, span_of_batch_[batch])) span_of_batch_[batch] = op;
      } else if (batch != kNone) {
        ++ops_of_batch_[batch];
      } else if (request != kNone) {
        ++ops_of_request_[request];
      }
    }
    if (kinds[op] == GpuKind::kKernel || IsSpan(op)) alike[KeyOf(op)].push_back(op);
  }
  FindUsual(&alike, options.least_samples);
  FindClocks();
  std::vector<bool> is_known(trace.strings.size());
  std::vector<int64_t> launch_ns;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const model::StringId name = trace.calls.name[call];
    if (!is_known[name]) classes_[name] = base::CallClassOf(trace.strings[name]);
    is_known[name] = true;
    if (Enqueues(classes_[name]) && trace.calls.duration_ns[call] != model::kOpen && !IsLaunchCounted(call))
      launch_ns.push_back(trace.calls.duration_ns[call]);
    const uint32_t request = trace.calls.request[call], batch = trace.calls.batch[call];
    const bool is_wait = base::IsSynchronization(ClassOf(call)) || ClassOf(call) == CallClass::kBlockingCopy;
    if (batch != kNone && is_wait) {
      ++waits_of_batch_[batch];
      waiting_executors_.insert(trace.batches[batch].executor);
    }
    if (request == kNone || batch != kNone) continue;
    waits_of_request_[request] += is_wait ? 1 : 0;
    const model::Interval own{trace.calls.begin_ns[call], trace.CallEnd(call)};
    model::Interval& all = calls_of_[request];
    const bool is_first = all.begin_ns == all.end_ns;
    all = {is_first ? own.begin_ns : std::min(all.begin_ns, own.begin_ns), std::max(all.end_ns, own.end_ns)};
  }
  median_launch_ns_ = base::Median(std::move(launch_ns));
  FindLost();
  FindAllocations();
}

void GpuOps::FindUsual(std::unordered_map<uint64_t, std::vector<uint32_t>>* alike, uint32_t least_samples) {
  std::map<std::pair<model::StringId, uint32_t>, int64_t> kept;
  for (const model::NormRow& norm : trace_.norms) {
    if (norm.kind == model::NormKind::kGpuWork) kept.emplace(std::pair(norm.name, norm.much), norm.total_ns);
  }
  for (auto& [key, ops] : *alike) {
    if (ops.size() >= least_samples) {
      std::vector<int64_t> lengths;
      for (const uint32_t op : ops) lengths.push_back(trace_.gpu.duration_ns[op]);
      usual_ns_.emplace(key, base::Median(std::move(lengths)));
    } else if (const auto found = kept.find({trace_.gpu.name[ops[0]], LikeNumber(ops[0])}); found != kept.end()) {
      usual_ns_.emplace(key, found->second);
      usual_kept_.insert(key);
    }
    ops = {};
  }
}

uint32_t GpuOps::LikeNumber(uint32_t op) const {
  constexpr uint32_t kMost = (uint32_t{1} << model::NormRow::kMuchBits) - 1;
  if (IsSpan(op)) return std::min(static_cast<uint32_t>(KeyOf(op)), kMost);
  const uint32_t row = trace_.gpu.shape[op];
  if (row == kNone) return 0;
  const model::KernelShape& shape = trace_.shapes[row];
  uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3; };
  for (const auto* of : {&shape.grid, &shape.block}) {
    for (const uint32_t size : *of) add(size);
  }
  add(shape.dynamic_shared_bytes);
  return static_cast<uint32_t>(hash >> (64 - model::NormRow::kMuchBits));
}

CallClass GpuOps::ClassOf(uint32_t call) const {
  const CallClass by_name = classes_[trace_.calls.name[call]];
  return Enqueues(by_name) && waiting_.Has(call) ? CallClass::kBlockingCopy : by_name;
}

uint32_t GpuOps::FirstEndingAfter(uint32_t stream, int64_t at_ns) const {
  const std::vector<uint32_t>& ops = streams_[stream];
  return static_cast<uint32_t>(
      std::partition_point(ops.begin(), ops.end(), [&](uint32_t op) { return EndNs(op) <= at_ns; }) - ops.begin());
}

uint32_t GpuOps::Previous(uint32_t op) const {
  const uint32_t place = place_[op];
  return place == 0 || place == kNone ? kNone : streams_[trace_.gpu.stream[op]][place - 1];
}

bool GpuOps::MayHoldUp(uint32_t other, uint32_t op) const {
  const bool is_copy = trace_.gpu.kind[op] == GpuKind::kMemcpy;
  if (is_copy != (trace_.gpu.kind[other] == GpuKind::kMemcpy)) return false;
  return !is_copy || DirectionOf(trace_, other) == DirectionOf(trace_, op);
}

uint32_t GpuOps::MadeRoom(uint32_t call, int64_t by_ns) const {
  const auto caused = launches_.Gpu(call);
  if (caused.size() == 0 || place_[*caused.begin()] == kNone) return kNone;
  const std::vector<uint32_t>& ops = streams_[trace_.gpu.stream[*caused.begin()]];
  const auto after =
      std::partition_point(ops.begin(), ops.end(), [&](uint32_t op) { return trace_.gpu.begin_ns[op] <= by_ns; });
  if (after == ops.begin()) return kNone;
  const uint32_t op = *(after - 1);
  return trace_.gpu.begin_ns[op] > trace_.calls.begin_ns[call] ? op : kNone;
}

uint32_t GpuOps::Ahead(uint32_t op) const {
  const uint32_t call = trace_.gpu.call[op];
  if (call == kNone || place_[op] == kNone) return 0;
  const uint32_t running = FirstEndingAfter(trace_.gpu.stream[op], trace_.calls.begin_ns[call]);
  return place_[op] > running ? place_[op] - running : 0;
}

int64_t GpuOps::UsualNs(uint32_t op) const {
  const auto usual = usual_ns_.find(KeyOf(op));
  return usual != usual_ns_.end() ? usual->second : -1;
}

void GpuOps::FindLost() {
  if (trace_.gpu.size() == 0) return;
  model::Interval lost = {0, 0};  // of the thread, since its last wait for a GPU
  const auto end = [&](int64_t at_ns) {
    if (lost.end_ns > lost.begin_ns) lost_.push_back({lost.begin_ns, std::max(lost.end_ns, at_ns)});
    lost = {0, 0};
  };
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    if (call > 0 && trace_.calls.thread[call] != trace_.calls.thread[call - 1]) end(0);
    const CallClass what = ClassOf(call);
    if (IsWaiting(what)) end(trace_.CallEnd(call));
    if (!Enqueues(what) || launches_.Gpu(call).size() != 0) continue;
    const bool is_first = lost.end_ns == lost.begin_ns;
    lost = {is_first ? trace_.calls.begin_ns[call] : lost.begin_ns, trace_.CallEnd(call)};
  }
  end(0);
  lost_ = model::Union(std::move(lost_));
}

bool GpuOps::MayHaveLost(model::Interval when) const {
  const auto after = std::partition_point(lost_.begin(), lost_.end(),
                                          [&](const model::Interval& one) { return one.end_ns <= when.begin_ns; });
  return after != lost_.end() && after->begin_ns < when.end_ns;
}

// Finds allocations with their device: the one its thread last launched on, or the only one there is. Allocations in
// the order of a stream hold up nothing else.
void GpuOps::FindAllocations() {
  const uint32_t only = trace_.devices.size() == 1 ? 0 : kNone;
  uint32_t device = only;
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    if (call > 0 && trace_.calls.thread[call] != trace_.calls.thread[call - 1]) device = only;
    if (const auto caused = launches_.Gpu(call); caused.size() != 0) device = Device(*caused.begin());
    const CallClass what = ClassOf(call);
    if (what != CallClass::kAlloc && what != CallClass::kFree) continue;
    allocations_.push_back({trace_.calls.begin_ns[call], call, device});
  }
  std::stable_sort(allocations_.begin(), allocations_.end(),
                   [](const Allocation& a, const Allocation& b) { return a.begin_ns < b.begin_ns; });
}

uint32_t GpuOps::AllocationBefore(uint32_t op, int64_t since_ns) const {
  const int64_t begin_ns = trace_.gpu.begin_ns[op];
  auto one = std::partition_point(allocations_.begin(), allocations_.end(),
                                  [&](const Allocation& other) { return other.begin_ns < begin_ns; });
  uint32_t call = kNone;
  for (uint32_t looked = 0; one != allocations_.begin() && looked < kMostAllocations && call == kNone; ++looked) {
    const int64_t end_ns = trace_.CallEnd((--one)->call), took_ns = end_ns - one->begin_ns;
    if (one->device == Device(op) && begin_ns - end_ns <= kAfterAllocation * took_ns) call = one->call;
  }
  if (call == kNone) return kNone;
  for (uint32_t stream = 0; stream < streams_.size(); ++stream) {
    if (trace_.streams[stream].device != Device(op)) continue;
    const auto next = std::partition_point(streams_[stream].begin(), streams_[stream].end(),
                                           [&](uint32_t other) { return trace_.gpu.begin_ns[other] < begin_ns; });
    if (next != streams_[stream].begin() && EndNs(*(next - 1)) > since_ns) return kNone;
  }
  return call;
}

void GpuOps::FindClocks() {
  clocks_.resize(trace_.devices.size());
  const std::map<GpuKey, GpuCounters> gpus = GpuCountersOf(trace_);
  for (const auto& [key, gpu] : gpus) {
    const uint32_t counter = gpu.Find(base::GpuCounter::kSmClock), device = DeviceOf(trace_, gpus, key);
    if (counter == kNone || device == kNone) continue;
    clocks_[device].counter = counter;
    clocks_[device].held = ValuesOf(trace_, counter);
  }
  if (gpus.empty()) return;
  std::vector<std::vector<double>> values(clocks_.size());
  for (uint32_t op = 0; op < trace_.gpu.size(); ++op) {
    if (trace_.gpu.kind[op] != GpuKind::kKernel) continue;
    if (const double clock = ClockOf(op).now; clock > 0) values[Device(op)].push_back(clock);
  }
  for (uint32_t device = 0; device < clocks_.size(); ++device) {
    if (!values[device].empty()) clocks_[device].usual = base::Median(std::move(values[device]));
  }
}

GpuOps::Clock GpuOps::ClockOf(uint32_t op) const {
  if (Device(op) >= clocks_.size()) return {};
  const DeviceClock& clock = clocks_[Device(op)];
  const int64_t at_ns = trace_.gpu.begin_ns[op] + trace_.gpu.duration_ns[op] / 2;
  const auto after = std::partition_point(clock.held.begin(), clock.held.end(),
                                          [&](const model::Held& held) { return held.when.end_ns <= at_ns; });
  if (after == clock.held.end() || after->when.begin_ns > at_ns) return {};
  return {after->value, clock.usual, clock.counter};
}

}  // namespace pitot::blame
