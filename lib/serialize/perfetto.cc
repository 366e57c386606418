// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/perfetto.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "serialize/packet_writer.h"
#include "serialize/perfetto_gpu.h"
#include "serialize/perfetto_tracks.h"
#include "serialize/thread_ids.h"

PITOT_NAMESPACE_BEGIN
namespace {

using model::kNone;
using model::kOpen;
using model::StringId;
using model::Trace;
using serialize::GpuTracks;
using serialize::Hex;
using serialize::Mix;
using serialize::Of;
using serialize::OrElse;
using serialize::PacketWriter;
using serialize::ThreadName;
using serialize::Tracks;
using serialize::WireBuffer;
using serialize::Word;
namespace event_field = perfetto::event;

constexpr int64_t kNever = INT64_MAX;  // the end of open slices
constexpr uint32_t kProcessSequence = 1;
constexpr uint32_t kFirstThreadSequence = 2;
// Extra tracks of a thread for scopes that overlap others without nesting. Scopes beyond that are cut.
constexpr size_t kMaxOverlapTracks = 16;

// One event of the process's sequence. The marks of a track are made in their order.
struct Mark {
  enum Kind : uint8_t { kRequest, kStage, kQueued, kAsync, kBatch, kJoin, kToken, kFiring, kLoss, kEnd };
  int64_t at_ns;
  uint64_t track;
  uint32_t row;
  uint16_t item;  // which stage
  Kind kind;
};

// Values of `kind`, by Mark::Kind, and after those by SiteKind: what a reader cannot tell by a name.
constexpr uint32_t kSiteKinds = Mark::kEnd + 1, kLastSiteKindNumber = static_cast<uint32_t>(SiteKind::kOperator);
const char* KindText(uint32_t kind) {
  constexpr const char* kMarks[] = {"request", "stage",  "queued",  "async", "batch",
                                    "join",    "tokens", "trigger", "loss"};
  if (kind < std::size(kMarks)) return kMarks[kind];
  switch (static_cast<SiteKind>(kind - kSiteKinds)) {
    case SiteKind::kLeaf:
      return "leaf";
    case SiteKind::kPhase:
      return "phase";
    case SiteKind::kWait:
      return "wait";  // for something unknown; others have a kind of wait
    case SiteKind::kOperator:
      return "operator";
    default:
      return "";
  }
}

struct Slice {
  int64_t begin_ns;
  int64_t end_ns;
  Mark::Kind kind;
  uint32_t row;
  uint16_t item;
};

// Whether `a` comes first: outer slices before inner ones.
bool Before(const Slice& a, const Slice& b) {
  if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
  return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.kind < b.kind;
}

// Ids of the arrows that begin or end at rows.
class Flows {
 public:
  void Add(uint32_t row, uint64_t id) { flows_.emplace_back(row, id); }
  void Sort() { std::sort(flows_.begin(), flows_.end()); }
  void Write(uint32_t row, PacketWriter* out) const {
    for (auto flow = std::lower_bound(flows_.begin(), flows_.end(), std::pair(row, uint64_t{0}));
         flow != flows_.end() && flow->first == row; ++flow) {
      out->Flow(flow->second);
    }
  }
  bool Has(uint32_t row) const {
    const auto flow = std::lower_bound(flows_.begin(), flows_.end(), std::pair(row, uint64_t{0}));
    return flow != flows_.end() && flow->first == row;
  }
  // The same as Write, but faster if rows follow the row of the last call.
  void WriteNext(uint32_t row, PacketWriter* out) {
    while (next_ > 0 && flows_[next_ - 1].first >= row) --next_;
    while (next_ < flows_.size() && flows_[next_].first < row) ++next_;
    for (size_t i = next_; i < flows_.size() && flows_[i].first == row; ++i) out->Flow(flows_[i].second);
  }

 private:
  std::vector<std::pair<uint32_t, uint64_t>> flows_;
  size_t next_ = 0;
};

// The rows of a table by their request.
class ByRequest {
 public:
  using Rows = std::span<const std::pair<uint32_t, uint32_t>>;  // request and row, sorted

  template <class Table, class Key> ByRequest(const Table& table, const Key& request_of) {
    rows_.reserve(table.size());
    for (uint32_t row = 0; row < table.size(); ++row) rows_.emplace_back(request_of(table[row]), row);
    std::sort(rows_.begin(), rows_.end());
  }
  // The rows of a request. Calls must come in the order of requests, without a gap.
  Rows Take(uint32_t request) {
    const size_t first = next_;
    while (next_ < rows_.size() && rows_[next_].first == request) ++next_;
    return Rows(rows_).subspan(first, next_ - first);
  }
  // The rows after those taken.
  Rows Rest() const { return Rows(rows_).subspan(next_); }

 private:
  std::vector<std::pair<uint32_t, uint32_t>> rows_;
  size_t next_ = 0;
};

class PerfettoWriter {
 public:
  PerfettoWriter(const Trace& trace, const PerfettoOptions& options, ByteSink* sink)
      : trace_(trace),
        out_(trace.strings, options, sink),
        tracks_(trace.pid, &out_),
        process_track_(tracks_.Process()),
        gpu_(trace, &tracks_, &out_),
        counter_tracks_(trace.strings.size()),
        kinds_(out_.ManyTexts(kSiteKinds + kLastSiteKindNumber + 1)),
        batches_(out_.ManyTexts(trace.batches.size())) {}

  bool Write() {
    WriteFacts();
    DescribeProcessAndThreads();
    gpu_.Describe();
    FindFlows();
    PlaceRequests();
    PlaceAsyncs();
    PlaceBatches();
    PlaceLosses();
    WriteMarks();
    for (uint32_t thread = 0; thread < trace_.threads.size() && out_.ok(); ++thread) WriteThread(thread);
    gpu_.Write(kFirstThreadSequence + static_cast<uint32_t>(trace_.threads.size()));
    WriteEnd();
    out_.Flush();
    return out_.ok();
  }

