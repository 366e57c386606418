// SPDX-License-Identifier: Apache-2.0
//
// Stacks of threads that were read while a request was late (pitot/stack.h). They say where a thread was, never why
// (docs/reference/walk.md#stacks).
#ifndef PITOT_LIB_ANALYZE_BLAME_STACKS_H_
#define PITOT_LIB_ANALYZE_BLAME_STACKS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/analyze/why.h"

namespace pitot::blame {

class Stacks {
 public:
  // Enough stacks agree to say where the time went.
  static bool IsSure(uint32_t agree, uint32_t count) { return agree >= 3 && 4 * agree >= 3 * count; }

  // The stacks in some time of a thread, and the place that most of them have.
  struct Seen {
    uint32_t count = 0;
    uint32_t agree = 0;             // at that place
    uint32_t asleep = 0;            // of these, in a system call
    uint32_t event = model::kNone;  // one of those that agree; kNone: no place has more than half
    int64_t covered_ns = 0;         // of that time, from the first stack of each stretch on
    bool is_known() const { return event != model::kNone; }
    bool is_sure() const { return Stacks::IsSure(agree, count); }
  };

  // O(n log n) in the stacks, and O(n) in events if there are any. Keeps a reference to the trace.
  explicit Stacks(const model::Trace& trace);

  // Those of a segment that was blocked or not recorded; none for others.
  Seen Of(const BlameSegment& segment) const;
  // Those of all segments of such a part.
  Seen Of(const std::vector<BlameSegment>& segments, Blame part) const;

  // Counters show the code at work; otherwise it may have slept.
  enum class Counters : uint8_t { kKnown, kUnknown };
  // The innermost function in most stacks of code like `at`: the same part, thread and scope. Stacks count that were
  // read in the time of these segments: an interpreter's, or those of machine code if samples of the running thread are
  // among them. With counters, stacks asleep do not count. Known if enough agree, and cover half of that time. Time
  // that is not recorded has a function if the thread ran: in samples of machine code, and in no interpreter.
  StackPlace OfCode(const std::vector<BlameSegment>& segments, const BlameSegment& at, Counters counters) const;
  // "_merge (scheduler.py:412)"; "_merge (scheduler.py)" if it was at several lines.
  std::string Text(const StackPlace& place) const;
  // "", or in a sentence ", in _merge (scheduler.py:412), in 12 of 14 stacks".
  std::string PhraseOf(const StackPlace& place) const;

  // "recv below fetch (app.py:88)", "fetch (app.py:88)", "wait (threading.py:331) below get (app.py:12)".
  std::string Place(uint32_t event) const;
  // Innermost first.
  std::vector<std::string> Frames(uint32_t event) const;
  std::string Call(uint32_t event) const;  // "recv"; "" if it was in none
  // ", in 14 of 15 stacks"; "" if nothing was seen.
  static std::string CountText(const Seen& seen);
  static std::string CountText(uint32_t agree, uint32_t count);

 private:
  // A stack read in the time of a segment, of which this much is left.
  struct Read {
    uint32_t event, segment;
    int64_t rest_ns;
  };
  void Add(const BlameSegment& segment, uint32_t row, std::vector<Read>* reads) const;
  void LeaveOutUnclear(Blame part, std::vector<Read>* reads) const;
  Seen Count(const std::vector<uint32_t>& events) const;
  bool IsSameCode(const BlameSegment& one, const BlameSegment& other) const;
  // Stacks of code, and whether they cover half of it.
  struct CodeRead {
    std::vector<uint32_t> events;
    bool is_covered = false;
  };
  template <class Counts>
  CodeRead ReadCode(const std::vector<BlameSegment>& segments, const BlameSegment& at, const Counts& counts) const;
  StackPlace MostCommon(const std::vector<uint32_t>& events) const;
  uint64_t Arg(uint32_t event, uint32_t number) const;
  std::string Name(uint32_t event, uint32_t number) const;
  bool IsNative(uint32_t event) const;  // a stack of machine code
  bool HasRun(uint32_t event) const;    // it was read while the thread ran
  // The number of the argument with the place's frame.
  uint32_t OwnArg(uint32_t event) const;

  const model::Trace& trace_;
  std::vector<std::vector<uint32_t>> of_threads_;  // events by the thread that was seen, in order; empty: no stacks
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_STACKS_H_
