// SPDX-License-Identifier: Apache-2.0
#include "read/trace_builder.h"

#include <algorithm>
#include <cmath>

#include "base/columns.h"
#include "read/format.h"
#include "read/row_order.h"
#include "read/texts.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;

int64_t TraceBuilder::Number(const ChromeValue& id) {
  if (const auto number = id.Number()) return *number;
  if (id.text.empty()) return 0;
  return texts_.try_emplace(std::string(id.text), -2 - static_cast<int64_t>(texts_.size())).first->second;
}

uint32_t TraceBuilder::Thread(int64_t process, int64_t thread) {
  const std::pair key(process, thread);
  if (last_thread_row_ != kNone && key == last_thread_) return last_thread_row_;
  const auto [found, is_new] = threads_.try_emplace(key, static_cast<uint32_t>(trace_.threads.size()));
  if (is_new) {
    model::ThreadRow row;
    row.number = found->second + 1;
    row.tid = thread;
    trace_.threads.push_back(row);
    processes_.push_back(process);
  }
  last_thread_ = key;
  return last_thread_row_ = found->second;
}

void TraceBuilder::SetPlace(uint32_t site, std::string_view function, std::string_view file, uint32_t line) {
  trace_.sites[site].function = Intern(function);
  trace_.sites[site].file = Intern(file);
  trace_.sites[site].line = line;
}

bool TraceBuilder::IsInRange(int64_t at_ns) {
  const bool is_in_range = at_ns >= 0 && at_ns <= model::kMaxTimeNs;
  times_out_of_range_ += !is_in_range;
  return is_in_range;
}

bool TraceBuilder::TakeTime(Span* span) {
  const bool is_open = span->duration_ns == kOpen;
  const bool is_negative = !is_open && span->duration_ns < 0;
  if (is_negative) span->duration_ns = 0;
  const int64_t duration_ns = is_open ? 0 : span->duration_ns;
  if (!IsInRange(span->begin_ns)) return false;
  if (duration_ns > model::kMaxTimeNs - span->begin_ns || duration_ns > model::kMaxTimeNs - total_ns_)
    return ++times_out_of_range_, false;
  durations_negative_ += is_negative;
  total_ns_ += duration_ns;
  return true;
}

bool TraceBuilder::AddEvent(uint32_t thread, uint32_t site, Span span, const std::vector<ChromeValue>& args) {
  if (!TakeTime(&span)) return false;
  model::EventColumns& events = trace_.events;
  events.begin_ns.push_back(span.begin_ns);
  events.duration_ns.push_back(span.duration_ns);
  events.site.push_back(site);
  events.thread.push_back(thread);
  events.args.push_back(sites_.AddValues(site, args));
  return true;
}

void TraceBuilder::EndEvent(uint32_t row, int64_t end_ns) {
  Span span = {trace_.events.begin_ns[row], end_ns - trace_.events.begin_ns[row]};
  if (TakeTime(&span)) trace_.events.duration_ns[row] = span.duration_ns;
}

void TraceBuilder::AddArgs(uint32_t row, const std::vector<ChromeValue>& args) {
  model::EventColumns& events = trace_.events;
  const model::SiteRow from = trace_.sites[events.site[row]];
  const size_t count = from.arg_names.size();
  std::vector<ChromeValue> all;
  for (size_t i = 0; i < count; ++i) {
    const ArgType type = from.arg_types[i];
    all.push_back({trace_.strings[from.arg_names[i]], Sites::AnyOf(type), type == ArgType::kString});
  }
  all.insert(all.end(), args.begin(), args.end());
  events.site[row] = Site(from.kind, trace_.strings[from.name], all);
  const uint32_t first = sites_.AddValues(events.site[row], all);
  if (count != 0) std::copy_n(trace_.arg_values.begin() + events.args[row], count, trace_.arg_values.begin() + first);
  events.args[row] = first;
}

void TraceBuilder::MakeCalls(const std::vector<std::pair<uint32_t, int64_t>>& events) {
  if (events.empty()) return;
  model::EventColumns& from = trace_.events;
  model::CallColumns& calls = trace_.calls;
  auto next = events.begin();
  uint32_t kept = next->first;
  for (uint32_t row = kept; row < from.size(); ++row) {
    if (next != events.end() && next->first == row) {
      calls.begin_ns.push_back(from.begin_ns[row]);
      calls.duration_ns.push_back(from.duration_ns[row]);
      calls.thread.push_back(from.thread[row]);
      calls.name.push_back(trace_.sites[from.site[row]].name);
      call_correlations_.push_back((next++)->second);
      continue;
    }
    const auto move = [&](auto&... columns) { ((columns[kept] = columns[row]), ...); };
    move(from.begin_ns, from.duration_ns, from.site, from.thread, from.args);
    ++kept;
  }
  const auto cut = [&](auto&... columns) { (columns.resize(kept), ...); };
  cut(from.begin_ns, from.duration_ns, from.site, from.thread, from.args);
}

