// SPDX-License-Identifier: Apache-2.0
#include "read/kineto_builder.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/columns.h"
#include "base/gpu_loss_reason.h"
#include "base/text.h"
#include "model/loss_rows.h"
#include "read/decimal.h"
#include "read/kineto_names.h"
#include "read/missing_work.h"
#include "read/row_order.h"
#include "read/texts.h"

namespace pitot::read {

using model::GpuKind;
using model::kNone;
using model::StringId;

namespace {

constexpr size_t kMostThreadNames = 1 << 20;
constexpr size_t kMostShapeBytes = 16 << 10;
constexpr int64_t kNoProcess = -1;                           // of waits that Intel's tools record
constexpr int64_t kFirstDateNs = 1'000'000'000'000'000'000;  // in 2001: times before are of a clock without a date
constexpr int64_t kHourNs = 3'600'000'000'000;
constexpr size_t kMostUnknownKinds = 5;
constexpr size_t kMostLosses = 100;  // of records that were set aside; more become part of the first of their stream

bool IsGood(const KinetoEvent& event) {
  return event.begin_ns && event.duration_ns && event.name.size() <= kMostNameBytes;
}

// Removes the spaces between the elements of a list.
std::string Compact(std::string_view json) {
  std::string compact(json);
  std::erase_if(compact, [](char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; });
  return compact;
}

// Keeps these rows of columns, in ascending order.
template <class... T> void Keep(const std::vector<uint32_t>& rows, std::vector<T>*... columns) {
  const auto keep = [&](auto* column) {
    for (uint32_t row = 0; row < rows.size(); ++row) (*column)[row] = (*column)[rows[row]];
    column->resize(rows.size());
  };
  (keep(columns), ...);
}

// The rows whose value `picks` picks.
template <class T, class Picks> std::vector<uint32_t> RowsWhere(const std::vector<T>& column, const Picks& picks) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < column.size(); ++row) {
    if (picks(column[row])) rows.push_back(row);
  }
  return rows;
}

}  // namespace

KinetoBuilder::KinetoBuilder(model::Trace* trace, KinetoReport* report) : trace_(*trace), report_(*report) {}

void KinetoBuilder::Add(const KinetoEvent& event) {
  ++report_.events;
  if (event.phase == "M") return AddThreadName(event);
  if (event.name == "[memory]") return AddMemory(event);
  const Category category = CategoryOf(event);
  if (category <= Category::kUnused) {
    ++report_.events_unused;
    if (category == Category::kUnknown) SeeUnknown(event);
    if (has_uncorrelated_) AddArrow(event);
    return;
  }
  Take(category, event);
}

void KinetoBuilder::Add(Category category, const KinetoEvent& event) {
  ++report_.events;
  Take(category, event);
}

void KinetoBuilder::Take(Category category, const KinetoEvent& event) {
  if (!IsGood(event)) {
    ++report_.events_bad;
    return;
  }
  switch (category) {
    case Category::kOperator:
      // PyTorch 1.8 had one category for operators and steps.
      return AddScope(event, event.name.substr(0, 12) == "ProfilerStep" ? SiteKind::kScope : SiteKind::kOperator);
    case Category::kScope:
      return AddScope(event, SiteKind::kScope);
    case Category::kInstant:
      return AddScope(event, SiteKind::kInstant);
    case Category::kCall:
      return AddCall(event);
    case Category::kKernel:
      return AddGpu(event, GpuKind::kKernel);
    case Category::kMemcpy:
      return AddGpu(event, GpuKind::kMemcpy);
    case Category::kMemset:
      return AddGpu(event, GpuKind::kMemset);
    case Category::kGraph:
      return AddGpu(event, GpuKind::kGraph);
    case Category::kSync:
      return AddSync(event);
    case Category::kHostSync:
      return AddCall(event);
    case Category::kOverhead:
      return AddOverhead(event);
    case Category::kUnknown:
    case Category::kUnused:
      break;
  }
}

StringId KinetoBuilder::Intern(std::string_view text) { return read::Intern(text, &trace_); }

int64_t KinetoBuilder::Number(const KinetoId& id) {
  if (id.text.empty()) return id.number;
  return texts_.try_emplace(std::string(id.text), -2 - static_cast<int64_t>(texts_.size())).first->second;
}

