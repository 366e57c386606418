// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk_host.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "analyze/blame/walk_waits.h"
#include "analyze/facts/subjects.h"
#include "base/host_counters.h"
#include "model/parts.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

using facts::Accumulate;

// How late the counters may be. The quota is read every 100 ms (HostOptions::rate_hz) and counts a throttling at its
// end; stolen time is read every second.
constexpr int64_t kLateNs = 200'000'000, kStolenLateNs = 1'100'000'000;

// The mean wait assumed for a major fault: a read anywhere on a disk of 7,200 turns a minute. That is a seek (8.5 ms,
// as data sheets of such disks say) and half a turn (4.2 ms).
constexpr int64_t kFaultNs = 13'000'000;
// A wait nobody doubts: ten times a read of a solid-state disk.
constexpr int64_t kFastFaultNs = 1'000'000;

// A reading may exceed the value possible at its moment by this much; beyond that it belongs to a later moment. Nine
// dumps of busy servers, whose recorder looked at the clock once for all threads, have 52,844 readings. Twelve are
// beyond by 1.3 to 24 ms, and no other by more than 0.14 ms (docs/guide/host.md).
constexpr int64_t kLateReadingNs = 200'000;

// The part of `whole` for `share` of `all` of it, rounded down to whole ns.
int64_t Part(int64_t whole, int64_t share, int64_t all) {
  __extension__ typedef __int128 Wide;
  return all > 0 ? static_cast<int64_t>(static_cast<Wide>(whole) * share / all) : 0;
}

constexpr double kMostValue = 0x1p61;  // the difference of two readings fits an int64_t, whatever a dump says

struct Reading {
  int64_t at_ns, value;
};

// The samples of one counter.
struct Series {
  uint32_t counter = kNone;
  std::vector<Reading> readings;

  // The last reading at or before `at_ns`, and the first at or after it; null: there is none.
  const Reading* By(int64_t at_ns) const {
    const auto after = std::upper_bound(readings.begin(), readings.end(), at_ns,
                                        [](int64_t at, const Reading& reading) { return at < reading.at_ns; });
    return after != readings.begin() ? &*(after - 1) : nullptr;
  }
  const Reading* From(int64_t at_ns) const {
    const auto at = std::lower_bound(readings.begin(), readings.end(), at_ns,
                                     [](const Reading& reading, int64_t when) { return reading.at_ns < when; });
    return at != readings.end() ? &*at : nullptr;
  }
  // The growth between two readings' moments.
  int64_t Grew(int64_t begin_ns, int64_t end_ns) const {
    const Reading *const begin = By(begin_ns), *const end = By(end_ns);
    return begin != nullptr && end != nullptr ? end->value - begin->value : 0;
  }
};

// Bounds readings by the value possible at their moment: at most any later reading and, for time on a CPU, the earlier
// reading plus the time since. Adds the moments of readings beyond that by kLateReadingNs: the reading thread was held
// up after its look at the clock. O(n).
void BoundReadings(bool is_on_cpu, std::vector<Reading>* readings, std::vector<int64_t>* late) {
  std::vector<int64_t> most(readings->size());
  int64_t least_ns = INT64_MAX;
  for (size_t i = most.size(); i-- > 0;) most[i] = least_ns = std::min(least_ns, (*readings)[i].value);
  for (size_t i = 0; i < most.size(); ++i) {
    Reading& reading = (*readings)[i];
    if (is_on_cpu && i > 0) {
      int64_t by_then_ns = most[i - 1];
      Accumulate(&by_then_ns, reading.at_ns - (*readings)[i - 1].at_ns);
      most[i] = std::min(most[i], by_then_ns);
    }
    int64_t tolerated_ns = most[i];
    Accumulate(&tolerated_ns, kLateReadingNs);
    if (reading.value > tolerated_ns) late->push_back(reading.at_ns);
    reading.value = most[i];
  }
}

}  // namespace

bool HasHostUse(const Trace& trace) {
  const model::Parts parts(trace);
  return std::any_of(trace.counters.begin(), trace.counters.end(), [&](const model::CounterRow& counter) {
    return base::IsThreadCounter(parts.Split(trace.strings[counter.name]).own);
  });
}

// The measurement of one thread.
class HostUse::Measurement {
 public:
  uint32_t thread = kNone;
  Series cpu, delay, voluntary, involuntary, major;

