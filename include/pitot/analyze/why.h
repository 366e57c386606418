// SPDX-License-Identifier: Apache-2.0
//
// Where the time of one request went, to the nanosecond, along the chain of what it waited for last: the question "why
// was this request slow" begins here. pitot/analyze/verdict.h compares the answer with other requests.
//
// The walk goes backwards from the end of the request. At each moment it asks what the request needed last: code of the
// thread that it was on, the queue that it was in, the batch that waited for more members, a lock and who held it, the
// GPU and whose work was on it. Each answer is a segment; segments follow each other from the request's arrival to its
// end without a gap, so that their lengths add up to its latency in whole ns. What the trace does not say is a category
// of its own (Blame::kUntraced), never left out.
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

// What a stretch of a request's time is blamed on. The numbers are written to files: they are never reused, and there
// are never more than kBlames. "Others" are other requests, their batches, and what threads do for nobody.
enum class Blame : uint8_t {
  kNetIn = 0,                // from the network; nothing records it yet
  kAdmissionQueue = 1,       // had arrived, and the thread that began it was at work for others
  kHandoff = 2,              // was in a queue, or its result or lock was there, and an idle thread had to wake up
  kQueueWaitOthers = 3,      // in a queue, or on a thread, while that was at work for another request
  kBatchWindow = 4,          // its batch waited for more members
  kExecutorBusy = 5,         // the same for another batch; or, in its own batch, for another request
  kHostOncpuPre = 6,         // code before its last batch or GPU work
  kHostOncpuFramework = 7,   // code in its batch, or between its calls of the GPU
  kHostOncpuPost = 8,        // code after that
  kHostRunqueue = 9,         // its thread could run and got no CPU: others had it, or a quota was spent
  kHostLock = 10,            // a lock was held by another
  kHostGil = 11,             // the same of an interpreter's: locks whose name has the word "gil"
  kHostGc = 12,              // garbage collection; nothing records it yet
  kHostPagefaultIo = 13,     // waited for input or output, or for memory that had to be read from a disk
  kHostBlockedUnknown = 14,  // slept, or waited for what the trace does not name; in code, too
  kLaunchApi = 15,           // in calls that launch GPU work
  kLaunchLatency = 16,       // had been launched, and did not begin yet, though nothing was before it
  kLaunchQueueFull = 17,     // a launch waited for room
  kAllocStall = 18,          // in calls that allocate or free memory
  kLazyLoadJit = 19,         // in calls that loaded or compiled code, or in code that led to loading it
  kSyncReturn = 20,          // GPU work had ended, and the thread that waited for it did not go on yet
  kH2d = 21,                 // copies to the device
  kD2h = 22,                 // and back
  kD2dMemset = 23,           // within devices, between them, and sets
  kGpuExecExpected = 24,     // its kernels, for as long as they usually take
  kGpuContention = 25,       // longer, while work of others overlapped them
  kGpuClock = 26,            // longer, while the SM clock was lower
  kGpuExcessUnknown = 27,    // longer, nobody knows why
  kGpuQueueWaitOthers = 28,  // had been launched, and work of others was before it
  kDispatchGap = 29,         // between one of its GPU operations and the next
  kCommExposed = 30,         // collective communication
  kUntraced = 31,            // outside of all that was recorded, or not explained by it
};
inline constexpr uint32_t kBlames = 32;
// "queue_wait_others"; "untraced_or_unexplained" for what no enumerator names. Never null.
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

// Who or what had what the request waited for: rows of the trace, model::kNone where there is none.
struct Culprit {
  uint32_t thread = model::kNone;
  uint32_t request = model::kNone;  // the outermost one, of calls within requests
  uint32_t batch = model::kNone;
  uint32_t event = model::kNone;  // what the thread did, where that was for neither
  uint32_t gpu = model::kNone;    // what was on the GPU
  bool IsKnown() const { return (thread & request & batch & event & gpu) != model::kNone; }
};

// One step of the walk. Rows are of the trace, model::kNone where they mean nothing; together they prove the step.
struct BlameSegment {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  Blame blame = Blame::kUntraced;
  uint32_t thread = model::kNone;   // that the request was on; that took it from the queue; that launched
  uint32_t event = model::kNone;    // the scope or wait
  uint32_t call = model::kNone;     // of the GPU's API
  uint32_t gpu = model::kNone;      // the request's own operation on the GPU
  uint32_t handoff = model::kNone;  // the stay in the queue
  uint32_t batch = model::kNone;    // that the request was in or joined next
  uint32_t counter = model::kNone;  // that says why code did not run; when in the segment's code is not known
  Culprit by;
};

