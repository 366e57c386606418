// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's traces (.pftrace), and those of `pitot convert --to perfetto`.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "read/formats.h"
#include "read/perfetto_file.h"
#include "read/perfetto_own.h"
#include "read/perfetto_slices.h"
#include "read/trace_builder.h"

namespace pitot::read {
namespace {

constexpr int64_t kNoProcess = 0;

// Slices become scopes of their track: a thread's, or one of its own for any other track. Tracks may be described after
// their events.
class ForeignTarget final : public PerfettoTarget {
 public:
  explicit ForeignTarget(model::Trace* trace) : builder_(trace), slices_(&builder_, trace) {}

  void TakeTrack(const PerfettoTrack& track) override {
    Track& of = tracks_[track.uuid];
    of.parent = track.parent;
    if (!track.name.empty()) of.name = track.name;
    if (track.has_process || track.has_thread) {
      of.pid = track.pid;
      of.has_pid = true;
    }
    if (track.has_thread) {
      of.tid = track.tid;
      of.is_thread = true;
      if (!track.thread_name.empty()) NameThread(track.pid, track.tid, track.thread_name);
    }
    if (track.has_process && !track.process_name.empty()) NameProcess(track.pid, track.process_name);
    if (track.is_counter) {
      of.multiplier = track.multiplier;
      of.is_incremental = track.is_incremental;
    }
  }

  bool TakeEvent(const PerfettoEvent& event) override {
    arrows_ += event.flows.size();
    for (const PerfettoEvent::Extra& extra : event.extra) AddSample(extra.track, event.at_ns, extra.value);
    switch (event.type) {
      case PerfettoEvent::kBegin:
        slices_.Begin(NumberOf(event), event);
        return true;
      case PerfettoEvent::kEnd:
        slices_.End(NumberOf(event), event);
        return true;
      case PerfettoEvent::kInstant:
        builder_.AddEvent(NumberOf(event), builder_.Site(SiteKind::kInstant, event.name, event.args), {event.at_ns, 0},
                          event.args);
        return true;
      case PerfettoEvent::kCounter:
        AddSample(event.track, event.at_ns, event.value);
        return true;
      default:
        return Skip(), true;
    }
  }

  void TakeSwitch(const PerfettoSwitch& change) override {
    uint32_t site = model::kNone;
    if (change.next_tid != 0)
      site =
          builder_.Site(SiteKind::kScope, std::string(change.next_name) + " (" + std::to_string(change.next_tid) + ")");
    switches_.push_back({change.at_ns, change.cpu, site});
  }

  void TakeStage(const PerfettoStage& stage) override {
    TraceBuilder::Work work;
    std::string name(stage.name.substr(0, 6));
    std::transform(name.begin(), name.end(), name.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; });
    work.kind = name == "memcpy"   ? model::GpuKind::kMemcpy
                : name == "memset" ? model::GpuKind::kMemset
                                   : model::GpuKind::kKernel;
    work.name = stage.name;
    const std::string gpu = "GPU " + std::to_string(stage.gpu);
    const uint32_t device = builder_.Device(gpu, gpu);
    const std::string queue = std::to_string(stage.context) + " " + std::string(stage.queue);
    const auto number = queues_.try_emplace({device, queue}, static_cast<int64_t>(queues_.size())).first->second;
    work.stream = builder_.Stream(device, number, stage.queue);
    work.correlation = static_cast<int64_t>(stage.event_id & INT64_MAX);
    work.has_shape = stage.has_launch && work.kind == model::GpuKind::kKernel;
    std::copy(std::begin(stage.grid), std::end(stage.grid), work.shape.grid);
    std::copy(std::begin(stage.block), std::end(stage.block), work.shape.block);
    for (const ChromeValue& extra : stage.extra) {
      const auto value = extra.Number();
      const auto whole = static_cast<uint32_t>(std::clamp<int64_t>(value.value_or(0), 0, UINT32_MAX));
      if (extra.key == "registers_per_thread") work.shape.registers_per_thread = whole;
      if (extra.key == "shared_mem_static") work.shape.static_shared_bytes = whole;
      if (extra.key == "shared_mem_dynamic") work.shape.dynamic_shared_bytes = whole;
    }
    builder_.AddGpu({stage.begin_ns, stage.duration_ns}, work);
    ++gpu_;
  }

  void TakeSample(const PerfettoSample& sample) override {
    builder_.AddSample(kNoProcess, "GPU " + std::to_string(sample.gpu) + ": " + std::string(sample.counter),
                       sample.at_ns, sample.value);
  }

