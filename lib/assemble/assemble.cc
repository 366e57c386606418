// SPDX-License-Identifier: Apache-2.0
#include "assemble/assemble.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <deque>
#include <exception>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "assemble/gpu.h"
#include "assemble/reordering.h"
#include "assemble/sites.h"
#include "assemble/usage.h"
#include "model/fill_columns.h"
#include "pitot/request.h"
#include "snapshot/former_threads.h"
#include "snapshot/record.h"
#include "trace/launches.h"
#include "trace/names.h"

namespace pitot::assemble {
namespace {

using model::kNone;
using model::kOpen;
using snapshot::Record;
using snapshot::RingCopy;
using snapshot::Snapshot;
using InternalRecord = trace::Record;

// Numbers ids as they occur, so that an event needs only 4 bytes for its context until rows are known. Number 0 is id
// 0.
class IdNumbers {
 public:
  uint32_t Of(uint64_t id) {
    if (id != ids_[last_]) {
      const auto [at, is_new] = numbers_.try_emplace(id, static_cast<uint32_t>(ids_.size()));
      if (is_new) ids_.push_back(id);
      last_ = at->second;
    }
    return last_;
  }
  // For each number, the row of its id in `rows`, or kNone.
  std::vector<uint32_t> Rows(const std::unordered_map<uint64_t, uint32_t>& rows) const {
    std::vector<uint32_t> found;
    for (const uint64_t id : ids_) {
      const auto at = rows.find(id);
      found.push_back(at != rows.end() ? at->second : kNone);
    }
    return found;
  }

 private:
  std::vector<uint64_t> ids_{0};
  std::unordered_map<uint64_t, uint32_t> numbers_{{0, 0}};
  uint32_t last_ = 0;
};

// A call of a device's API.
struct RawCall {
  int64_t begin_ns, duration_ns;
  uint32_t request, batch;  // numbers
  model::StringId name;
  uint32_t correlation;
  uint32_t context, stream;  // the target of its wait, in the collector's numbers
  uint16_t collector;        // index of the Name
};

// A thread's context from a moment on, as numbers.
using RawContext = ContextChange;

struct RawMember {
  uint64_t batch, request;
  int64_t join_ns, leave_ns;
  bool joined;
  double work;
};

struct RawHandoff {
  model::HandoffRow row;
  uint64_t request, batch;
};

struct RawAsync {
  model::AsyncRow row;
  uint64_t id, request;
  bool is_end;
};

struct RawToken {
  model::TokenRow row;
  uint64_t request;
};

// Bytes per row while a trace is made: raw and sorted rows, the maps from ids to them, and what report and Perfetto
// file add. Values without a sizeof were measured; a test holds the sum to the arena.
constexpr uint64_t kMapCost = 56;  // an entry of 8 to 16 bytes
constexpr uint64_t kEventCost = 45;
constexpr uint64_t kCallCost = 2 * sizeof(RawCall) + sizeof(CallSource);  // and its columns
constexpr uint64_t kContextCost = 4 * sizeof(ContextChange);
constexpr uint64_t kArgCost = sizeof(model::ArgValue);
constexpr uint64_t kRequestCost = 2 * sizeof(model::RequestRow) + 3 * kMapCost;
constexpr uint64_t kDetailCost = 50;
constexpr uint64_t kBatchCost = 2 * sizeof(model::BatchRow) + kMapCost;
constexpr uint64_t kMemberCost = sizeof(RawMember) + sizeof(model::MemberRow) + 16;
constexpr uint64_t kHandoffCost = sizeof(RawHandoff) + sizeof(model::HandoffRow) + kMapCost;
constexpr uint64_t kAsyncCost = sizeof(RawAsync) + sizeof(model::AsyncRow) + kMapCost;
// At most six samples, usually three, added and sorted.
constexpr uint64_t kUsageCost = sizeof(RawUsage) + 4 * kSampleCost;
constexpr uint64_t kTokenCost = sizeof(RawToken) + sizeof(model::TokenRow) + 16;

uint64_t IncidentBytes(std::span<Collector* const> collectors) {
  uint64_t bytes = 0;
  for (const Collector* const collector : collectors) bytes += collector->IncidentBytes();
  return bytes;
}

class Assembler {
 public:
  Assembler(const Snapshot& snapshot, const RowLimits& limits, std::span<Collector* const> collectors)
      : snapshot_(snapshot),
        collectors_(collectors),
        sites_(*snapshot.texts, &trace_, snapshot.modules, !snapshot.cycle_counter),
        asked_bytes_(IncidentBytes(collectors)),
        collector_bytes_(std::min(asked_bytes_, limits.bytes / kCollectorPart)),
        beyond_bytes_(limits.beyond_bytes),
        most_bytes_(limits.bytes - collector_bytes_) {}
  model::Trace Run();

 private:
  uint64_t BytesOf(const Collector& collector) const;
  void AddThread(const RingCopy& ring);
  void AddLosses(const RingCopy& ring, snapshot::Oldest oldest, uint32_t thread, int64_t oldest_ns);
  // A record of requests, batches or context; each kind has a function.
  void AddInternal(const Record& record, InternalRecord kind, uint32_t thread);
  void AddRequestBegin(const Record& record, uint32_t thread);
  void AddRequestEnd(const Record& record, uint32_t thread);
  void AddContextChange(const Record& record);
  void AddBatchContextChange(const Record& record);
  void AddEnqueue(const Record& record, uint32_t thread);
  void AddTake(const Record& record, uint32_t thread);
  void AddJoin(const Record& record, uint32_t thread);
  // A request taken from a queue: numbers and ticks as in its record.
  struct Taken {
    uint64_t request, batch, enqueue_ticks, queue, from_thread;
  };
  void AddTaken(const Taken& taken, int64_t at_ns, uint32_t thread);
  void AddLeave(const Record& record);
  void ReadExecutor(uint64_t word, model::BatchRow* row);
  void AddBatchBegin(const Record& record, uint32_t thread);
  void AddBatchEnd(const Record& record, uint32_t thread);
  void AddSubmitted(const Record& record, uint32_t thread);
  void AddTokens(const Record& record, uint32_t thread);
  void AddCall(const Record& record);
  bool IsSuperseded(const Record& record);
  void AddUsage(const Record& record, uint32_t thread);
  void AddEvent(const Record& record, const KnownSite& site);
  uint32_t AddArgs(const Record& record, const KnownSite& site);
  // An event of the thread being read.
  void AddRow(int64_t begin_ns, int64_t duration_ns, uint32_t site, uint32_t args, uint64_t cost);
  // The context of all events of the thread read so far.
  void SetContext(uint32_t number, std::vector<uint32_t>* column) const {
    std::fill(column->begin() + first_event_, column->end(), number);
  }
  void AddOpenScopes(const RingCopy& ring);
  void AddOpenRequests();
  void AddOpenRequestsLost();
  void AddEnds();
  void AddRecycled();
  void AddCountedLosses();
  void SortEvents(uint32_t thread);
  void FlushCalls(uint32_t thread);
  void FlushContexts(const RingCopy& ring);
  void OrderMoments(std::vector<uint32_t>* order) const;