bool KinetoBuilder::TakeTime(const KinetoEvent& event, Time* time) {
  time->begin_ns = *event.begin_ns;
  time->duration_ns = std::max<int64_t>(0, *event.duration_ns);
  if (time->begin_ns < 0 || time->begin_ns > model::kMaxTimeNs ||
      time->duration_ns > model::kMaxTimeNs - time->begin_ns || time->duration_ns > model::kMaxTimeNs - total_ns_) {
    ++report_.times_out_of_range;
    return false;
  }
  total_ns_ += time->duration_ns;
  report_.durations_negative += *event.duration_ns < 0;
  return true;
}

uint32_t KinetoBuilder::Thread(const KinetoEvent& event) { return Thread({ProcessOf(event.pid), Number(event.tid)}); }

uint32_t KinetoBuilder::Thread(const ThreadKey& key) {
  if (last_thread_row_ != kNone && key == last_thread_) return last_thread_row_;
  const auto [found, is_new] = threads_.try_emplace(key, static_cast<uint32_t>(trace_.threads.size()));
  if (is_new) {
    UseGroup(key.first.group);
    model::ThreadRow row;
    row.number = found->second + 1;
    row.tid = key.second;
    trace_.threads.push_back(row);
    thread_processes_.push_back(key.first);
    if (key.first.pid != kNoProcess) thread_of_number_.try_emplace({key.first.group, key.second}, found->second);
    if (trace_.pid == 0 && key.first.pid > 0) trace_.pid = key.first.pid;
  }
  last_thread_ = key;
  return last_thread_row_ = found->second;
}

uint32_t KinetoBuilder::Site(SiteKind kind, StringId name, uint32_t args, bool is_python) {
  const uint64_t key = uint64_t{name} << 16 | uint64_t{static_cast<uint8_t>(kind)} << 8 | (is_python ? 4 : 0) | args;
  const auto [found, is_new] = sites_.try_emplace(key, static_cast<uint32_t>(trace_.sites.size()));
  if (!is_new) return found->second;
  model::SiteRow row;
  row.kind = kind;
  row.name = name;
  if (args > 0) row.arg_names.push_back(trace_.strings.Add("shapes"));
  if (args > 1) row.arg_names.push_back(trace_.strings.Add("types"));
  if (args > 2) row.arg_names.push_back(trace_.strings.Add("inputs"));
  row.arg_types.assign(args, ArgType::kString);
  if (is_python) row.function = name;
  // Most Python functions are called "folder/file.py(12): function".
  const std::string_view text = trace_.strings[name];
  const size_t bracket = text.find('('), colon = text.find("): ");
  if (kind == SiteKind::kScope && bracket != std::string_view::npos && colon != std::string_view::npos &&
      bracket < colon) {
    if (const auto line = ParseDecimal(text.substr(bracket + 1, colon - bracket - 1), 0);
        line && *line >= 0 && *line <= UINT32_MAX) {
      // Copies, because the table may move its texts.
      const std::string file(text.substr(0, bracket)), function(text.substr(colon + 3));
      row.file = trace_.strings.Add(file);
      row.function = trace_.strings.Add(function);
      row.line = static_cast<uint32_t>(*line);
    }
  }
  trace_.sites.push_back(std::move(row));
  return found->second;
}

void KinetoBuilder::AddScope(const KinetoEvent& event, SiteKind kind) {
  Time time;
  if (!TakeTime(event, &time)) return;
  model::EventColumns& events = trace_.events;
  const bool has_shapes =
      kind == SiteKind::kOperator && !event.dimensions.empty() && event.dimensions.size() <= kMostShapeBytes;
  const bool has_types = has_shapes && !event.types.empty() && event.types.size() <= kMostShapeBytes;
  // Only convolutions need more than sizes.
  const bool has_inputs =
      has_types && event.name == "aten::convolution" && !event.inputs.empty() && event.inputs.size() <= kMostShapeBytes;
  uint32_t args = kNone;
  if (has_shapes) {
    args = static_cast<uint32_t>(trace_.arg_values.size());
    trace_.arg_values.push_back(Intern(Compact(event.dimensions)));
    if (has_types) trace_.arg_values.push_back(Intern(Compact(event.types)));
    if (has_inputs) trace_.arg_values.push_back(Intern(Compact(event.inputs)));
  }
  events.begin_ns.push_back(time.begin_ns);
  events.duration_ns.push_back(time.duration_ns);
  const bool is_python = kind == SiteKind::kScope && event.category == "python_function";
  const bool has_address = is_python && event.name.starts_with('<');
  const StringId name = has_address ? Intern(WithoutAddresses(event.name)) : NameOf(event);
  events.site.push_back(Site(kind, name, has_inputs ? 3 : has_types ? 2 : has_shapes ? 1 : 0, is_python));
  events.thread.push_back(Thread(event));
  events.args.push_back(args);
}