  void TakeAttribute(std::string_view key, std::string_view text, int64_t number) override {
    builder_.AddAttribute(key, text.empty() ? std::to_string(number) : std::string(text));
  }
  void NameProcess(int64_t pid, std::string_view name) override { builder_.NameProcess(pid, name); }
  void NameThread(int64_t pid, int64_t tid, std::string_view name) override { builder_.NameThread(pid, tid, name); }
  void Skip() override { ++unused_; }

  void Finish(const PerfettoClocks& clocks, TraceReport* report) {
    slices_.Finish(Threads());
    AddSwitches();
    NameCounters();
    if (clocks.realtime_ns != 0) builder_.SetUnixOffset(clocks.realtime_ns - clocks.trace_ns);
    builder_.Finish(!report->complete);
    report->counts = {{"unused", unused_},
                      {"arrows", arrows_},
                      {"ends_without_begin", slices_.ends_without_begin()},
                      {"switches", switches_.size()},
                      {"gpu", gpu_}};
    builder_.ReportTimes(report);
    if (clocks.realtime_ns == 0) report->lacks.push_back("the date");
    if (gpu_ == 0) report->lacks.push_back("GPU work (the file has no stages of a GPU)");
    if (slices_.ends_without_begin() != 0)
      AddProblem(base::Plural(slices_.ends_without_begin(), "end") + " of slices had no begin before them: it was lost",
                 report);
    if (slices_.args_left_out() != 0)
      AddProblem(base::Plural(slices_.args_left_out(), "argument") + " of ends were left out: they are too long",
                 report);
  }

 private:
  struct Track {
    uint64_t parent = 0;
    std::string name, first_event;
    bool has_pid = false, is_thread = false, is_incremental = false;
    int64_t pid = 0, tid = 0;
    double multiplier = 1, sum = 0;
    uint32_t number = model::kNone;   // among those with events
    uint32_t counter = model::kNone;  // row
  };
  struct Switch {
    int64_t at_ns;
    uint32_t cpu;
    uint32_t site;  // kNone: idle
  };

  // The process of a track: its own, or that of the nearest above it.
  int64_t ProcessOf(uint64_t uuid) const {
    const Track* track = tracks_.Find(uuid);
    for (int step = 0; step < 32 && track != nullptr; ++step) {
      if (track->has_pid) return track->pid;
      track = tracks_.Find(track->parent);
    }
    return kNoProcess;
  }

  uint32_t NumberOf(const PerfettoEvent& event) {
    Track& track = tracks_[event.track];
    if (track.number != model::kNone) return track.number;
    track.number = static_cast<uint32_t>(with_events_.size());
    track.first_event = event.name;
    with_events_.push_back(event.track);
    return track.number;
  }

  // The row of each track with events.
  std::vector<uint32_t> Threads() {
    std::vector<uint32_t> rows;
    for (const uint64_t uuid : with_events_) {
      const Track& track = tracks_[uuid];
      int64_t process = track.pid, thread = track.tid;
      if (!track.is_thread) {
        const std::string key = "track " + std::to_string(uuid);
        std::string name = track.name;
        if (name.empty()) name = track.has_pid ? "(process)" : track.first_event;
        process = ProcessOf(uuid);
        thread = builder_.Number({"", key, true});
        builder_.NameThread(process, thread, name);
      }
      rows.push_back(builder_.Thread(process, thread));
    }
    return rows;
  }

  // What ran on each CPU until the next switch.
  void AddSwitches() {
    if (switches_.empty()) return;
    std::stable_sort(switches_.begin(), switches_.end(), [](const Switch& a, const Switch& b) {
      return std::pair(a.cpu, a.at_ns) < std::pair(b.cpu, b.at_ns);
    });
    const int64_t process = builder_.Number({"", "CPUs", true});
    builder_.NameProcess(process, "CPUs");
    uint32_t thread = model::kNone;
    for (size_t i = 0; i + 1 < switches_.size(); ++i) {
      const Switch &from = switches_[i], &to = switches_[i + 1];
      if (i == 0 || switches_[i - 1].cpu != from.cpu) {
        builder_.NameThread(process, from.cpu, "CPU " + std::to_string(from.cpu));
        thread = builder_.Thread(process, from.cpu);
      }
      int64_t duration_ns = 0;
      if (from.cpu == to.cpu && from.site != model::kNone &&
          !__builtin_sub_overflow(to.at_ns, from.at_ns, &duration_ns))
        builder_.AddEvent(thread, from.site, {from.at_ns, duration_ns});
    }
  }

