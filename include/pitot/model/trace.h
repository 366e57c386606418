// SPDX-License-Identifier: Apache-2.0
//
// The trace: a snapshot of everything recorded, on one clock, as columns. It is built from a live snapshot or from a
// dump. Serializers, reports and the command line read nothing else.
//
// Times are int64 ns of CLOCK_MONOTONIC. Rows refer to each other by index; kNone means no row. Strings are indices
// into `strings`, whose row 0 is "". A Trace is plain data: copy it, move it, and read it from many threads.
#ifndef PITOT_MODEL_TRACE_H_
#define PITOT_MODEL_TRACE_H_

#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/gpu.h"
#include "pitot/model/types.h"
#include "pitot/outcome.h"
#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN
namespace model {

// Kinds of sites whose events have a duration.
inline constexpr bool IsScope(SiteKind kind) {
  return kind == SiteKind::kScope || kind == SiteKind::kLeaf || kind == SiteKind::kPhase || kind == SiteKind::kWait ||
         kind == SiteKind::kOperator;
}
// Types of arguments whose value is a StringId.
inline constexpr bool IsText(ArgType type) {
  return type == ArgType::kLiteral || type == ArgType::kName || type == ArgType::kString;
}
// The order of a thread's events. Two with the same begin are in order if one of them is open.
inline constexpr bool InOrder(int64_t begin_ns, int64_t duration_ns, int64_t next_begin_ns, int64_t next_duration_ns) {
  return begin_ns < next_begin_ns || (begin_ns == next_begin_ns && (duration_ns >= next_duration_ns ||
                                                                    duration_ns == kOpen || next_duration_ns == kOpen));
}

// Holds each distinct string once. All strings are valid UTF-8 without control characters; invalid parts become U+FFFD
// when added.
class PITOT_EXPORT StringTable {
 public:
  StringTable();
  StringId Add(std::string_view text);
  std::string_view operator[](StringId id) const { return id < views_.size() ? views_[id] : std::string_view(); }
  uint32_t size() const { return static_cast<uint32_t>(views_.size()); }
  StringTable(const StringTable& other);
  StringTable& operator=(const StringTable& other);
  StringTable(StringTable&&) = default;
  StringTable& operator=(StringTable&&) = default;

 private:
  // The slot of a string in slots_: the one that has it, or the free one it would take.
  size_t SlotOf(std::string_view text) const;
  void Grow();