  template <class Rows> void Add(const typename Rows::value_type& row, uint64_t cost, Rows* rows) {
    rows->push_back(row);
    used_bytes_ += cost;
  }
  model::RequestRow& Request(uint64_t id);
  void SawAlive(uint64_t request, int64_t at_ns) {
    int64_t& last_ns = alive_ns_.try_emplace(request, at_ns).first->second;
    last_ns = std::max(last_ns, at_ns);
  }
  // Reading backwards: the thread had this context from `at_ns` on.
  void AddContext(int64_t at_ns, uint64_t request, uint64_t batch) {
    if (collectors_.empty()) return;
    raw_contexts_.push_back({at_ns, requests_.Of(request), batches_.Of(batch)});
    used_bytes_ += kContextCost;
  }
  void ReadRequestWords(const uint64_t* words, uint32_t count, model::RequestRow* row);
  model::BatchRow& Batch(uint64_t id);
  void JoinEnqueues();
  void EndRequests();
  // Puts tables in their order, and replaces ids by rows.
  void SortRows();
  void SortMembers();
  void SortHandoffs();
  void SortAsyncs();
  void SortTokens();
  uint32_t RequestRowOf(uint64_t id) const { return RowOf(request_rows_, id); }
  uint32_t BatchRowOf(uint64_t id) const { return RowOf(batch_rows_, id); }
  static uint32_t RowOf(const std::unordered_map<uint64_t, uint32_t>& rows, uint64_t id) {
    const auto at = rows.find(id);
    return at != rows.end() ? at->second : kNone;
  }
  void ResolveEvents();
  void ResolveContexts();
  bool IsOver(const model::RequestRow& row) const { return row.end_known || !alive_ns_.contains(row.id); }

  // Never before the machine's start, nor beyond the window or a trace's range, whatever the ticks are.
  int64_t Ns(uint64_t ticks) const { return std::clamp<int64_t>(snapshot_.clock.Ns(ticks), 0, latest_ns_); }
  // A length in ticks from a moment on.
  int64_t NsBetween(uint64_t from_ticks, uint64_t length_ticks) const {
    return length_ticks < uint64_t{1} << 62 ? Ns(from_ticks + length_ticks) - Ns(from_ticks) : 0;
  }
  model::StringId NameOf(uint64_t index) {
    return trace_.strings.Add(snapshot_.texts->Name(static_cast<uint32_t>(index)));
  }
  uint32_t ThreadRow(uint64_t number) const {
    const auto at = thread_rows_.find(static_cast<uint32_t>(number));
    return at != thread_rows_.end() ? at->second : kNone;
  }

  const Snapshot& snapshot_;
  const std::span<Collector* const> collectors_;
  model::Trace trace_;
  int64_t latest_ns_ = model::kMaxTimeNs / 2;  // the window's end, once it is known
  Sites sites_;
  std::unordered_map<uint32_t, uint32_t> thread_rows_;
  std::vector<const trace::RecycledRing*> recycled_;  // inside the window
  std::vector<CallSource> sources_;                   // by row of trace_.calls
  std::vector<ThreadPast> pasts_;                     // by row of trace_.threads; as numbers until ResolveContexts

  // For the thread being read: the context of events older than the records read so far.
  uint64_t request_ = 0, batch_ = 0;
  bool saw_context_ = false, saw_batch_context_ = false;
  uint32_t first_event_ = 0;
  std::vector<RawCall> raw_calls_;
  std::vector<RawContext> raw_contexts_;  // newest first
  uint64_t raw_records_ = 0;
  uint64_t wait_begin_ticks_ = 0, superseded_until_ticks_ = 0;  // of the next newer wait for a condition
  // What collectors ask for, and the limits for their rows.
  const uint64_t asked_bytes_, collector_bytes_, beyond_bytes_;
  // The limit for the cost of all other rows, the cost of those made so far, and the words of rings still to read.
  const uint64_t most_bytes_;
  uint64_t used_bytes_ = 0, words_left_ = 0;
  // Until ResolveEvents the events' requests and batches are numbers of these.
  IdNumbers requests_, batches_;