  void AddSample(uint64_t uuid, int64_t at_ns, double value) {
    Track& track = tracks_[uuid];
    value *= track.multiplier;
    if (track.is_incremental) value = track.sum += value;
    if (track.counter == model::kNone) {
      track.counter = builder_.NewCounter();
      counters_.push_back(uuid);
    }
    builder_.AddSample(track.counter, at_ns, value);
  }

  // Counters of one name in one process have the names of the tracks above them, or numbers.
  void NameCounters() {
    const auto key = [&](uint64_t uuid) {
      const std::string& name = tracks_[uuid].name;
      return std::pair(ProcessOf(uuid), name.empty() ? "counter" : name);
    };
    std::map<std::pair<int64_t, std::string>, uint64_t> counts, given;
    for (const uint64_t uuid : counters_) ++counts[key(uuid)];
    for (const uint64_t uuid : counters_) {
      auto [process, name] = key(uuid);
      const Track* const parent = tracks_.Find(tracks_[uuid].parent);
      if (counts[{process, name}] > 1 && parent != nullptr && !parent->name.empty()) name = parent->name + ": " + name;
      if (const uint64_t number = ++given[{process, name}]; number > 1) name += " (" + std::to_string(number) + ")";
      builder_.NameCounter(tracks_[uuid].counter, process, name);
    }
  }

  TraceBuilder builder_;
  PerfettoSlices slices_;
  PerfettoTracks<Track> tracks_;
  std::vector<uint64_t> with_events_, counters_;  // tracks
  std::vector<Switch> switches_;
  std::map<std::pair<uint32_t, std::string>, int64_t> queues_;  // of devices
  uint64_t unused_ = 0, arrows_ = 0, gpu_ = 0;
};

// Passes the content to one of two readers: Pitot's own traces say so before their first track.
class AnyPerfettoTarget final : public PerfettoTarget {
 public:
  explicit AnyPerfettoTarget(model::Trace* trace) : foreign_(trace), own_(trace) {}

  void TakeTrack(const PerfettoTrack& track) override {
    has_tracks_ = true;
    target_->TakeTrack(track);
  }
  bool TakeEvent(const PerfettoEvent& event) override { return target_->TakeEvent(event); }
  void TakeSwitch(const PerfettoSwitch& change) override { target_->TakeSwitch(change); }
  void TakeStage(const PerfettoStage& stage) override { target_->TakeStage(stage); }
  void TakeSample(const PerfettoSample& sample) override { target_->TakeSample(sample); }
  void TakeAttribute(std::string_view key, std::string_view text, int64_t number) override {
    if (key == OwnPerfettoTarget::kMark && !has_tracks_) target_ = &own_;
    target_->TakeAttribute(key, text, number);
  }
  void NameProcess(int64_t pid, std::string_view name) override { target_->NameProcess(pid, name); }
  void NameThread(int64_t pid, int64_t tid, std::string_view name) override { target_->NameThread(pid, tid, name); }
  void Skip() override { target_->Skip(); }
  bool LacksEnd() const override { return target_->LacksEnd(); }
  Status Finish(const PerfettoClocks& clocks, TraceReport* report) {
    if (target_ == &own_) return own_.Finish(clocks, report);
    foreign_.Finish(clocks, report);
    return {};
  }

 private:
  ForeignTarget foreign_;
  OwnPerfettoTarget own_;
  PerfettoTarget* target_ = &foreign_;
  bool has_tracks_ = false;
};

bool RecognizesPerfetto(const Head& head) { return IsPerfetto(head.bytes); }

Status ReadPerfetto(const Input& input, model::Trace* trace, TraceReport* report) {
  AnyPerfettoTarget target(trace);
  PerfettoClocks clocks;
  const Status status = ReadPerfettoFile(input, &target, &clocks, report);
  if (!status.ok() && status.code() != StatusCode::kDataLoss) return status;
  const Status made = target.Finish(clocks, report);
  return made.ok() ? status : made;
}

}  // namespace

const Format kPerfettoFormat = {
    "perfetto",
    "Perfetto trace",
    "Perfetto traces",
    "Perfetto",
    "record a data source with events, such as track_event",
    {"requests and batches", "operators", "losses"},
    {{"scope", "trace slices with TRACE_EVENT"}, {"kernel", "record a data source of GPU stages (gpu.renderstages)"}},
    RecognizesPerfetto,
    ReadPerfetto};

}  // namespace pitot::read
