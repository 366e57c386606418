// SPDX-License-Identifier: Apache-2.0
//
// A window played again with some things faster: what would it have saved? What waits for what is taken from the trace:
// a call for the thread's call before (and the code between the two), a call that waits for the last thing that ended
// before it did or that its thread launched, GPU work for its launch, for what was before it on its stream, and for
// what ended on another stream just before it began. That other threads wait for each other (queues, locks) is not in
// it: they run as they ran. Nor do requests come any sooner: while none is open, only GPUs can be faster.
#ifndef PITOT_LIB_ANALYZE_FACTS_REPLAY_H_
#define PITOT_LIB_ANALYZE_FACTS_REPLAY_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "pitot/model/indexes.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// What a path's time is spent in.
enum class PathClass : uint8_t {
  kCompute = 0,
  kCommunication = 1,
  kCopies = 2,     // and sets
  kLaunch = 3,     // from a call to the work that it launched, where that waited for nothing else
  kDispatch = 4,   // between things on GPUs
  kReturn = 5,     // from the end of what was waited for to the end of the call that waited
  kApi = 6,        // other calls
  kHost = 7,       // code between calls
  kNoRequest = 8,  // any of these but what GPUs did, while the trace has requests and none was open
  kEnd = 9,        // after the last call and work
};
inline constexpr uint32_t kPathClasses = 10;
const char* PathClassName(PathClass of);  // "compute"

// How long things take, as a part of what they took.
struct Pace {
  std::array<double, kPathClasses> of{1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  model::StringId kernel = 0;  // 0: none
  double of_kernel = 1;
  const std::vector<double>* of_rows = nullptr;  // by row of what GPUs did, instead of its class; must outlive the run
  bool without_waits = false;                    // calls that wait for GPUs return at once
};

// The chain of what each had to wait for, from the end back to the beginning.
struct Path {
  int64_t longest_launch_ns = 0;
  std::array<int64_t, kPathClasses> ns{};      // add up to the window
  std::map<model::StringId, int64_t> kernels;  // of kCompute and kCommunication, by name
  std::vector<uint32_t> gpu_rows;              // on it, latest first
};

class Replay {
 public:
  // O(n log n). Both must outlive this.
  Replay(const model::Trace& trace, const model::Indexes& indexes);
  // How long the window takes at a pace; as long as it did at none. Things that a pace makes take no time wait all the
  // same for what they waited for. O(n).
  int64_t Run(const Pace& pace) { return Play(pace); }
  Path FindPath();

 private:
  struct Op {
    int64_t begin_ns, end_ns;                                                        // as recorded
    uint32_t row, call = model::kNone, before = model::kNone, other = model::kNone;  // ops, but the call
    PathClass of;
    int64_t lag_ns = 0;  // from when all that it waits for was there
    PathClass lag_of = PathClass::kDispatch;
    int64_t quiet_ns = 0;  // of that lag, without any request
  };
  struct Call {
    int64_t begin_ns, end_ns;
    uint32_t anchor = model::kNone;   // the call of its thread that it comes after, or in
    uint32_t awaited = model::kNone;  // op: the last to end
    int64_t early_ns = 0;             // that it seems to end before that, by clocks
    // Without any request: of the code before it; of its own time, or that after what it waited for.
    int64_t quiet_before_ns = 0, quiet_ns = 0;
    uint32_t first_other = 0, last_other = 0;  // of others_: ops of other streams that it waits for, too
  };
  // In the order in which all that something waits for comes before it.
  struct Step {
    int64_t at_ns;
    enum Kind : uint8_t { kCallEnd = 0, kCallBegin = 1, kOp = 2 } kind;
    uint32_t index;
  };
  void AddCalls(const model::Indexes& indexes);
  void FindAwaited(const model::GpuWaits& waits, uint32_t row, uint32_t launched, Call* call);
  void AddOps();
  int64_t Play(const Pace& pace);
  enum class Bound : uint8_t { kNothing, kCall, kBefore, kOther };
  int64_t Ready(const Op& op, Bound* bound_by) const;
  int64_t QuietNs(int64_t begin_ns, int64_t end_ns) const;  // without any request
  int64_t AwaitedUntil(const Call& call) const;             // as recorded

  const model::Trace& trace_;
  model::Intervals quiet_;         // times of the window without any request, where the trace has any
  std::vector<int64_t> quiet_ns_;  // all before each of them
  std::vector<Call> calls_;        // by row
  std::vector<uint32_t> others_;
  std::vector<Op> ops_;  // by begin
  std::vector<uint32_t> op_of_row_;
  std::vector<Step> steps_;
  struct Times {
    int64_t begin_ns = 0, end_ns = 0;
  };
  std::vector<Times> call_times_, op_times_;  // of the last play
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_REPLAY_H_