  std::unordered_map<uint64_t, uint32_t> request_rows_, batch_rows_;
  // The latest activity of each request: a context or a token may belong to a request that had ended.
  std::unordered_map<uint64_t, int64_t> alive_ns_;
  std::unordered_set<uint64_t> open_;
  std::vector<uint64_t> left_out_;  // open, but without details
  // Until SortRows. Not vectors, because those take three times the memory while they grow.
  std::deque<model::RequestRow> request_table_;
  std::deque<RawMember> members_;
  std::deque<RawHandoff> handoffs_;
  std::deque<RawAsync> asyncs_;
  std::deque<RawToken> tokens_;
  std::vector<RawUsage> usages_;
};

model::RequestRow& Assembler::Request(uint64_t id) {
  const auto [at, is_new] = request_rows_.try_emplace(id, static_cast<uint32_t>(request_table_.size()));
  if (is_new) {
    model::RequestRow row;
    row.id = id;
    row.begin_known = false;
    row.duration_ns = kOpen;
    row.begin_ns = INT64_MAX;  // until something is known
    request_table_.push_back(row);
    used_bytes_ += kRequestCost;
  }
  return request_table_[at->second];
}

model::BatchRow& Assembler::Batch(uint64_t id) {
  const auto [at, is_new] = batch_rows_.try_emplace(id, static_cast<uint32_t>(trace_.batches.size()));
  if (is_new) {
    model::BatchRow row;
    row.id = id;
    row.duration_ns = kOpen;
    row.begin_ns = trace_.window_begin_ns;
    trace_.batches.push_back(row);
    used_bytes_ += kBatchCost;
  }
  return trace_.batches[at->second];
}

void Assembler::ReadRequestWords(const uint64_t* words, uint32_t count, model::RequestRow* row) {
  if (count < trace::kRequestFixedWords) return;
  row->parent_id = words[1];
  row->trace_id_high = words[2];
  row->trace_id_low = words[3];
  row->route = NameOf(words[4] & trace::kNameMask);
  row->size_bucket = words[4] >> 40 & 0xff;
  const uint32_t labels = words[4] >> 48 & 15, sizes = words[4] >> 52 & 15, stages = words[4] >> 56 & 31;
  // A torn black box may have any words.
  row->deadline_ns = static_cast<int64_t>(std::min<uint64_t>(words[5], model::kMaxTimeNs));
  row->output_tokens = static_cast<uint32_t>(words[6]);
  if (row->begin_thread == kNone) row->begin_thread = ThreadRow(words[6] >> 32);
  const double ns_per_tick = 1.0 / snapshot_.clock.TicksPerNs();
  const auto ns = [&](uint64_t ticks) {
    return static_cast<int64_t>(
        std::min(static_cast<double>(ticks) * ns_per_tick, static_cast<double>(model::kMaxTimeNs)));
  };
  row->first_token_ns = ns(words[7]);
  row->max_token_gap_ns = ns(words[8]);
  uint32_t at = trace::kRequestFixedWords;
  if (at + labels + sizes * 2 + stages > count) return;
  used_bytes_ += kDetailCost * (labels + sizes + stages);
  row->labels.clear(), row->sizes.clear(), row->stages.clear();
  for (uint32_t i = 0; i < labels; ++i, ++at)
    row->labels.push_back({NameOf(words[at] & 0xffffffff), NameOf(words[at] >> 32)});
  for (uint32_t i = 0; i < sizes; ++i, at += 2) {
    double value;
    std::memcpy(&value, &words[at + 1], sizeof value);
    row->sizes.push_back({NameOf(words[at]), value});
  }
  const int64_t end_ns =
      row->duration_ns == kOpen ? std::max(row->begin_ns, trace_.window_end_ns) : row->begin_ns + row->duration_ns;
  for (uint32_t i = 0; i < stages; ++i, ++at) {
    model::Stage stage;
    stage.name = NameOf(words[at] >> 48);
    stage.begin_ns = std::min(row->begin_ns + ns(words[at] & trace::kStageTicksMask), end_ns);
    if (!row->stages.empty()) {
      // Stamps of two threads may disagree by the distance of their clocks: keep stages in order.
      model::Stage& before = row->stages.back();
      stage.begin_ns = std::max(stage.begin_ns, before.begin_ns);
      before.duration_ns = stage.begin_ns - before.begin_ns;
    }
    row->stages.push_back(stage);
  }
  if (!row->stages.empty())
    row->stages.back().duration_ns = row->duration_ns == kOpen ? kOpen : end_ns - row->stages.back().begin_ns;
  if (at == count) return;
  const std::string_view id(reinterpret_cast<const char*>(words + at), (count - at) * sizeof *words);
  row->host_id = trace_.strings.Add(id.substr(0, id.find('\0')));
  used_bytes_ += kStringCost;
}

void Assembler::AddInternal(const Record& record, InternalRecord kind, uint32_t thread) {
  if (record.arg_words < trace::LeastWords(kind)) return;
  switch (kind) {
    case InternalRecord::kRequestBegin:
      return AddRequestBegin(record, thread);
    case InternalRecord::kRequestEnd:
      return AddRequestEnd(record, thread);
    case InternalRecord::kContext:
      return AddContextChange(record);
    case InternalRecord::kBatchContext:
      return AddBatchContextChange(record);
    case InternalRecord::kEnqueue:
      return AddEnqueue(record, thread);
    case InternalRecord::kTake:
      return AddTake(record, thread);
    case InternalRecord::kJoin:
      return AddJoin(record, thread);
    case InternalRecord::kLeave:
      return AddLeave(record);
    case InternalRecord::kBatchBegin:
      return AddBatchBegin(record, thread);
    case InternalRecord::kBatchEnd:
      return AddBatchEnd(record, thread);
    case InternalRecord::kSubmitted:
      return AddSubmitted(record, thread);
    case InternalRecord::kTokens:
      return AddTokens(record, thread);
    case InternalRecord::kCall:
      return AddCall(record);
    case InternalRecord::kUsage:
      return AddUsage(record, thread);
    case InternalRecord::kThreadEnd:  // in no thread's copy: SplitByThreads
    case InternalRecord::kUnreadable:
      return;
  }
}

// trace/internal_sites.h has the words of each record.

void Assembler::AddRequestBegin(const Record& record, uint32_t thread) {
  const uint64_t* const args = record.args;
  model::RequestRow& row = Request(args[0]);
  row.begin_ns = Ns(record.begin_ticks);
  row.begin_known = true;
  row.begin_thread = thread;
  SawAlive(args[0], row.begin_ns);
  if (record.end_ticks >= snapshot_.requests_ticks) open_.insert(args[0]);  // after the table was read
  if (row.end_known) return;                                                // the end has the rest
  row.parent_id = args[1];
  row.trace_id_high = args[2];
  row.trace_id_low = args[3];
  row.route = NameOf(args[4]);
}

void Assembler::AddRequestEnd(const Record& record, uint32_t thread) {
  model::RequestRow& row = Request(record.args[0]);
  row.begin_ns = Ns(record.begin_ticks);
  row.begin_known = true;
  row.end_known = true;
  row.duration_ns = Ns(record.end_ticks) - row.begin_ns;
  row.end_thread = thread;
  row.outcome = static_cast<Outcome>(record.args[4] >> 32 & 0xff);
  if (const uint64_t reason = record.args[4] >> trace::kReasonShift & trace::kNameMask; reason != 0)
    row.reason = NameOf(reason);
  ReadRequestWords(record.args, record.arg_words, &row);
}

// Records are read backwards: events later in time had the context after, and records read next had the one before. The
// ring's word may be a moment older than its newest record.
void Assembler::AddContextChange(const Record& record) {
  const uint64_t before = record.args[0], after = record.args[1];
  if (!saw_context_ && request_ != after) {
    SetContext(requests_.Of(after), &trace_.events.request);
    for (RawCall& call : raw_calls_) call.request = requests_.Of(after);
    for (RawContext& context : raw_contexts_) context.request = requests_.Of(after);
  }
  saw_context_ = true;
  if (after != 0) Request(after);
  AddContext(Ns(record.end_ticks), after, batch_);
  request_ = before;
}

void Assembler::AddBatchContextChange(const Record& record) {
  const uint64_t before = record.args[0], after = record.args[1];
  if (!saw_batch_context_ && batch_ != after) {
    SetContext(batches_.Of(after), &trace_.events.batch);
    for (RawCall& call : raw_calls_) call.batch = batches_.Of(after);
    for (RawContext& context : raw_contexts_) context.batch = batches_.Of(after);
  }
  saw_batch_context_ = true;
  AddContext(Ns(record.end_ticks), request_, after);
  batch_ = before;
}

void Assembler::AddEnqueue(const Record& record, uint32_t thread) {
  const uint64_t request = record.args[0];
  RawHandoff handoff{};
  handoff.request = request;
  handoff.row.queue = NameOf(record.args[1]);
  handoff.row.from_thread = thread;
  handoff.row.enqueue_ns = Ns(record.end_ticks);
  Request(request);
  SawAlive(request, handoff.row.enqueue_ns);
  Add(handoff, kHandoffCost, &handoffs_);
}

void Assembler::AddTake(const Record& record, uint32_t thread) {
  const uint64_t* const args = record.args;
  Request(args[0]);
  AddTaken({args[0], 0, args[1], args[2], args[3]}, Ns(record.end_ticks), thread);
}

void Assembler::AddJoin(const Record& record, uint32_t thread) {
  const uint64_t* const args = record.args;
  const int64_t at_ns = Ns(record.end_ticks);
  Request(args[1]);
  Batch(args[0]);
  const double work = record.arg_words > 4 ? std::bit_cast<double>(args[4]) : 0;
  Add({args[0], args[1], at_ns, 0, true, std::isfinite(work) ? work : 0}, kMemberCost, &members_);
  AddTaken({args[1], args[0], args[2], args[3] & 0xffffffff, args[3] >> 32}, at_ns, thread);
}

void Assembler::AddTaken(const Taken& taken, int64_t at_ns, uint32_t thread) {
  if (taken.enqueue_ticks == 0) return;
  RawHandoff handoff{};
  handoff.request = taken.request;
  handoff.batch = taken.batch;
  handoff.row.queue = NameOf(taken.queue);
  handoff.row.from_thread = ThreadRow(taken.from_thread);
  handoff.row.to_thread = thread;
  handoff.row.enqueue_ns = Ns(taken.enqueue_ticks);
  handoff.row.take_ns = std::max(at_ns, handoff.row.enqueue_ns);
  Add(handoff, kHandoffCost, &handoffs_);
}

void Assembler::AddLeave(const Record& record) {
  const int64_t at_ns = Ns(record.end_ticks);
  Add({record.args[0], record.args[1], at_ns, at_ns, false, 0}, kMemberCost, &members_);
}

void Assembler::ReadExecutor(uint64_t word, model::BatchRow* row) {
  row->executor = NameOf(word & trace::kNameMask);
  const uint64_t unit = word >> trace::kUnitShift & trace::kNameMask;
  row->work_unit = unit != 0 ? NameOf(unit) : 0;
}

void Assembler::AddBatchBegin(const Record& record, uint32_t thread) {
  model::BatchRow& row = Batch(record.args[0]);
  row.begin_ns = Ns(record.end_ticks);
  ReadExecutor(record.args[1], &row);
  row.thread = thread;
}

void Assembler::AddBatchEnd(const Record& record, uint32_t thread) {
  const uint64_t submitted_ticks = record.args[2];
  model::BatchRow& row = Batch(record.args[0]);
  row.begin_ns = Ns(record.begin_ticks);
  row.duration_ns = Ns(record.end_ticks) - row.begin_ns;
  ReadExecutor(record.args[1], &row);
  row.close = static_cast<uint8_t>(record.args[1] >> 32);
  row.submitted_ns = submitted_ticks != 0 ? NsBetween(record.begin_ticks, submitted_ticks) : 0;
  row.thread = thread;
  if (record.arg_words <= 3) return;
  const trace::Launches launches = trace::UnpackedLaunches(record.args[3]);
  row.launches = launches.count;
  row.launch_ns = std::min(row.duration_ns, Ns(record.begin_ticks + launches.ticks) - row.begin_ns);
}

void Assembler::AddSubmitted(const Record& record, uint32_t thread) {
  model::BatchRow& row = Batch(record.args[0]);
  if (row.duration_ns != kOpen) return;  // the end has it
  row.begin_ns = Ns(record.begin_ticks);
  ReadExecutor(record.args[1], &row);
  row.close = static_cast<uint8_t>(record.args[1] >> 32);
  row.submitted_ns = Ns(record.end_ticks) - row.begin_ns;
  row.thread = thread;
}

void Assembler::AddTokens(const Record& record, uint32_t thread) {
  RawToken token{};
  token.request = record.args[0];
  token.row.thread = thread;
  token.row.at_ns = Ns(record.end_ticks);
  token.row.count = static_cast<uint32_t>(record.args[1]);
  Request(token.request);
  SawAlive(token.request, token.row.at_ns);
  Add(token, kTokenCost, &tokens_);
}

void Assembler::AddCall(const Record& record) {
  const uint64_t* const args = record.args;
  const int64_t begin_ns = Ns(record.begin_ticks);
  const uint64_t target = record.arg_words > 1 ? args[1] : 0;
  Add({begin_ns, Ns(record.end_ticks) - begin_ns, requests_.Of(request_), batches_.Of(batch_),
       NameOf(args[0] >> 32 & 0xffff), static_cast<uint32_t>(args[0]), static_cast<uint32_t>(target),
       static_cast<uint32_t>(target >> 32), static_cast<uint16_t>(args[0] >> 48)},
      kCallCost, &raw_calls_);
}

void Assembler::AddUsage(const Record& record, uint32_t thread) {
  const uint64_t* const args = record.args;
  const auto low = [](uint64_t word) { return static_cast<uint32_t>(word); };
  const auto high = [](uint64_t word) { return static_cast<uint32_t>(word >> 32); };
  const trace::Usage usage{args[0], low(args[1]), high(args[1]), low(args[2]), high(args[2]), args[3]};
  Add({Ns(record.end_ticks), trace_.threads[thread].tid, usage}, kUsageCost, &usages_);
}

// A wait for a condition that goes on after a wake-up in vain is recorded at each, from a tick after the beginning of
// the record before: the newest record has all. The earlier ones overlap it, and with them go their waits for the
// mutex.
bool Assembler::IsSuperseded(const Record& record) {
  if (record.site == reinterpret_cast<uintptr_t>(&trace::kRelockSite))
    return record.begin_ticks > wait_begin_ticks_ && record.end_ticks <= superseded_until_ticks_;
  if (record.site != reinterpret_cast<uintptr_t>(&trace::kConditionSite)) return false;
  const bool is_superseded = record.begin_ticks < wait_begin_ticks_ && wait_begin_ticks_ < record.end_ticks;
  wait_begin_ticks_ = record.begin_ticks;
  superseded_until_ticks_ = is_superseded ? record.end_ticks : 0;
  return is_superseded;
}

// The number of a site's arguments that are complete in this many words.
uint8_t ArgsWithin(const KnownSite& site, const uint64_t* words, uint32_t count) {
  const uint64_t* const end = words + count;
  for (uint8_t i = 0; i < site.arg_count; ++i) {
    if (words >= end) return i;
    const bool is_string = site.arg_types[i] == ArgType::kString;
    const uint64_t used = is_string ? 1 + (std::min<uint64_t>(*words, detail::kMaxStringBytes) + 7) / 8 : 1;
    if (used > static_cast<uint64_t>(end - words)) return i;
    words += used;
  }
  return site.arg_count;
}

uint32_t Assembler::AddArgs(const Record& record, const KnownSite& site) {
  if (site.arg_count == 0) return kNone;
  const auto first = static_cast<uint32_t>(trace_.arg_values.size());
  const uint64_t* at = record.args;
  const uint64_t* const end = at + record.arg_words;
  for (uint8_t i = 0; i < site.arg_count; ++i) {
    uint64_t value = at < end ? *at++ : 0;
    if (site.arg_types[i] == ArgType::kString) {
      const uint64_t kept = std::min<uint64_t>(value, detail::kMaxStringBytes), words = (kept + 7) / 8;
      if (words > static_cast<uint64_t>(end - at)) return trace_.arg_values.resize(first), kNone;
      const std::string_view text(reinterpret_cast<const char*>(at), kept);
      at += words;
      value = trace_.strings.Add(text);
    } else if (site.arg_types[i] == ArgType::kName) {
      value = NameOf(value);
    } else if (site.arg_types[i] == ArgType::kLiteral) {
      value = sites_.Literal(value, record.end_ticks);
    }
    trace_.arg_values.push_back(value);
  }
  return first;
}

void Assembler::AddEvent(const Record& record, const KnownSite& known) {
  const KnownSite site = known;
  if (site.kind == SiteKind::kAsyncBegin || site.kind == SiteKind::kAsyncEnd) {
    if (record.arg_words < 2) return;
    RawAsync async{};
    async.row.site = site.row;
    async.row.begin_thread = static_cast<uint32_t>(trace_.threads.size()) - 1;
    async.row.begin_ns = Ns(record.end_ticks);
    async.request = record.args[0];
    async.id = record.args[1];
    Request(async.request);
    async.is_end = site.kind == SiteKind::kAsyncEnd;
    Add(async, kAsyncCost, &asyncs_);
    return;
  }
  const int64_t begin_ns = Ns(record.begin_ticks);
  const uint32_t strings = trace_.strings.size(), args = AddArgs(record, site);
  AddRow(begin_ns, Ns(record.end_ticks) - begin_ns, site.row, args,
         kEventCost + kArgCost * record.arg_words + kStringCost * (trace_.strings.size() - strings));
}

void Assembler::AddRow(int64_t begin_ns, int64_t duration_ns, uint32_t site, uint32_t args, uint64_t cost) {
  model::EventColumns& events = trace_.events;
  events.begin_ns.push_back(begin_ns);
  events.duration_ns.push_back(duration_ns);
  events.site.push_back(site);
  events.thread.push_back(static_cast<uint32_t>(trace_.threads.size()) - 1);
  events.request.push_back(requests_.Of(request_));
  events.batch.push_back(batches_.Of(batch_));
  events.args.push_back(args);
  used_bytes_ += cost;
}

void Assembler::AddOpenScopes(const RingCopy& ring) {
  for (const snapshot::OpenScopeCopy& open : ring.open) {
    // It was there when the ring was copied.
    const KnownSite whole = sites_.At(open.site, ring.now_ticks);
    if (whole.kind == SiteKind::kInternal) continue;
    if (open.site == reinterpret_cast<uintptr_t>(&trace::kConditionSite)) wait_begin_ticks_ = open.begin_ticks;
    const Record record{open.site, open.begin_ticks, open.begin_ticks, open.args, open.arg_words};
    const uint8_t said = ArgsWithin(whole, open.args, open.arg_words);
    const KnownSite site =
        said != 0 && said != whole.arg_count ? sites_.WithArgs(open.site, ring.now_ticks, said) : whole;
    const uint32_t args = said != 0 ? AddArgs(record, site) : kNone;
    AddRow(Ns(open.begin_ticks), kOpen, site.row, args, kEventCost + kArgCost * open.arg_words);
  }
}

void Assembler::AddLosses(const RingCopy& ring, snapshot::Oldest oldest, uint32_t thread, int64_t oldest_ns) {
  using snapshot::Oldest;
  model::LossRow loss;
  loss.thread = thread;
  loss.begin_ns = std::max(Ns(ring.attach_ticks), trace_.window_begin_ns);
  loss.end_ns = std::max(oldest_ns, loss.begin_ns);
  if (oldest != Oldest::kWindow && oldest != Oldest::kAttach && loss.end_ns > loss.begin_ns) {
    loss.reason = oldest == Oldest::kCopying   ? model::LossReason::kCopying
                  : oldest == Oldest::kReserve ? model::LossReason::kReserve
                  : oldest == Oldest::kBroken  ? model::LossReason::kUnreadable
                                               : model::LossReason::kOverwritten;
    // The number of missing events is exact for a thread's whole record. For the window it is known only if the window
    // began before the thread.
    const uint64_t read = raw_records_;
    if (loss.begin_ns == Ns(ring.attach_ticks) && ring.events > read) loss.events = ring.events - read;
    if (loss.events == 0) loss.bytes = ring.lapped_words * 8;  // known events cover everything, not only the copy
    trace_.losses.push_back(loss);
  }
  if (oldest != Oldest::kWindow && ring.former_threads != 0 && Ns(ring.attach_ticks) > trace_.window_begin_ns)
    trace_.losses.push_back({kNone, model::LossReason::kRecycled, trace_.window_begin_ns, Ns(ring.attach_ticks)});
  if (ring.open.size() >= detail::kMaxOpen)
    trace_.losses.push_back({thread, model::LossReason::kDepth, trace_.window_end_ns, trace_.window_end_ns, 0, 0});
}

void Assembler::AddThread(const RingCopy& ring) {
  const auto thread = static_cast<uint32_t>(trace_.threads.size());
  model::ThreadRow row;
  row.number = ring.number;
  row.tid = ring.tid;
  row.name = trace_.strings.Add(ring.name);
  row.exited = ring.exited;
  trace_.threads.push_back(row);

  request_ = ring.request;
  batch_ = ring.batch;
  saw_context_ = saw_batch_context_ = false;
  first_event_ = trace_.events.size();
  raw_calls_.clear();
  raw_contexts_.clear();
  raw_records_ = 0;
  wait_begin_ticks_ = superseded_until_ticks_ = 0;
  // Each thread has a share of the limit for rows; what it leaves goes to later threads.
  const auto words = static_cast<uint64_t>(ring.last - ring.first);
  const double share = static_cast<double>(words) / static_cast<double>(std::max<uint64_t>(words_left_, 1));
  const double left = used_bytes_ < most_bytes_ ? static_cast<double>(most_bytes_ - used_bytes_) : 0;
  const uint64_t until_bytes = used_bytes_ + static_cast<uint64_t>(left * share);
  words_left_ -= words;
  AddOpenScopes(ring);
  snapshot::RecordCursor cursor(ring.first, ring.last, ring.now_ticks);
  Record record;
  int64_t oldest_ns = Ns(ring.now_ticks);
  snapshot::Oldest oldest = ring.oldest;
  while (cursor.Next(&record)) {
    if (record.end_ticks < snapshot_.window_begin_ticks) break;
    if (used_bytes_ > until_bytes) {
      oldest = snapshot::Oldest::kReserve;
      break;
    }
    ++raw_records_;
    oldest_ns = Ns(record.end_ticks);
    // Begun under a former recorder with another clock.
    record.begin_ticks = std::min(record.begin_ticks, record.end_ticks);
    const KnownSite& site = sites_.At(record.site, record.end_ticks);
    if (site.kind == SiteKind::kInternal)
      AddInternal(record, site.record, thread);
    else if (record.begin_ticks <= ring.cut_ticks && !IsSuperseded(record))
      AddEvent(record, site);
  }
  if (cursor.IsBroken() && oldest != snapshot::Oldest::kCopying && oldest != snapshot::Oldest::kReserve)
    oldest = snapshot::Oldest::kBroken;
  const bool whole = oldest == snapshot::Oldest::kWindow || oldest == snapshot::Oldest::kAttach;
  trace_.threads[thread].history_begin_ns = whole ? std::max(Ns(ring.attach_ticks), trace_.window_begin_ns) : oldest_ns;
  AddLosses(ring, oldest, thread, oldest_ns);
  SortEvents(thread);
  FlushCalls(thread);
  FlushContexts(ring);
}

// From the begin of the thread's history on.
void Assembler::FlushContexts(const RingCopy& ring) {
  AddContext(trace_.threads.back().history_begin_ns, request_, batch_);
  ThreadPast& past = pasts_.emplace_back();
  past.begin_ns = Ns(ring.attach_ticks);
  if (ring.exit_ticks != 0) past.end_ns = Ns(ring.exit_ticks);
  past.contexts.assign(raw_contexts_.rbegin(), raw_contexts_.rend());
}

// Puts instants and counters of one moment in the order of recording, after the scopes of that moment.
void Assembler::OrderMoments(std::vector<uint32_t>* order) const {
  const model::EventColumns& events = trace_.events;
  const auto is_scope = [&](uint32_t row) { return model::IsScope(trace_.sites[events.site[row]].kind); };
  for (auto first = order->begin(), last = first; first != order->end(); first = last) {
    const int64_t at_ns = events.begin_ns[*first];
    last = std::find_if(first, order->end(),
                        [&](uint32_t row) { return events.begin_ns[row] != at_ns || events.duration_ns[row] != 0; });
    if (last == first) ++last;
    if (last - first > 1) std::reverse(std::stable_partition(first, last, is_scope), last);
  }
}

// Sorts the thread's events into the order of the model.
void Assembler::SortEvents(uint32_t thread) {
  model::EventColumns& events = trace_.events;
  std::vector<uint32_t> order(events.size() - first_event_);
  std::iota(order.begin(), order.end(), first_event_);
  // Records were read newest first. Among scopes with the same times the outer one, which closed last, therefore stands
  // first already. Open scopes stand before all others, outermost first.
  const auto end_of = [&](uint32_t row) {
    return events.duration_ns[row] == kOpen ? INT64_MAX : events.begin_ns[row] + events.duration_ns[row];
  };
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return events.begin_ns[a] != events.begin_ns[b] ? events.begin_ns[a] < events.begin_ns[b] : end_of(a) > end_of(b);
  });
  OrderMoments(&order);
  const Reordering reordering(order, first_event_);
  reordering.Apply(&events.begin_ns);
  reordering.Apply(&events.duration_ns);
  for (auto* column : {&events.site, &events.request, &events.batch, &events.args}) reordering.Apply(column);
  model::ThreadRow& row = trace_.threads[thread];
  row.first_event = first_event_;
  row.event_count = static_cast<uint32_t>(order.size());
}