void KinetoBuilder::AddCall(const KinetoEvent& event) {
  Time time;
  if (!TakeTime(event, &time)) return;
  model::CallColumns& calls = trace_.calls;
  calls.begin_ns.push_back(time.begin_ns);
  calls.duration_ns.push_back(time.duration_ns);
  calls.thread.push_back(ProcessOf(event.pid).pid == kNoProcess ? ThreadOfNumber(event) : Thread(event));
  calls.name.push_back(NameOf(event));
  call_correlations_.push_back(CorrelationOf(event, thread_processes_[calls.thread.back()].group));
}

// The thread of this number, in any process of its rank.
uint32_t KinetoBuilder::ThreadOfNumber(const KinetoEvent& event) {
  const auto same = thread_of_number_.find({ProcessOf(event.pid).group, Number(event.tid)});
  return same != thread_of_number_.end() ? same->second : Thread(event);
}

// The stream by the event's arguments. Old traces, and those of other tools, only have it as a process and a thread: 0
// and "stream 7".
uint32_t KinetoBuilder::Stream(const KinetoEvent& event) {
  const Process process = ProcessOf(event.pid);
  const uint32_t device = Device(process.group, event.device >= 0 ? event.device : process.pid);
  const int64_t number = StreamNumber(event);
  const int64_t context = std::max<int64_t>(0, event.context);
  const auto [found, is_new] =
      streams_.try_emplace({device, context, number}, static_cast<uint32_t>(trace_.streams.size()));
  if (is_new) {
    model::StreamRow row;
    row.device = device;
    row.context = static_cast<uint32_t>(std::min<int64_t>(context, UINT32_MAX));
    row.stream = static_cast<uint32_t>(std::clamp<int64_t>(number, 0, UINT32_MAX));
    trace_.streams.push_back(row);
  }
  return found->second;
}

int64_t KinetoBuilder::StreamNumber(const KinetoEvent& event) {
  int64_t number = event.stream;
  if (number < 0 && event.tid.text.substr(0, 7) == "stream ")
    number = ParseDecimal(event.tid.text.substr(7), 0).value_or(number);
  return number < 0 ? Number(event.tid) : number;
}

uint32_t KinetoBuilder::Shape(const model::KernelShape& shape) {
  const std::array key = {shape.grid[0],
                          shape.grid[1],
                          shape.grid[2],
                          shape.block[0],
                          shape.block[1],
                          shape.block[2],
                          shape.static_shared_bytes,
                          shape.dynamic_shared_bytes,
                          shape.local_bytes_per_thread,
                          shape.registers_per_thread};
  const auto [found, is_new] = shapes_.try_emplace(key, static_cast<uint32_t>(trace_.shapes.size()));
  if (is_new) trace_.shapes.push_back(shape);
  return found->second;
}