  // Adds the moments of readings, taken from outside the thread, that are later than they say.
  void FindLate(std::vector<int64_t>* late) {
    BoundReadings(true, &cpu.readings, late);
    BoundReadings(false, &delay.readings, late);
  }
  // Drops the readings at `late`, in order. The stretches next to them become one.
  void LeaveOut(const std::vector<int64_t>& late) {
    const auto is_late = [&](const Reading& reading) {
      return std::binary_search(late.begin(), late.end(), reading.at_ns);
    };
    std::erase_if(cpu.readings, is_late);
    std::erase_if(delay.readings, is_late);
  }

  Thread Run(const Trace& trace, const std::vector<Piece>& pieces, const GpuOps& gpu, const Interpreter& interpreter,
             const Series& io_pressure, const BlameOptions& options) {
    thread_.delay_counter = delay.counter;
    FindBrackets();
    FindStretches(trace, pieces, gpu, interpreter);
    SpreadDelays();
    Judge();
    Divide();
    BoundFaults(io_pressure);
    DivideUntraced();
    for (Stretch& stretch : thread_.stretches) {
      OffCpu& off = stretch.off;
      if (off.runqueue_ns + off.pagefault_ns + off.blocked_ns < options.least_off_cpu_ns)
        off.runqueue_ns = off.pagefault_ns = off.blocked_ns = 0;
      if (stretch.untraced_runqueue_ns < options.least_off_cpu_ns) stretch.untraced_runqueue_ns = 0;
    }
    return std::move(thread_);
  }

 private:
  // Events counted by the thread itself, from its reading before a stretch to the one after.
  struct Switches {
    int64_t voluntary = 0, involuntary = 0, major_faults = 0;
    bool is_known = false;
  };

  void FindBrackets() {
    for (size_t i = 1; i < delay.readings.size(); ++i) {
      const Reading &begin = delay.readings[i - 1], &end = delay.readings[i];
      thread_.brackets.push_back({begin.at_ns, end.at_ns, end.value - begin.value, 0});
    }
  }

  void FindStretches(const Trace& trace, const std::vector<Piece>& pieces, const GpuOps& gpu,
                     const Interpreter& interpreter) {
    auto bracket = thread_.brackets.begin();
    auto piece = pieces.begin();
    thread_.stretches.reserve(cpu.readings.size());
    for (size_t i = 1; i < cpu.readings.size(); ++i) {
      Stretch stretch;
      stretch.begin_ns = cpu.readings[i - 1].at_ns;
      stretch.end_ns = cpu.readings[i].at_ns;
      const int64_t length_ns = stretch.end_ns - stretch.begin_ns;
      if (length_ns <= 0) continue;
      stretch.cpu_ns = cpu.readings[i].value - cpu.readings[i - 1].value;
      while (piece != pieces.end() && piece->end_ns <= stretch.begin_ns) ++piece;
      stretch.untraced_ns = length_ns;
      for (auto at = piece; at != pieces.end() && at->begin_ns < stretch.end_ns; ++at) {
        const int64_t piece_ns = std::min(at->end_ns, stretch.end_ns) - std::max(at->begin_ns, stretch.begin_ns);
        stretch.untraced_ns -= piece_ns;
        WaitArgs args;
        if (at->call != kNone ? IsWaiting(gpu.ClassOf(at->call)) : ReadWait(trace, at->event, &args)) {
          ++stretch.waits;
        } else {  // without the time in which it had to wait for the interpreter
          const int64_t held_ns = interpreter.HeldNs(thread, std::max(at->begin_ns, stretch.begin_ns),
                                                     std::min(at->end_ns, stretch.end_ns));
          stretch.code_ns += piece_ns - held_ns;
          if (held_ns != 0) ++stretch.waits;
        }
      }
      while (bracket != thread_.brackets.end() && bracket->end_ns <= stretch.begin_ns) ++bracket;
      if (bracket != thread_.brackets.end() && bracket->begin_ns <= stretch.begin_ns) {
        stretch.bracket = static_cast<uint32_t>(bracket - thread_.brackets.begin());
        bracket->off_ns += length_ns - stretch.cpu_ns;
      }
      thread_.stretches.push_back(stretch);
    }
  }