 private:
  // Begins of rows are between 0 and kMaxTimeNs; ends may be kNever.
  static int64_t End(int64_t begin_ns, int64_t duration_ns) {
    return duration_ns == kOpen ? kNever : begin_ns + duration_ns;
  }
  std::string RequestName(const model::RequestRow& request) const {
    return std::string(OrElse(trace_.strings[request.route], "request")) + " " + Hex(request.id & 0xffff, 4);
  }

  void WriteFacts() {
    namespace clock = perfetto::clock_snapshot;
    WireBuffer& buffer = out_.buffer();
    out_.BeginPacket();
    size_t message = buffer.Open(perfetto::packet::kClockSnapshot);
    for (const auto& [id, at_ns] : {std::pair<uint32_t, int64_t>{clock::kMonotonic, trace_.clock.monotonic_ns},
                                    {clock::kBoottime, trace_.clock.boottime_ns},
                                    {clock::kRealtime, trace_.clock.realtime_ns}}) {
      if (at_ns == 0 && id != clock::kMonotonic) continue;  // not known
      const size_t entry = buffer.Open(clock::kClocks);
      buffer.Varint(clock::kClockId, id);
      buffer.Int(clock::kTimestamp, at_ns);
      buffer.Close(entry);
    }
    buffer.Varint(clock::kPrimaryTraceClock, clock::kMonotonic);
    buffer.Close(message);
    out_.EndPacket();

    out_.BeginPacket();
    message = buffer.Open(perfetto::packet::kTraceUuid);
    const uint64_t moment = Mix(static_cast<uint64_t>(trace_.clock.realtime_ns));
    buffer.Varint(perfetto::trace_uuid::kHigh, tracks_.Uuid(Of::kTrace, moment));
    buffer.Varint(perfetto::trace_uuid::kLow, tracks_.Uuid(Of::kTrace, moment + 1));
    buffer.Close(message);
    out_.EndPacket();

    WriteAttributes();

    for (const model::FiringRow& firing : trace_.firings) {
      out_.BeginPacket();
      buffer.Int(perfetto::packet::kTimestamp, firing.at_ns);
      message = buffer.Open(perfetto::packet::kTrigger);
      buffer.String(perfetto::trigger::kName, trace_.strings[firing.cause]);
      buffer.Close(message);
      out_.EndPacket();
    }
    if (!trace_.firings.empty()) WriteUiState();
  }

  void WriteAttributes() {
    namespace field = perfetto::trace_attributes;
    WireBuffer& buffer = out_.buffer();
    out_.BeginPacket();
    const size_t message = buffer.Open(perfetto::packet::kTraceAttributes);
    const auto number = [&](std::string_view key, uint64_t value) {
      const size_t entry = buffer.Open(field::kAttribute);
      buffer.String(field::kKey, key);
      buffer.Varint(field::kLong, value);
      buffer.Close(entry);
    };
    for (const model::Attribute& attribute : trace_.attributes) {
      const size_t entry = buffer.Open(field::kAttribute);
      buffer.String(field::kKey, trace_.strings[attribute.key]);
      buffer.String(field::kString, trace_.strings[attribute.value]);
      buffer.Close(entry);
    }
    number("pitot_layout", 2);  // by which pitot::ReadTrace knows its own; from 2 on "pitot_end" is the last packet
    WriteDevices(number);
    number("window_begin_ns", static_cast<uint64_t>(trace_.window_begin_ns));
    number("window_end_ns", static_cast<uint64_t>(trace_.window_end_ns));
    number("losses", trace_.losses.size());
    uint64_t all = 0;
    std::map<model::LossReason, uint64_t> by_reason;
    for (const model::LossRow& loss : trace_.losses) {
      by_reason[loss.reason] += loss.events;
      if (loss.reason != model::LossReason::kOpenRequests) all += loss.events;
    }
    number("lost_events", all);
    for (const auto& [reason, lost] : by_reason) {
      const char* const what = reason == model::LossReason::kOpenRequests ? "lost_requests: " : "lost_events: ";
      number(std::string(what) + LossReasonName(reason), lost);
    }
    if (!trace_.gpu_losses.empty()) {
      uint64_t records = 0;
      for (const model::GpuLossRow& loss : trace_.gpu_losses) records += loss.records;
      number("gpu_losses", trace_.gpu_losses.size());
      number("lost_gpu_records", records);
    }
    buffer.Close(message);
    out_.EndPacket();
  }

  // Without it the file was cut off, maybe between two packets.
  void WriteEnd() {
    namespace field = perfetto::trace_attributes;
    WireBuffer& buffer = out_.buffer();
    out_.BeginPacket();
    const size_t message = buffer.Open(perfetto::packet::kTraceAttributes);
    const size_t entry = buffer.Open(field::kAttribute);
    buffer.String(field::kKey, "pitot_end");
    buffer.Varint(field::kLong, 1);
    buffer.Close(entry);
    buffer.Close(message);
    out_.EndPacket();
  }

  template <class Number> void WriteDevices(const Number& number) const {
    for (uint32_t row = 0; row < trace_.devices.size(); ++row) {
      const model::DeviceRow& device = trace_.devices[row];
      const std::string prefix = "device " + std::to_string(row) + " ";
      const auto add = [&](const char* key, uint32_t value) {
        if (value != 0) number(prefix + key, value);
      };
      add("multiprocessors", device.multiprocessors);
      add("threads_per_multiprocessor", device.threads_per_multiprocessor);
      add("blocks_per_multiprocessor", device.blocks_per_multiprocessor);
      add("registers_per_multiprocessor", device.registers_per_multiprocessor);
      add("shared_bytes_per_multiprocessor", device.shared_bytes_per_multiprocessor);
      add("threads_per_warp", device.threads_per_warp);
    }
  }