bool TraceBuilder::AddRequest(std::string_view route, std::string_view id, const Async& whole,
                              const std::vector<Async>& parts) {
  Span span = whole.span;
  if (!TakeTime(&span)) return false;
  const auto row = static_cast<uint32_t>(trace_.requests.size());
  model::RequestRow request;
  request.id = row + 1;
  request.host_id = Intern(id);
  request.route = Intern(route);
  request.begin_ns = span.begin_ns;
  request.duration_ns = span.duration_ns;
  request.end_known = span.duration_ns != kOpen;
  trace_.requests.push_back(std::move(request));
  for (const Async& part : parts) {
    span = part.span;
    if (TakeTime(&span))
      trace_.asyncs.push_back({part.site, row, part.begin_thread, part.end_thread, span.begin_ns, span.duration_ns});
  }
  return true;
}

bool TraceBuilder::AddCall(uint32_t thread, Span span, std::string_view name, int64_t correlation) {
  if (!TakeTime(&span)) return false;
  model::CallColumns& calls = trace_.calls;
  calls.begin_ns.push_back(span.begin_ns);
  calls.duration_ns.push_back(span.duration_ns);
  calls.thread.push_back(thread);
  calls.name.push_back(Intern(name));
  call_correlations_.push_back(correlation);
  return true;
}

bool TraceBuilder::AddGpu(Span span, const Work& work) {
  if (!TakeTime(&span)) return false;
  model::GpuColumns& gpu = trace_.gpu;
  gpu.begin_ns.push_back(span.begin_ns);
  gpu.duration_ns.push_back(std::max<int64_t>(0, span.duration_ns));
  gpu.kind.push_back(work.kind);
  gpu.stream.push_back(work.stream);
  gpu.name.push_back(Intern(work.name));
  gpu.bytes.push_back(work.bytes);
  gpu.scope_path.push_back(Intern(work.scope_path));
  gpu_correlations_.push_back(work.correlation);
  gpu.shape.push_back(work.has_shape ? shapes_.Of(work.shape) : kNone);
  return true;
}

bool TraceBuilder::AddSample(int64_t process, std::string_view counter, int64_t at_ns, double value) {
  const auto [found, is_new] = counters_.try_emplace({process, std::string(counter)}, 0);
  if (is_new) {
    found->second = NewCounter();
    NameCounter(found->second, process, counter);
  }
  return AddSample(found->second, at_ns, value);
}

uint32_t TraceBuilder::NewCounter() {
  trace_.counters.push_back({kNone, 0, 0});
  counter_names_.emplace_back();
  return static_cast<uint32_t>(trace_.counters.size() - 1);
}

bool TraceBuilder::AddSample(uint32_t counter, int64_t at_ns, double value) {
  if (!IsInRange(at_ns) || !std::isfinite(value)) return false;
  samples_.push_back({counter, at_ns, value});
  return true;
}

void TraceBuilder::NameCounter(uint32_t counter, int64_t process, std::string_view name) {
  counter_names_[counter] = {process, std::string(name)};
}

uint32_t TraceBuilder::Device(std::string_view key, std::string_view name) {
  const auto [found, is_new] = devices_.try_emplace(std::string(key), static_cast<uint32_t>(trace_.devices.size()));
  if (is_new) {
    trace_.devices.emplace_back();
    trace_.devices.back().ordinal = found->second;
    trace_.devices.back().name = Intern(name);
  }
  return found->second;
}

uint32_t TraceBuilder::Stream(uint32_t device, int64_t number, std::string_view name) {
  const auto [found, is_new] = streams_.try_emplace({device, number}, static_cast<uint32_t>(trace_.streams.size()));
  if (is_new) {
    model::StreamRow row;
    row.device = device;
    row.stream = static_cast<uint32_t>(std::clamp<int64_t>(number, 0, UINT32_MAX));
    row.name = Intern(name);
    trace_.streams.push_back(row);
  }
  return found->second;
}

void TraceBuilder::AddAttribute(std::string_view key, std::string_view value) {
  read::AddAttribute(key, value, &trace_);
}

