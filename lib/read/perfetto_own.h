// SPDX-License-Identifier: Apache-2.0
//
// Makes a trace of a Perfetto trace by Pitot (lib/serialize/perfetto.cc).
#ifndef PITOT_LIB_READ_PERFETTO_OWN_H_
#define PITOT_LIB_READ_PERFETTO_OWN_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"
#include "pitot/read/trace.h"
#include "read/own_rows.h"
#include "read/perfetto_file.h"

namespace pitot::read {

class OwnPerfettoTarget final : public PerfettoTarget {
 public:
  static constexpr std::string_view kMark = "pitot_layout";  // an attribute

  explicit OwnPerfettoTarget(model::Trace* trace) : trace_(*trace), rows_(trace) {}

  void TakeTrack(const PerfettoTrack& track) override;
  bool TakeEvent(const PerfettoEvent& event) override;
  void TakeAttribute(std::string_view key, std::string_view text, int64_t number) override;
  void Skip() override {}
  bool LacksEnd() const override { return has_end_mark_ && !has_ended_; }
  Status Finish(const PerfettoClocks& clocks, TraceReport* report);

 private:
  enum class Table : uint8_t {
    kIgnored,
    kEvents,
    kCalls,
    kGpu,
    kRequests,
    kStages,
    kAsyncs,
    kBatches,
    kDepths,
    kOperatorDepths,
    kOverheads
  };
  // A row whose end follows.
  struct Open {
    Table table = Table::kIgnored;
    uint32_t row = model::kNone;
    uint32_t item = 0;  // which stage
  };
  struct Track {
    enum Kind : uint8_t { kOther, kProcess, kThread, kDevice, kStream, kCounter } kind = kOther;
    uint64_t parent = 0;
    std::string name, unit;
    uint32_t row = model::kNone;
    std::vector<Open> open;
  };

  void TakeGpuTrack(const PerfettoTrack& track, Track* of);
  bool Begin(const PerfettoEvent& event, const Track& home, Track* track);
  void End(int64_t at_ns, Track* track);
  Open AddOfThread(const PerfettoEvent& event, uint32_t thread);
  Open AddCall(const PerfettoEvent& event, uint32_t thread);
  Open AddWork(const PerfettoEvent& event, uint32_t stream);
  Open AddOfProcess(const PerfettoEvent& event, const Track& track);
  Open AddRequest(const PerfettoEvent& event, const Track& track);
  Open AddBatch(const PerfettoEvent& event, const Track& track);
  Open AddHandoff(const PerfettoEvent& event);
  Open AddRecording(const PerfettoEvent& event, const Track& track);
  void AddLoss(const PerfettoEvent& event, const Track& home, const Track& track);
  void AddSample(const PerfettoEvent& event, const Track& home, Track* track);

  const Track* ParentOf(const Track& track) const;
  uint32_t RequestOf(uint64_t correlation);
  uint32_t BatchOf(std::string_view id);
  uint32_t ThreadOf(int64_t number) const;
  int64_t NumberOf(const PerfettoEvent& event, std::string_view key) const;

  model::Trace& trace_;
  OwnRows rows_;
  PerfettoTracks<Track> tracks_;
  std::vector<ChromeValue> args_;                                 // of an event
  std::unordered_map<int64_t, uint32_t> threads_;                 // by Pitot's number
  std::map<std::pair<uint32_t, std::string>, uint32_t> streams_;  // by device and name
  std::unordered_map<uint64_t, uint32_t> requests_;               // by correlation
  std::unordered_map<uint64_t, uint32_t> batches_;                // by id
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, size_t> gpu_losses_;
  std::vector<std::pair<std::string, int64_t>> device_facts_;
  bool has_end_mark_ = false;  // the file would end with a mark
  bool has_ended_ = false;
};

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_PERFETTO_OWN_H_