  // Makes the viewer open at the first firing's request.
  void WriteUiState() {
    namespace field = perfetto::ui_state;
    int64_t begin_ns = trace_.window_begin_ns, end_ns = trace_.window_end_ns;
    const auto request =
        std::find_if(trace_.requests.begin(), trace_.requests.end(),
                     [&](const model::RequestRow& row) { return row.id == trace_.firings[0].request_id; });
    if (request != trace_.requests.end()) {
      const int64_t request_end_ns = trace_.RequestEnd(*request), margin_ns = (request_end_ns - request->begin_ns) / 10;
      begin_ns = std::max<int64_t>(request->begin_ns - margin_ns, 0);
      end_ns = request_end_ns + margin_ns;
    }
    WireBuffer& buffer = out_.buffer();
    out_.BeginPacket();
    const size_t message = buffer.Open(perfetto::packet::kUiState);
    buffer.Int(field::kBegin, begin_ns);
    buffer.Int(field::kEnd, end_ns);
    const size_t highlight = buffer.Open(field::kHighlightProcess);
    buffer.Varint(field::kHighlightPid, static_cast<uint32_t>(trace_.pid));
    buffer.Close(highlight);
    buffer.Close(message);
    out_.EndPacket();
  }

  void DescribeProcessAndThreads() {
    namespace field = perfetto::track;
    WireBuffer& buffer = out_.buffer();
    out_.BeginPacket();
    buffer.Int(perfetto::packet::kTimestamp, trace_.window_begin_ns);
    size_t descriptor = buffer.Open(perfetto::packet::kTrackDescriptor);
    buffer.Varint(field::kUuid, process_track_);
    size_t message = buffer.Open(field::kProcess);
    buffer.Int(field::kProcessPid, static_cast<int32_t>(trace_.pid));
    buffer.String(field::kProcessName, trace_.strings[trace_.process_name]);
    buffer.Close(message);
    buffer.Close(descriptor);
    out_.EndPacket();
    const std::vector<int64_t> tids = serialize::ThreadIds(trace_);
    for (uint32_t row = 0; row < trace_.threads.size(); ++row) {
      const model::ThreadRow& thread = trace_.threads[row];
      const int64_t begin_ns =
          thread.event_count != 0 ? trace_.events.begin_ns[thread.first_event] : trace_.window_begin_ns;
      out_.BeginPacket();
      buffer.Int(perfetto::packet::kTimestamp, std::min(begin_ns, trace_.window_begin_ns));
      descriptor = buffer.Open(perfetto::packet::kTrackDescriptor);
      buffer.Varint(field::kUuid, tracks_.Uuid(Of::kThread, row));
      message = buffer.Open(field::kThread);
      buffer.Int(field::kThreadPid, static_cast<int32_t>(trace_.pid));
      buffer.Int(field::kThreadTid, tids[row]);
      buffer.Varint(field::kThreadSortIndex, thread.number);
      buffer.String(field::kThreadName, ThreadName(trace_, row));
      buffer.Close(message);
      buffer.Close(descriptor);
      out_.EndPacket();
    }
  }

  uint64_t NewFlow() { return Mix(tracks_.Uuid(Of::kFlow, flows_made_++)); }

  // Arrows from each hand-off to its taker: a batch, or the first scope in the request's context on the taking thread.
  // Also from a request to each batch that it joined without a queue, and from each batch to its first scope.
  void FindFlows() {
    const model::RequestIndex index(trace_);
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> unhanded;  // members without a hand-off: by request and batch
    for (uint32_t row = 0; row < trace_.members.size(); ++row) {
      unhanded.emplace(std::pair(trace_.members[row].request, trace_.members[row].batch), row);
    }
    const auto members = unhanded;
    for (uint32_t row = 0; row < trace_.handoffs.size(); ++row) {
      const model::HandoffRow& handoff = trace_.handoffs[row];
      if (handoff.batch != kNone) {
        const auto member = members.find(std::pair(handoff.request, handoff.batch));
        AddBatchFlow(handoff.batch, member == members.end() ? kNone : member->second, handoff.enqueue_ns, row,
                     &handoff_flows_);
        unhanded.erase(std::pair(handoff.request, handoff.batch));
      } else if (handoff.to_thread != kNone && handoff.take_ns != 0) {
        const uint32_t event = FirstScope(index.Events(handoff.request), handoff.to_thread, handoff.take_ns);
        if (event == kNone) continue;
        const uint64_t id = NewFlow();
        handoff_flows_.Add(row, id);
        event_flows_.Add(event, id);
      }
    }
    for (const auto& [request_and_batch, row] : unhanded) {
      const uint32_t request = request_and_batch.first;
      AddBatchFlow(request_and_batch.second, row, trace_.requests[request].begin_ns, request, &request_flows_);
    }
    for (uint32_t row = 0; row < trace_.batches.size(); ++row) {
      const model::BatchRow& batch = trace_.batches[row];
      const uint32_t event =
          batch.thread == kNone ? kNone : FirstScope(index.BatchEvents(row), batch.thread, batch.begin_ns);
      if (event == kNone) continue;
      const uint64_t id = NewFlow();
      batch_flows_.Add(row, id);
      event_flows_.Add(event, id);
    }
    handoff_flows_.Sort();
    batch_flows_.Sort();
    join_flows_.Sort();
    request_flows_.Sort();
    event_flows_.Sort();
  }
  // Adds an arrow from row `from`, which begins at `from_ns`, to the batch. If the batch began before, the arrow would
  // point backwards; it then goes to a mark where the member joined.
  void AddBatchFlow(uint32_t batch, uint32_t member, int64_t from_ns, uint32_t from, Flows* from_flows) {
    const uint64_t id = NewFlow();
    const model::BatchRow& row = trace_.batches[batch];
    from_flows->Add(from, id);
    if (member != kNone && from_ns > row.begin_ns && trace_.members[member].join_ns >= from_ns &&
        trace_.members[member].join_ns < End(row.begin_ns, row.duration_ns)) {
      join_flows_.Add(member, id);
    } else {
      batch_flows_.Add(batch, id);
    }
  }
  uint32_t FirstScope(model::RequestIndex::Range events, uint32_t thread, int64_t from_ns) const {
    const auto key = [&](uint32_t event) {
      return std::pair(trace_.events.thread[event], trace_.events.begin_ns[event]);
    };
    const uint32_t* event = std::partition_point(
        events.begin(), events.end(), [&](uint32_t candidate) { return key(candidate) < std::pair(thread, from_ns); });
    for (; event != events.end() && trace_.events.thread[*event] == thread; ++event) {
      if (model::IsScope(trace_.sites[trace_.events.site[*event]].kind)) return *event;
    }
    return kNone;
  }

