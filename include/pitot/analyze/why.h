// SPDX-License-Identifier: Apache-2.0
//
// Attributes the time of one request, to the nanosecond, along the chain of what it waited for last. The question "why
// was this request slow" begins here. pitot/analyze/verdict.h compares the answer with other requests.
//
// The walk goes backwards from the end of the request. At each moment it asks what the request needed last: code of its
// thread, its queue, the batch waiting for more members, a lock and its holder, the GPU and the work on it. Each answer
// is a segment. Segments follow each other from the request's arrival to its end without a gap, so that their lengths
// add up to its latency in whole ns. Time that the trace does not explain has a category of its own (Blame::kUntraced);
// it is never left out.
#ifndef PITOT_ANALYZE_WHY_H_
#define PITOT_ANALYZE_WHY_H_

#include <stdint.h>

#include <memory>
#include <vector>

#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// The category that a stretch of a request's time is blamed on. The numbers are written to files: they are never
// reused, and there are never more than kBlames. "Others" are other requests, their batches, and unattributed work of
// threads.
enum class Blame : uint8_t {
  kNetIn = 0,                // from the network; nothing records it yet
  kAdmissionQueue = 1,       // had arrived, while the thread that began it was at work for others
  kHandoff = 2,              // an idle thread had to wake up for its queue, result or lock
  kQueueWaitOthers = 3,      // in a queue, or on a thread, that was at work for another request
  kBatchWindow = 4,          // its batch waited for more members
  kExecutorBusy = 5,         // the same for another batch; or, in its own batch, for another request
  kHostOncpuPre = 6,         // code before its last batch or GPU work
  kHostOncpuFramework = 7,   // code in its batch, or between its GPU calls
  kHostOncpuPost = 8,        // code after that
  kHostRunqueue = 9,         // its thread could run but got no CPU: others had it, or a quota was spent
  kHostLock = 10,            // another held the lock
  kHostGil = 11,             // the same for an interpreter's lock: its name contains the word "gil"
  kHostGc = 12,              // garbage collection of an interpreter, by any thread, or another stop of its threads
  kHostPagefaultIo = 13,     // waited for input or output, or for memory that was on a disk
  kHostBlockedUnknown = 14,  // slept, or waited for something the trace does not name; also within code
  kLaunchApi = 15,           // in calls that launch GPU work
  kLaunchLatency = 16,       // had been launched, and did not begin yet, though nothing was before it
  kLaunchQueueFull = 17,     // launched, and not yet begun though nothing was ahead
  kAllocStall = 18,          // in calls that allocate or free memory
  kLazyLoadJit = 19,         // in calls that loaded or compiled code, or in code that led to loading it
  kSyncReturn = 20,          // GPU work had ended, and the thread waiting for it had not yet resumed
  kH2d = 21,                 // copies to the device
  kD2h = 22,                 // copies to the host
  kD2dMemset = 23,           // copies within or between devices, and sets
  kGpuExecExpected = 24,     // its kernels, as long as they usually take
  kGpuContention = 25,       // longer, while work of others overlapped them
  kGpuClock = 26,            // longer, while the SM clock was lower
  kGpuExcessUnknown = 27,    // longer, for unknown reasons
  kGpuQueueWaitOthers = 28,  // launched, and work of others was ahead
  kDispatchGap = 29,         // between one of its GPU operations and the next
  kCommExposed = 30,         // collective communication
  kUntraced = 31,            // outside of everything recorded, or not explained by it
};
inline constexpr uint32_t kBlames = 32;
// "queue_wait_others"; "untraced_or_unexplained" for values without an enumerator. Never null.
PITOT_EXPORT const char* BlameName(Blame blame) noexcept;

inline constexpr uint32_t BlameBit(Blame blame) { return uint32_t{1} << static_cast<uint32_t>(blame); }

// Nanoseconds by Blame. All are >= 0; they add up to the latency.
struct BlameVector {
  int64_t ns[kBlames] = {};
  int64_t& operator[](Blame blame) { return ns[static_cast<uint32_t>(blame)]; }
  int64_t operator[](Blame blame) const { return ns[static_cast<uint32_t>(blame)]; }
  int64_t Total() const {
    int64_t total = 0;
    for (const int64_t part : ns) total += part;
    return total;
  }
};

// The culprit: it had what the request waited for. Rows of the trace; model::kNone if there is none.
struct Culprit {
  uint32_t thread = model::kNone;
  uint32_t request = model::kNone;  // the outermost one, for requests within requests
  uint32_t batch = model::kNone;
  uint32_t event = model::kNone;  // the thread's activity, if that was for neither
  uint32_t gpu = model::kNone;    // the activity on the GPU
  bool IsKnown() const { return (thread & request & batch & event & gpu) != model::kNone; }
};

// One step of the walk. Rows of the trace prove the step together; those without meaning here are model::kNone.
struct BlameSegment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Blame blame = Blame::kUntraced;
  uint32_t thread = model::kNone;   // the request was on it; or it took the request from the queue, or launched
  uint32_t event = model::kNone;    // the scope or wait
  uint32_t call = model::kNone;     // of the GPU's API
  uint32_t gpu = model::kNone;      // the request's own GPU operation
  uint32_t handoff = model::kNone;  // the stay in the queue
  uint32_t batch = model::kNone;    // the request was in it, or joined it next
  uint32_t counter = model::kNone;  // tells why code did not run; its time within the segment is unknown
  Culprit by;
};

