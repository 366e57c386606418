// SPDX-License-Identifier: Apache-2.0
#include "assemble/gpu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <numeric>
#include <tuple>
#include <utility>

#include "assemble/reordering.h"
#include "base/call_class.h"
#include "base/gpu_uuid.h"
#include "base/sort_runs.h"
#include "pitot/extend/call.h"
#include "trace/names.h"

PITOT_NAMESPACE_BEGIN
Collector::~Collector() = default;
void Collector::ExpectDepth(Depth) noexcept {}
void Collector::Arm(bool) noexcept {}
uint32_t Collector::Depths() const noexcept { return 0; }
uint64_t Collector::IncidentBytes() const noexcept { return 1 << 20; }
uint64_t Collector::HeldBytes() const noexcept { return 0; }
void Collector::SetDepth(Depth) noexcept {}
Status Collector::Pause() noexcept { return {}; }
Status Collector::Stopped() const noexcept { return {}; }
Status Collector::Resume() noexcept { return {}; }
PITOT_NAMESPACE_END

namespace pitot::assemble {

using model::GpuKind;
using model::kNone;

static_assert(kNoRow == kNone);

namespace {

// The innermost scope at a moment, from a thread's segments; kNone: none.
uint32_t ScopeAt(const std::vector<model::Segment>& segments, int64_t at_ns) {
  const auto after = std::upper_bound(segments.begin(), segments.end(), at_ns,
                                      [](int64_t ns, const model::Segment& s) { return ns < s.begin_ns; });
  return after != segments.begin() && std::prev(after)->end_ns >= at_ns ? std::prev(after)->event : kNone;
}

// Whether a call was made inside another call of its thread that did not begin later. Compares its middle, because
// separately converted times are off by a little.
bool IsInside(const GpuCall& call, const GpuCall& outer) {
  if (call.tid != outer.tid || call.tid == 0) return false;
  return call.begin_ns == outer.begin_ns || call.begin_ns + call.duration_ns / 2 < outer.begin_ns + outer.duration_ns;
}

// A GPU clock that is a little early must not cost a row its call.
constexpr int64_t kEarlyNs = 1'000'000;

// Correlations are used again, and ends are paired with beginnings by them. So a call that ended this long before the
// window caused nothing in it, and a launch that began as long before is two calls.
constexpr int64_t kOldestCallNs = 30'000'000'000;

// Does not double the capacity, which would take three times the memory for a moment. SortActivities returns the rest.
template <class Value> void Append(const Value& value, std::vector<Value>* column) {
  if (column->size() == column->capacity()) column->reserve(column->size() + column->size() / 2 + 256);
  column->push_back(value);
}

// Rows in the order of their keys, which are distinct. Collectors add the newest first.
template <class Key> std::vector<uint32_t> NewestLast(size_t rows, const Key& key) {
  std::vector<uint32_t> order(rows);
  std::iota(order.rbegin(), order.rend(), 0u);
  base::SortRuns(&order, [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  return order;
}

}  // namespace

bool GpuTables::IsInterval(int64_t begin_ns, int64_t duration_ns) const {
  return begin_ns >= 0 && begin_ns <= model::kMaxTimeNs && duration_ns >= 0 &&
         duration_ns <= model::kMaxTimeNs - begin_ns;
}

bool GpuTables::IsBetween(int64_t begin_ns, int64_t end_ns) const {
  return begin_ns >= 0 && end_ns >= begin_ns && IsInterval(begin_ns, end_ns - begin_ns);
}

bool GpuTables::IsValid(int64_t begin_ns, int64_t duration_ns) {
  const bool is_valid = IsInterval(begin_ns, duration_ns);
  collectors_.back().invalid_rows += !is_valid;
  return is_valid;
}

void GpuTables::BeginCollector(uint64_t bytes, std::string_view name) {
  own_bytes_ = bytes, is_full_ = false;
  collectors_.push_back({std::string(name), static_cast<uint32_t>(calls_.size()), {}});
}

bool GpuTables::TakeRoom(uint64_t cost, uint32_t device, int64_t begin_ns, int64_t duration_ns) {
  if (!is_full_ && own_bytes_ + spare_bytes_ >= cost) {
    Charge(cost);
    return true;
  }
  is_full_ = true;
  LeftOut& out = left_out_[device];
  out.begin_ns = std::min(out.begin_ns, begin_ns);
  out.end_ns = std::max(out.end_ns, begin_ns + duration_ns);
  ++out.rows;
  return false;
}

// Charges at most the remaining room.
void GpuTables::Charge(uint64_t cost) {
  const uint64_t own = std::min(cost, own_bytes_);
  own_bytes_ -= own;
  spare_bytes_ -= std::min(cost - own, spare_bytes_);
}

uint32_t GpuTables::AddText(const char* text) {
  const uint32_t known = trace_.strings.size();
  const uint32_t id = trace_.strings.Add(text != nullptr ? text : "");
  if (id == known) Charge(kStringCost + trace_.strings[id].size());
  return id;
}

// The first collector that knows it tells it.
void GpuTables::AddUuid(const GpuDevice& device) {
  if (Text(device.uuid) == 0 || !has_uuid_.insert(device.ordinal).second) return;
  const std::string uuid(trace_.strings[device.uuid]);
  AddAttribute(base::GpuUuidKey(device.ordinal).c_str(), uuid.c_str());
}

uint32_t GpuTables::AddDevice(const GpuDevice& device) {
  AddUuid(device);
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
    learn(&known.threads_per_warp, device.threads_per_warp);
    return row;
  }
  trace_.devices.push_back({device.ordinal, Text(device.name), device.multiprocessors,
                            device.threads_per_multiprocessor, device.blocks_per_multiprocessor,
                            device.registers_per_multiprocessor, device.shared_bytes_per_multiprocessor,
                            device.threads_per_warp});
  return static_cast<uint32_t>(trace_.devices.size() - 1);
}

uint32_t GpuTables::AddStream(uint32_t device, uint32_t context, uint32_t stream) {
  model::StreamRow row;
  row.device = device < trace_.devices.size() ? device : kNone;
  row.context = context;
  row.stream = stream;
  added_by_.resize(trace_.streams.size());  // memory may have run out below
  for (uint32_t known = 0; known < added_by_.size(); ++known) {
    const model::StreamRow& other = trace_.streams[known];
    const bool is_same =
        std::tie(other.device, other.context, other.stream) == std::tie(row.device, row.context, row.stream);
    if (is_same && added_by_[known] == collectors_.size() - 1) return known;
  }
  added_by_.push_back(static_cast<uint32_t>(collectors_.size() - 1));
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
  Append(row, &trace_.shapes);
  Charge(sizeof row);
  return static_cast<uint32_t>(trace_.shapes.size() - 1);
}

void GpuTables::Add(const GpuActivity& activity) {
  const bool is_known = activity.kind >= GpuKind::kKernel && activity.kind <= GpuKind::kSpan;
  if (!is_known || activity.stream >= trace_.streams.size() || !IsInterval(activity.begin_ns, activity.duration_ns)) {
    ++collectors_.back().invalid_rows;
    return;
  }
  const uint32_t device = trace_.streams[activity.stream].device;
  if (!TakeRoom(kActivityCost, device, activity.begin_ns, activity.duration_ns)) return;
  model::GpuColumns& gpu = trace_.gpu;
  Append(activity.begin_ns, &gpu.begin_ns);
  Append(activity.duration_ns, &gpu.duration_ns);
  Append(activity.kind, &gpu.kind);
  Append(activity.stream, &gpu.stream);
  Append(Text(activity.name), &gpu.name);
  Append(activity.correlation, &gpu.call);  // until SortActivities
  Append(activity.shape < trace_.shapes.size() ? activity.shape : kNone, &gpu.shape);
  Append(activity.bytes, &gpu.bytes);
  Append(activity.graph, &gpu.graph);
  Append(activity.node, &gpu.node);
  Append(Text(activity.scope_path), &gpu.scope_path);
}

void GpuTables::Add(const GpuCall& call) {
  if (IsValid(call.begin_ns, call.duration_ns) && TakeRoom(kGpuCallCost, kNone, call.begin_ns, call.duration_ns))
    calls_.push_back(call);
}

void GpuTables::AddOverhead(int64_t begin_ns, int64_t duration_ns, uint32_t name) {
  if (IsValid(begin_ns, duration_ns) && TakeRoom(2 * sizeof(model::OverheadRow), kNone, begin_ns, duration_ns))
    Append(model::OverheadRow{begin_ns, duration_ns, Text(name)}, &trace_.overheads);
}

void GpuTables::Add(const GpuLoss& loss) {
  if (!IsBetween(loss.begin_ns, loss.end_ns)) {
    ++collectors_.back().invalid_rows;
    return;
  }
  const uint32_t stream = loss.stream < trace_.streams.size() ? loss.stream : kNone;
  const uint32_t device = stream != kNone ? trace_.streams[stream].device : loss.device;
  trace_.gpu_losses.push_back({stream, Text(loss.reason), loss.begin_ns, loss.end_ns, loss.records,
                               device < trace_.devices.size() ? device : kNone});
}

void GpuTables::AddDepth(int64_t begin_ns, int64_t end_ns, Depth depth) {
  if (depth <= Depth::kOps && IsBetween(begin_ns, end_ns)) trace_.depths.push_back({begin_ns, end_ns, depth});
}

void GpuTables::AddOperatorDepth(int64_t begin_ns, int64_t end_ns, Depth depth) {
  if (depth <= Depth::kOps && IsBetween(begin_ns, end_ns)) trace_.operator_depths.push_back({begin_ns, end_ns, depth});
}

uint32_t GpuTables::AddCounter(uint32_t device, const char* name, const char* unit) {
  const uint32_t of = device < trace_.devices.size() ? device : kNone;
  const model::StringId text = AddText(name);
  const auto [row, is_new] = counters_.try_emplace(uint64_t{of} << 32 | text, trace_.counters.size());
  if (is_new) trace_.counters.push_back({of, text, AddText(unit)});
  return row->second;
}

void GpuTables::AddSample(uint32_t counter, int64_t at_ns, double value) {
  if (counter >= trace_.counters.size() || !std::isfinite(value)) {
    ++collectors_.back().invalid_rows;
    return;
  }
  if (!IsValid(at_ns, 0)) return;
  if (own_bytes_ + spare_bytes_ < kSampleCost) {
    ++collectors_.back().samples_left_out;
    return;
  }
  Charge(kSampleCost);
  samples_.push_back({counter, at_ns, value});
}

void GpuTables::AddAttribute(const char* key, const char* value) {
  trace_.attributes.push_back({AddText(key), AddText(value)});
}

// For each call outside of rings, the number of the outermost call of its thread around it, or its own. If two calls
// have the same times, the outer one has the lower correlation, or was added first: calls are recorded as they end, and
// the newest are added first.
std::vector<uint32_t> GpuTables::Outermost() const {
  std::vector<uint32_t> outermost(calls_.size());
  const auto key = [&](uint32_t number) {
    const GpuCall& call = calls_[number];
    return std::tuple(call.tid, call.begin_ns, -call.duration_ns, call.correlation, number);
  };
  uint32_t outer = kNone;
  for (const uint32_t number : NewestLast(calls_.size(), key)) {
    if (outer == kNone || !IsInside(calls_[number], calls_[outer])) outer = number;
    outermost[number] = outer;
  }
  return outermost;
}

// The thread with an operating system's number at a moment, or kNone. Numbers are reused: it is the last thread that
// had begun and not exited. Otherwise it is the next one, which may have called before its first event.
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

// A thread's context; before all that is known, the context of the innermost scope around the moment.
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

// Gives the sources of the rings' calls the numbers of their collectors.
void GpuTables::NumberCollectors() {
  std::map<uint32_t, uint32_t> numbers;  // by index of the name
  for (CallSource& source : sources_) {
    const auto [number, is_new] = numbers.try_emplace(source.collector, 0);
    if (is_new && source.collector != 0) {
      const std::string name = texts_.Name(source.collector);
      const auto found =
          std::find_if(collectors_.begin() + 1, collectors_.end(), [&](const Added& it) { return it.name == name; });
      if (found != collectors_.end()) number->second = static_cast<uint32_t>(found - collectors_.begin());
    }
    source.collector = number->second;
  }
}

// The collector that added a call outside of rings.
uint32_t GpuTables::AdderOf(uint32_t call) const {
  const auto after = std::upper_bound(collectors_.begin(), collectors_.end(), call,
                                      [](uint32_t number, const Added& it) { return number < it.first_call; });
  return static_cast<uint32_t>(after - collectors_.begin()) - 1;
}

// Finds the targets of waits in the rings' calls, among the rows of the collector with their numbering. The same number
// from another collector means another stream, and maybe another device. Targets without a row stay unknown.
void GpuTables::ResolveAwaited() {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> streams;  // by collector, context and number
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> devices;             // by collector and context
  added_by_.resize(trace_.streams.size());
  for (uint32_t row = 0; row < added_by_.size(); ++row) {
    const model::StreamRow& stream = trace_.streams[row];
    streams.try_emplace({added_by_[row], stream.context, stream.stream}, row);
    devices.try_emplace({added_by_[row], stream.context}, stream.device);
  }
  const auto find = [](const auto& rows, auto key) {
    const auto found = rows.find(key);
    return found != rows.end() ? found->second : kNone;
  };
  model::CallColumns& calls = trace_.calls;
  for (uint32_t row = 0; row < calls.size(); ++row) {
    const uint32_t context = std::exchange(calls.device[row], kNone), number = std::exchange(calls.stream[row], kNone);
    if (context == 0) continue;
    const uint32_t collector = sources_[row].collector;
    if (number == kAllStreams) {
      calls.device[row] = find(devices, std::pair(collector, context));
    } else {
      calls.stream[row] = find(streams, std::tuple(collector, context, number));
    }
  }
}

bool GpuTables::IsStale(uint32_t call) const {
  const int64_t least_ns = trace_.window_begin_ns - kOldestCallNs, begin_ns = trace_.calls.begin_ns[call];
  if (begin_ns >= least_ns) return false;
  return begin_ns + trace_.calls.duration_ns[call] < least_ns ||
         base::CallClassOf(trace_.strings[trace_.calls.name[call]]) == base::CallClass::kLaunch;
}

// Adds the calls outside of rings, without nested ones, with the context of their thread; then sorts all calls, and
// leaves out those that are stale.
void GpuTables::AddCalls() {
  model::CallColumns& calls = trace_.calls;
  for (uint32_t row = 0; row < trace_.threads.size(); ++row) threads_[trace_.threads[row].tid].push_back(row);
  for (auto& [tid, rows] : threads_) {
    std::stable_sort(rows.begin(), rows.end(),
                     [&](uint32_t a, uint32_t b) { return pasts_[a].begin_ns < pasts_[b].begin_ns; });
  }
  const std::vector<uint32_t> outermost = Outermost();
  std::vector<uint32_t> rows(calls_.size());  // of the kept calls
  for (uint32_t number = 0; number < calls_.size(); ++number) {
    if (outermost[number] != number) continue;
    const GpuCall& call = calls_[number];
    rows[number] = static_cast<uint32_t>(calls.size());
    // By its middle, because its times were converted separately from the thread's.
    const int64_t at_ns = call.begin_ns + call.duration_ns / 2;
    const uint32_t row = ThreadAt(call.tid, at_ns);
    const ContextChange context = row != kNone ? ContextAt(row, at_ns) : ContextChange{at_ns, kNone, kNone};
    Append(call.begin_ns, &calls.begin_ns);
    Append(call.duration_ns, &calls.duration_ns);
    Append(row, &calls.thread);
    Append(context.request, &calls.request);
    Append(context.batch, &calls.batch);
    Append(Text(call.name), &calls.name);
    Append(kNone, &calls.stream);
    Append(kNone, &calls.device);
    Append(CallSource{call.correlation, AdderOf(number)}, &sources_);
  }
  std::vector<uint32_t> order, sorted(calls.size(), kNone);
  order.reserve(calls.size());
  for (uint32_t row = 0; row < calls.size(); ++row) {
    if (IsStale(row)) {
      ++collectors_[sources_[row].collector].stale_calls;
    } else {
      order.push_back(row);
    }
  }
  const auto key = [&](uint32_t row) { return std::tuple(calls.thread[row], calls.begin_ns[row]); };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  const Reordering reordering(order);
  for (auto* column : {&calls.begin_ns, &calls.duration_ns}) reordering.Apply(column);
  for (auto* column : {&calls.thread, &calls.request, &calls.batch, &calls.name, &calls.stream, &calls.device})
    reordering.Apply(column);
  reordering.Apply(&sources_);
  for (uint32_t row = 0; row < order.size(); ++row) sorted[order[row]] = row;
  for (uint32_t number = 0; number < calls_.size(); ++number) {
    const uint32_t call = sorted[rows[outermost[number]]], correlation = calls_[number].correlation;
    const uint32_t collector = AdderOf(number);
    if (call == kNone) continue;
    if (correlation != sources_[call].correlation || collector != sources_[call].collector)
      Append(Cause{correlation, call}, &collectors_[collector].causes);
  }
  calls_.clear();
  calls_.shrink_to_fit();
}

// The call with a correlation that began last before `at_ns`: correlations wrap, and GPU work runs after its call
// began. `near`: where the last one was found in some causes; the next is often there, or right after it.
uint32_t GpuTables::CallOf(const std::vector<Cause>& causes, uint32_t correlation, int64_t at_ns, size_t* near) const {
  if (correlation == 0) return kNone;
  const auto begin_ns = [&](const Cause& cause) { return trace_.calls.begin_ns[cause.call]; };
  const auto is_before = [&](const Cause& cause) {
    return std::tuple(cause.correlation, begin_ns(cause)) <= std::tuple(correlation, at_ns);
  };
  const auto is_end = [&](size_t at) {
    return at <= causes.size() && (at == 0 || is_before(causes[at - 1])) &&
           (at == causes.size() || !is_before(causes[at]));
  };
  if (!is_end(*near) && !is_end(++*near))
    *near = static_cast<size_t>(std::partition_point(causes.begin(), causes.end(), is_before) - causes.begin());
  const auto after = causes.begin() + static_cast<std::ptrdiff_t>(*near);
  if (after != causes.begin() && std::prev(after)->correlation == correlation) return std::prev(after)->call;
  const bool is_soon =
      after != causes.end() && after->correlation == correlation && begin_ns(*after) - at_ns <= kEarlyNs;
  return is_soon ? after->call : kNone;
}

void GpuTables::IndexCalls() {
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    const auto [correlation, collector] = sources_[call];
    if (correlation != 0) Append(Cause{correlation, call}, &collectors_[collector].causes);
  }
  const auto key = [&](const Cause& cause) {
    return std::tuple(cause.correlation, trace_.calls.begin_ns[cause.call], cause.call);
  };
  for (Added& collector : collectors_)
    std::sort(collector.causes.begin(), collector.causes.end(),
              [&](const Cause& a, const Cause& b) { return key(a) < key(b); });
}

void GpuTables::SortActivities() {
  model::GpuColumns& gpu = trace_.gpu;
  const auto key = [&](uint32_t row) { return std::tuple(gpu.stream[row], gpu.begin_ns[row], gpu.call[row], ~row); };
  const std::vector<uint32_t> order = NewestLast(gpu.size(), key);
  const auto sort = [&](auto* column) {
    std::remove_reference_t<decltype(*column)> sorted;
    sorted.reserve(order.size());
    for (const uint32_t row : order) sorted.push_back((*column)[row]);
    column->swap(sorted);
  };
  for (auto* column : {&gpu.begin_ns, &gpu.duration_ns}) sort(column);
  for (auto* column : {&gpu.stream, &gpu.name, &gpu.call, &gpu.shape, &gpu.graph, &gpu.node, &gpu.scope_path})
    sort(column);
  sort(&gpu.kind);
  sort(&gpu.bytes);
  size_t near = 0;
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    model::StreamRow& stream = trace_.streams[gpu.stream[row]];
    if (stream.event_count++ == 0) stream.first_event = row;
    gpu.call[row] = CallOf(collectors_[added_by_[gpu.stream[row]]].causes, gpu.call[row], gpu.begin_ns[row], &near);
  }
}