  void AddMark(int64_t at_ns, uint64_t track, Mark::Kind kind, uint32_t row, uint16_t item = 0) {
    marks_.push_back({at_ns, track, row, item, kind});
  }
  void AddSlice(const Slice& slice, uint64_t track) {
    AddMark(slice.begin_ns, track, slice.kind, slice.row, slice.item);
    if (slice.end_ns != kNever) AddMark(slice.end_ns, track, Mark::kEnd, 0);
  }

  uint64_t RouteGroup(StringId route) {
    return tracks_.Group(Of::kRoute, route, "requests ", OrElse(trace_.strings[route], "request"));
  }

  // Puts each request on a lane of its route, with its stages, waits in queues, tokens and firings.
  void PlaceRequests() {
    std::map<uint64_t, uint32_t> rows;
    if (!trace_.firings.empty()) {
      for (uint32_t row = 0; row < trace_.requests.size(); ++row) rows.emplace(trace_.requests[row].id, row);
    }
    ByRequest tokens(trace_.tokens, [](const model::TokenRow& token) { return token.request; });
    ByRequest handoffs(trace_.handoffs, [](const model::HandoffRow& handoff) { return handoff.request; });
    ByRequest firings(trace_.firings, [&](const model::FiringRow& firing) {
      const auto found = rows.find(firing.request_id);
      return found == rows.end() ? kNone : found->second;
    });
    std::vector<Slice> slices;
    std::vector<Slice> elsewhere;  // stages and queue waits that do not nest
    for (uint32_t row = 0; row < trace_.requests.size(); ++row) {
      slices.clear();
      AddStages(row, &slices);
      AddQueued(row, handoffs.Take(row), &slices);
      PlaceRequest(row, tokens.Take(row), firings.Take(row), &slices, &elsewhere);
    }
    for (const auto& [request, row] : firings.Rest()) {
      AddMark(trace_.firings[row].at_ns, process_track_, Mark::kFiring, row);
    }
    PlaceElsewhere(&elsewhere);
  }
  void AddStages(uint32_t row, std::vector<Slice>* slices) const {
    const std::vector<model::Stage>& stages = trace_.requests[row].stages;
    for (size_t i = 0; i < stages.size() && i <= UINT16_MAX; ++i) {
      slices->push_back({stages[i].begin_ns, End(stages[i].begin_ns, stages[i].duration_ns), Mark::kStage, row,
                         static_cast<uint16_t>(i)});
    }
  }
  void AddQueued(uint32_t row, ByRequest::Rows handoffs, std::vector<Slice>* slices) const {
    const model::RequestRow& request = trace_.requests[row];
    const int64_t end_ns = End(request.begin_ns, request.duration_ns);
    for (const auto& [of, handoff] : handoffs) {
      const model::HandoffRow& queued = trace_.handoffs[handoff];
      const int64_t taken_ns = std::max(queued.take_ns != 0 ? queued.take_ns : end_ns, queued.enqueue_ns);
      slices->push_back({queued.enqueue_ns, taken_ns, Mark::kQueued, handoff, 0});
    }
  }
  // The request's lane is free again after its last token and firing.
  void PlaceRequest(uint32_t row, ByRequest::Rows tokens, ByRequest::Rows firings, std::vector<Slice>* slices,
                    std::vector<Slice>* misfits) {
    const model::RequestRow& request = trace_.requests[row];
    const uint64_t group = RouteGroup(request.route);
    const int64_t end_ns = End(request.begin_ns, request.duration_ns);
    int64_t busy_until_ns = end_ns;
    for (const auto& [of, token] : tokens) busy_until_ns = std::max(busy_until_ns, trace_.tokens[token].at_ns);
    for (const auto& [of, firing] : firings) busy_until_ns = std::max(busy_until_ns, trace_.firings[firing].at_ns);
    const std::string_view route = OrElse(trace_.strings[request.route], "request");
    const uint64_t track = tracks_.Lane(group, route, request.begin_ns, busy_until_ns);
    Nest({request.begin_ns, end_ns, Mark::kRequest, row, 0}, track, slices, misfits);
    for (const auto& [of, token] : tokens)
      AddMark(std::max(trace_.tokens[token].at_ns, request.begin_ns), track, Mark::kToken, token);
    for (const auto& [of, firing] : firings)
      AddMark(std::max(trace_.firings[firing].at_ns, request.begin_ns), track, Mark::kFiring, firing);
  }
  // Puts stages and waits in queues that nest in no request on lanes of their own.
  void PlaceElsewhere(std::vector<Slice>* slices) {
    std::stable_sort(slices->begin(), slices->end(), Before);
    for (const Slice& slice : *slices) {
      const uint32_t row = slice.kind == Mark::kStage ? slice.row : trace_.handoffs[slice.row].request;
      const std::string_view name = slice.kind == Mark::kStage ? "stages (overlapping)" : "queued";
      AddSlice(slice, tracks_.Lane(RouteGroup(trace_.requests[row].route), name, slice.begin_ns, slice.end_ns));
    }
  }

