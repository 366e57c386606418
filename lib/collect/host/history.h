// SPDX-License-Identifier: Apache-2.0
//
// Values of the host: the newest samples, in a ring of fixed size. The sampling thread writes. Keep adds the last
// values and copies the ring under the same lock. AddTo reads the copy.
#ifndef PITOT_LIB_COLLECT_HOST_HISTORY_H_
#define PITOT_LIB_COLLECT_HOST_HISTORY_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "pitot/extend/collector.h"

namespace pitot::host {

// No initialisers, so memory stays untouched until it is written.
struct Sample {
  int64_t at_ns;
  double value;
  int32_t tid;       // 0: a value of the process or the machine
  uint32_t counter;  // a Counter if tid is 0, otherwise a ThreadValue
};
enum ThreadValue : uint32_t {
  kThreadOnCpu,
  kThreadRunQueueDelay,
  kThreadVoluntary,
  kThreadInvoluntary,
  kThreadMajorFaults,
};

// The work of the sampling thread.
struct Rounds {
  uint64_t count = 0;
  int64_t took_ns = 0, longest_ns = 0;
  uint64_t dropped = 0;  // readings of unknown time: prompt.h
  void Add(int64_t ns) {
    ++count;
    took_ns += ns;
    longest_ns = ns > longest_ns ? ns : longest_ns;
  }
};

class History {
 public:
  // Throws when out of memory.
  explicit History(uint64_t memory_bytes);

  // Threads: the sampling thread. `threads_left_out`: threads at work beyond the number sampled.
  void Commit(std::span<const Sample> samples, const Rounds& process, const Rounds& threads,
              uint32_t threads_left_out) noexcept;

  // `now`: values read for this call alone.
  void Keep(int64_t begin_ns, std::span<const Sample> now) noexcept;
  // Never at the same time as Keep.
  void AddTo(TraceBuilder& trace) const;

 private:
  struct State {
    Rounds process, threads;
    uint32_t threads_left_out = 0;
    uint64_t written = 0;  // samples ever written
  };
  void Write(std::span<const Sample> samples) noexcept PITOT_REQUIRES(mutex_);
  const Sample& Kept(uint64_t position) const { return kept_samples_[position % capacity_]; }
  uint64_t OldestKept() const { return kept_.written > capacity_ ? kept_.written - capacity_ : 0; }
  void AddSamples(TraceBuilder& trace) const;
  void AddRounds(TraceBuilder& trace) const;
  void AddMissing(TraceBuilder& trace) const;

  const size_t capacity_;  // samples

  base::Mutex mutex_;
  std::unique_ptr<Sample[]> ring_ PITOT_GUARDED_BY(mutex_);
  State state_ PITOT_GUARDED_BY(mutex_);

  // For Keep and AddTo.
  std::unique_ptr<Sample[]> kept_samples_;  // in the ring's order
  State kept_;
  int64_t begin_ns_ = 0;
};

}  // namespace pitot::host

#endif  // PITOT_LIB_COLLECT_HOST_HISTORY_H_