void TraceBuilder::Finish(bool is_damaged) {
  FindWindow();
  CloseLongSpans();
  OrderEvents();
  OrderCalls();
  OrderGpu();
  OrderRequests();
  OrderSamples();
  NameThreads();
  NameCounters();
  if (is_damaged)
    trace_.losses.push_back({kNone, model::LossReason::kDamaged, trace_.window_begin_ns, trace_.window_end_ns, 0, 0});
}

void TraceBuilder::NoteOverwritten() {
  const int64_t begin_ns = trace_.window_begin_ns;
  trace_.losses.push_back({kNone, model::LossReason::kOverwritten, begin_ns, begin_ns, 0, 0});
}

void TraceBuilder::ReportTimes(TraceReport* report) const {
  report->counts.emplace_back("times_out_of_range", times_out_of_range_);
  report->counts.emplace_back("durations_negative", durations_negative_);
  if (times_out_of_range_ != 0)
    AddProblem(base::Plural(times_out_of_range_, "event") + " had a time before 0 or beyond 2^62 ns", report);
  if (durations_negative_ != 0)
    AddProblem(base::Plural(durations_negative_, "event") + " had a negative duration, taken as 0", report);
}

void TraceBuilder::FindWindow() {
  int64_t begin_ns = INT64_MAX, end_ns = 0;
  const auto take = [&](int64_t from_ns, int64_t duration_ns) {
    begin_ns = std::min(begin_ns, from_ns);
    end_ns = std::max(end_ns, from_ns + std::max<int64_t>(0, duration_ns));
  };
  const auto take_all = [&](const auto& columns) {
    for (size_t row = 0; row < columns.begin_ns.size(); ++row) take(columns.begin_ns[row], columns.duration_ns[row]);
  };
  take_all(trace_.events);
  take_all(trace_.calls);
  take_all(trace_.gpu);
  for (const model::RequestRow& row : trace_.requests) take(row.begin_ns, row.duration_ns);
  for (const model::AsyncRow& row : trace_.asyncs) take(row.begin_ns, row.duration_ns);
  for (const Sample& sample : samples_) take(sample.at_ns, 0);
  if (begin_ns == INT64_MAX) begin_ns = 0;
  trace_.window_begin_ns = begin_ns;
  trace_.window_end_ns = end_ns;
  if (has_unix_offset_) {
    trace_.clock.monotonic_ns = end_ns;
    trace_.clock.realtime_ns = end_ns + std::clamp<int64_t>(unix_offset_ns_, -end_ns, model::kMaxTimeNs - end_ns);
  }
  const bool has_operators = std::any_of(trace_.sites.begin(), trace_.sites.end(),
                                         [](const model::SiteRow& site) { return site.kind == SiteKind::kOperator; });
  if (trace_.gpu.size() != 0)
    trace_.depths.push_back({begin_ns, end_ns, has_operators ? Depth::kOps : Depth::kKernels});
}

// The durations of a table add up to kMaxTimeNs at most, and an open span lasts until the window's end. Those beyond
// end where they began.
void TraceBuilder::CloseLongSpans() {
  const auto close = [&](int64_t begin_ns, int64_t* duration_ns) {
    if (*duration_ns != kOpen) return;
    const int64_t length_ns = trace_.window_end_ns - begin_ns;
    if (length_ns > model::kMaxTimeNs - total_ns_) {
      *duration_ns = 0;
    } else {
      total_ns_ += length_ns;
    }
  };
  for (uint32_t row = 0; row < trace_.events.size(); ++row)
    close(trace_.events.begin_ns[row], &trace_.events.duration_ns[row]);
  for (uint32_t row = 0; row < trace_.calls.size(); ++row)
    close(trace_.calls.begin_ns[row], &trace_.calls.duration_ns[row]);
  for (model::RequestRow& row : trace_.requests) close(row.begin_ns, &row.duration_ns);
  for (model::AsyncRow& row : trace_.asyncs) close(row.begin_ns, &row.duration_ns);
}

void TraceBuilder::OrderEvents() {
  model::EventColumns& events = trace_.events;
  const auto length = [&](uint32_t row) {
    return events.duration_ns[row] == kOpen ? INT64_MAX : events.duration_ns[row];
  };
  Reorder(OrderOf(events.thread, trace_.threads.size(),
                  [&](uint32_t a, uint32_t b) {
                    return events.begin_ns[a] != events.begin_ns[b] ? events.begin_ns[a] < events.begin_ns[b]
                                                                    : length(a) > length(b);
                  }),
          &events.begin_ns, &events.duration_ns, &events.site, &events.thread, &events.args);
  for (uint32_t row = 0; row < events.size(); ++row) {
    model::ThreadRow& thread = trace_.threads[events.thread[row]];
    if (thread.event_count++ == 0) thread.first_event = row;
  }
}

