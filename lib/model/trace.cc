// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/trace.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "base/text.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

constexpr size_t kStringBlockBytes = 16 << 10;

// Walks every table and keeps the first thing that is wrong.
class Checker {
 public:
  explicit Checker(const Trace& trace) : trace_(trace) {}

  std::string Run() {
    Header();
    Sites();
    Threads();
    Events();
    Requests();
    Batches();
    Others();
    Calls();
    Gpu();
    GpuRest();
    return std::move(wrong_);
  }

 private:
  // Says what is wrong with a row, unless something was found before.
  bool Fail(const char* table, size_t row, const char* what) {
    if (wrong_.empty()) wrong_ = std::string(table) + ": row " + std::to_string(row) + ": " + what;
    return false;
  }
  bool IsString(StringId id) const { return id < trace_.strings.size(); }
  static bool IsRowOrNone(uint32_t row, size_t size) { return row == kNone || row < size; }
  bool IsThread(uint32_t row) const { return IsRowOrNone(row, trace_.threads.size()); }
  static bool IsTime(int64_t ns) { return ns >= 0 && ns <= kMaxTimeNs; }
  // Of what is open, or has a duration of its own.
  bool IsInterval(int64_t begin_ns, int64_t duration_ns) const {
    if (!IsTime(begin_ns)) return false;
    if (duration_ns == kOpen) return begin_ns <= trace_.window_end_ns;
    return duration_ns >= 0 && duration_ns <= kMaxTimeNs - begin_ns;
  }
  // Whoever adds up durations of a table must not count beyond what there is.
  void Add(const char* table, size_t row, int64_t begin_ns, int64_t duration_ns, uint64_t* total_ns) {
    if (duration_ns == kOpen) duration_ns = std::max<int64_t>(trace_.window_end_ns - begin_ns, 0);
    *total_ns += static_cast<uint64_t>(std::max<int64_t>(duration_ns, 0));
    if (*total_ns > static_cast<uint64_t>(kMaxTimeNs)) {
      Fail(table, row, "durations add up to more than 146 years");
      *total_ns = 0;
    }
  }
  static bool IsSpan(int64_t begin_ns, int64_t end_ns) {
    return IsTime(begin_ns) && IsTime(end_ns) && begin_ns <= end_ns;
  }

  void Header() {
    const ClockInfo& clock = trace_.clock;
    if (!IsString(trace_.process_name)) Fail("header", 0, "process name not a string");
    if (!IsTime(clock.monotonic_ns) || !IsTime(clock.realtime_ns) || !IsTime(clock.boottime_ns)) {
      Fail("header", 0, "clock out of range");
    }
    if (!IsTime(trace_.window_begin_ns) || !IsTime(trace_.window_end_ns)) Fail("header", 0, "window out of range");
    if (trace_.window_begin_ns > trace_.window_end_ns) Fail("header", 0, "window ends before it begins");
  }

  void Sites() {
    for (size_t i = 0; i < trace_.sites.size(); ++i) {
      const SiteRow& site = trace_.sites[i];
      if (site.kind < SiteKind::kScope || site.kind > kLastSiteKind) Fail("sites", i, "unknown kind");
      if (!IsString(site.name) || !IsString(site.file) || !IsString(site.function)) {
        Fail("sites", i, "name, file or function not a string");
      }
      if (site.arg_names.size() != site.arg_types.size()) Fail("sites", i, "argument names and types differ");
      for (const StringId name : site.arg_names) {
        if (!IsString(name)) Fail("sites", i, "argument name not a string");
      }
      for (const ArgType type : site.arg_types) {
        if (type < ArgType::kInt || type > ArgType::kString) Fail("sites", i, "unknown argument type");
      }
      if (site.name_is_first_arg && (site.arg_types.empty() || !IsText(site.arg_types[0]))) {
        Fail("sites", i, "first argument not a name");
      }
    }
  }