  // The system counts a delay at its end: the part a bracket cannot hold was before it, or before the first.
  void SpreadDelays() {
    std::vector<Bracket>& brackets = thread_.brackets;
    for (size_t i = brackets.size(); i-- > 1;) {
      const int64_t before_ns = std::max<int64_t>(brackets[i].delay_ns - brackets[i].off_ns, 0);
      brackets[i].delay_ns -= before_ns;
      brackets[i - 1].delay_ns += before_ns;
    }
    if (!brackets.empty()) brackets[0].delay_ns = std::min(brackets[0].delay_ns, brackets[0].off_ns);
    for (Bracket& bracket : brackets) bracket.room_ns = std::max<int64_t>(bracket.off_ns - bracket.delay_ns, 0);
  }

  Switches SwitchesIn(const Stretch& stretch) const {
    const Reading *const begin = voluntary.By(stretch.begin_ns), *const end = voluntary.From(stretch.end_ns);
    if (begin == nullptr || end == nullptr) return {};
    return {end->value - begin->value, involuntary.Grew(begin->at_ns, end->at_ns), major.Grew(begin->at_ns, end->at_ns),
            true};
  }

  // Off its CPU, and not for want of one.
  int64_t SleptNs(const Stretch& stretch, const Switches& switches) const {
    if (switches.is_known && switches.voluntary == 0) return 0;
    const int64_t off_ns = std::max<int64_t>(stretch.end_ns - stretch.begin_ns - stretch.cpu_ns, 0);
    if (stretch.bracket == kNone) return off_ns;
    const Bracket& bracket = thread_.brackets[stretch.bracket];
    return off_ns - Part(std::clamp<int64_t>(bracket.delay_ns, 0, bracket.off_ns), off_ns, bracket.off_ns);
  }

  // Code longer than the CPU time did not run all the time.
  void Judge() {
    for (Stretch& stretch : thread_.stretches) {
      OffCpu& off = stretch.off;
      const Switches switches = SwitchesIn(stretch);
      stretch.slept_ns = SleptNs(stretch, switches);
      off.pagefault_counter = major.counter;
      off.blocked_counter = cpu.counter;
      int64_t off_ns = std::max<int64_t>(stretch.code_ns - stretch.cpu_ns, 0);
      stretch.was_preempted = switches.is_known && switches.involuntary > 0;
      if (switches.is_known && switches.voluntary == 0) {
        // It never slept, so wherever it was, it waited for a CPU: also in calls that spin. If it was not switched
        // either, the hypervisor or interrupts took its CPU from under it, and the scheduler counts no delay.
        const int64_t length_ns = stretch.end_ns - stretch.begin_ns;
        off_ns = std::max(off_ns, Part(length_ns - stretch.cpu_ns, stretch.code_ns, length_ns));
        stretch.untraced_runqueue_ns = Part(length_ns - stretch.cpu_ns, stretch.untraced_ns, length_ns);
        stretch.untraced_counter = stretch.was_preempted ? involuntary.counter : cpu.counter;
        if (stretch.was_preempted && stretch.bracket != kNone)
          thread_.brackets[stretch.bracket].delay_ns -= off_ns + stretch.untraced_runqueue_ns;
      } else if (!stretch.was_preempted || stretch.bracket != kNone || switches.voluntary > stretch.waits) {
        if (stretch.bracket != kNone) thread_.brackets[stretch.bracket].open_ns += off_ns;
        if (stretch.bracket != kNone && stretch.was_preempted)
          thread_.brackets[stretch.bracket].untraced_ns += stretch.untraced_ns;
        (switches.major_faults > 0 ? off.pagefault_ns : off.blocked_ns) = off_ns;
        continue;
      }  // otherwise it slept only in its waits
      off.runqueue_ns = off_ns;
      off.runqueue_counter = stretch.was_preempted ? involuntary.counter : cpu.counter;
    }
  }

  // Gives undecided off-CPU time to the run queue, as far as the thread waited for a CPU meanwhile. The rest of that
  // delay is in no code.
  void Divide() {
    std::vector<Bracket>& brackets = thread_.brackets;
    for (Stretch& stretch : thread_.stretches) {
      OffCpu& off = stretch.off;
      int64_t& rest_ns = off.pagefault_ns != 0 ? off.pagefault_ns : off.blocked_ns;
      if (stretch.bracket == kNone || rest_ns == 0) continue;
      const Bracket& bracket = brackets[stretch.bracket];
      off.runqueue_ns = Part(rest_ns, std::clamp<int64_t>(bracket.delay_ns, 0, bracket.open_ns), bracket.open_ns);
      off.runqueue_counter = delay.counter;
      rest_ns -= off.runqueue_ns;
    }
    for (Bracket& bracket : brackets) bracket.delay_ns = std::max<int64_t>(bracket.delay_ns - bracket.open_ns, 0);
  }