void KinetoBuilder::AddGpu(const KinetoEvent& event, GpuKind kind) {
  // A record without a usable time still shows that its call had work.
  Time time = {0, 0};
  const bool has_time = *event.duration_ns >= 0 ? TakeTime(event, &time) : *event.begin_ns > 0;
  gpu_doubts_.push_back(!has_time ? Doubt::kNoTime : *event.duration_ns < 0 ? Doubt::kDuration : Doubt::kNone);
  if (has_time && *event.duration_ns < 0) time.begin_ns = std::min(*event.begin_ns, model::kMaxTimeNs);
  model::GpuColumns& gpu = trace_.gpu;
  gpu.begin_ns.push_back(time.begin_ns);
  gpu.duration_ns.push_back(time.duration_ns);
  gpu.kind.push_back(kind);
  gpu.stream.push_back(Stream(event));
  gpu.name.push_back(kind == GpuKind::kMemcpy && event.name_id == 0 ? Intern(CopyName(event.name)) : NameOf(event));
  gpu.shape.push_back(kind == GpuKind::kKernel && event.has_shape ? Shape(event.shape) : kNone);
  gpu.bytes.push_back(static_cast<uint64_t>(std::max<int64_t>(0, event.bytes)));
  gpu.graph.push_back(static_cast<uint32_t>(std::clamp<int64_t>(event.graph, 0, UINT32_MAX)));
  gpu.node.push_back(static_cast<uint32_t>(std::clamp<int64_t>(event.node, 0, UINT32_MAX)));
  gpu_correlations_.push_back(CorrelationOf(event, device_groups_[trace_.streams[gpu.stream.back()].device]));
}

uint32_t KinetoBuilder::Counter(uint32_t group, uint32_t device, const std::string& name, const char* unit,
                                bool adds_up) {
  const auto [found, is_new] =
      counters_.try_emplace({group, device, name}, static_cast<uint32_t>(trace_.counters.size()));
  if (is_new) {
    trace_.counters.push_back({device, trace_.strings.Add(name), trace_.strings.Add(unit)});
    counter_adds_up_.push_back(adds_up);
  }
  return found->second;
}

// Counts the open waits for a stream. Calls have the times of waiting threads; these events have the GPU's times.
void KinetoBuilder::AddSync(const KinetoEvent& event) {
  Time time;
  const bool is_for_all = event.stream == UINT32_MAX;  // a context's; later versions write -1, as for events
  if (event.stream < 0 || event.stream > UINT32_MAX) {
    ++report_.events_unused;
    return;
  }
  if (!TakeTime(event, &time)) return;
  const uint32_t group = ProcessOf(event.pid).group;
  uint32_t device = Device(group, std::max<int64_t>(0, event.device));
  if (!is_for_all) {
    const uint32_t stream = Stream(event);
    device = trace_.streams[stream].device;
    // No thread waits when a stream waits for an event.
    if (event.name.substr(0, 11) != "Stream Wait") syncs_.push_back({CorrelationOf(event, group), stream, kNone});
  } else if (event.name.substr(0, 7) == "Context" && event.device >= 0) {
    syncs_.push_back({CorrelationOf(event, group), kNone, device});
  }
  const uint32_t counter =
      Counter(group, device, is_for_all ? "waits for all streams" : "waits for stream " + std::to_string(event.stream),
              "threads", true);
  samples_.push_back({counter, time.begin_ns, 1});
  samples_.push_back({counter, time.begin_ns + time.duration_ns, -1});
}

void KinetoBuilder::AddOverhead(const KinetoEvent& event) {
  Time time;
  if (TakeTime(event, &time)) trace_.overheads.push_back({time.begin_ns, time.duration_ns, Intern(event.name)});
}

void KinetoBuilder::AddMemory(const KinetoEvent& event) {
  const bool has_total = event.total_allocated >= 0;
  if (!event.begin_ns || (!has_total && event.bytes == 0)) {
    ++report_.events_unused;
    return;
  }
  if (*event.begin_ns < 0 || *event.begin_ns > model::kMaxTimeNs) {
    ++report_.times_out_of_range;
    return;
  }
  const bool is_cpu = event.device_type == 0 || event.device_id < 0;
  const uint32_t group = ProcessOf(event.pid).group;
  const uint32_t device = is_cpu ? kNone : Device(group, event.device_id);
  // The names that pitot::torch uses. Before PyTorch 1.10 the events had the change but not the total.
  const std::string name = is_cpu ? "LibTorch CPU allocated" : "LibTorch allocated";
  const uint32_t allocated = has_total ? Counter(group, device, name, "bytes", false)
                                       : Counter(group, device, name + " since the first record", "bytes", true);
  samples_.push_back(
      {allocated, *event.begin_ns, static_cast<double>(has_total ? event.total_allocated : event.bytes)});
  if (is_cpu || event.total_reserved < 0) return;
  samples_.push_back({Counter(group, device, "LibTorch reserved", "bytes", false), *event.begin_ns,
                      static_cast<double>(event.total_reserved)});
}

