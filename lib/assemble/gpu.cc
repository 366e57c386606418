// SPDX-License-Identifier: Apache-2.0
#include "assemble/gpu.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

PITOT_NAMESPACE_BEGIN
Collector::~Collector() = default;
uint32_t Collector::Depths() const noexcept { return 0; }
void Collector::SetDepth(Depth) noexcept {}
Status Collector::Pause() noexcept { return {}; }
Status Collector::Resume() noexcept { return {}; }
PITOT_NAMESPACE_END

namespace pitot::assemble {

using model::kNone;

static_assert(kNoRow == kNone);

namespace {

// The innermost scope around a moment, by a thread's segments; kNone: none.
uint32_t ScopeAt(const std::vector<model::Segment>& segments, int64_t at_ns) {
  const auto after = std::upper_bound(segments.begin(), segments.end(), at_ns,
                                      [](int64_t ns, const model::Segment& s) { return ns < s.begin_ns; });
  return after != segments.begin() && std::prev(after)->end_ns >= at_ns ? std::prev(after)->event : kNone;
}

// Whether a call was made inside another of its thread that did not begin later. By its middle: times that were
// converted apart from each other are off by a little.
bool IsInside(const GpuCall& call, const GpuCall& outer) {
  if (call.tid != outer.tid || call.tid == 0) return false;
  return call.begin_ns == outer.begin_ns || call.begin_ns + call.duration_ns / 2 < outer.begin_ns + outer.duration_ns;
}

// Correlations of spans are numbers of their own.
uint64_t KeyOf(uint32_t correlation, bool is_of_span) { return correlation | uint64_t{is_of_span} << 32; }

template <class Column> void Permute(const std::vector<uint32_t>& order, Column* column) {
  Column sorted;
  sorted.reserve(column->size());
  for (const uint32_t row : order) sorted.push_back((*column)[row]);
  *column = std::move(sorted);
}

}  // namespace

bool GpuTables::IsInterval(int64_t begin_ns, int64_t duration_ns) const {
  return begin_ns >= 0 && begin_ns <= model::kMaxTimeNs && duration_ns >= 0 &&
         duration_ns <= model::kMaxTimeNs - begin_ns;
}

uint32_t GpuTables::AddText(const char* text) { return trace_.strings.Add(text != nullptr ? text : ""); }

uint32_t GpuTables::AddDevice(const GpuDevice& device) {
  for (uint32_t row = 0; row < trace_.devices.size(); ++row) {
    model::DeviceRow& known = trace_.devices[row];
    if (known.ordinal != device.ordinal) continue;
    const auto learn = [](uint32_t* fact, uint32_t said) {
      if (*fact == 0) *fact = said;
    };
    learn(&known.name, Text(device.name));
    learn(&known.multiprocessors, device.multiprocessors);
    learn(&known.threads_per_multiprocessor, device.threads_per_multiprocessor);
    learn(&known.blocks_per_multiprocessor, device.blocks_per_multiprocessor);
    learn(&known.registers_per_multiprocessor, device.registers_per_multiprocessor);
    learn(&known.shared_bytes_per_multiprocessor, device.shared_bytes_per_multiprocessor);
    return row;
  }
  trace_.devices.push_back({device.ordinal, Text(device.name), device.multiprocessors,
                            device.threads_per_multiprocessor, device.blocks_per_multiprocessor,
                            device.registers_per_multiprocessor, device.shared_bytes_per_multiprocessor});
  return static_cast<uint32_t>(trace_.devices.size() - 1);
}

uint32_t GpuTables::AddStream(uint32_t device, uint32_t context, uint32_t stream) {
  model::StreamRow row;
  row.device = device < trace_.devices.size() ? device : kNone;
  row.context = context;
  row.stream = stream;
  const auto known = std::find_if(trace_.streams.begin(), trace_.streams.end(), [&](const model::StreamRow& other) {
    return std::tie(other.device, other.context, other.stream) == std::tie(row.device, row.context, row.stream);
  });
  if (known != trace_.streams.end()) return static_cast<uint32_t>(known - trace_.streams.begin());
  trace_.streams.push_back(row);
  return static_cast<uint32_t>(trace_.streams.size() - 1);
}

uint32_t GpuTables::AddShape(const uint32_t grid[3], const uint32_t block[3], uint32_t static_shared_bytes,
                             uint32_t dynamic_shared_bytes, uint32_t local_bytes, uint32_t registers) {
  model::KernelShape row;
  std::copy_n(grid, 3, row.grid);
  std::copy_n(block, 3, row.block);
  row.static_shared_bytes = static_shared_bytes;
  row.dynamic_shared_bytes = dynamic_shared_bytes;
  row.local_bytes_per_thread = local_bytes;
  row.registers_per_thread = registers;
  trace_.shapes.push_back(row);
  return static_cast<uint32_t>(trace_.shapes.size() - 1);
}

void GpuTables::Add(const GpuActivity& activity) {
  const auto kind = static_cast<model::GpuKind>(activity.kind);
  const bool is_known = kind >= model::GpuKind::kKernel && kind <= model::GpuKind::kSpan;
  if (is_known && activity.stream < trace_.streams.size() && IsInterval(activity.begin_ns, activity.duration_ns))
    activities_.push_back(activity);
}

void GpuTables::Add(const GpuCall& call) {
  if (IsInterval(call.begin_ns, call.duration_ns)) calls_.push_back(call);
}

void GpuTables::AddOverhead(int64_t begin_ns, int64_t duration_ns, uint32_t name) {
  if (IsInterval(begin_ns, duration_ns)) trace_.overheads.push_back({begin_ns, duration_ns, Text(name)});
}

void GpuTables::Add(const GpuLoss& loss) {
  if (!IsInterval(loss.begin_ns, loss.end_ns - loss.begin_ns)) return;
  const uint32_t stream = loss.stream < trace_.streams.size() ? loss.stream : kNone;
  const uint32_t device = stream != kNone ? trace_.streams[stream].device : loss.device;
  trace_.gpu_losses.push_back({stream, Text(loss.reason), loss.begin_ns, loss.end_ns, loss.records,
                               device < trace_.devices.size() ? device : kNone});
}

void GpuTables::AddDepth(int64_t begin_ns, int64_t end_ns, Depth depth) {
  if (depth <= Depth::kOps && IsInterval(begin_ns, end_ns - begin_ns))
    trace_.depths.push_back({begin_ns, end_ns, depth});
}

void GpuTables::AddOperatorDepth(int64_t begin_ns, int64_t end_ns, Depth depth) {
  if (depth <= Depth::kOps && IsInterval(begin_ns, end_ns - begin_ns))
    trace_.operator_depths.push_back({begin_ns, end_ns, depth});
}

uint32_t GpuTables::AddCounter(uint32_t device, const char* name, const char* unit) {
  const uint32_t of = device < trace_.devices.size() ? device : kNone;
  const model::StringId text = AddText(name);
  const auto [row, is_new] = counters_.try_emplace(uint64_t{of} << 32 | text, trace_.counters.size());
  if (is_new) trace_.counters.push_back({of, text, AddText(unit)});
  return row->second;
}

void GpuTables::AddSample(uint32_t counter, int64_t at_ns, double value) {
  if (counter < trace_.counters.size() && IsInterval(at_ns, 0) && std::isfinite(value))
    samples_.push_back({counter, at_ns, value});
}

void GpuTables::AddAttribute(const char* key, const char* value) {
  trace_.attributes.push_back({AddText(key), AddText(value)});
}

// Of each call that no ring holds the outermost of its thread that it was made inside, by number; its own: none. Of two
// with the same times the outer has the lower correlation, or was added later: calls are recorded as they end.
std::vector<uint32_t> GpuTables::Outermost() const {
  std::vector<uint32_t> order(calls_.size()), outermost(calls_.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key = [&](uint32_t number) {
    const GpuCall& call = calls_[number];
    return std::tuple(call.tid, call.begin_ns, -call.duration_ns, call.correlation, ~number);
  };
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  uint32_t outer = kNone;
  for (const uint32_t number : order) {
    if (outer == kNone || !IsInside(calls_[number], calls_[outer])) outer = number;
    outermost[number] = outer;
  }
  return outermost;
}

// The thread that had a number of the operating system's at a moment, or kNone. Numbers are given again: the last that
// had begun and not exited, or else the first to come, which may have called before its first event.
uint32_t GpuTables::ThreadAt(int64_t tid, int64_t at_ns) const {
  const auto rows = threads_.find(tid);
  if (rows == threads_.end()) return kNone;
  uint32_t found = kNone;
  for (const uint32_t row : rows->second) {
    const bool has_begun = pasts_[row].begin_ns <= at_ns;
    if (pasts_[row].end_ns >= at_ns && (found == kNone || has_begun)) found = row;
  }
  return found;
}

// What a thread worked for; before all that is known of that what the innermost scope around the moment belongs to.
ContextChange GpuTables::ContextAt(uint32_t thread, int64_t at_ns) {
  const std::vector<ContextChange>& contexts = pasts_[thread].contexts;
  const auto after = std::upper_bound(contexts.begin(), contexts.end(), at_ns,
                                      [](int64_t ns, const ContextChange& change) { return ns < change.at_ns; });
  if (after != contexts.begin()) return *std::prev(after);
  const auto [segments, is_new] = flat_.try_emplace(thread);
  if (is_new) segments->second = model::FlattenThread(trace_, thread);
  const uint32_t scope = ScopeAt(segments->second, at_ns);
  if (scope == kNone) return {at_ns, kNone, kNone};
  return {at_ns, trace_.events.request[scope], trace_.events.batch[scope]};
}

// Those that no ring holds, in the context of their thread then, calls inside calls left out; then all in order.
void GpuTables::AddCalls() {
  model::CallColumns& calls = trace_.calls;
  for (uint32_t row = 0; row < trace_.threads.size(); ++row) threads_[trace_.threads[row].tid].push_back(row);
  for (auto& [tid, rows] : threads_) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](uint32_t a, uint32_t b) { return pasts_[a].begin_ns < pasts_[b].begin_ns; });
  }
  const std::vector<uint32_t> outermost = Outermost();
  std::vector<uint32_t> rows(calls_.size());  // of what is kept
  for (uint32_t number = 0; number < calls_.size(); ++number) {
    if (outermost[number] != number) continue;
    const GpuCall& call = calls_[number];
    rows[number] = static_cast<uint32_t>(calls.size());
    // By its middle: its times were converted apart from the thread's.
    const int64_t at_ns = call.begin_ns + call.duration_ns / 2;
    const uint32_t row = ThreadAt(call.tid, at_ns);
    const ContextChange context = row != kNone ? ContextAt(row, at_ns) : ContextChange{at_ns, kNone, kNone};
    calls.begin_ns.push_back(call.begin_ns);
    calls.duration_ns.push_back(call.duration_ns);
    calls.thread.push_back(row);
    calls.request.push_back(context.request);
    calls.batch.push_back(context.batch);
    calls.name.push_back(Text(call.name));
    calls.stream.push_back(kNone);
    correlations_.push_back(call.correlation);
  }
  std::vector<uint32_t> order(calls.size());
  std::iota(order.begin(), order.end(), 0u);
  const auto key = [&](uint32_t row) { return std::tuple(calls.thread[row], calls.begin_ns[row]); };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (auto* column : {&calls.begin_ns, &calls.duration_ns}) Permute(order, column);
  for (auto* column : {&calls.thread, &calls.request, &calls.batch, &calls.name, &calls.stream, &correlations_})
    Permute(order, column);
  std::vector<uint32_t> sorted(order.size());
  for (uint32_t row = 0; row < order.size(); ++row) sorted[order[row]] = row;
  for (uint32_t number = 0; number < calls_.size(); ++number) {
    const uint32_t call = sorted[rows[outermost[number]]], correlation = calls_[number].correlation;
    if (correlation != correlations_[call]) nested_.push_back({correlation, call});
  }
  calls_.clear();
}