void Assembler::FlushCalls(uint32_t thread) {
  std::stable_sort(raw_calls_.begin(), raw_calls_.end(),
                   [](const RawCall& a, const RawCall& b) { return a.begin_ns < b.begin_ns; });
  model::CallColumns& calls = trace_.calls;
  for (const RawCall& call : raw_calls_) {
    calls.begin_ns.push_back(call.begin_ns);
    calls.duration_ns.push_back(call.duration_ns);
    calls.thread.push_back(thread);
    calls.request.push_back(call.request);
    calls.batch.push_back(call.batch);
    calls.name.push_back(call.name);
    // The collector's numbers, until GpuTables knows their rows.
    calls.stream.push_back(call.stream);
    calls.device.push_back(call.context);
    sources_.push_back({call.correlation, call.collector});
  }
}

// Records of the rings, read later, are newer.
void Assembler::AddOpenRequests() {
  for (const snapshot::OpenRequestCopy& open : snapshot_.open_requests) {
    open_.insert(open.id);
    used_bytes_ += kMapCost;
  }
  const uint64_t until_bytes = most_bytes_ / 2;
  for (const snapshot::OpenRequestCopy& open : snapshot_.open_requests) {
    if (open.words == nullptr || used_bytes_ > until_bytes) {
      left_out_.push_back(open.id);
      continue;
    }
    model::RequestRow& row = Request(open.id);
    row.begin_ns = Ns(open.begin_ticks);
    row.begin_known = true;
    row.begin_thread = ThreadRow(open.begin_thread);
    ReadRequestWords(open.words, open.count, &row);
  }
}