  // Puts `outer` on its track, with the slices that nest in it and in each other.
  void Nest(const Slice& outer, uint64_t track, std::vector<Slice>* slices, std::vector<Slice>* misfits) {
    std::sort(slices->begin(), slices->end(), Before);
    std::vector<int64_t> ends{outer.end_ns};
    AddMark(outer.begin_ns, track, outer.kind, outer.row);
    const auto close = [&](int64_t until_ns) {
      for (; !ends.empty() && ends.back() <= until_ns && ends.back() != kNever; ends.pop_back()) {
        AddMark(ends.back(), track, Mark::kEnd, 0);
      }
    };
    for (const Slice& slice : *slices) {
      // `outer` stays open to the end, so that slices that begin at its very end are still in it.
      while (ends.size() > 1 && ends.back() <= slice.begin_ns) {
        AddMark(ends.back(), track, Mark::kEnd, 0);
        ends.pop_back();
      }
      if (slice.begin_ns < outer.begin_ns || slice.begin_ns > ends.back() || slice.end_ns > ends.back()) {
        misfits->push_back(slice);
        continue;
      }
      AddMark(slice.begin_ns, track, slice.kind, slice.row, slice.item);
      ends.push_back(slice.end_ns);
    }
    close(kNever);
  }

  void PlaceAsyncs() {
    for (uint32_t row = 0; row < trace_.asyncs.size(); ++row) {
      const model::AsyncRow& async = trace_.asyncs[row];
      const uint64_t group = RouteGroup(trace_.requests[async.request].route);
      const Slice slice{async.begin_ns, End(async.begin_ns, async.duration_ns), Mark::kAsync, row, 0};
      const std::string_view name = OrElse(trace_.strings[trace_.sites[async.site].name], "async");
      AddSlice(slice, tracks_.Lane(group, name, slice.begin_ns, slice.end_ns));
    }
  }

  void PlaceBatches() {
    for (uint32_t row = 0; row < trace_.batches.size(); ++row) {
      const model::BatchRow& batch = trace_.batches[row];
      const std::string_view executor = OrElse(trace_.strings[batch.executor], "executor");
      const uint64_t group = tracks_.Group(Of::kExecutor, batch.executor, "batches ", executor);
      const Slice slice{batch.begin_ns, End(batch.begin_ns, batch.duration_ns), Mark::kBatch, row, 0};
      const uint64_t track = tracks_.Lane(group, executor, slice.begin_ns, slice.end_ns);
      AddSlice(slice, track);
      for (uint32_t member = batch.first_member; member < batch.first_member + batch.member_count; ++member) {
        AddMark(trace_.members[member].join_ns, track, Mark::kJoin, member);
      }
    }
  }

  void PlaceLosses() {
    for (uint32_t row = 0; row < trace_.losses.size(); ++row) {
      const model::LossRow& loss = trace_.losses[row];
      const uint64_t track = loss.thread == kNone ? process_track_ : tracks_.Uuid(Of::kThread, loss.thread);
      AddMark(loss.begin_ns, track, Mark::kLoss, row);
    }
  }

  void WriteMarks() {
    if (marks_.empty()) return;
    std::stable_sort(marks_.begin(), marks_.end(), [](const Mark& a, const Mark& b) { return a.at_ns < b.at_ns; });
    out_.BeginSequence(kProcessSequence, process_track_, marks_.front().at_ns);
    for (const Mark& mark : marks_) {
      out_.BeginEvent(mark.at_ns, EventType(mark.kind), mark.track);
      WriteMark(mark);
      out_.EndEvent();
    }
  }
  static uint32_t EventType(Mark::Kind kind) {
    if (kind == Mark::kEnd) return event_field::kSliceEnd;
    const bool is_instant = kind == Mark::kToken || kind == Mark::kFiring || kind == Mark::kLoss || kind == Mark::kJoin;
    return is_instant ? event_field::kInstant : event_field::kSliceBegin;
  }
  // The contents of a mark's event.
  void WriteMark(const Mark& mark) {
    switch (mark.kind) {
      case Mark::kRequest:
        WriteRequest(mark.row);
        break;
      case Mark::kStage:
        out_.Name(trace_.requests[mark.row].stages[mark.item].name);
        out_.Correlation(mark.row);
        AnnotateKind(mark.kind);
        break;
      case Mark::kQueued:
        WriteQueued(mark.row);
        break;
      case Mark::kAsync:
        out_.Name(trace_.sites[trace_.asyncs[mark.row].site].name);
        out_.Correlation(trace_.asyncs[mark.row].request);
        AnnotateKind(mark.kind);
        AnnotateThread(Word::kBeginThread, trace_.asyncs[mark.row].begin_thread);
        AnnotateThread(Word::kEndThread, trace_.asyncs[mark.row].end_thread);
        AnnotateRequest(trace_.asyncs[mark.row].request);
        break;
      case Mark::kBatch:
        WriteBatch(mark.row);
        break;
      case Mark::kJoin:
        out_.Name("join", "");
        join_flows_.Write(mark.row, &out_);
        out_.Correlation(trace_.members[mark.row].request);
        AnnotateKind(mark.kind);
        AnnotateBatch(trace_.members[mark.row].batch);
        AnnotateRequest(trace_.members[mark.row].request);
        if (trace_.members[mark.row].leave_ns != 0) out_.Annotate(Word::kLeaveNs, trace_.members[mark.row].leave_ns);
        AnnotateWork(trace_.members[mark.row].batch, trace_.members[mark.row].work);
        break;
      case Mark::kToken:
        out_.Name("tokens", "");
        out_.Correlation(trace_.tokens[mark.row].request);
        AnnotateKind(mark.kind);
        AnnotateThread(Word::kThread, trace_.tokens[mark.row].thread);
        out_.Annotate(Word::kCount, uint64_t{trace_.tokens[mark.row].count});
        break;
      case Mark::kFiring:
        out_.Name("trigger: ", trace_.strings[trace_.firings[mark.row].cause]);
        AnnotateKind(mark.kind);
        out_.AnnotateText(Word::kDetail, trace_.firings[mark.row].detail);
        out_.Annotate(Word::kRequest, Hex(trace_.firings[mark.row].request_id, 16));
        break;
      case Mark::kLoss:
        WriteLoss(trace_.losses[mark.row]);
        break;
      case Mark::kEnd:
        break;
    }
  }
  void AnnotateKind(uint32_t kind) {
    out_.Annotate(Word::kKind, &kinds_, kind, [&] { return KindText(kind); });
  }
  void AnnotateBatch(uint32_t row) {
    if (row != kNone) out_.Annotate(Word::kBatch, &batches_, row, [&] { return Hex(trace_.batches[row].id, 16); });
  }
  // By Pitot's number.
  void AnnotateThread(Word word, uint32_t row) {
    if (row != kNone) out_.Annotate(word, uint64_t{trace_.threads[row].number});
  }
  void AnnotateRequest(uint32_t row) { out_.Annotate(Word::kRequest, Hex(trace_.requests[row].id, 16)); }