  // A few faults do not explain a long sleep. Between two readings of them, the wait for the disk is at most the reads
  // of so many faults, or the growth of the I/O pressure if that is larger. The rest is unknown. A smaller growth does
  // not lower it, because the pressure is a mean over CPUs, weighted by their busy time (the kernel's sched/psi.c). One
  // waiting thread among many running ones is a small part of it.
  void BoundFaults(const Series& io_pressure) {
    std::vector<Stretch>& all = thread_.stretches;
    for (size_t first = 0, last = 0; first < all.size(); first = last) {
      const Reading* const begin = voluntary.By(all[first].begin_ns);
      int64_t sum_ns = 0;
      for (last = first; last < all.size() && (last == first || voluntary.By(all[last].begin_ns) == begin); ++last)
        sum_ns += all[last].off.pagefault_ns;
      if (sum_ns == 0) continue;
      const Reading* const end = voluntary.From(all[first].end_ns);
      const int64_t faults = std::max<int64_t>(major.Grew(begin->at_ns, end->at_ns), 0);
      const int64_t reads_ns = std::min(faults, sum_ns / kFaultNs + 1) * kFaultNs;
      const Reading *const before = io_pressure.By(begin->at_ns), *const after = io_pressure.From(end->at_ns);
      const int64_t pressure_ns = before != nullptr && after != nullptr ? after->value - before->value : 0;
      const int64_t most_ns = std::min(sum_ns, std::max(reads_ns, pressure_ns));
      const bool are_many = faults >= (most_ns + kFastFaultNs - 1) / kFastFaultNs;
      const bool are_proved = are_many || most_ns - most_ns / 2 <= pressure_ns;
      for (size_t i = first; i < last; ++i) {
        OffCpu& off = all[i].off;
        all[i].are_faults_proved = are_proved;
        const int64_t fault_ns = Part(off.pagefault_ns, most_ns, sum_ns);
        off.blocked_ns += off.pagefault_ns - fault_ns;
        off.pagefault_ns = fault_ns;
      }
    }
  }

  // Gives the delay in no code to untraced time, unless the thread only woke up late.
  void DivideUntraced() {
    std::vector<Bracket>& brackets = thread_.brackets;
    for (Stretch& stretch : thread_.stretches) {
      if (stretch.bracket == kNone || !stretch.was_preempted || stretch.untraced_counter != kNone) continue;
      const Bracket& bracket = brackets[stretch.bracket];
      stretch.untraced_runqueue_ns = Part(std::min({bracket.delay_ns, bracket.untraced_ns, bracket.off_ns}),
                                          stretch.untraced_ns, bracket.untraced_ns);
      stretch.untraced_counter = delay.counter;
    }
    for (Bracket& bracket : brackets) bracket.delay_ns -= std::min(bracket.delay_ns, bracket.untraced_ns);
  }

  Thread thread_;
};