// Ends of requests that fired, if their rings have lost them.
void Assembler::AddEnds() {
  for (const snapshot::EndCopy& end : snapshot_.ends) {
    const auto row = request_rows_.find(end.words[0]);
    if (row != request_rows_.end() && request_table_[row->second].end_known) continue;
    const Record record{0, std::min(end.begin_ticks, end.end_ticks), end.end_ticks, end.words, end.count};
    AddRequestEnd(record, ThreadRow(end.thread));
  }
}

// Requests that ended while they were copied are complete in a ring.
void Assembler::AddOpenRequestsLost() {
  const auto is_lost = [this](uint64_t id) {
    const auto row = request_rows_.find(id);
    return row == request_rows_.end() || !request_table_[row->second].end_known;
  };
  const auto lost = static_cast<uint64_t>(std::count_if(left_out_.begin(), left_out_.end(), is_lost));
  if (lost == 0) return;
  trace_.losses.push_back(
      {kNone, model::LossReason::kOpenRequests, trace_.window_begin_ns, trace_.window_end_ns, lost, 0});
}

// Threads that exited inside the window and whose rings were given to others.
void Assembler::AddRecycled() {
  for (const trace::RecycledRing* ring : recycled_) {
    const auto thread = static_cast<uint32_t>(trace_.threads.size());
    model::ThreadRow row;
    row.number = ring->number;
    row.tid = ring->tid;
    row.name = trace_.strings.Add(ring->name);
    row.exited = true;
    row.first_event = trace_.events.size();
    row.history_begin_ns = Ns(ring->exit_ticks);
    trace_.threads.push_back(row);
    pasts_.push_back({Ns(ring->attach_ticks), Ns(ring->exit_ticks), {}});
    trace_.losses.push_back({thread, model::LossReason::kRecycled,
                             std::max(Ns(ring->attach_ticks), trace_.window_begin_ns), Ns(ring->exit_ticks),
                             ring->events, 0});
    if (ring->had_former_threads && Ns(ring->attach_ticks) > trace_.window_begin_ns)
      trace_.losses.push_back({kNone, model::LossReason::kRecycled, trace_.window_begin_ns, Ns(ring->attach_ticks)});
  }
  const std::vector<trace::RecycledRing>& recycled = snapshot_.recycled;
  // There may have been more than the list remembers.
  if (snapshot_.ring_counts.rings_recycled > recycled.size() && !recycled.empty() &&
      recycled.front().exit_ticks >= snapshot_.window_begin_ticks) {
    trace_.losses.push_back(
        {kNone, model::LossReason::kRecycled, trace_.window_begin_ns, Ns(recycled.front().exit_ticks), 0, 0});
  }
}