  std::vector<std::string_view> views_;  // into blocks_
  std::vector<std::vector<char>> blocks_;
  std::vector<StringId> slots_;  // by hash, at most half of them taken; otherwise kNone
};

struct ClockInfo {
  int64_t monotonic_ns = 0;  // the three clocks, read back to back when the snapshot was taken
  int64_t realtime_ns = 0;
  int64_t boottime_ns = 0;
  bool cycle_counter = false;  // events were stamped with the CPU's counter
  double ticks_per_ns = 0;
  int64_t pair_width_ns = 0;  // uncertainty of the conversion from ticks
};

// A place in the code.
struct SiteRow {
  SiteKind kind = SiteKind::kScope;
  StringId name = 0;
  StringId file = 0;
  StringId function = 0;
  uint32_t line = 0;
  bool unloaded = false;  // its library was gone when the snapshot was read; the name says so
  bool name_is_first_arg = false;
  std::vector<StringId> arg_names;
  std::vector<ArgType> arg_types;
};

struct ThreadRow {
  uint32_t number = 0;  // Pitot's: counts from 1 in the order of first events
  int64_t tid = 0;      // the operating system's
  StringId name = 0;
  bool exited = false;
  uint32_t first_event = 0;  // rows of `events`
  uint32_t event_count = 0;
  int64_t history_begin_ns = 0;  // its record is complete from here on, except for `losses`
};

// Events of scopes, instants and counters. Sorted by thread, begin ascending, then end descending; open events end
// last.
struct EventColumns {
  std::vector<int64_t> begin_ns;
  std::vector<int64_t> duration_ns;  // kOpen: still open; 0: instants and counters
  std::vector<uint32_t> site;
  std::vector<uint32_t> thread;   // row of threads
  std::vector<uint32_t> request;  // row of requests, by the context it ran in, or kNone
  std::vector<uint32_t> batch;    // row of batches, by the context it ran in, or kNone
  std::vector<uint32_t> args;     // first row of `arg_values`, or kNone; the site has their number
  uint32_t size() const { return static_cast<uint32_t>(begin_ns.size()); }
};

// The value of one argument; the site has its type. Integers and bools are stored as they are, doubles as bits;
// literals, names and strings as StringId.
using ArgValue = uint64_t;

struct Label {
  StringId key = 0;
  StringId value = 0;
};
struct Size {
  StringId name = 0;
  double value = 0;
};
// A stage of a request. It ends where the next begins, the last one at the request's end.
struct Stage {
  StringId name = 0;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;  // kOpen: the last stage of an open request
};

struct RequestRow {
  uint64_t id = 0;
  StringId host_id = 0;    // the host's own id (Request::SetId); "": none
  uint64_t parent_id = 0;  // 0: none; may be in another process
  uint64_t trace_id_high = 0, trace_id_low = 0;
  StringId route = 0;
  uint32_t size_bucket = 0;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;  // kOpen: still open; if its end was lost, the time to its last sign of life
  bool begin_known = true;  // false: the window holds only its end, or what others recorded of it
  bool end_known = false;   // false: open, or its end was lost
  Outcome outcome = Outcome::kOk;
  StringId reason = 0;  // of the outcome, in the host's words; "": not said
  uint32_t begin_thread = kNone;
  uint32_t end_thread = kNone;
  int64_t deadline_ns = 0;  // after begin; 0: none
  uint32_t output_tokens = 0;
  int64_t first_token_ns = 0;  // after begin; 0: none
  int64_t max_token_gap_ns = 0;
  std::vector<Label> labels;
  std::vector<Size> sizes;
  std::vector<Stage> stages;
};

struct BatchRow {
  uint64_t id = 0;
  StringId executor = 0;
  uint32_t thread = kNone;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;    // kOpen: still open
  int64_t submitted_ns = 0;   // after begin; 0: not set
  uint8_t close = 0;          // BatchClose
  uint32_t first_member = 0;  // rows of `members`
  uint32_t member_count = 0;
  uint32_t launches = 0;   // on its thread, of GPU work; counted without a record of each (pitot::cuda_calls)
  int64_t launch_ns = 0;   // the time in these calls
  StringId work_unit = 0;  // of its members' work; "": not said
};
struct MemberRow {
  uint32_t batch = kNone;
  uint32_t request = kNone;
  int64_t join_ns = 0;
  int64_t leave_ns = 0;  // 0: at the batch's end
  double work = 0;       // that it brought to the batch, in the executor's unit; 0: not known
};

// A request handed from thread to thread through a queue.
struct HandoffRow {
  uint32_t request = kNone;
  StringId queue = 0;
  uint32_t from_thread = kNone;
  uint32_t to_thread = kNone;  // kNone: not taken yet
  int64_t enqueue_ns = 0;
  int64_t take_ns = 0;     // 0: not taken yet
  uint32_t batch = kNone;  // if taken by Join: its batch
};

// A part of a request that belongs to no thread.
struct AsyncRow {
  uint32_t site = kNone;
  uint32_t request = kNone;
  uint32_t begin_thread = kNone;
  uint32_t end_thread = kNone;
  int64_t begin_ns = 0;
  int64_t duration_ns = 0;  // kOpen: still open
};

// Output tokens marked by a request.
struct TokenRow {
  uint32_t request = kNone;
  uint32_t thread = kNone;
  int64_t at_ns = 0;
  uint32_t count = 0;
};

enum class LossReason : uint8_t {
  kOverwritten = 1,      // older than the content of the ring, but inside the window
  kCopying = 2,          // overwritten while the ring was being copied
  kReserve = 3,          // no memory: the oldest part of the window was left out
  kUnreadable = 4,       // an invalid record
  kDepth = 5,            // a scope deeper than 62 was open: not shown while open
  kClosedElsewhere = 6,  // scopes closed on another thread than they began on
  kRefused = 7,          // events of threads without a ring
  kRecycled = 8,         // the ring of an exited thread was given to another: its whole record
  kDamaged = 9,          // a damaged or incomplete dump: any kind of data may be missing
  kOpenRequests = 10,    // open requests without room; `events` is their number
  kTooDeepToBegin = 11,  // scopes begun by calls within 62 open ones: not recorded
};
PITOT_EXPORT const char* LossReasonName(LossReason reason);

// Missing data: whose, and from when to when.
struct LossRow {
  uint32_t thread = kNone;  // kNone: the process
  LossReason reason = LossReason::kOverwritten;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  uint64_t events = 0;  // 0: number unknown
  uint64_t bytes = 0;   // overwritten in the copy, if `events` is unknown; earlier losses are not included
};

// A firing that belongs to this trace's incident.
struct FiringRow {
  int64_t at_ns = 0;
  uint64_t request_id = 0;
  StringId cause = 0;
  StringId detail = 0;
};

struct Attribute {
  StringId key = 0;
  StringId value = 0;
};

// Things that take a usual time.
enum class NormKind : uint8_t {
  kBatchOfWork = 1,          // batches of an executor with as much work; `much` is the power of two above it
  kBatchOfMembers = 2,       // with as many members
  kBatchOfAboutMembers = 3,  // steps; the power of two above their number
  kBatchClosed = 4,          // closed for the same reason (BatchClose)
  kBatch = 5,                // any batches of an executor
  kRequest = 6,              // requests of a route with that size bucket
  kHold = 7,                 // holds of a lock that was waited for
  kScope = 8,                // scopes of that name
  kFirstToken = 9,           // the time before first tokens of requests of a route with that size bucket
  kTokenGap = 10,            // between tokens of a route; `much` as in kBatchOfAboutMembers, of the iteration
  kQueue = 11,               // stays in a queue
  kGpuWork = 12,             // kernels of that name and shape (a hash), or spans in batches with as many members
};
inline constexpr NormKind kLastNormKind = NormKind::kGpuWork;
// Single ones are kept: their parts are compared together, and medians do not say how far they vary.
inline bool IsOfTokens(NormKind kind) { return kind == NormKind::kFirstToken || kind == NormKind::kTokenGap; }
// Whether they are walked, and not only measured.
inline bool HasParts(NormKind kind) { return kind <= NormKind::kRequest || IsOfTokens(kind); }

struct NormPart {
  uint32_t blame = 0;  // analyze::Blame
  int64_t ns = 0;
};

// What such things took before the window, as the judge of the process had learned it: medians, and single
// tokens.
struct NormRow {
  static constexpr uint32_t kMuchBits = 22;  // of `much`

