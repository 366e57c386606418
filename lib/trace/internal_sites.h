// SPDX-License-Identifier: Apache-2.0
//
// The records that requests, batches and context leave in rings. Each has a site of its own, identified by Site::flags.
// Their arguments are words, with the layout given next to the name; lib/assemble reads them.
#ifndef PITOT_LIB_TRACE_INTERNAL_SITES_H_
#define PITOT_LIB_TRACE_INTERNAL_SITES_H_

#include "pitot/request.h"
#include "pitot/trace.h"

namespace pitot::trace {

enum class Record : uint16_t {
  kRequestBegin = 1,  // [id, parent, trace high, trace low, route name]; begins at arrival
  kRequestEnd = 2,    // RequestEndWords, below; begins at arrival
  kContext = 3,       // [request before, request after]: the thread's context from here on
  kBatchContext = 4,  // [batch before, batch after]
  kEnqueue = 5,       // [request, queue name]
  kTake = 6,          // [request, enqueue ticks, queue name, enqueuing thread]
  kBatchBegin = 7,    // [id, executor name | unit of work << 16]
  // [id, executor name | unit of work << 16 | close << 32, submitted ticks or 0, launches]; lasts as long as the batch
  kBatchEnd = 8,
  // [batch, request, enqueue ticks, queue name | enqueuing thread << 32]; if its work is known, also [a double].
  kJoin = 9,
  kLeave = 10,       // [batch, request]
  kTokens = 11,      // [request, count]
  kUnreadable = 12,  // (never written) a reader's name for a record without a valid site
  kSubmitted = 13,   // [batch, executor name | unit of work << 16 | close << 32]; begins with the batch
  // [correlation | name of the API's function << 32 | name of the collector << 48]; if the target of a wait is known,
  // also [context | stream << 32].
  // Lasts as long as the call.
  kCall = 14,
  kUsage = 15,  // [on-CPU ns, voluntary | involuntary switches << 32, minor | major faults << 32, run-queue ns]
  // [number | tid << 32, its events, misnested, request, batch; its name's words]: the records before are this
  // thread's. It began and ended with the thread.
  kThreadEnd = 16,
};

// Two names in a word: a batch's executor and the unit of its work, or a request's route and the reason of its end.
inline constexpr uint32_t kUnitShift = 16, kReasonShift = 16;
inline constexpr uint64_t kNameMask = (uint64_t{1} << 16) - 1;
inline constexpr uint32_t kFoldedReason = kNameMask;  // the index of no name, so its text is "(other)"; 0 is no reason

// The words of kRequestEnd; for an open request also the words of its slot.
//   0 id   1 parent   2 trace high   3 trace low
//   4 route name | reason of the end << 16 | outcome << 32 | size bucket << 40 | labels << 48 | sizes << 52 |
//   stages << 56
//   5 deadline ns   6 output tokens | thread that began it << 32   7 first token ticks after arrival   8 longest token
//   gap, ticks then labels (key | value << 32), sizes (name, double), stages (name << 48 | ticks after arrival), and
//   the bytes of the host's id, with zeros after them
inline constexpr uint32_t kRequestFixedWords = 9;
inline constexpr uint32_t kRequestIdWords = Request::kMaxIdBytes / 8;
inline constexpr uint32_t kRequestMostWords =
    kRequestFixedWords + Request::kMaxLabels + 2 * Request::kMaxSizes + Request::kMaxStages + kRequestIdWords;
inline constexpr uint64_t kRequestNoDetails = (uint64_t{1} << 48) - 1;  // for word 4: without the numbers of details
inline constexpr uint64_t kStageTicksMask = (uint64_t{1} << 48) - 1;

// The fewest argument words of a whole record.
constexpr uint32_t LeastWords(Record record) {
  switch (record) {
    case Record::kRequestBegin:
    case Record::kThreadEnd:
      return 5;
    case Record::kRequestEnd:
      return kRequestFixedWords;
    case Record::kTake:
    case Record::kJoin:
    case Record::kUsage:
      return 4;
    case Record::kBatchEnd:
      return 3;
    case Record::kContext:
    case Record::kBatchContext:
    case Record::kEnqueue:
    case Record::kBatchBegin:
    case Record::kLeave:
    case Record::kTokens:
    case Record::kSubmitted:
      return 2;
    case Record::kCall:
      return 1;
    case Record::kUnreadable:
      break;
  }
  return UINT32_MAX;
}

extern const Site kRequestBeginSite, kRequestEndSite, kContextSite, kBatchContextSite, kEnqueueSite, kTakeSite,
    kBatchBeginSite, kBatchEndSite, kJoinSite, kLeaveSite, kTokensSite, kSubmittedSite, kCallSite, kUsageSite,
    kThreadEndSite;

// The site of BeginScope(Name).
extern const Site kNamedScopeSite;

// The sites of a wait for a condition (WaitArgs and the number of wake-ups in vain), and of the wait for the mutex
// after it. If the wait goes on, its next record begins a tick later and contains the end of this one.
extern const Site kConditionSite, kRelockSite;

// Argument words of an internal record, in the form that detail::Append takes.
struct RecordWords {
  static constexpr bool kFixed = false;
  uint32_t Words() const { return count; }
  void Add(uint64_t word) { words[count++] = word; }
  uint32_t count = 0;
  uint64_t words[56];
};

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_INTERNAL_SITES_H_