void KinetoBuilder::SeeUnknown(const KinetoEvent& event) {
  ++report_.events_unknown;
  if (unknown_kinds_.size() >= kMostUnknownKinds || !unknown_kinds_.insert(std::string(event.category)).second) return;
  const std::string kind = event.category.empty() ? "none" : base::Cut(base::SanitizeText(event.category), 40);
  report_.unknown_kinds += (report_.unknown_kinds.empty() ? "" : ", ") + kind;
}

void KinetoBuilder::AddThreadName(const KinetoEvent& event) {
  if (event.name != "thread_name" && event.name != "process_name") {
    ++report_.events_unused;
    return;
  }
  if (event.name == "process_name") {
    // The CPU's process. Those of GPUs have the same name.
    if (trace_.process_name == 0) trace_.process_name = Intern(event.thread_name.substr(0, kMostNameBytes));
    return;
  }
  if (thread_names_.size() >= kMostThreadNames) {
    ++report_.names_unused;
    return;
  }
  thread_names_[{ProcessOf(event.pid), Number(event.tid)}] = event.thread_name.substr(0, kMostNameBytes);
}

void KinetoBuilder::AddAttribute(std::string_view key, std::string_view value) {
  read::AddAttribute(key, value, &trace_);
}

void KinetoBuilder::LeaveOutTimeless() {
  int64_t first_ns = INT64_MAX;
  const auto timeless = [&](const std::vector<int64_t>& begins_ns) {
    uint64_t count = 0;
    for (const int64_t begin_ns : begins_ns) {
      if (begin_ns != 0) first_ns = std::min(first_ns, begin_ns);
      count += begin_ns == 0;
    }
    return count;
  };
  model::EventColumns& events = trace_.events;
  model::CallColumns& calls = trace_.calls;
  const uint64_t of_events = timeless(events.begin_ns), of_calls = timeless(calls.begin_ns);
  if (first_ns == INT64_MAX || first_ns < kHourNs) return;
  report_.host_no_time += of_events + of_calls;
  const auto has_time = [](int64_t begin_ns) { return begin_ns != 0; };
  if (of_events != 0)
    Keep(RowsWhere(events.begin_ns, has_time), &events.begin_ns, &events.duration_ns, &events.site, &events.thread,
         &events.args);
  if (of_calls != 0)
    Keep(RowsWhere(calls.begin_ns, has_time), &calls.begin_ns, &calls.duration_ns, &calls.thread, &calls.name,
         &call_correlations_);
  std::erase_if(trace_.overheads, [](const model::OverheadRow& row) { return row.begin_ns == 0; });
  std::erase_if(samples_, [](const Sample& sample) { return sample.at_ns == 0; });
}