// The call with a key that began last before `at_ns`: correlations wrap, and GPUs run after their calls began.
uint32_t GpuTables::CallOf(uint64_t key, int64_t at_ns) const {
  const auto found = calls_of_.find(key);
  if (found == calls_of_.end()) return kNone;
  const std::vector<uint32_t>& calls = found->second;
  const auto after = std::upper_bound(calls.begin(), calls.end(), at_ns,
                                      [&](int64_t ns, uint32_t call) { return ns < trace_.calls.begin_ns[call]; });
  // A clock of the GPU's that is a little early must not cost the only one there is.
  return after != calls.begin() ? *std::prev(after) : calls.front();
}

void GpuTables::JoinCalls() {
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    if (correlations_[call] == 0) continue;
    const bool is_of_span = trace_.strings[trace_.calls.name[call]] == kSpanCallName;
    calls_of_[KeyOf(correlations_[call], is_of_span)].push_back(call);
  }
  for (const Nested& nested : nested_) calls_of_[KeyOf(nested.correlation, false)].push_back(nested.call);
  for (auto& [key, calls] : calls_of_) {
    std::sort(calls.begin(), calls.end(),
              [&](uint32_t a, uint32_t b) { return trace_.calls.begin_ns[a] < trace_.calls.begin_ns[b]; });
  }
}