  NormKind kind = NormKind::kBatch;
  Depth depth = Depth::kScopes;  // at which they were recorded
  StringId name = 0;             // of the executor, route, lock, scope, queue or GPU work
  uint32_t much = 0;             // by kind; 0 for the others
  uint32_t count = 0;            // things behind the medians
  int64_t total_ns = 0;
  std::vector<NormPart> parts;  // of their walks, without those of 0; empty for lengths (HasParts)
  double work = 0;              // of a token: brought to its batches; 0: unknown
};

struct Trace {
  StringTable strings;
  ClockInfo clock;
  StringId process_name = 0;
  int64_t pid = 0;
  int64_t window_begin_ns = 0;
  int64_t window_end_ns = 0;

  std::vector<SiteRow> sites;
  std::vector<ThreadRow> threads;
  EventColumns events;
  std::vector<ArgValue> arg_values;
  std::vector<RequestRow> requests;  // by begin
  std::vector<BatchRow> batches;     // by begin
  std::vector<MemberRow> members;    // by batch, then join
  std::vector<HandoffRow> handoffs;  // by enqueue
  std::vector<AsyncRow> asyncs;      // by begin
  std::vector<TokenRow> tokens;      // by time
  std::vector<DeviceRow> devices;
  std::vector<StreamRow> streams;
  std::vector<KernelShape> shapes;  // launch parameters of kernels, each distinct one once
  CallColumns calls;
  GpuColumns gpu;
  std::vector<OverheadRow> overheads;  // by begin
  std::vector<DepthRow> depths;        // of GPUs, by begin
  std::vector<GpuLossRow> gpu_losses;
  std::vector<CounterRow> counters;
  SampleColumns samples;
  std::vector<DepthRow> operator_depths;  // by begin
  std::vector<LossRow> losses;
  std::vector<FiringRow> firings;     // by time; empty except in incidents
  std::vector<NormRow> norms;         // empty except in incidents of a recorder with a judge
  std::vector<Attribute> attributes;  // for people: version, host, cost of recording, options

  // The displayed name of an event: its site's, or its first argument.
  std::string_view EventName(uint32_t event) const {
    const SiteRow& site = sites[events.site[event]];
    if (site.name_is_first_arg && events.args[event] != kNone)
      return strings[static_cast<StringId>(arg_values[events.args[event]])];
    return strings[site.name];
  }
  // Its end; while open, the window's end.
  int64_t EventEnd(uint32_t event) const {
    return events.duration_ns[event] == kOpen ? window_end_ns : events.begin_ns[event] + events.duration_ns[event];
  }
  int64_t RequestEnd(const RequestRow& request) const {
    return request.duration_ns == kOpen ? window_end_ns : request.begin_ns + request.duration_ns;
  }
  int64_t BatchEnd(const BatchRow& batch) const {
    return batch.duration_ns == kOpen ? window_end_ns : batch.begin_ns + batch.duration_ns;
  }
  int64_t CallEnd(uint32_t call) const {
    return calls.duration_ns[call] == kOpen ? window_end_ns : calls.begin_ns[call] + calls.duration_ns[call];
  }
  PITOT_EXPORT std::string_view AttributeOf(std::string_view key) const;  // "" if missing
};

// Checks the consistency of a trace; returns "", or a description of the problem. Every index must point into its
// table, columns must have equal lengths, and rows must be in order. Durations of a table must add up to at most
// kMaxTimeNs, so that no sum exceeds 64 bits. A reader of files must check a trace before any other use.
PITOT_EXPORT std::string FindInconsistency(const Trace& trace);

}  // namespace model
PITOT_NAMESPACE_END

#endif  // PITOT_MODEL_TRACE_H_
