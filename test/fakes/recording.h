// SPDX-License-Identifier: Apache-2.0
//
// Recording without a recorder: the gate is open, Pitot's threads do not run, and the test itself takes snapshots.
#ifndef PITOT_TEST_FAKES_RECORDING_H_
#define PITOT_TEST_FAKES_RECORDING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "assemble/assemble.h"
#include "pitot/model/trace.h"
#include "session/calibrate.h"
#include "snapshot/record.h"
#include "snapshot/snapshot.h"
#include "trace/clock.h"
#include "trace/requests.h"
#include "trace/rings.h"

namespace fakes {

struct RecordingOptions {
  uint64_t budget_bytes = 32ull << 20;
  uint64_t max_ring_bytes = 1ull << 20;
  uint64_t min_ring_bytes = 16ull << 10;
  uint64_t max_grown_ring_bytes = 0;
  uint32_t max_open_requests = 256;
  uint64_t reserve_bytes = 8ull << 20;
};

class Recording {
 public:
  explicit Recording(const RecordingOptions& options = {}) {
    bool available = false;
    slow_clock_ = pitot::trace::NeedsSlowClock(pitot::ClockSource::kAuto, &available);
    start_ = pitot::session::CalibrateTicks(slow_clock_);
    ok_ = pitot::trace::OpenRequests(options.max_open_requests) && reserve_.Map(options.reserve_bytes) &&
          pitot::trace::OpenRings(
              {options.budget_bytes, options.max_ring_bytes, options.min_ring_bytes, options.max_grown_ring_bytes},
              slow_clock_);
  }
  ~Recording() {
    pitot::trace::CloseRings();
    pitot::trace::CloseRequests();
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  bool ok() const { return ok_; }
  bool slow_clock() const { return slow_clock_; }
  uint64_t Now() const { return pitot::trace::NowTicks(slow_clock_); }
  const pitot::trace::ClockReading& start() const { return start_; }
  pitot::snapshot::Reserve reserve() const { return reserve_.Whole(); }

  // Valid until the next snapshot.
  pitot::snapshot::Snapshot Snapshot(uint64_t window_begin_ticks = 0) const {
    pitot::snapshot::Snapshot snapshot;
    pitot::snapshot::TakeSnapshot(start_, slow_clock_, window_begin_ticks, {}, reserve_.Whole(), &snapshot);
    return snapshot;
  }
  pitot::model::Trace Trace(uint64_t window_begin_ticks = 0) const {
    return pitot::assemble::Assemble(Snapshot(window_begin_ticks));
  }

 private:
  bool slow_clock_ = false;
  bool ok_ = false;
  pitot::trace::ClockReading start_;
  pitot::snapshot::ReserveMemory reserve_;
};

// Plays many threads on one. Their rings belong to the recording, so each recording needs a VirtualThreads of its own.
class VirtualThreads {
 public:
  VirtualThreads() : own_(pitot::detail::t_ring) {}
  // The calling thread becomes itself again.
  ~VirtualThreads() { pitot::detail::t_ring = own_; }
  VirtualThreads(const VirtualThreads&) = delete;
  VirtualThreads& operator=(const VirtualThreads&) = delete;

  // From here on the calling thread is the `index`-th, made if it is new. False if it got no ring.
  bool Become(size_t index) {
    while (rings_.size() <= index) rings_.push_back(nullptr);
    const std::string name = "thread " + std::to_string(index);
    rings_[index] = pitot::trace::SwitchThreadForTesting(rings_[index], name.c_str());
    return rings_[index] != nullptr;
  }
  pitot::trace::ThreadRing* ring(size_t index) const { return rings_[index]; }

 private:
  pitot::detail::Ring* own_;
  std::vector<pitot::trace::ThreadRing*> rings_;
};

// A record copied from a ring.
struct RawRecord {
  uint64_t site;
  uint64_t begin_ticks, end_ticks;
  std::vector<uint64_t> args;
};

// The records of a copy, oldest first.
inline std::vector<RawRecord> Records(const pitot::snapshot::RingCopy& copy) {
  std::vector<RawRecord> records;
  pitot::snapshot::RecordCursor cursor(copy.first, copy.last, copy.now_ticks);
  pitot::snapshot::Record record;
  while (cursor.Next(&record)) {
    records.push_back({record.site, record.begin_ticks, record.end_ticks,
                       std::vector<uint64_t>(record.args, record.args + record.arg_words)});
  }
  return {records.rbegin(), records.rend()};
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_RECORDING_H_