void KinetoBuilder::Finish(bool is_cut) {
  if (!properties_.empty() && trace_.devices.empty()) UseGroup(ProcessOf({}).group);
  ApplyProperties();
  LeaveOutTimeless();
  OrderEvents();
  OrderCalls();
  OrderGpu();
  SetAsideDoubtful();
  FindWindow();
  AddGpuLosses();
  NameThreads();
  NameGroups();
  AddSamples();
  std::stable_sort(trace_.overheads.begin(), trace_.overheads.end(),
                   [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  for (std::vector<model::DepthRow>* depths : {&trace_.depths, &trace_.operator_depths})
    std::stable_sort(depths->begin(), depths->end(),
                     [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  if (trace_.gpu.size() != 0 && trace_.depths.empty() && !has_depths_) {
    const bool has_operators = std::any_of(trace_.sites.begin(), trace_.sites.end(),
                                           [](const model::SiteRow& site) { return site.kind == SiteKind::kOperator; });
    trace_.depths.push_back(
        {trace_.window_begin_ns, trace_.window_end_ns, has_operators ? Depth::kOps : Depth::kKernels});
  }
  if (is_cut)
    trace_.losses.push_back({kNone, model::LossReason::kDamaged, trace_.window_begin_ns, trace_.window_end_ns, 0, 0});
}

void KinetoBuilder::AddDepths(std::vector<model::DepthRow> rows, bool is_of_operators, int64_t later_ns) {
  has_depths_ = true;
  std::vector<model::DepthRow>& depths = is_of_operators ? trace_.operator_depths : trace_.depths;
  for (model::DepthRow& row : rows) {
    for (int64_t* ns : {&row.begin_ns, &row.end_ns})
      *ns += std::clamp<int64_t>(later_ns, -*ns, model::kMaxTimeNs - *ns);
    depths.push_back(row);
  }
}

void KinetoBuilder::SetWindow(model::Interval window) {
  trace_.window_begin_ns = window.begin_ns;
  trace_.window_end_ns = window.end_ns;
}

void KinetoBuilder::AddLosses(std::string_view text, bool is_of_gpus, int64_t later_ns) {
  report_.says_losses = true;
  losses_.push_back({std::string(text), is_of_gpus, later_ns});
}

void KinetoBuilder::FindWindow() {
  int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  const auto take = [&](const auto& columns) {
    for (size_t row = 0; row < columns.begin_ns.size(); ++row) {
      begin_ns = std::min(begin_ns, columns.begin_ns[row]);
      end_ns = std::max(end_ns, columns.begin_ns[row] + columns.duration_ns[row]);
    }
  };
  if (trace_.window_end_ns == 0) {
    take(trace_.events);
    take(trace_.calls);
    take(trace_.gpu);
    trace_.window_begin_ns = begin_ns <= end_ns ? begin_ns : 0;
    trace_.window_end_ns = begin_ns <= end_ns ? end_ns : 0;
  }
  // The pair relates Unix time to the trace's clock. It is of the end of the window, as in a snapshot.
  const int64_t most_ns = model::kMaxTimeNs - trace_.window_end_ns;
  const int64_t unix_ns = trace_.window_end_ns + std::clamp<int64_t>(base_ns_, -trace_.window_end_ns, most_ns);
  if (base_ns_ == 0 && unix_ns < kFirstDateNs) return;
  trace_.clock.monotonic_ns = trace_.window_end_ns;
  trace_.clock.realtime_ns = unix_ns;
}

void KinetoBuilder::NameThreads() {
  for (auto& [key, name] : thread_names_) {
    const auto found = threads_.find(key);
    if (found == threads_.end()) {
      ++report_.names_unused;
    } else {
      trace_.threads[found->second].name = Intern(name);
    }
  }
  thread_names_.clear();
  for (model::ThreadRow& thread : trace_.threads) thread.history_begin_ns = trace_.window_begin_ns;
}

void KinetoBuilder::OrderEvents() {
  model::EventColumns& events = trace_.events;
  Reorder(OrderOf(events.thread, trace_.threads.size(),
                  [&](uint32_t a, uint32_t b) {
                    return events.begin_ns[a] != events.begin_ns[b] ? events.begin_ns[a] < events.begin_ns[b]
                                                                    : events.duration_ns[a] > events.duration_ns[b];
                  }),
          &events.begin_ns, &events.duration_ns, &events.site, &events.thread, &events.args);
  events.request.assign(events.size(), kNone);
  events.batch.assign(events.size(), kNone);
  for (uint32_t row = 0; row < events.size(); ++row) {
    model::ThreadRow& thread = trace_.threads[events.thread[row]];
    if (thread.event_count++ == 0) thread.first_event = row;
  }
}

void KinetoBuilder::OrderCalls() {
  model::CallColumns& calls = trace_.calls;
  Reorder(OrderOf(calls.thread, trace_.threads.size(),
                  [&](uint32_t a, uint32_t b) { return calls.begin_ns[a] < calls.begin_ns[b]; }),
          &calls.begin_ns, &calls.duration_ns, &calls.thread, &calls.name, &call_correlations_);
  calls.request.assign(calls.size(), kNone);
  calls.batch.assign(calls.size(), kNone);
  calls.stream.assign(calls.size(), kNone);
  calls.device.assign(calls.size(), kNone);
}

void KinetoBuilder::OrderGpu() {
  model::GpuColumns& gpu = trace_.gpu;
  // Calls sorted by id, with the first call of each id.
  std::vector<uint32_t> calls;
  calls.reserve(call_correlations_.size());
  for (uint32_t row = 0; row < call_correlations_.size(); ++row) {
    if (call_correlations_[row] > 0) calls.push_back(row);
  }
  MergeRuns(calls.begin(), calls.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(call_correlations_[a], trace_.calls.begin_ns[a]) <
           std::pair(call_correlations_[b], trace_.calls.begin_ns[b]);
  });
  shares_id_.assign(call_correlations_.size(), false);
  for (size_t i = 1; i < calls.size(); ++i) {
    const uint32_t call = calls[i], before = calls[i - 1];
    shares_id_[call] = call_correlations_[call] == call_correlations_[before];
    report_.correlations_mixed += shares_id_[call] && thread_processes_[trace_.calls.thread[call]] !=
                                                          thread_processes_[trace_.calls.thread[before]];
  }
  const auto last = std::unique(calls.begin(), calls.end(),
                                [&](uint32_t a, uint32_t b) { return call_correlations_[a] == call_correlations_[b]; });
  report_.correlations_shared += static_cast<uint64_t>(calls.end() - last);
  calls.erase(last, calls.end());
  LinkGpu(calls);
  call_correlations_ = {};
  gpu_correlations_ = {};
  Reorder(OrderOf(gpu.stream, trace_.streams.size(),
                  [&](uint32_t a, uint32_t b) { return gpu.begin_ns[a] < gpu.begin_ns[b]; }),
          &gpu.begin_ns, &gpu.duration_ns, &gpu.kind, &gpu.stream, &gpu.name, &gpu.call, &gpu.shape, &gpu.bytes,
          &gpu.graph, &gpu.node, &gpu_doubts_);
}

void KinetoBuilder::SetAsideDoubtful() {
  model::GpuColumns& gpu = trace_.gpu;
  FindDoubts(trace_, report_.correlations_shared == 0, &gpu_doubts_);
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (gpu_doubts_[row] == Doubt::kNone) continue;
    const bool has_next = row + 1 < gpu.size() && gpu.stream[row + 1] == gpu.stream[row];
    set_aside_.push_back({gpu_doubts_[row], gpu.stream[row], gpu.call[row], gpu.begin_ns[row],
                          has_next ? gpu.begin_ns[row + 1] : INT64_MAX, gpu.duration_ns[row]});
    ++(gpu_doubts_[row] == Doubt::kNoTime ? report_.gpu_no_time : report_.gpu_impossible);
  }
  if (!set_aside_.empty())
    Keep(RowsWhere(gpu_doubts_, [](Doubt doubt) { return doubt == Doubt::kNone; }), &gpu.begin_ns, &gpu.duration_ns,
         &gpu.kind, &gpu.stream, &gpu.name, &gpu.call, &gpu.shape, &gpu.bytes, &gpu.graph, &gpu.node);
  gpu_doubts_ = {};
  gpu.scope_path.assign(gpu.size(), 0);
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    model::StreamRow& stream = trace_.streams[gpu.stream[row]];
    if (stream.event_count++ == 0) stream.first_event = row;
  }
}

// For each stream the launches of its work and when the work began, by launch; the begin is the least of this and later
// ones.
std::vector<std::vector<model::Interval>> KinetoBuilder::StreamOrder() const {
  std::vector<std::vector<model::Interval>> order(trace_.streams.size());
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    const uint32_t call = trace_.gpu.call[row];
    if (call != kNone) order[trace_.gpu.stream[row]].push_back({trace_.calls.begin_ns[call], trace_.gpu.begin_ns[row]});
  }
  for (std::vector<model::Interval>& launches : order) {
    std::sort(launches.begin(), launches.end(),
              [](const model::Interval& a, const model::Interval& b) { return a.begin_ns < b.begin_ns; });
    for (size_t i = launches.size(); i-- > 1;)
      launches[i - 1].end_ns = std::min(launches[i - 1].end_ns, launches[i].end_ns);
  }
  return order;
}