  void Threads() {
    uint64_t covered = 0;
    for (size_t i = 0; i < trace_.threads.size(); ++i) {
      const ThreadRow& thread = trace_.threads[i];
      if (!IsString(thread.name)) Fail("threads", i, "name not a string");
      if (!IsTime(thread.history_begin_ns)) Fail("threads", i, "history begin out of range");
      if (uint64_t{thread.first_event} + thread.event_count > trace_.events.size()) {
        Fail("threads", i, "events beyond the table");
      }
      // With the order of events by thread this makes the ranges tile the table.
      if (thread.event_count != 0 && thread.first_event != covered) Fail("threads", i, "events not after those before");
      covered += thread.event_count;
    }
    if (covered != trace_.events.size()) Fail("threads", trace_.threads.size(), "events of no thread");
  }

  void Events() {
    const EventColumns& events = trace_.events;
    const size_t size = events.begin_ns.size();
    for (const size_t column : {events.duration_ns.size(), events.site.size(), events.thread.size(),
                                events.request.size(), events.batch.size(), events.args.size()}) {
      if (column != size) Fail("events", column, "columns of unequal length");
    }
    if (size >= kNone) Fail("events", size, "too many");
    if (trace_.arg_values.size() >= kNone) Fail("arguments", trace_.arg_values.size(), "too many");
    if (!wrong_.empty()) return;
    uint64_t total_ns = 0;
    for (size_t t = 0; t < trace_.threads.size(); ++t) {
      const ThreadRow& thread = trace_.threads[t];
      for (uint32_t i = thread.first_event; i < thread.first_event + thread.event_count; ++i) {
        Add("events", i, events.begin_ns[i], events.duration_ns[i], &total_ns);
        if (events.thread[i] != t) Fail("events", i, "thread differs from its range");
        if (!IsInterval(events.begin_ns[i], events.duration_ns[i])) Fail("events", i, "time out of range");
        if (events.request[i] != kNone && events.request[i] >= trace_.requests.size()) {
          Fail("events", i, "no such request");
        }
        if (events.batch[i] != kNone && events.batch[i] >= trace_.batches.size()) Fail("events", i, "no such batch");
        if (i > thread.first_event &&
            !InOrder(events.begin_ns[i - 1], events.duration_ns[i - 1], events.begin_ns[i], events.duration_ns[i])) {
          Fail("events", i, "out of order");
        }
        if (events.site[i] >= trace_.sites.size()) {
          Fail("events", i, "no such site");
        } else {
          Arguments(i, trace_.sites[events.site[i]]);
        }
        if (!wrong_.empty()) return;
      }
    }
  }

  void Arguments(uint32_t event, const SiteRow& site) {
    const uint32_t first = trace_.events.args[event];
    if (first == kNone) return;
    if (first + site.arg_types.size() > trace_.arg_values.size()) {
      Fail("events", event, "arguments beyond the table");
      return;
    }
    for (size_t i = 0; i < site.arg_types.size(); ++i) {
      if (IsText(site.arg_types[i]) && trace_.arg_values[first + i] >= trace_.strings.size()) {
        Fail("events", event, "argument not a string");
      }
    }
  }

  void Requests() {
    uint64_t total_ns = 0;
    for (size_t i = 0; i < trace_.requests.size(); ++i) {
      const RequestRow& request = trace_.requests[i];
      if (!IsInterval(request.begin_ns, request.duration_ns)) Fail("requests", i, "time out of range");
      Add("requests", i, request.begin_ns, request.duration_ns, &total_ns);
      if (i > 0 && trace_.requests[i - 1].begin_ns > request.begin_ns) Fail("requests", i, "out of order");
      if (!IsString(request.route)) Fail("requests", i, "route not a string");
      if (!IsThread(request.begin_thread) || !IsThread(request.end_thread)) Fail("requests", i, "no such thread");
      if (!IsTime(request.deadline_ns) || !IsTime(request.first_token_ns) || !IsTime(request.max_token_gap_ns)) {
        Fail("requests", i, "deadline or token times out of range");
      }
      for (const Label& label : request.labels) {
        if (!IsString(label.key) || !IsString(label.value)) Fail("requests", i, "label not a string");
      }
      for (const Size& named : request.sizes) {
        if (!IsString(named.name)) Fail("requests", i, "name of a size not a string");
      }
      const Stage* before = nullptr;
      for (const Stage& stage : request.stages) {
        if (!IsString(stage.name)) Fail("requests", i, "name of a stage not a string");
        if (!IsInterval(stage.begin_ns, stage.duration_ns)) {
          Fail("requests", i, "stage's time out of range");
          break;  // differences of times that are out of range may overflow
        }
        if (before != nullptr &&
            (before->duration_ns == kOpen || before->duration_ns > stage.begin_ns - before->begin_ns)) {
          Fail("requests", i, "stages overlap");
        }
        before = &stage;
      }
      if (!wrong_.empty()) return;
    }
  }