void GpuTables::AddLeftOut() {
  for (const auto& [device, out] : left_out_)
    trace_.gpu_losses.push_back(
        {kNone, trace_.strings.Add("no room in the incident"), out.begin_ns, out.end_ns, out.rows, device});
}

// None is a loss of GPU records, which would make verdicts unreliable.
void GpuTables::AddCounts() {
  for (const Added& collector : collectors_) {
    const std::string prefix = "collector." + collector.name + ".";
    if (collector.invalid_rows != 0)
      AddAttribute((prefix + "invalid_rows").c_str(), std::to_string(collector.invalid_rows).c_str());
    if (collector.samples_left_out != 0)
      AddAttribute((prefix + "samples_left_out").c_str(), std::to_string(collector.samples_left_out).c_str());
    if (collector.stale_calls != 0)
      AddAttribute((prefix + "stale_calls").c_str(), std::to_string(collector.stale_calls).c_str());
  }
}

void GpuTables::Finish() {
  NumberCollectors();
  ResolveAwaited();
  AddCalls();
  AddCounts();
  IndexCalls();
  SortActivities();
  AddLeftOut();
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
  trace_.samples.counter.reserve(samples_.size());
  trace_.samples.at_ns.reserve(samples_.size());
  trace_.samples.value.reserve(samples_.size());
  for (const Sample& sample : samples_) {
    trace_.samples.counter.push_back(sample.counter);
    trace_.samples.at_ns.push_back(sample.at_ns);
    trace_.samples.value.push_back(sample.value);
  }
  samples_.clear();
}

}  // namespace pitot::assemble