void TraceBuilder::OrderCalls() {
  model::CallColumns& calls = trace_.calls;
  Reorder(OrderOf(calls.thread, trace_.threads.size(),
                  [&](uint32_t a, uint32_t b) { return calls.begin_ns[a] < calls.begin_ns[b]; }),
          &calls.begin_ns, &calls.duration_ns, &calls.thread, &calls.name, &call_correlations_);
}

void TraceBuilder::OrderGpu() {
  model::GpuColumns& gpu = trace_.gpu;
  std::unordered_map<int64_t, uint32_t> calls;
  for (uint32_t row = 0; row < call_correlations_.size(); ++row) {
    if (call_correlations_[row] > 0) calls.try_emplace(call_correlations_[row], row);
  }
  for (const int64_t correlation : gpu_correlations_) {
    const auto found = correlation > 0 ? calls.find(correlation) : calls.end();
    gpu.call.push_back(found == calls.end() ? kNone : found->second);
  }
  Reorder(OrderOf(gpu.stream, trace_.streams.size(),
                  [&](uint32_t a, uint32_t b) { return gpu.begin_ns[a] < gpu.begin_ns[b]; }),
          &gpu.begin_ns, &gpu.duration_ns, &gpu.kind, &gpu.stream, &gpu.name, &gpu.call, &gpu.shape, &gpu.bytes,
          &gpu.scope_path);
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    model::StreamRow& stream = trace_.streams[gpu.stream[row]];
    if (stream.event_count++ == 0) stream.first_event = row;
  }
}

void TraceBuilder::OrderRequests() {
  const auto is_before = [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; };
  std::vector<uint32_t> rows(trace_.requests.size());  // by their place before
  std::stable_sort(trace_.requests.begin(), trace_.requests.end(), is_before);
  for (uint32_t row = 0; row < rows.size(); ++row) {
    rows[trace_.requests[row].id - 1] = row;
    trace_.requests[row].id = row + 1;
  }
  for (model::AsyncRow& async : trace_.asyncs) async.request = rows[async.request];
  std::stable_sort(trace_.asyncs.begin(), trace_.asyncs.end(), is_before);
}

void TraceBuilder::OrderSamples() {
  std::stable_sort(samples_.begin(), samples_.end(), [](const Sample& a, const Sample& b) {
    return std::pair(a.counter, a.at_ns) < std::pair(b.counter, b.at_ns);
  });
  for (const Sample& sample : samples_) {
    trace_.samples.counter.push_back(sample.counter);
    trace_.samples.at_ns.push_back(sample.at_ns);
    trace_.samples.value.push_back(sample.value);
  }
  samples_.clear();
}

// A thread's name has its process before it if there are several. The trace's process is the one with most events.
void TraceBuilder::NameThreads() {
  std::map<int64_t, uint64_t> counts;
  for (uint32_t row = 0; row < trace_.threads.size(); ++row) counts[processes_[row]] += trace_.threads[row].event_count;
  const auto most =
      std::max_element(counts.begin(), counts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != counts.end()) {
    trace_.pid = std::max<int64_t>(0, most->first);
    trace_.process_name = Intern(process_names_[most->first]);
  }
  for (const auto& [key, row] : threads_) {
    std::string name = thread_names_[key];
    if (counts.size() > 1) {
      const std::string process = ProcessName(key.first);
      name = name.empty() ? process : process + ": " + name;
    }
    trace_.threads[row].name = Intern(name);
    trace_.threads[row].history_begin_ns = trace_.window_begin_ns;
  }
}

// The same for counters.
void TraceBuilder::NameCounters() {
  const bool have_one_process = std::all_of(counter_names_.begin(), counter_names_.end(), [&](const auto& counter) {
    return counter.first == counter_names_[0].first;
  });
  for (uint32_t row = 0; row < trace_.counters.size(); ++row) {
    const auto& [process, name] = counter_names_[row];
    trace_.counters[row].name = Intern(have_one_process ? name : ProcessName(process) + ": " + name);
  }
}

std::string TraceBuilder::ProcessName(int64_t process) const {
  const auto found = process_names_.find(process);
  const bool has_name = found != process_names_.end() && !found->second.empty();
  return has_name ? found->second : "process " + std::to_string(process);
}

}  // namespace pitot::read
