// SPDX-License-Identifier: Apache-2.0
//
// Tells from outside when a process is wedged: looks at it in, a reason out, each once. No system call here: `pitot
// watch` looks, tests play time.
#ifndef PITOT_LIB_SESSION_WEDGE_H_
#define PITOT_LIB_SESSION_WEDGE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pitot/health.h"

namespace pitot::session {

// Why the kernel does not let it run.
enum class Stop : uint8_t { kNone, kSignal, kTracer, kFreezer };

// The health of a process that the kernel may not let run: `health` by its requests, unless it is stopped or frozen.
// Stops by a tracer are short as a rule.
Health HealthWith(Stop stop, const Health& health);

struct WatchLimits {
  int64_t stalled_after_ns = 10'000'000'000;
  // Shorter stops are usual: a debugger, a snapshot of a container.
  int64_t stopped_after_ns = 1'000'000'000;
  // A process without a sign of life that is not stopped: the kernel does not return. With something open its own
  // watcher looks every 50 ms or more often, otherwise every second.
  int64_t silent_after_ns = 1'500'000'000;
  int64_t idle_silent_after_ns = 5'000'000'000;
  // The time after such a gap between looks, or between signs of life, is counted anew: nobody ran meanwhile.
  int64_t look_gap_ns = 1'000'000'000;
  int64_t life_gap_ns = 2'000'000'000;
};

// A look at a living process.
struct WatchLook {
  int64_t now_ns = 0;  // of the watcher's clock
  uint64_t life = 0;   // changes with each sign of life: an event, or a look of the process's own watcher
  int64_t silent_ns = 0;
  bool is_ready = false;  // its own watcher waits for a CPU: few CPUs are no fault of it
  Stop stop = Stop::kNone;
  uint64_t switches = 0;  // while it is stopped: of its first thread, so that two stops differ
  Health health;          // by its requests alone
};

struct Wedge {
  enum class Kind : uint8_t { kStalled, kStopped, kSilent };
  Kind kind = Kind::kStalled;
  uint64_t request = 0;  // 0: none
  std::string text;      // "is stopped by a signal for 1.02 s; idle: nothing is open"
};

// For one process.
class WedgeWatch {
 public:
  explicit WedgeWatch(const WatchLimits& limits) : limits_(limits) {}
  // Returns a wedge once; again after progress. In a long hang one request after the other stalls: the pause between
  // two reports of that doubles, up to 10 minutes. Throws bad_alloc.
  std::optional<Wedge> Note(const WatchLook& look);
  // A wedge that Note returned has its incident.
  void NoteWritten(const Wedge& wedge);
  // Wedges without an incident are found again, unless the process has gone on. The newest 16 are remembered.
  void ForgetUnwritten();
  // Something may be wrong: look again soon.
  bool IsSuspicious() const { return stopped_since_ns_ >= 0 && !is_reported_; }

 private:
  void NoteTime(const WatchLook& look);
  std::optional<Wedge> Find(const WatchLook& look);
  std::optional<Wedge> FindDown(const WatchLook& look);
  std::optional<Wedge> FindStalled(const WatchLook& look);

  const WatchLimits limits_;
  bool has_looked_ = false;
  int64_t looked_ns_ = 0;
  uint64_t life_ = 0;
  Health before_;                // when it was last alive
  int64_t life_ns_ = 0;          // of the watcher's clock: when it was new
  int64_t counted_from_ns_ = 0;  // signs before it are no proof; INT64_MIN: all are
  uint64_t switches_ = 0;
  int64_t stopped_since_ns_ = -1;        // stopped at each look since; -1: not stopped
  int64_t stopped_ns_ = INT64_MIN;       // the last look at which it was
  bool is_reported_ = false;             // stopped or silent, until the next sign of life
  std::map<uint64_t, int64_t> stalled_;  // reported: by request, when
  // Between two reports of stalled requests. No length: there was none.
  struct Pause {
    int64_t begin_ns = 0, length_ns = 0;
  };
  Pause pause_;
  // Has no incident yet.
  struct Unwritten {
    Wedge::Kind kind;
    uint64_t request;
    Pause pause_before;
  };
  std::vector<Unwritten> unwritten_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_WEDGE_H_