  void Batches() {
    uint64_t covered = 0, total_ns = 0;
    for (size_t i = 0; i < trace_.batches.size(); ++i) {
      const BatchRow& batch = trace_.batches[i];
      Add("batches", i, batch.begin_ns, batch.duration_ns, &total_ns);
      if (!IsInterval(batch.begin_ns, batch.duration_ns) || !IsTime(batch.submitted_ns)) {
        Fail("batches", i, "time out of range");
      }
      if (i > 0 && trace_.batches[i - 1].begin_ns > batch.begin_ns) Fail("batches", i, "out of order");
      if (!IsString(batch.executor)) Fail("batches", i, "executor not a string");
      if (!IsThread(batch.thread)) Fail("batches", i, "no such thread");
      if (uint64_t{batch.first_member} + batch.member_count > trace_.members.size()) {
        Fail("batches", i, "members beyond the table");
      }
      if (batch.member_count != 0 && batch.first_member != covered)
        Fail("batches", i, "members not after those before");
      covered += batch.member_count;
      if (!wrong_.empty()) return;
      for (uint32_t row = batch.first_member; row < batch.first_member + batch.member_count; ++row) {
        const MemberRow& member = trace_.members[row];
        if (member.batch != i) Fail("members", row, "batch differs from its range");
        if (member.request >= trace_.requests.size()) Fail("members", row, "no such request");
        if (!IsTime(member.join_ns) || !IsTime(member.leave_ns)) Fail("members", row, "time out of range");
        if (row > batch.first_member && trace_.members[row - 1].join_ns > member.join_ns) {
          Fail("members", row, "out of order");
        }
      }
    }
    if (covered != trace_.members.size()) Fail("members", trace_.members.size(), "of no batch");
  }

  void Calls() {
    const CallColumns& calls = trace_.calls;
    const size_t size = calls.begin_ns.size();
    for (const size_t column : {calls.duration_ns.size(), calls.thread.size(), calls.request.size(), calls.batch.size(),
                                calls.name.size(), calls.stream.size(), calls.device.size()}) {
      if (column != size) Fail("calls", column, "columns of unequal length");
    }
    if (size >= kNone) Fail("calls", size, "too many");
    if (!wrong_.empty()) return;
    uint64_t total_ns = 0;
    for (uint32_t i = 0; i < size && wrong_.empty(); ++i) {
      if (!IsThread(calls.thread[i])) Fail("calls", i, "no such thread");
      if (!IsInterval(calls.begin_ns[i], calls.duration_ns[i])) Fail("calls", i, "time out of range");
      Add("calls", i, calls.begin_ns[i], calls.duration_ns[i], &total_ns);
      if (!IsRowOrNone(calls.request[i], trace_.requests.size())) Fail("calls", i, "no such request");
      if (!IsRowOrNone(calls.batch[i], trace_.batches.size())) Fail("calls", i, "no such batch");
      if (!IsString(calls.name[i])) Fail("calls", i, "name not a string");
      if (!IsRowOrNone(calls.stream[i], trace_.streams.size())) Fail("calls", i, "no such stream");
      if (!IsRowOrNone(calls.device[i], trace_.devices.size())) Fail("calls", i, "no such device");
      if (i > 0 && (calls.thread[i - 1] > calls.thread[i] ||
                    (calls.thread[i - 1] == calls.thread[i] && calls.begin_ns[i - 1] > calls.begin_ns[i])))
        Fail("calls", i, "out of order");
    }
  }