  void WriteRequest(uint32_t row) {
    const model::RequestRow& request = trace_.requests[row];
    out_.Name(RequestName(request), "");
    request_flows_.Write(row, &out_);
    out_.Correlation(row);
    AnnotateKind(Mark::kRequest);
    out_.Annotate(Word::kId, Hex(request.id, 16));
    if (request.host_id != 0) out_.Annotate(Word::kHostId, trace_.strings[request.host_id]);
    if ((request.trace_id_high | request.trace_id_low) != 0) {
      out_.Annotate(Word::kTraceId, Hex(request.trace_id_high, 16) + Hex(request.trace_id_low, 16));
    }
    if (request.parent_id != 0) out_.Annotate(Word::kParent, Hex(request.parent_id, 16));
    const char* const outcome = request.end_known              ? OutcomeName(request.outcome)
                                : request.duration_ns == kOpen ? "open"
                                                               : "unknown";
    out_.Annotate(Word::kOutcome, std::string_view(outcome));
    if (request.reason != 0) out_.Annotate(Word::kReason, trace_.strings[request.reason]);
    if (request.deadline_ns != 0) out_.Annotate(Word::kDeadlineNs, request.deadline_ns);
    if (request.output_tokens != 0) out_.Annotate(Word::kOutputTokens, uint64_t{request.output_tokens});
    if (request.first_token_ns != 0) out_.Annotate(Word::kFirstTokenNs, request.first_token_ns);
    if (request.max_token_gap_ns != 0) out_.Annotate(Word::kMaxTokenGapNs, request.max_token_gap_ns);
    if (request.size_bucket != 0) out_.Annotate(Word::kSizeBucket, uint64_t{request.size_bucket});
    if (!request.begin_known) out_.Annotate(Word::kBeginUnknown, uint64_t{1});
    AnnotateThread(Word::kBeginThread, request.begin_thread);
    AnnotateThread(Word::kEndThread, request.end_thread);
    // The host may name its sizes and labels like a field: it says where they begin.
    const auto is_word = [&](model::StringId name) { return serialize::IsWord(trace_.strings[name]); };
    if (std::any_of(request.sizes.begin(), request.sizes.end(), [&](const auto& size) { return is_word(size.name); }) ||
        std::any_of(request.labels.begin(), request.labels.end(),
                    [&](const auto& label) { return is_word(label.key); }))
      out_.Annotate(Word::kLabels, uint64_t{request.sizes.size() + request.labels.size()});
    for (const model::Size& size : request.sizes) out_.AnnotateNumber(size.name, size.value);
    for (const model::Label& label : request.labels) out_.AnnotateText(label.key, label.value);
  }

  void WriteQueued(uint32_t row) {
    const model::HandoffRow& handoff = trace_.handoffs[row];
    out_.Name("queued ", trace_.strings[handoff.queue]);
    handoff_flows_.Write(row, &out_);
    out_.Correlation(handoff.request);
    AnnotateKind(Mark::kQueued);
    AnnotateBatch(handoff.batch);
    AnnotateThread(Word::kFromThread, handoff.from_thread);
    AnnotateThread(Word::kToThread, handoff.to_thread);
    if (handoff.take_ns != 0) out_.Annotate(Word::kTakenNs, handoff.take_ns);
    AnnotateRequest(handoff.request);
  }

  void WriteBatch(uint32_t row) {
    const model::BatchRow& batch = trace_.batches[row];
    out_.Name(OrElse(trace_.strings[batch.executor], "executor"), " batch");
    batch_flows_.Write(row, &out_);
    AnnotateKind(Mark::kBatch);
    out_.Annotate(Word::kBatchId, Hex(batch.id, 16));
    AnnotateThread(Word::kThread, batch.thread);
    if (batch.launches != 0) out_.Annotate(Word::kLaunches, uint64_t{batch.launches});
    if (batch.launch_ns != 0) out_.Annotate(Word::kLaunchNs, batch.launch_ns);
    out_.Annotate(Word::kMembers, uint64_t{batch.member_count});
    out_.Annotate(Word::kCloseReason, std::string_view(BatchCloseName(static_cast<BatchClose>(batch.close))));
    if (batch.submitted_ns != 0) out_.Annotate(Word::kSubmittedNs, batch.submitted_ns);
    double work = 0;
    for (uint32_t member = batch.first_member; member < batch.first_member + batch.member_count; ++member) {
      if (trace_.members[member].work == 0) return;  // not known of all
      work += trace_.members[member].work;
    }
    AnnotateWork(row, work);
  }
  // By the name of its unit, if that is known.
  void AnnotateWork(uint32_t batch, double work) {
    if (work == 0) return;
    const model::StringId unit = trace_.batches[batch].work_unit;
    unit != 0 ? out_.AnnotateNumber(unit, work) : out_.Annotate(Word::kWork, work);
  }