// The function in which the code of a thread ran, by stacks read meanwhile.
struct StackPlace {
  uint32_t event = model::kNone;  // the record of one such stack; kNone: the function is not known
  uint32_t frame = 0;             // of its frames, the function's
  uint32_t agree = 0;             // stacks with that function
  uint32_t at_line = 0;           // of these, at the same line as this one
  uint32_t asleep = 0;            // stacks in a system call, or otherwise asleep
  uint32_t on_cpu = 0;            // stacks of machine code, read while it ran
  uint32_t count = 0;             // all stacks
  bool is_known() const { return event != model::kNone; }
};

// From `begin_ns` to `end_ns` the request was worked on elsewhere, and its thread did other things. All waits of that
// thread together took at most `slack_ns`: no saving within the detour is worth more.
struct Detour {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t slack_ns = 0;
};

struct RequestBlame {
  uint32_t request = model::kNone;
  // The output token (a row of Trace::tokens, pitot/analyze/tokens.h) if only the time before it counts; kNone: all.
  uint32_t token = model::kNone;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<BlameSegment> segments;  // in order, from begin_ns to end_ns, none empty
  BlameVector blame;                   // the sums of the segments
  std::vector<Detour> detours;         // an outer one follows those inside it
  // Times of the trace that contradict each other and were bent: a GPU operation before its launch, or a result before
  // its cause.
  uint64_t clamps = 0;
  int64_t clamped_ns = 0;
  // Whether the segments can be trusted, by `clamps` and losses. False if threads or GPUs lost events of this time, or
  // if more than BlameOptions::most_clamped of the latency was bent.
  bool is_reliable = true;
  uint64_t losses = 0;  // stretches of this time with lost events
};

struct BlameOptions {
  // A gap between two operations of a stream up to this long is the GPU's own; a longer one is unexplained. HTA's limit
  // for a "kernel wait" is 30 us; 20 us is Pitot's own choice.
  int64_t dispatch_gap_ns = 20'000;
  // A call that waits for a GPU returns within this time after the GPU is done. More than this is the call's own time.
  int64_t sync_return_ns = 50'000;
  // A launch waited for room if it took this many times the median launch while this many operations were ahead. A
  // stream holds 1,024 launches (1,022 in HTA's traces).
  double slow_launch_factor = 8;
  uint32_t full_queue_depth = 1'000;
  // Another thread's call was in the way of such a launch if it lasted for this share of it
  // (docs/reference/walk.md#who-was-in-the-driver).
  double least_in_driver = 0.8;
  // A kernel must be this often in the trace for its median to count as its usual time.
  uint32_t least_samples = 20;
  // A first use in the trace took longer than this, and longer than 99 % of its like that are not first ones
  // (docs/reference/walk.md#first-uses).
  int64_t first_use_ns = 200'000;
  // Code was on a CPU if its thread's counters put at most this much of the stretch off it.
  int64_t least_off_cpu_ns = 20'000;
  // A thread wakes up within this time. More may be a lack of CPUs, if its counters say so.
  int64_t wake_up_ns = 200'000;
  // More clamped time than this share of the latency makes the walk unreliable
  // (docs/reference/walk.md#reliability).
  double most_clamped = 0.01;
  // Polled about every 1,024 steps of indexing and walking, on the thread doing it; true ends it with
  // kResourceExhausted. Null: it is never ended.
  bool (*is_over)(void* context) = nullptr;
  void* is_over_context = nullptr;
};

// The data about a trace that walks need, built once for all of them.
// Threads: any number may read it at once.
class PITOT_EXPORT BlameIndex {
 public:
  BlameIndex() noexcept;
  ~BlameIndex();
  BlameIndex(BlameIndex&& other) noexcept;
  BlameIndex& operator=(BlameIndex&& other) noexcept;

  // Fills `index`. The trace must outlive it and pass FindInconsistency.
  // Errors: kResourceExhausted (no memory, or BlameOptions::is_over).
  // Cost: O(n log n) of the trace's rows; about 60 bytes per event.
  static Status Make(const model::Trace& trace, const BlameOptions& options, BlameIndex* index) noexcept;

  struct Data;
  const Data* data() const noexcept { return data_.get(); }  // null until it was made

 private:
  std::unique_ptr<const Data> data_;
};

// Walks the request of that row back from its end. Fills `blame` unless there is an error.
//
// docs/reference/walk.md lists the rules. For an open request the walk begins at the window's end, on the last thread
// that worked for it.
//
// Threads: any.
// Errors: kInvalidArgument (no such row, or the index was not made), kNotFound (the request's begin or end is not in
//   the trace), kResourceExhausted (no memory, or BlameOptions::is_over), kInternal (the segments did not add up: a
//   defect of Pitot; such a walk is never returned).
// Cost: O(s log n) for s segments.
PITOT_EXPORT Status FindBlame(const BlameIndex& index, uint32_t request, RequestBlame* blame) noexcept;

// Like FindBlame, for the time from the previous token to the one of that row; RequestBlame::token names the row.
// Errors: those of FindBlame; also kNotFound if the previous token is not in the trace.
PITOT_EXPORT Status FindTokenBlame(const BlameIndex& index, uint32_t token, RequestBlame* blame) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_WHY_H_