// Losses counted for the process since its recorder started.
void Assembler::AddCountedLosses() {
  const auto add = [&](model::LossReason reason, uint64_t events) {
    if (events == 0) return;
    const int64_t from_ns = std::clamp<int64_t>(snapshot_.clock.first.monotonic_ns, 0, trace_.window_end_ns);
    trace_.losses.push_back({kNone, reason, from_ns, trace_.window_end_ns, events, 0});
  };
  add(model::LossReason::kRefused, snapshot_.ring_counts.events_refused);
  add(model::LossReason::kTooDeepToBegin, snapshot_.ring_counts.begins_refused);
  add(model::LossReason::kClosedElsewhere, snapshot_.ring_counts.closed_elsewhere);
}

// The take of a hand-off repeats the enqueue: the pair becomes one row.
void Assembler::JoinEnqueues() {
  const auto enqueue_of = [](const RawHandoff& h) { return std::tuple(h.request, h.row.enqueue_ns, h.row.queue); };
  std::sort(handoffs_.begin(), handoffs_.end(), [&](const RawHandoff& a, const RawHandoff& b) {
    if (enqueue_of(a) != enqueue_of(b)) return enqueue_of(a) < enqueue_of(b);
    return a.row.take_ns > b.row.take_ns;  // the take first
  });
  size_t joined = 0, unpaired_takes = 0;
  for (const RawHandoff& handoff : handoffs_) {
    if (joined == 0 || enqueue_of(handoffs_[joined - 1]) != enqueue_of(handoff)) unpaired_takes = 0;
    if (handoff.row.take_ns != 0) {
      ++unpaired_takes;
    } else if (unpaired_takes > 0) {
      --unpaired_takes;
      continue;
    }
    handoffs_[joined++] = handoff;
  }
  handoffs_.resize(joined);
}