// Where the work of a record that was set aside can have been.
model::Interval KinetoBuilder::PlaceOf(const SetAside& record,
                                       const std::vector<std::vector<model::Interval>>& order) const {
  model::Interval place = {trace_.window_begin_ns, trace_.window_end_ns};
  if (record.doubt == Doubt::kDuration) {
    place = {record.begin_ns, record.next_ns};
  } else if (record.call != kNone) {
    place.begin_ns = trace_.calls.begin_ns[record.call];
    const std::vector<model::Interval>& launches = order[record.stream];
    const auto next = std::partition_point(launches.begin(), launches.end(), [&](const model::Interval& launch) {
      return launch.begin_ns <= place.begin_ns;
    });
    if (next != launches.end()) place.end_ns = next->end_ns;
  }
  place.begin_ns = std::clamp(place.begin_ns, trace_.window_begin_ns, trace_.window_end_ns);
  place.end_ns = std::clamp(place.end_ns, place.begin_ns, trace_.window_end_ns);
  return place;
}

void KinetoBuilder::AddGpuLosses() {
  std::vector<bool> had_work = shares_id_;    // its work may be the earlier call's
  std::map<uint32_t, int64_t> impossible_ns;  // by stream
  for (const SetAside& record : set_aside_) {
    if (record.call != kNone) had_work[record.call] = true;
    int64_t& sum_ns = impossible_ns[record.stream];
    if (record.doubt == Doubt::kDuration && __builtin_add_overflow(sum_ns, record.duration_ns, &sum_ns))
      sum_ns = INT64_MAX;
  }
  const auto order = set_aside_.empty() ? std::vector<std::vector<model::Interval>>() : StreamOrder();
  for (const SetAside& record : set_aside_) {
    const bool is_timeless = record.doubt == Doubt::kNoTime;
    std::string reason(is_timeless ? base::kNoTime : base::kImpossibleDuration);
    if (!is_timeless && impossible_ns[record.stream] > 0)
      reason += ", " + base::Duration(impossible_ns[record.stream]) + " in all";
    const model::Interval place = PlaceOf(record, order);
    AddGpuLoss({record.stream, Intern(reason), place.begin_ns, place.end_ns, 1, trace_.streams[record.stream].device});
  }
  const bool records_none = has_depths_ && trace_.gpu.size() == 0 &&
                            std::none_of(trace_.depths.begin(), trace_.depths.end(),
                                         [](const auto& row) { return row.depth >= Depth::kGraphs; });
  const MissingWork missing = records_none || report_.says_losses ? MissingWork() : FindMissingWork(&trace_, had_work);
  report_.launches_without_work = missing.launches;
  for (const model::GpuLossRow& loss : missing.losses) trace_.gpu_losses.push_back(loss);
  for (const Losses& told : losses_)
    (told.are_of_gpus ? model::AddGpuLosses : model::AddLosses)(told.text, told.later_ns, &trace_);
  std::stable_sort(trace_.gpu_losses.begin(), trace_.gpu_losses.end(),
                   [](const model::GpuLossRow& a, const model::GpuLossRow& b) { return a.begin_ns < b.begin_ns; });
}