  void Gpu() {
    for (size_t i = 0; i < trace_.devices.size(); ++i) {
      if (!IsString(trace_.devices[i].name)) Fail("devices", i, "name not a string");
    }
    uint64_t covered = 0;
    for (size_t i = 0; i < trace_.streams.size(); ++i) {
      const StreamRow& stream = trace_.streams[i];
      if (!IsString(stream.name)) Fail("streams", i, "name not a string");
      if (!IsRowOrNone(stream.device, trace_.devices.size())) Fail("streams", i, "no such device");
      if (uint64_t{stream.first_event} + stream.event_count > trace_.gpu.size())
        Fail("streams", i, "events beyond the table");
      if (stream.event_count != 0 && stream.first_event != covered) Fail("streams", i, "events not after those before");
      covered += stream.event_count;
    }
    if (covered != trace_.gpu.size()) Fail("streams", trace_.streams.size(), "events of no stream");
    GpuEvents();
    for (size_t i = 0; i < trace_.overheads.size(); ++i) {
      const OverheadRow& overhead = trace_.overheads[i];
      if (!IsString(overhead.name)) Fail("overheads", i, "name not a string");
      if (!IsInterval(overhead.begin_ns, overhead.duration_ns) || overhead.duration_ns == kOpen)
        Fail("overheads", i, "time out of range");
      if (i > 0 && trace_.overheads[i - 1].begin_ns > overhead.begin_ns) Fail("overheads", i, "out of order");
    }
  }

