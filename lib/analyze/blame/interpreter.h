// SPDX-License-Identifier: Apache-2.0
//
// Times in which an interpreter ran one thread while others wanted it: garbage collections, and its lock. And the steps
// of tasks that held an event loop. pitot/interpreter.h records them (docs/reference/walk.md#interpreters).
#ifndef PITOT_LIB_ANALYZE_BLAME_INTERPRETER_H_
#define PITOT_LIB_ANALYZE_BLAME_INTERPRETER_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/analyze/why.h"
#include "pitot/model/index.h"

namespace pitot::blame {

class Interpreter {
 public:
  // One thread, which is known, had the interpreter.
  struct Held {
    int64_t begin_ns = 0, end_ns = 0;
    Blame blame = Blame::kHostGil;    // or kHostGc, for stops of all threads as well
    uint32_t thread = model::kNone;   // its row; kNone: it recorded nothing, or is unknown
    uint32_t event = model::kNone;    // a record with the same holder and place
    uint32_t watcher = model::kNone;  // the thread that recorded it, if another
  };

  // O(n log n) in these records. Keeps references to both.
  Interpreter(const model::Trace& trace, const model::RequestIndex& requests);

  // The last such time that began before `by_ns`, ended after `since_ns`, and in which `thread` had to wait; null:
  // there is none. O(log n), and those of the thread's own in between.
  const Held* LastBefore(uint32_t thread, int64_t by_ns, int64_t since_ns) const;
  // How much of a time `thread` had to wait. O(log n), and those in it.
  int64_t HeldNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const;

  // Whether the thread is known to run the interpreter's code: it recorded something through a binding, or had the
  // lock. Others of the process wait for nobody there.
  bool Runs(uint32_t thread) const { return thread < runs_.size() && runs_[thread]; }
  // How long a thread may wait for the interpreter at the end of a wait, and no record shows it: a turn of another, if
  // threads want it at the same time in this trace.
  int64_t UnseenNs() const;

  // Whether a thread that ended a wait then may have wanted the interpreter since `held`: it went on at once, or after
  // the turns of others, whose waits began or ended in between. O(log n), and those.
  bool WentOnAfter(const Held& held, uint32_t thread, int64_t at_ns) const;
  // How much of a time somebody had the lock who is not known: it may have been the thread that wants it. O(log n), and
  // those in it.
  int64_t HeldByUnknownNs(int64_t begin_ns, int64_t end_ns) const;

  bool IsCollection(uint32_t event) const { return Is(event, kCollection); }
  // A stop of all threads, for anything but a recorded collection.
  bool IsStop(uint32_t event) const { return Is(event, kStopped); }
  // A wait of Pitot's own thread for the interpreter: for its lock, or until a stop ends.
  bool IsWatch(uint32_t event) const { return Is(event, kHeld) || IsStop(event); }
  // A long step of an event loop.
  bool IsStep(uint32_t event) const { return Is(event, kStep); }
  bool HasLoop(uint32_t thread) const { return thread < has_loop_.size() && has_loop_[thread]; }
  // The long step of the thread's loop at that moment; kNone: there was none. O(log n).
  uint32_t StepAt(uint32_t thread, int64_t at_ns) const;
  // Whether the request was ready while that step ran: it went on when the loop caught up afterwards.
  bool WasReady(uint32_t request, uint32_t step) const;
  // The request of a step; kNone: none, or it is not in the trace.
  uint32_t RequestOf(uint32_t step) const;

  // "gc-thread, generation 2" of a collection, "cruncher at report.py:88 render" of a lock's holder, "sampler" of
  // the thread that ran while all others were stopped; "" of others.
  std::string Text(uint32_t event) const;

 private:
  enum Kind : uint8_t { kOther, kCollection, kHeld, kStopped, kStep, kResumed, kLoop };
  bool Is(uint32_t event, Kind kind) const {
    return event != model::kNone && kinds_[trace_.events.site[event]] == kind;
  }
  uint64_t Arg(uint32_t event, uint32_t number) const;
  void AddLock(std::vector<Held>* locks);
  static std::vector<Held> Lay(const std::vector<Held>& over, const std::vector<Held>& under);
  bool HeldUpCollection(const Held& stop) const;

  const model::Trace& trace_;
  const model::RequestIndex& requests_;
  std::vector<Kind> kinds_;                          // by site
  std::vector<model::Interval> unknown_;             // in order
  std::vector<Held> held_;                           // in order, apart from each other
  std::vector<std::pair<int64_t, uint32_t>> edges_;  // of recorded waits, and their threads; in order
  std::vector<bool> has_loop_, runs_;                // by thread
  std::vector<std::vector<uint32_t>> steps_;         // by thread, in order
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_INTERPRETER_H_