// From `begin_ns` to `end_ns` it was worked on elsewhere, while its thread did other things and waited for no more than
// `slack_ns` of it, all its waits together: no saving within it is worth more.
struct Detour {
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t slack_ns = 0;
};

struct RequestBlame {
  uint32_t request = model::kNone;
  // Of the time before that output token alone (a row of Trace::tokens, pitot/analyze/tokens.h); kNone: of all of it.
  uint32_t token = model::kNone;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<BlameSegment> segments;  // in order, from begin_ns to end_ns, none empty
  BlameVector blame;                   // what they add up to
  std::vector<Detour> detours;         // an outer one after those in it
  // What had to be bent, because times of the trace contradict each other: a GPU operation before its launch, a result
  // before its cause.
  uint64_t clamps = 0;
  int64_t clamped_ns = 0;
  // Of `clamps` and losses: whether what the segments say can be trusted. False if threads or GPUs lost events of this
  // time, or more than BlameOptions::most_clamped of the latency was bent.
  bool is_reliable = true;
  uint64_t losses = 0;  // stretches of this time in which events were lost
};

struct BlameOptions {
  // What is between two operations of a stream is the GPU's own doing up to here, else unexplained. HTA's limit for a
  // "kernel wait" is 30 us; 20 us are what analyzers.md section 2.3 proposes.
  int64_t dispatch_gap_ns = 20'000;
  // A call that waits for a GPU returns within this after that is done; what takes longer is the call's own time.
  int64_t sync_return_ns = 50'000;
  // A launch waited for room where it took so many times the median launch while so many operations were ahead. A
  // stream holds 1,024 launches (1,022 were seen).
  double slow_launch_factor = 8;
  uint32_t full_queue_depth = 1'000;
  // Another thread's call was in the way of such a launch if it lasted for this share of it (analyzers.md, 2.5).
  double least_in_driver = 0.8;
  // How often a kernel must be in the trace for its median to say how long it usually takes.
  uint32_t least_samples = 20;
  // What is done for the first time in the trace is known by taking longer than this, and than 99 % of its like that
  // are not (analyzers.md, 2.5).
  int64_t first_use_ns = 200'000;
  // Code was on a CPU if, as far as counters of its thread say, no more than this of a stretch of it was not.
  int64_t least_off_cpu_ns = 20'000;
  // A thread wakes up within this; what takes longer may be want of a CPU, where its counters say so.
  int64_t wake_up_ns = 200'000;
  // More clamped time than this share of the latency makes the walk unreliable (analyzers.md, 2.3).
  double most_clamped = 0.01;
  // Asked about every 1,024 steps of indexing and walking, on the thread that does it: true ends it with
  // kResourceExhausted. Null: nobody is asked.
  bool (*is_over)(void* context) = nullptr;
  void* is_over_context = nullptr;
};

// What walks need to know of a trace; built once for all of them. Threads: any number may read it at once.
class PITOT_EXPORT BlameIndex {
 public:
  BlameIndex() noexcept;
  ~BlameIndex();
  BlameIndex(BlameIndex&& other) noexcept;
  BlameIndex& operator=(BlameIndex&& other) noexcept;

  // Fills `index`. The trace must outlive it and pass FindInconsistency.
  // Errors: kResourceExhausted (no memory, or BlameOptions::is_over). Cost: O(n log n) of the trace's rows; about 60
  // bytes for each event.
  static Status Make(const model::Trace& trace, const BlameOptions& options, BlameIndex* index) noexcept;

  struct Data;
  const Data* data() const noexcept { return data_.get(); }  // null until it was made

 private:
  std::unique_ptr<const Data> data_;
};

// Walks the request of that row back from its end. Fills `blame`, but for an error.
//
// The rules are C1 to C6 and G1 to G4 of Pitot's design (docs/reference/why.md). Of an open request the walk begins at the
// window's end, on the thread that did something for it last.
//
// Threads: any. Errors: kInvalidArgument (no such row, an index that was not made), kNotFound (the request's begin or
// end is not in the trace), kResourceExhausted (no memory, or BlameOptions::is_over), kInternal (the segments did not
// add up: a defect of Pitot; it never says something that does not add up). Cost: O(s log n), of s segments.
PITOT_EXPORT Status FindBlame(const BlameIndex& index, uint32_t request, RequestBlame* blame) noexcept;

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_WHY_H_