  void Depths(const char* table, const std::vector<DepthRow>& rows) {
    for (size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].depth > Depth::kOps) Fail(table, i, "unknown depth");
      if (!IsSpan(rows[i].begin_ns, rows[i].end_ns)) Fail(table, i, "time out of range");
      if (i > 0 && rows[i - 1].begin_ns > rows[i].begin_ns) Fail(table, i, "out of order");
    }
  }

  void GpuRest() {
    Depths("depths", trace_.depths);
    Depths("operator depths", trace_.operator_depths);
    for (size_t i = 0; i < trace_.gpu_losses.size(); ++i) {
      const GpuLossRow& loss = trace_.gpu_losses[i];
      if (!IsString(loss.reason)) Fail("gpu losses", i, "reason not a string");
      if (!IsRowOrNone(loss.stream, trace_.streams.size())) Fail("gpu losses", i, "no such stream");
      if (!IsRowOrNone(loss.device, trace_.devices.size())) Fail("gpu losses", i, "no such device");
      if (!IsSpan(loss.begin_ns, loss.end_ns)) Fail("gpu losses", i, "time out of range");
    }
    for (size_t i = 0; i < trace_.counters.size(); ++i) {
      const CounterRow& counter = trace_.counters[i];
      if (!IsString(counter.name) || !IsString(counter.unit)) Fail("counters", i, "name or unit not a string");
      if (!IsRowOrNone(counter.device, trace_.devices.size())) Fail("counters", i, "no such device");
    }
    const SampleColumns& samples = trace_.samples;
    if (samples.counter.size() != samples.at_ns.size() || samples.value.size() != samples.at_ns.size())
      Fail("samples", samples.at_ns.size(), "columns of unequal length");
    for (size_t i = 0; i < samples.at_ns.size() && wrong_.empty(); ++i) {
      if (samples.counter[i] >= trace_.counters.size()) Fail("samples", i, "no such counter");
      if (!IsInterval(samples.at_ns[i], 0)) Fail("samples", i, "time out of range");
      if (!std::isfinite(samples.value[i])) Fail("samples", i, "not finite");
      if (i > 0 && (samples.counter[i - 1] > samples.counter[i] ||
                    (samples.counter[i - 1] == samples.counter[i] && samples.at_ns[i - 1] > samples.at_ns[i])))
        Fail("samples", i, "out of order");
    }
  }

  void GpuEvents() {
    const GpuColumns& gpu = trace_.gpu;
    const size_t size = gpu.begin_ns.size();
    for (const size_t column :
         {gpu.duration_ns.size(), gpu.kind.size(), gpu.stream.size(), gpu.name.size(), gpu.call.size(),
          gpu.shape.size(), gpu.bytes.size(), gpu.graph.size(), gpu.node.size(), gpu.scope_path.size()}) {
      if (column != size) Fail("gpu", column, "columns of unequal length");
    }
    if (size >= kNone) Fail("gpu", size, "too many");
    if (!wrong_.empty()) return;
    uint64_t total_ns = 0;
    for (size_t s = 0; s < trace_.streams.size(); ++s) {
      const StreamRow& stream = trace_.streams[s];
      for (uint32_t i = stream.first_event; i < stream.first_event + stream.event_count && wrong_.empty(); ++i) {
        if (gpu.stream[i] != s) Fail("gpu", i, "stream differs from its range");
        if (gpu.kind[i] < GpuKind::kKernel || gpu.kind[i] > GpuKind::kSpan) Fail("gpu", i, "unknown kind");
        // The GPU's end of everything is known.
        if (!IsInterval(gpu.begin_ns[i], gpu.duration_ns[i]) || gpu.duration_ns[i] == kOpen)
          Fail("gpu", i, "time out of range");
        Add("gpu", i, gpu.begin_ns[i], gpu.duration_ns[i], &total_ns);
        if (!IsString(gpu.name[i])) Fail("gpu", i, "name not a string");
        if (!IsString(gpu.scope_path[i])) Fail("gpu", i, "scope path not a string");
        if (!IsRowOrNone(gpu.call[i], trace_.calls.size())) Fail("gpu", i, "no such call");
        if (!IsRowOrNone(gpu.shape[i], trace_.shapes.size())) Fail("gpu", i, "no such shape");
        if (i > stream.first_event && gpu.begin_ns[i - 1] > gpu.begin_ns[i]) Fail("gpu", i, "out of order");
      }
    }
  }

  void Others() {
    for (size_t i = 0; i < trace_.handoffs.size(); ++i) {
      const HandoffRow& handoff = trace_.handoffs[i];
      if (handoff.request >= trace_.requests.size()) Fail("handoffs", i, "no such request");
      if (!IsString(handoff.queue)) Fail("handoffs", i, "queue not a string");
      if (!IsThread(handoff.from_thread) || !IsThread(handoff.to_thread)) Fail("handoffs", i, "no such thread");
      if (handoff.batch != kNone && handoff.batch >= trace_.batches.size()) Fail("handoffs", i, "no such batch");
      if (!IsTime(handoff.enqueue_ns) || !IsTime(handoff.take_ns)) Fail("handoffs", i, "time out of range");
      if (i > 0 && trace_.handoffs[i - 1].enqueue_ns > handoff.enqueue_ns) Fail("handoffs", i, "out of order");
    }
    for (size_t i = 0; i < trace_.asyncs.size(); ++i) {
      const AsyncRow& async = trace_.asyncs[i];
      if (async.site >= trace_.sites.size()) Fail("asyncs", i, "no such site");
      if (async.request >= trace_.requests.size()) Fail("asyncs", i, "no such request");
      if (!IsThread(async.begin_thread) || !IsThread(async.end_thread)) Fail("asyncs", i, "no such thread");
      if (!IsInterval(async.begin_ns, async.duration_ns)) Fail("asyncs", i, "time out of range");
      if (i > 0 && trace_.asyncs[i - 1].begin_ns > async.begin_ns) Fail("asyncs", i, "out of order");
    }
    for (size_t i = 0; i < trace_.tokens.size(); ++i) {
      const TokenRow& token = trace_.tokens[i];
      if (token.request >= trace_.requests.size()) Fail("tokens", i, "no such request");
      if (!IsThread(token.thread)) Fail("tokens", i, "no such thread");
      if (!IsTime(token.at_ns)) Fail("tokens", i, "time out of range");
      if (i > 0 && trace_.tokens[i - 1].at_ns > token.at_ns) Fail("tokens", i, "out of order");
    }
    for (size_t i = 0; i < trace_.losses.size(); ++i) {
      const LossRow& loss = trace_.losses[i];
      if (!IsThread(loss.thread)) Fail("losses", i, "no such thread");
      if (!IsTime(loss.begin_ns) || !IsTime(loss.end_ns)) Fail("losses", i, "time out of range");
      if (loss.begin_ns > loss.end_ns) Fail("losses", i, "ends before it begins");
    }
    for (size_t i = 0; i < trace_.firings.size(); ++i) {
      const FiringRow& firing = trace_.firings[i];
      if (!IsString(firing.cause) || !IsString(firing.detail)) Fail("firings", i, "cause or detail not a string");
      if (!IsTime(firing.at_ns)) Fail("firings", i, "time out of range");
      if (i > 0 && trace_.firings[i - 1].at_ns > firing.at_ns) Fail("firings", i, "out of order");
    }
    for (size_t i = 0; i < trace_.attributes.size(); ++i) {
      if (!IsString(trace_.attributes[i].key) || !IsString(trace_.attributes[i].value)) {
        Fail("attributes", i, "key or value not a string");
      }
    }
  }

  const Trace& trace_;
  std::string wrong_;
};

}  // namespace