HostUse::HostUse(const Trace& trace, const Threads& threads, const GpuOps& gpu, const Interpreter& interpreter,
                 const BlameOptions& options)
    : threads_(trace.threads.size()) {
  if (!HasHostUse(trace)) return;
  std::unordered_map<std::string_view, uint32_t> counters;
  for (uint32_t row = 0; row < trace.counters.size(); ++row)
    counters.emplace(trace.strings[trace.counters[row].name], row);
  const std::vector<uint32_t>& of = trace.samples.counter;
  const auto series = [&](const std::string& name) {
    Series found;
    const auto counter = counters.find(name);
    if (counter == counters.end()) return found;
    found.counter = counter->second;
    const auto [first, last] = std::equal_range(of.begin(), of.end(), found.counter);
    for (auto at = first; at != last; ++at) {
      const auto i = static_cast<size_t>(at - of.begin());
      found.readings.push_back(
          {trace.samples.at_ns[i], static_cast<int64_t>(std::clamp(trace.samples.value[i], -kMostValue, kMostValue))});
    }
    return found;
  };
  const model::Parts parts(trace);
  parts_ = parts.OfThreads();
  std::map<std::pair<uint32_t, int64_t>, uint32_t> with_tid;  // threads, by part and number
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread)
    ++with_tid[{parts_[thread], trace.threads[thread].tid}];
  for (const uint32_t part : parts.All()) {
    const auto of_host = [&](const base::CounterName& what) {
      return series(parts.NameOf(part, base::HostCounter(what)));
    };
    const auto growth = [&](const base::CounterName& what, Sums* values) {
      for (const Reading& reading : of_host(what).readings) values->emplace_back(reading.at_ns, reading.value);
    };
    Host& host = hosts_.emplace_back(Host{part, {}, {}});
    growth(base::kThrottledTime, &host.throttled);
    growth(base::kStolenTime, &host.stolen);
    const Series io_pressure = of_host(base::kIoPressure);
    std::vector<Measurement> measurements;
    std::vector<int64_t> late;
    for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
      const int64_t tid = trace.threads[thread].tid;
      if (parts_[thread] != part) continue;
      if (with_tid[{part, tid}] != 1) continue;  // several threads share it, and the counter may be of any
      const auto of_thread = [&](const base::CounterName& what) {
        return series(parts.NameOf(part, base::ThreadCounter(tid, what)));
      };
      Measurement measurement;
      measurement.thread = thread;
      measurement.cpu = of_thread(base::kOnCpu);
      if (measurement.cpu.readings.size() < 2) continue;
      measurement.delay = of_thread(base::kRunQueueDelay);
      measurement.voluntary = of_thread(base::kVoluntary);
      measurement.involuntary = of_thread(base::kInvoluntary);
      measurement.major = of_thread(base::kMajorFaults);
      measurement.FindLate(&late);
      measurements.push_back(std::move(measurement));
    }
    // A recorder with one look at the clock for all threads was late for the threads after it, too.
    std::sort(late.begin(), late.end());
    for (Measurement& measurement : measurements) {
      measurement.LeaveOut(late);
      threads_[measurement.thread] =
          measurement.Run(trace, threads.Pieces(measurement.thread), gpu, interpreter, io_pressure, options);
    }
  }
}

model::Interval HostUse::KnownOf(uint32_t thread) const {
  if (thread >= threads_.size() || threads_[thread].stretches.empty()) return {0, 0};
  return {threads_[thread].stretches.front().begin_ns, threads_[thread].stretches.back().end_ns};
}

OffCpu HostUse::OfCode(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  OffCpu off;
  if (thread >= threads_.size()) return off;
  const std::vector<Stretch>& all = threads_[thread].stretches;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Stretch& s) { return s.end_ns <= begin_ns; });
  int64_t most[3] = {};
  for (; at != all.end() && at->begin_ns < end_ns; ++at) {
    const int64_t overlap_ns = std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
    const auto take = [&](int64_t of_ns, uint32_t of_counter, int64_t* ns, uint32_t* counter, int64_t* longest_ns) {
      const int64_t part_ns = Part(of_ns, overlap_ns, at->code_ns);
      *ns += part_ns;
      if (part_ns > *longest_ns) *longest_ns = part_ns, *counter = of_counter;
    };
    take(at->off.runqueue_ns, at->off.runqueue_counter, &off.runqueue_ns, &off.runqueue_counter, &most[0]);
    take(at->off.pagefault_ns, at->off.pagefault_counter, &off.pagefault_ns, &off.pagefault_counter, &most[1]);
    take(at->off.blocked_ns, at->off.blocked_counter, &off.blocked_ns, &off.blocked_counter, &most[2]);
  }
  return off;
}

OffCpu HostUse::OfUntraced(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  OffCpu off;
  if (thread >= threads_.size()) return off;
  const std::vector<Stretch>& all = threads_[thread].stretches;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Stretch& s) { return s.end_ns <= begin_ns; });
  int64_t most_ns = 0;
  for (; at != all.end() && at->begin_ns < end_ns; ++at) {
    const int64_t overlap_ns = std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
    const int64_t part_ns = Part(at->untraced_runqueue_ns, std::min(overlap_ns, at->untraced_ns), at->untraced_ns);
    off.runqueue_ns += part_ns;
    if (part_ns > most_ns) most_ns = part_ns, off.runqueue_counter = at->untraced_counter;
  }
  return off;
}

int64_t HostUse::MostSleptNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  if (thread >= threads_.size()) return INT64_MAX;
  const std::vector<Stretch>& all = threads_[thread].stretches;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Stretch& s) { return s.end_ns <= begin_ns; });
  int64_t slept_ns = 0, known_ns = 0;
  for (; at != all.end() && at->begin_ns < end_ns; ++at) {
    const int64_t overlap_ns = std::min(at->end_ns, end_ns) - std::max(at->begin_ns, begin_ns);
    known_ns += overlap_ns;
    slept_ns += std::min(overlap_ns, at->slept_ns);
  }
  return known_ns >= end_ns - begin_ns ? slept_ns : INT64_MAX;
}