void GpuTables::Finish() {
  AddCalls();
  JoinCalls();
  std::sort(activities_.begin(), activities_.end(), [](const GpuActivity& a, const GpuActivity& b) {
    return std::tuple(a.stream, a.begin_ns, a.correlation) < std::tuple(b.stream, b.begin_ns, b.correlation);
  });
  model::GpuColumns& gpu = trace_.gpu;
  for (const GpuActivity& activity : activities_) {
    model::StreamRow& stream = trace_.streams[activity.stream];
    if (stream.event_count++ == 0) stream.first_event = gpu.size();
    gpu.begin_ns.push_back(activity.begin_ns);
    gpu.duration_ns.push_back(activity.duration_ns);
    gpu.kind.push_back(static_cast<model::GpuKind>(activity.kind));
    gpu.stream.push_back(activity.stream);
    gpu.name.push_back(Text(activity.name));
    const bool is_span = gpu.kind.back() == model::GpuKind::kSpan;
    gpu.call.push_back(CallOf(KeyOf(activity.correlation, is_span), activity.begin_ns));
    gpu.shape.push_back(activity.shape < trace_.shapes.size() ? activity.shape : kNone);
    gpu.bytes.push_back(activity.bytes);
    gpu.graph.push_back(activity.graph);
    gpu.node.push_back(activity.node);
    gpu.scope_path.push_back(Text(activity.scope_path));
  }
  activities_.clear();
  const auto by_begin = [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; };
  std::sort(trace_.overheads.begin(), trace_.overheads.end(), by_begin);
  std::sort(trace_.depths.begin(), trace_.depths.end(), by_begin);
  std::sort(trace_.operator_depths.begin(), trace_.operator_depths.end(), by_begin);
  SortSamples();
}

void GpuTables::SortSamples() {
  std::stable_sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) {
    return std::tuple(a.counter, a.at_ns) < std::tuple(b.counter, b.at_ns);
  });
  for (const Sample& sample : samples_) {
    trace_.samples.counter.push_back(sample.counter);
    trace_.samples.at_ns.push_back(sample.at_ns);
    trace_.samples.value.push_back(sample.value);
  }
  samples_.clear();
}

}  // namespace pitot::assemble