StringTable::StringTable() { Add({}); }

StringTable::StringTable(const StringTable& other) { *this = other; }

StringTable& StringTable::operator=(const StringTable& other) {
  if (this == &other) return *this;
  views_.clear();
  blocks_.clear();
  index_.clear();
  for (const std::string_view text : other.views_) Add(text);
  return *this;
}

StringId StringTable::Add(std::string_view text) {
  if (const auto found = index_.find(text); found != index_.end()) return found->second;
  if (!base::IsSaneText(text)) return Add(base::SanitizeText(text));
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size()) {
    const size_t doubled = size_t{256} << std::min<size_t>(blocks_.size(), 16);
    blocks_.emplace_back().reserve(std::max(std::min(kStringBlockBytes, doubled), text.size()));
  }
  // Never grows beyond its capacity, so that views stay valid.
  std::vector<char>& block = blocks_.back();
  const size_t at = block.size();
  block.insert(block.end(), text.begin(), text.end());
  const StringId id = size();
  views_.emplace_back(block.data() + at, text.size());
  index_.emplace(views_.back(), id);
  return id;
}

const char* LossReasonName(LossReason reason) {
  switch (reason) {
    case LossReason::kOverwritten:
      return "overwritten";
    case LossReason::kCopying:
      return "overwritten in copy";
    case LossReason::kReserve:
      return "no room";
    case LossReason::kUnreadable:
      return "unreadable";
    case LossReason::kDepth:
      return "too deep";
    case LossReason::kClosedElsewhere:
      return "closed elsewhere";
    case LossReason::kRecycled:
      return "ring reused";
    case LossReason::kDamaged:
      return "dump damaged";
    case LossReason::kOpenRequests:
      return "no room (requests)";
    case LossReason::kRefused:
      return "no ring";
    case LossReason::kTooDeepToBegin:
      return "too deep to begin";
  }
  return "unknown";
}

const char* GpuKindName(GpuKind kind) {
  switch (kind) {
    case GpuKind::kKernel:
      return "kernel";
    case GpuKind::kMemcpy:
      return "memcpy";
    case GpuKind::kMemset:
      return "memset";
    case GpuKind::kGraph:
      return "graph";
    case GpuKind::kSpan:
      return "span";
  }
  return "unknown";
}

std::string_view Trace::AttributeOf(std::string_view key) const {
  for (const model::Attribute& attribute : attributes) {
    if (strings[attribute.key] == key) return strings[attribute.value];
  }
  return {};
}

std::string FindInconsistency(const Trace& trace) { return Checker(trace).Run(); }

}  // namespace model
PITOT_NAMESPACE_END