  void WriteLoss(const model::LossRow& loss) {
    out_.Name("lost: ", LossReasonName(loss.reason));
    AnnotateKind(Mark::kLoss);
    out_.Annotate(Word::kLostFromNs, loss.begin_ns);
    out_.Annotate(Word::kLostToNs, loss.end_ns);
    if (loss.events != 0) out_.Annotate(Word::kEvents, loss.events);
    if (loss.bytes != 0) out_.Annotate(Word::kBytes, loss.bytes);
  }

  // Threads.

  // The ends of a track's open scopes, the innermost last.
  struct Stack {
    uint64_t track;  // 0: the thread's own
    bool is_calls;
    std::vector<int64_t> ends;
    bool Fits(int64_t end_ns) const { return ends.empty() || end_ns <= ends.back(); }
  };

  void WriteThread(uint32_t thread) {
    const model::ThreadRow& row = trace_.threads[thread];
    const GpuTracks::Calls calls = gpu_.CallsOf(thread);
    if (row.event_count == 0 && calls.first == calls.last) return;
    const model::EventColumns& events = trace_.events;
    thread_ = thread;
    overlap_.clear();
    own_ = {0, false, {}};
    out_.BeginSequence(kFirstThreadSequence + thread, tracks_.Uuid(Of::kThread, thread), FirstMoment(row, calls));
    std::vector<uint32_t> together;
    const uint32_t last = row.first_event + row.event_count;
    uint32_t call = calls.first;
    for (uint32_t event = row.first_event; event < last && out_.ok();) {
      uint32_t next = event + 1;
      while (call < calls.last && trace_.calls.begin_ns[call] < events.begin_ns[event]) WriteCall(call++, event, last);
      if (next == last || events.begin_ns[next] != events.begin_ns[event]) {
        WriteThreadEvent(event);
      } else {
        // Among scopes that begin together, an open one may come late. It contains the others.
        while (next < last && events.begin_ns[next] == events.begin_ns[event]) ++next;
        together.clear();
        for (uint32_t i = event; i < next; ++i) together.push_back(i);
        std::stable_sort(together.begin(), together.end(),
                         [&](uint32_t a, uint32_t b) { return EventEnd(a) > EventEnd(b); });
        for (const uint32_t i : together) WriteThreadEvent(i);
      }
      event = next;
    }
    while (call < calls.last && out_.ok()) WriteCall(call++, last, last);
    CloseUntil(kNever - 1);
  }
  int64_t FirstMoment(const model::ThreadRow& row, const GpuTracks::Calls& calls) const {
    int64_t first_ns = kNever;
    if (row.event_count != 0) first_ns = trace_.events.begin_ns[row.first_event];
    if (calls.first != calls.last) first_ns = std::min(first_ns, trace_.calls.begin_ns[calls.first]);
    return first_ns;
  }

  // Puts a call inside the scopes in which it was made. The clocks of calls and scopes may differ slightly. If the call
  // does not nest, or a scope would have to nest in it, the call goes to another track and scopes keep their places.
  // Events `next` to `last` - 1 are not written yet.
  void WriteCall(uint32_t call, uint32_t next, uint32_t last) {
    const int64_t begin_ns = trace_.calls.begin_ns[call], true_end_ns = gpu_.CallEnd(call);
    CloseUntil(begin_ns);
    bool holds_scope = false;
    for (uint32_t event = next; event < last && !holds_scope; ++event) {
      if (trace_.events.begin_ns[event] >= true_end_ns) break;
      holds_scope = model::IsScope(trace_.sites[trace_.events.site[event]].kind);
    }
    int64_t end_ns = true_end_ns;
    Stack* const stack = own_.Fits(end_ns) && !holds_scope ? &own_ : PlaceBeside(true, &end_ns);
    out_.BeginEvent(begin_ns, event_field::kSliceBegin, stack->track);
    gpu_.WriteCall(call);
    if (end_ns != true_end_ns) out_.Annotate(Word::kTrueDurationNs, trace_.calls.duration_ns[call]);
    out_.EndEvent();
    stack->ends.push_back(end_ns);
  }
  int64_t EventEnd(uint32_t event) const {
    return End(trace_.events.begin_ns[event], trace_.events.duration_ns[event]);
  }

  void WriteThreadEvent(uint32_t event) {
    const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
    const int64_t at_ns = trace_.events.begin_ns[event];
    CloseUntil(at_ns);
    if (model::IsScope(site.kind)) {
      int64_t end_ns = EventEnd(event);
      Stack* const stack = PlaceScope(&end_ns);
      out_.BeginEvent(at_ns, event_field::kSliceBegin, stack->track);
      WriteEvent(event, site);
      if (end_ns != EventEnd(event)) {
        out_.Annotate(Word::kTrueDurationNs, trace_.events.duration_ns[event]);
      }
      out_.EndEvent();
      stack->ends.push_back(end_ns);
    } else if (site.kind == SiteKind::kCounter && WriteCounter(event, site)) {
    } else if (site.kind != SiteKind::kInternal) {
      out_.BeginEvent(at_ns, event_field::kInstant, 0);
      WriteEvent(event, site);
      out_.EndEvent();
    }
  }

  // The first track in which the scope nests. If none of the kMaxOverlapTracks fits, the scope is cut.
  Stack* PlaceScope(int64_t* end_ns) { return own_.Fits(*end_ns) ? &own_ : PlaceBeside(false, end_ns); }
  Stack* PlaceBeside(bool is_calls, int64_t* end_ns) {
    size_t count = 0;
    Stack* last = nullptr;
    for (Stack& stack : overlap_) {
      if (stack.is_calls != is_calls) continue;
      if (stack.Fits(*end_ns)) return &stack;
      ++count;
      last = &stack;
    }
    if (count < kMaxOverlapTracks) {
      const uint64_t track =
          tracks_.Uuid(is_calls ? Of::kCalls : Of::kOverlap, uint64_t{thread_} * kMaxOverlapTracks + count);
      tracks_.Describe(track, tracks_.Uuid(Of::kThread, thread_),
                       ThreadName(trace_, thread_) + (is_calls ? " (CUDA calls)" : " (overlapping)"));
      overlap_.push_back({track, is_calls, {}});
      return &overlap_.back();
    }
    *end_ns = (is_calls ? last : &own_)->ends.back();
    return is_calls ? last : &own_;
  }