void KinetoBuilder::AddGpuLoss(const model::GpuLossRow& loss) {
  const auto same = std::find_if(trace_.gpu_losses.begin(), trace_.gpu_losses.end(), [&](const model::GpuLossRow& row) {
    return row.stream == loss.stream && row.reason == loss.reason &&
           (trace_.gpu_losses.size() >= kMostLosses || (loss.begin_ns <= row.end_ns && row.begin_ns <= loss.end_ns));
  });
  if (same == trace_.gpu_losses.end()) return trace_.gpu_losses.push_back(loss);
  same->begin_ns = std::min(same->begin_ns, loss.begin_ns);
  same->end_ns = std::max(same->end_ns, loss.end_ns);
  same->records += loss.records;
}

void KinetoBuilder::AddSamples() {
  std::stable_sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) {
    return std::pair(a.counter, a.at_ns) < std::pair(b.counter, b.at_ns);
  });
  double open = 0;
  for (size_t i = 0; i < samples_.size(); ++i) {
    const Sample& sample = samples_[i];
    if (i == 0 || samples_[i - 1].counter != sample.counter) open = 0;
    const bool is_change = counter_adds_up_[sample.counter];
    open += sample.value;
    trace_.samples.counter.push_back(sample.counter);
    trace_.samples.at_ns.push_back(sample.at_ns);
    trace_.samples.value.push_back(is_change ? open : sample.value);
  }
  samples_.clear();
}

}  // namespace pitot::read
