// SPDX-License-Identifier: Apache-2.0
//
// Reads a Perfetto trace (.pftrace): packets of many writers, each with names that it wrote once, and clocks of its
// own.
#ifndef PITOT_LIB_READ_PERFETTO_FILE_H_
#define PITOT_LIB_READ_PERFETTO_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/read/trace.h"
#include "pitot/status.h"
#include "read/chrome_event.h"
#include "read/input.h"

namespace pitot::read {

// A track's descriptor. Empty parts are not in it.
struct PerfettoTrack {
  uint64_t uuid = 0, parent = 0;
  std::string_view name;
  bool has_process = false, has_thread = false, is_counter = false, is_incremental = false;
  int64_t pid = 0, tid = 0;
  int64_t sort_index = 0;  // of the thread
  std::string_view process_name, thread_name, unit;
  double multiplier = 1;
};

// A reader's tracks by their ids. Most events are of the track of the event before.
template <class Track> class PerfettoTracks {
 public:
  Track& operator[](uint64_t uuid) {
    if (last_ == nullptr || last_uuid_ != uuid) last_ = &tracks_[uuid];
    last_uuid_ = uuid;
    return *last_;
  }
  const Track* Find(uint64_t uuid) const {
    const auto found = tracks_.find(uuid);
    return found == tracks_.end() ? nullptr : &found->second;
  }

 private:
  std::unordered_map<uint64_t, Track> tracks_;
  Track* last_ = nullptr;
  uint64_t last_uuid_ = 0;
};

// A TrackEvent. Views are valid until the next packet.
struct PerfettoEvent {
  enum Type : uint8_t { kUnspecified = 0, kBegin = 1, kEnd = 2, kInstant = 3, kCounter = 4 };
  uint64_t default_track = 0;  // of its sequence
  int64_t at_ns = 0;
  uint64_t type = kUnspecified;
  uint64_t track = 0;
  std::string_view name;
  std::vector<ChromeValue> args;
  std::vector<uint64_t> flows;
  std::vector<uint64_t> submitted;  // the GPU work that it caused, by its ids
  uint64_t correlation = 0;
  double value = 0;  // of a counter
  struct Extra {
    uint64_t track;
    double value;
  };
  std::vector<Extra> extra;  // of other counters
};

// Scheduling: from now on `next` runs on the CPU.
struct PerfettoSwitch {
  uint32_t cpu = 0;
  int64_t at_ns = 0;
  int64_t next_tid = 0;  // 0: idle
  std::string_view next_name;
};

// A stage of a GPU's work.
struct PerfettoStage {
  int64_t begin_ns = 0, duration_ns = 0;
  uint64_t event_id = 0, gpu = 0, context = 0;
  std::string_view queue, name;
  std::vector<ChromeValue> extra;
  uint32_t grid[3] = {0, 0, 0}, block[3] = {0, 0, 0};
  bool has_launch = false;
};

struct PerfettoSample {
  uint64_t gpu = 0;
  std::string_view counter;
  int64_t at_ns = 0;
  double value = 0;
};

class PerfettoTarget {
 public:
  virtual ~PerfettoTarget() = default;
  virtual void TakeTrack(const PerfettoTrack& track) = 0;
  // False for one that says too little.
  virtual bool TakeEvent(const PerfettoEvent& event) = 0;
  virtual void TakeSwitch(const PerfettoSwitch&) {}
  virtual void TakeStage(const PerfettoStage&) {}
  virtual void TakeSample(const PerfettoSample&) {}
  virtual void TakeAttribute(std::string_view key, std::string_view text, int64_t number) = 0;
  virtual void NameProcess(int64_t, std::string_view) {}
  virtual void NameThread(int64_t, int64_t, std::string_view) {}
  virtual void Skip() = 0;  // a packet that says nothing about time
  // After the last packet: whether its writer would have put another one behind it.
  virtual bool LacksEnd() const { return false; }
};

// What the clocks of the file say at its last snapshot.
struct PerfettoClocks {
  int64_t trace_ns = 0;                                        // the trace's clock
  int64_t realtime_ns = 0, monotonic_ns = 0, boottime_ns = 0;  // 0: not in the file
};

// Whether the bytes begin like a Perfetto trace.
bool IsPerfetto(std::string_view bytes);

// Fills the report's complete, events, events_bad and problems. kDataLoss, with the reason, if the file is cut off or
// damaged. Limits: 64 MiB a packet; packed ones are unpacked up to that.
Status ReadPerfettoFile(const Input& input, PerfettoTarget* target, PerfettoClocks* clocks, TraceReport* report);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_PERFETTO_FILE_H_