// Moves rows into a vector, in order, and updates the map from ids to rows.
template <class Rows>
std::vector<typename Rows::value_type> InOrder(Rows* rows, std::unordered_map<uint64_t, uint32_t>* index) {
  std::vector<uint32_t> order(rows->size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return (*rows)[a].begin_ns < (*rows)[b].begin_ns; });
  std::vector<typename Rows::value_type> sorted;
  sorted.reserve(rows->size());
  for (const uint32_t row : order) sorted.push_back(std::move((*rows)[row]));
  for (uint32_t i = 0; i < sorted.size(); ++i) (*index)[sorted[i].id] = i;
  rows->clear();
  return sorted;
}

// A request without a recorded end is open if it is in the table of open requests, or if Begin was called after the
// table was read. (Begin may be called later than the arrival.) All others have ended at an unknown time.
void Assembler::EndRequests() {
  const int64_t table_ns = Ns(snapshot_.requests_ticks);
  for (model::RequestRow& row : request_table_) {
    const bool is_mentioned_only = row.begin_ns == INT64_MAX;
    if (is_mentioned_only) row.begin_ns = trace_.window_begin_ns;
    if (row.end_known || open_.contains(row.id)) continue;
    const auto alive = alive_ns_.find(row.id);
    if (alive == alive_ns_.end()) {
      row.duration_ns = 0;
    } else if (!is_mentioned_only || alive->second < table_ns) {
      row.duration_ns = std::max<int64_t>(alive->second - row.begin_ns, 0);
    }
  }
}

void Assembler::SortRows() {
  trace_.requests = InOrder(&request_table_, &request_rows_);
  trace_.batches = InOrder(&trace_.batches, &batch_rows_);
  SortMembers();
  SortHandoffs();
  SortAsyncs();
  SortTokens();
}

void Assembler::SortMembers() {
  std::sort(members_.begin(), members_.end(), [&](const RawMember& a, const RawMember& b) {
    const uint32_t row_a = BatchRowOf(a.batch), row_b = BatchRowOf(b.batch);
    return std::tuple(row_a, a.join_ns, !a.joined, a.request) < std::tuple(row_b, b.join_ns, !b.joined, b.request);
  });
  trace_.members.reserve(members_.size());
  for (const RawMember& member : members_) {
    const uint32_t batch = BatchRowOf(member.batch), request = RequestRowOf(member.request);
    if (batch == kNone || request == kNone) continue;
    if (!member.joined) {
      for (auto row = trace_.members.rbegin(); row != trace_.members.rend() && row->batch == batch; ++row) {
        if (row->request == request && row->leave_ns == 0) row->leave_ns = member.leave_ns;
      }
      continue;
    }
    model::BatchRow& row = trace_.batches[batch];
    if (row.member_count++ == 0) row.first_member = static_cast<uint32_t>(trace_.members.size());
    trace_.members.push_back({batch, request, member.join_ns, 0, member.work});
  }
}

void Assembler::SortHandoffs() {
  JoinEnqueues();
  trace_.handoffs.reserve(handoffs_.size());
  for (const RawHandoff& handoff : handoffs_) {
    model::HandoffRow row = handoff.row;
    row.request = RequestRowOf(handoff.request);
    row.batch = handoff.batch != 0 ? BatchRowOf(handoff.batch) : kNone;
    trace_.handoffs.push_back(row);
  }
  handoffs_.clear();
  std::stable_sort(trace_.handoffs.begin(), trace_.handoffs.end(), [](const auto& a, const auto& b) {
    if (a.enqueue_ns != b.enqueue_ns) return a.enqueue_ns < b.enqueue_ns;
    return a.take_ns != 0 && (b.take_ns == 0 || a.take_ns < b.take_ns);  // taken at once and handed on: in that order
  });
}

void Assembler::SortAsyncs() {
  std::unordered_map<uint64_t, uint32_t> begun;
  std::stable_sort(asyncs_.begin(), asyncs_.end(), [](const auto& a, const auto& b) {
    return a.row.begin_ns != b.row.begin_ns ? a.row.begin_ns < b.row.begin_ns : a.is_end < b.is_end;
  });
  for (const RawAsync& async : asyncs_) {
    if (!async.is_end) {
      begun[async.id] = static_cast<uint32_t>(trace_.asyncs.size());
      model::AsyncRow row = async.row;
      row.request = RequestRowOf(async.request);
      row.duration_ns = kOpen;
      trace_.asyncs.push_back(row);
    } else if (const auto at = begun.find(async.id); at != begun.end()) {
      trace_.asyncs[at->second].duration_ns = async.row.begin_ns - trace_.asyncs[at->second].begin_ns;
      trace_.asyncs[at->second].end_thread = async.row.begin_thread;
    }
  }
}

