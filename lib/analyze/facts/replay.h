// SPDX-License-Identifier: Apache-2.0
//
// Plays a window again with some things faster: what would that have saved? Dependencies come from the trace. A call
// waits for the thread's call before (and the code between the two). A call that waits also waits for the last
// operation that ended before it did, or that its thread launched. GPU work waits for its launch, for the work before
// it on its stream, and for work on another stream that ended just before it began. Waits between threads (queues,
// locks) are not played: other threads run as they ran. Requests do not come any sooner either: while none is open,
// only GPUs can be faster.
#ifndef PITOT_LIB_ANALYZE_FACTS_REPLAY_H_
#define PITOT_LIB_ANALYZE_FACTS_REPLAY_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "pitot/model/indexes.h"

namespace pitot::facts {

// The classes of time on a path.
enum class PathClass : uint8_t {
  kCompute = 0,
  kCommunication = 1,
  kCopies = 2,     // and sets
  kLaunch = 3,     // from a call to the work it launched, if that waited for nothing else
  kDispatch = 4,   // between operations on GPUs
  kReturn = 5,     // from the end of the awaited work to the end of the call waiting for it
  kApi = 6,        // other calls
  kHost = 7,       // code between calls
  kNoRequest = 8,  // any of these but GPU work, while the trace has requests and none was open
  kEnd = 9,        // after the last call and work
};
inline constexpr uint32_t kPathClasses = 10;
const char* PathClassName(PathClass of);  // "compute"

// How long things take, as a share of their recorded time.
struct Pace {
  std::array<double, kPathClasses> of{1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  model::StringId kernel = 0;  // 0: none
  double of_kernel = 1;
  const std::vector<double>* of_rows = nullptr;  // by row of GPU work, instead of its class; must outlive the run
  bool without_waits = false;                    // calls that wait for GPUs return at once
};

// The chain of awaited things, from the end of the window back to its beginning.
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
  // How long the window takes at a pace; its recorded length at the default pace. Things that take no time at a pace
  // still wait for the same things. O(n).
  int64_t Run(const Pace& pace) { return Play(pace); }
  Path FindPath();

 private:
  struct Op {
    int64_t begin_ns, end_ns;                                                        // as recorded
    uint32_t row, call = model::kNone, before = model::kNone, other = model::kNone;  // ops, except for the call
    PathClass of;
    int64_t lag_ns = 0;  // since everything it waits for was there
    PathClass lag_of = PathClass::kDispatch;
    int64_t quiet_ns = 0;  // of that lag, without any request
  };
  struct Call {
    int64_t begin_ns, end_ns;
    uint32_t anchor = model::kNone;   // the call of its thread before it, or around it
    uint32_t awaited = model::kNone;  // op: the last to end
    int64_t early_ns = 0;             // how much it seems to end before that, by clocks
    // Time without any request: of the code before it; and of its own time, or of the part after the awaited work.
    int64_t quiet_before_ns = 0, quiet_ns = 0;
    uint32_t first_other = 0, last_other = 0;  // of others_: ops of other streams it waits for, too
  };
  // Steps in an order that has everything a step waits for before it.
  struct Step {
    int64_t at_ns;
    enum Kind : uint8_t { kCallEnd = 0, kCallBegin = 1, kOp = 2 } kind;
    uint32_t index;
  };
  void AddCalls(const model::Indexes& indexes);
  void FindAwaited(const model::GpuWaits& waits, uint32_t row, uint32_t launched, Call* call);
  void AddOps();
  int64_t Play(const Pace& pace);
  class WayBack;  // of FindPath
  enum class Bound : uint8_t { kNothing, kCall, kBefore, kOther };
  int64_t Ready(const Op& op, Bound* bound_by) const;
  int64_t QuietNs(int64_t begin_ns, int64_t end_ns) const;  // without any request
  int64_t AwaitedUntil(const Call& call) const;             // as recorded

  const model::Trace& trace_;
  model::Intervals quiet_;         // times of the window without any request, if the trace has any
  std::vector<int64_t> quiet_ns_;  // the sum before each of them
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

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_REPLAY_H_
