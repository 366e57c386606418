// SPDX-License-Identifier: Apache-2.0
//
// Decodes the packets of a Perfetto trace, for perfetto_file.cc.
#ifndef PITOT_LIB_READ_PERFETTO_PACKETS_H_
#define PITOT_LIB_READ_PERFETTO_PACKETS_H_

#include <array>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/wire_reader.h"
#include "read/perfetto_file.h"

namespace pitot::read {

class PerfettoPackets {
 public:
  PerfettoPackets(PerfettoTarget* target, PerfettoClocks* clocks, TraceReport* report)
      : target_(*target), clocks_(*clocks), report_(*report) {}

  // False if the packet is damaged.
  bool Take(std::string_view packet) { return Take(packet, false); }
  uint64_t without_state() const { return without_state_; }
  uint64_t lost() const { return lost_; }
  // Events of another clock than the trace's, before a snapshot tied the two.
  uint64_t untied() const { return clock_of_.empty() ? 0 : untied_; }

 private:
  // Texts by their ids, which most writers count from 1. The first text of an id counts.
  class Names {
   public:
    void Add(uint64_t id, std::string_view text);
    std::string_view operator[](uint64_t id) const;

   private:
    std::vector<std::string> from_1_;
    std::unordered_map<uint64_t, std::string> others_;
  };
  struct Kernel {
    std::string name, demangled;
    std::vector<std::string> args;  // messages, because their names may follow
  };
  // What packets of a writer refer to.
  struct Sequence {
    bool has_state = false;
    uint64_t default_track = 0, default_clock = 0;
    std::vector<uint64_t> extra_tracks, extra_double_tracks;
    Names event_names, annotation_names, texts, specifications, argument_names;
    Names gpu_counters;  // descriptors, as written
    std::unordered_map<uint64_t, Kernel> kernels;
  };
  // Values of other counters in an event, and their tracks.
  struct Extra {
    std::vector<double> values;
    std::vector<uint64_t> tracks;
  };
  // A clock: what it said, and the trace's clock at that time.
  struct Clock {
    int64_t at = 0, trace_ns = 0, multiplier = 1;
    bool is_incremental = false;
  };

  bool Take(std::string_view packet, bool is_packed);
  Sequence& SequenceOf(uint32_t id);
  static void Intern(std::string_view message, Names* names);
  bool TakePacked(std::string_view packed);
  bool TakeSnapshot(std::string_view message, uint32_t sequence);
  void TakeDefaults(std::string_view message, Sequence* sequence);
  void TakeInterned(std::string_view message, Sequence* sequence);
  bool TakeTrack(std::string_view message);
  bool TakeEvent(std::string_view message, int64_t at_ns, const Sequence& sequence);
  void AddExtra(const Extra& extra, const std::vector<uint64_t>& default_tracks);
  void TakeAnnotation(std::string_view message, const std::string& prefix, int depth, const Sequence& sequence);
  bool TakeFtrace(std::string_view message);
  ChromeValue Argument(std::string_view message, const Sequence& sequence);
  bool TakeStage(std::string_view message, int64_t at_ns, const Sequence& sequence);
  bool TakeCounters(std::string_view message, int64_t at_ns, const Sequence& sequence);
  void TakeAttributes(std::string_view message);
  void TakeProcessTree(std::string_view message);
  bool TimeOf(uint64_t timestamp, uint64_t clock, uint32_t sequence, int64_t* at_ns);
  template <class T> std::string_view Digits(T value);
  std::string_view Pointer(uint64_t value);

  PerfettoTarget& target_;
  PerfettoClocks& clocks_;
  TraceReport& report_;
  std::unordered_map<uint32_t, Sequence> sequences_;
  Sequence* last_sequence_ = nullptr;
  uint32_t last_sequence_id_ = 0;
  std::map<std::pair<uint32_t, uint64_t>, Clock> clock_of_;  // by sequence (0: of all) and id
  uint64_t trace_clock_ = 6;
  std::unordered_map<uint64_t, std::string> gpu_counters_;  // by id, of all sequences
  PerfettoEvent event_;
  Extra extra_, extra_double_;    // of the event
  std::deque<std::string> made_;  // texts of the event
  uint64_t without_state_ = 0, lost_ = 0, untied_ = 0, packed_bytes_ = 0, unpacked_bytes_ = 0;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_PERFETTO_PACKETS_H_