int64_t HostUse::MostDelayNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  if (thread >= threads_.size()) return 0;
  const std::vector<Bracket>& all = threads_[thread].brackets;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Bracket& b) { return b.end_ns <= begin_ns; });
  int64_t delay_ns = 0;
  for (; at != all.end() && at->begin_ns < end_ns; ++at) delay_ns += std::max<int64_t>(at->delay_ns, 0);
  return std::min(delay_ns, end_ns - begin_ns);
}

bool HostUse::AreFaultsProved(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  if (thread >= threads_.size()) return false;
  const std::vector<Stretch>& all = threads_[thread].stretches;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Stretch& s) { return s.end_ns <= begin_ns; });
  for (; at != all.end() && at->begin_ns < end_ns; ++at) {
    if (at->off.pagefault_ns != 0 && !at->are_faults_proved) return false;
  }
  return true;
}

int64_t HostUse::ThrottledNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  return MostOf(&Host::throttled, thread, begin_ns, end_ns + kLateNs);
}

int64_t HostUse::StolenNs(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  return MostOf(&Host::stolen, thread, begin_ns, end_ns + kStolenLateNs);
}

int64_t HostUse::MostOf(Sums Host::*sums, uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  int64_t most_ns = 0;
  for (const Host& host : hosts_) {
    if (thread == kNone || parts_[thread] == host.part) most_ns = std::max(most_ns, Grew(host.*sums, begin_ns, end_ns));
  }
  return most_ns;
}

int64_t HostUse::Grew(const Sums& values, int64_t begin_ns, int64_t end_ns) {
  const auto at = [&](int64_t at_ns) {
    const auto after =
        std::partition_point(values.begin(), values.end(), [&](const auto& reading) { return reading.first <= at_ns; });
    return after != values.begin() ? (after - 1)->second : values.empty() ? 0 : values.front().second;
  };
  return at(end_ns) - at(begin_ns);
}

// `most(bracket, taken_ns)`: how much of the delay of a bracket, by its place, of which so much is taken.
template <class Most>
OffCpu HostUse::TakeDelays(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken, const Most& most) const {
  OffCpu off;
  if (thread >= threads_.size()) return off;
  const std::vector<Bracket>& all = threads_[thread].brackets;
  auto at = std::partition_point(all.begin(), all.end(), [&](const Bracket& b) { return b.end_ns <= begin_ns; });
  for (; at != all.end() && at->begin_ns < end_ns; ++at) {
    const auto bracket = static_cast<size_t>(at - all.begin());
    int64_t& taken_ns = (*taken)[bracket];
    const int64_t ns = std::min(most(bracket, taken_ns), end_ns - begin_ns - off.runqueue_ns);
    taken_ns += ns;
    off.runqueue_ns += ns;
  }
  off.runqueue_counter = threads_[thread].delay_counter;
  return off;
}

OffCpu HostUse::OfWakeUp(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken) const {
  return TakeDelays(thread, begin_ns, end_ns, taken, [&](size_t bracket, int64_t taken_ns) {
    return threads_[thread].brackets[bracket].delay_ns - taken_ns;
  });
}

// A delay is counted at its end, so it may have been in the rest of its bracket, or in the bracket before.
OffCpu HostUse::OfWait(uint32_t thread, int64_t begin_ns, int64_t end_ns, Woken* taken) const {
  const auto inside_ns = [&](const Bracket& bracket) {
    return std::max<int64_t>(std::min(bracket.end_ns, end_ns) - std::max(bracket.begin_ns, begin_ns), 0);
  };
  return TakeDelays(thread, begin_ns, end_ns, taken, [&](size_t place, int64_t taken_ns) {
    const std::vector<Bracket>& all = threads_[thread].brackets;
    const Bracket& bracket = all[place];
    int64_t elsewhere_ns = std::max<int64_t>(bracket.off_ns - inside_ns(bracket), 0);
    if (place > 0) {
      const Bracket& before = all[place - 1];
      elsewhere_ns += std::clamp<int64_t>(before.off_ns - inside_ns(before), 0, before.room_ns);
    }
    elsewhere_ns = std::max<int64_t>(elsewhere_ns - taken_ns, 0);  // others of its waits are there
    return std::clamp<int64_t>(bracket.delay_ns - taken_ns - elsewhere_ns, 0, inside_ns(bracket));
  });
}

}  // namespace pitot::blame