  // Ends the scopes that end by `until_ns`, in the order of their ends.
  void CloseUntil(int64_t until_ns) {
    for (;;) {
      Stack* first = &own_;
      for (Stack& stack : overlap_) {
        if (!stack.ends.empty() && (first->ends.empty() || stack.ends.back() < first->ends.back())) first = &stack;
      }
      if (first->ends.empty() || first->ends.back() > until_ns) return;
      out_.BeginEvent(first->ends.back(), event_field::kSliceEnd, first->track);
      out_.EndEvent();
      first->ends.pop_back();
    }
  }

  // The common part of scopes and instants.
  void WriteEvent(uint32_t event, const model::SiteRow& site) {
    const uint32_t first_arg = trace_.events.args[event];
    const bool has_args = first_arg != kNone && !site.arg_types.empty();
    const model::ArgValue* const args = has_args ? trace_.arg_values.data() + first_arg : nullptr;
    const bool is_wait =
        site.kind == SiteKind::kWait && has_args && site.arg_types.size() >= 2 && model::IsText(site.arg_types[1]);
    if (is_wait) {
      out_.WaitName(static_cast<StringId>(args[1]));
    } else if (site.name_is_first_arg && has_args) {
      out_.Name(static_cast<StringId>(args[0]));
    } else {
      out_.Name(site.name);
    }
    event_flows_.WriteNext(event, &out_);
    out_.Correlation(trace_.events.request[event]);
    if (site.kind == SiteKind::kLeaf || site.kind == SiteKind::kPhase || site.kind == SiteKind::kOperator ||
        (site.kind == SiteKind::kWait && !is_wait))
      AnnotateKind(kSiteKinds + static_cast<uint32_t>(site.kind));
    AnnotateBatch(trace_.events.batch[event]);
    if (!has_args) return;
    if (is_wait) {
      WriteWaitArgs(site, args);
    } else {
      for (size_t i = site.name_is_first_arg ? 1 : 0; i < site.arg_types.size(); ++i) {
        out_.AnnotateArg(site.arg_names[i], site.arg_types[i], args[i]);
      }
    }
  }

  // kind, resource, owner_thread, owner_request, spurious; zeros for unknown owners.
  void WriteWaitArgs(const model::SiteRow& site, const model::ArgValue* args) {
    out_.Annotate(Word::kKind, std::string_view(WaitKindName(static_cast<WaitKind>(args[0]))));
    const size_t count = site.arg_types.size();
    if (count > 2 && args[2] != 0) out_.Annotate(Word::kOwnerThread, args[2]);
    if (count > 3 && args[3] != 0) out_.Annotate(Word::kOwnerRequest, Hex(args[3], 16));
    if (count > 4 && args[4] != 0) out_.Annotate(Word::kSpuriousWakeUps, args[4]);
  }

  // False if there is no number.
  bool WriteCounter(uint32_t event, const model::SiteRow& site) {
    const uint32_t first_arg = trace_.events.args[event];
    const size_t which = site.name_is_first_arg ? 1 : 0;
    if (first_arg == kNone || site.arg_types.size() <= which || model::IsText(site.arg_types[which])) return false;
    const StringId name = which == 0 ? site.name : static_cast<StringId>(trace_.arg_values[first_arg]);
    uint64_t& track = counter_tracks_[name];
    if (track == 0) {
      track = tracks_.Uuid(Of::kCounter, name);
      tracks_.DescribeCounter(track, process_track_, OrElse(trace_.strings[name], "counter"), {});
    }
    const model::ArgValue value = trace_.arg_values[first_arg + which];
    out_.BeginEvent(trace_.events.begin_ns[event], event_field::kCounter, track);
    if (site.arg_types[which] == ArgType::kDouble) {
      double number;
      memcpy(&number, &value, sizeof number);
      out_.Counter(number);
    } else if (site.arg_types[which] == ArgType::kUint && value > INT64_MAX) {
      out_.Counter(static_cast<double>(value));
    } else {
      out_.Counter(static_cast<int64_t>(value));
    }
    out_.EndEvent();
    return true;
  }

  const Trace& trace_;
  PacketWriter out_;
  Tracks tracks_;
  const uint64_t process_track_;
  GpuTracks gpu_;
  std::vector<uint64_t> counter_tracks_;  // by StringId; 0: not described yet
  PacketWriter::Seen kinds_, batches_;
  uint64_t flows_made_ = 0;
  Flows request_flows_, handoff_flows_, batch_flows_, join_flows_, event_flows_;
  std::vector<Mark> marks_;
  // For the current thread.
  uint32_t thread_ = 0;
  Stack own_;
  std::vector<Stack> overlap_;
};

class PerfettoSerializer final : public Serializer {
 public:
  explicit PerfettoSerializer(const PerfettoOptions& options) : file_name_(options.file_name), options_(options) {}
  const char* FileName() const noexcept override { return file_name_.c_str(); }
  Status Serialize(const Trace& trace, ByteSink& sink) override {
    if (PerfettoWriter(trace, options_, &sink).Write()) return Status();
    return Status(StatusCode::kIoError, "the Perfetto trace could not be written");
  }

 private:
  std::string file_name_;
  PerfettoOptions options_;
};

}  // namespace

std::unique_ptr<Serializer> MakePerfettoSerializer(const PerfettoOptions& options) noexcept try {
  return std::make_unique<PerfettoSerializer>(options);
} catch (...) {  // no memory
  return nullptr;
}

PITOT_NAMESPACE_END