void Assembler::SortTokens() {
  trace_.tokens.reserve(tokens_.size());
  for (const RawToken& token : tokens_) {
    trace_.tokens.push_back(token.row);
    trace_.tokens.back().request = RequestRowOf(token.request);
  }
  std::stable_sort(trace_.tokens.begin(), trace_.tokens.end(),
                   [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; });
}

// Replaces ids of events and calls by rows. A context that outlived its request (finished on another thread) does not
// count.
void Assembler::ResolveEvents() {
  const std::vector<uint32_t> request_rows = requests_.Rows(request_rows_), batch_rows = batches_.Rows(batch_rows_);
  const auto request_at = [&](uint32_t number, int64_t begin_ns, int64_t end_ns) {
    const uint32_t request = request_rows[number];
    if (request == kNone) return kNone;
    const model::RequestRow& row = trace_.requests[request];
    const bool is_after = IsOver(row) && begin_ns > trace_.RequestEnd(row);
    return !is_after && end_ns >= row.begin_ns ? request : kNone;
  };
  model::EventColumns& events = trace_.events;
  for (uint32_t i = 0; i < events.size(); ++i) {
    events.batch[i] = batch_rows[events.batch[i]];
    events.request[i] = request_at(events.request[i], events.begin_ns[i], trace_.EventEnd(i));
  }
  model::CallColumns& calls = trace_.calls;
  for (uint32_t i = 0; i < calls.size(); ++i) {
    calls.batch[i] = batch_rows[calls.batch[i]];
    calls.request[i] = request_at(calls.request[i], calls.begin_ns[i], calls.begin_ns[i] + calls.duration_ns[i]);
  }
}

// The same for contexts.
void Assembler::ResolveContexts() {
  const std::vector<uint32_t> request_rows = requests_.Rows(request_rows_), batch_rows = batches_.Rows(batch_rows_);
  for (ThreadPast& past : pasts_) {
    std::vector<ContextChange> resolved;
    for (size_t i = 0; i < past.contexts.size(); ++i) {
      const ContextChange& number = past.contexts[i];
      const ContextChange change{number.at_ns, request_rows[number.request], batch_rows[number.batch]};
      const int64_t until_ns = i + 1 < past.contexts.size() ? past.contexts[i + 1].at_ns : INT64_MAX;
      resolved.push_back(change);
      if (change.request == kNone || !IsOver(trace_.requests[change.request])) continue;
      const int64_t over_ns = std::max(trace_.RequestEnd(trace_.requests[change.request]) + 1, change.at_ns);
      if (over_ns < until_ns) resolved.push_back({over_ns, kNone, change.batch});
    }
    past.contexts = std::move(resolved);
  }
}

// A collector's part of the room for all, by what it asks for.
uint64_t Assembler::BytesOf(const Collector& collector) const {
  const double room = static_cast<double>(collector_bytes_ + beyond_bytes_);
  const double share = std::min(1.0, room / static_cast<double>(std::max<uint64_t>(asked_bytes_, 1)));
  return static_cast<uint64_t>(static_cast<double>(collector.IncidentBytes()) * share);
}

model::Trace Assembler::Run() {
  // Those of a torn black box may be anything.
  trace_.clock.monotonic_ns = std::clamp<int64_t>(snapshot_.clock.last.monotonic_ns, 0, model::kMaxTimeNs / 2);
  trace_.clock.realtime_ns = std::clamp<int64_t>(snapshot_.clock.last.realtime_ns, 0, model::kMaxTimeNs);
  trace_.clock.boottime_ns = std::clamp<int64_t>(snapshot_.clock.last.boottime_ns, 0, model::kMaxTimeNs);
  trace_.clock.cycle_counter = snapshot_.cycle_counter;
  trace_.clock.ticks_per_ns = snapshot_.clock.TicksPerNs();
  trace_.clock.pair_width_ns = std::max(snapshot_.clock.first.width_ns, snapshot_.clock.last.width_ns);
  trace_.pid = getpid();
  trace_.window_begin_ns = Ns(snapshot_.window_begin_ticks);
  // The clocks were read last: nothing in the snapshot began after that.
  trace_.window_end_ns = std::max(Ns(snapshot_.window_end_ticks), trace_.clock.monotonic_ns);

  std::vector<RingCopy> rings = snapshot_.rings;
  snapshot::SplitByThreads(snapshot_.texts->ThreadEndSite(), &rings);
  for (const RingCopy& ring : rings) {
    thread_rows_[ring.number] = static_cast<uint32_t>(thread_rows_.size());
    words_left_ += static_cast<uint64_t>(ring.last - ring.first);
    // Records made during the copying of the last threads belong to the window, too.
    trace_.window_end_ns = std::max(trace_.window_end_ns, Ns(ring.now_ticks));
  }
  latest_ns_ = trace_.window_end_ns;
  for (const trace::RecycledRing& ring : snapshot_.recycled) {
    if (ring.exit_ticks < snapshot_.window_begin_ticks) continue;
    if (thread_rows_.try_emplace(ring.number, static_cast<uint32_t>(thread_rows_.size())).second)
      recycled_.push_back(&ring);
  }
  model::EventColumns& events = trace_.events;
  events.begin_ns.reserve(words_left_ / 2);
  events.duration_ns.reserve(words_left_ / 2);
  for (auto* column : {&events.site, &events.thread, &events.request, &events.batch, &events.args})
    column->reserve(words_left_ / 2);
  AddOpenRequests();
  for (const RingCopy& ring : rings) AddThread(ring);
  AddRecycled();
  AddEnds();
  AddOpenRequestsLost();
  AddCountedLosses();
  EndRequests();
  SortRows();
  ResolveEvents();
  ResolveContexts();
  const uint64_t spare_bytes = most_bytes_ - std::min(used_bytes_, most_bytes_);
  GpuTables gpu(&trace_, std::move(sources_), std::move(pasts_), spare_bytes, *snapshot_.texts);
  gpu.BeginCollector(usages_.size() * (kUsageCost - sizeof(RawUsage)), "threads");  // their cost is in used_bytes_
  AddUsages(usages_, &gpu);
  for (Collector* collector : collectors_) {
    // A failing collector loses its own part; the rest of the incident stays.
    try {
      gpu.BeginCollector(BytesOf(*collector), collector->Name());
      collector->AddTo(gpu);
    } catch (const std::exception& e) {
      gpu.AddAttribute((std::string("collector.") + collector->Name()).c_str(), e.what());
    } catch (...) {
      gpu.AddAttribute((std::string("collector.") + collector->Name()).c_str(), "threw something");
    }
  }
  gpu.Finish();
  schema::FillColumns(&trace_);
  return std::move(trace_);
}

}  // namespace

model::Trace Assemble(const Snapshot& snapshot, const RowLimits& limits, std::span<Collector* const> collectors) {
  return Assembler(snapshot, limits, collectors).Run();
}

}  // namespace pitot::assemble
