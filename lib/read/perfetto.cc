// SPDX-License-Identifier: Apache-2.0
//
// Perfetto's traces (.pftrace), and those of `pitot convert --to perfetto`.
#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/columns.h"
#include "read/formats.h"
#include "read/perfetto_file.h"
#include "read/perfetto_own.h"
#include "read/trace_builder.h"

namespace pitot::read {
namespace {

constexpr int64_t kNoProcess = 0;

// Slices become scopes of their track: a thread's, or one of its own for any other track.
class ForeignTarget final : public PerfettoTarget {
 public:
  explicit ForeignTarget(model::Trace* trace) : builder_(trace) {}

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
    Track& track = tracks_[event.track];
    arrows_ += event.flows.size();
    for (const PerfettoEvent::Extra& extra : event.extra) AddSample(extra.track, event.at_ns, extra.value);
    switch (event.type) {
      case PerfettoEvent::kBegin:
        Begin(event, &track);
        return true;
      case PerfettoEvent::kEnd:
        End(event, &track);
        return true;
      case PerfettoEvent::kInstant:
        builder_.AddEvent(RowOf(event, &track), builder_.Site(SiteKind::kInstant, event.name, event.args),
                          {event.at_ns, 0}, event.args);
        return true;
      case PerfettoEvent::kCounter:
        AddSample(event.track, event.at_ns, event.value);
        return true;
      default:
        return Skip(), true;
    }
  }

  void TakeSwitch(const PerfettoSwitch& change) override {
    Running& running = running_[change.cpu];
    const ChromeValue cpus = {"", "CPUs", true};
    const int64_t process = builder_.Number(cpus);
    if (running.tid != 0 && change.at_ns >= running.since_ns) {
      builder_.AddEvent(builder_.Thread(process, change.cpu), builder_.Site(SiteKind::kScope, running.name),
                        {running.since_ns, change.at_ns - running.since_ns});
    } else if (running.name.empty()) {
      builder_.NameProcess(process, "CPUs");
      builder_.NameThread(process, change.cpu, "CPU " + std::to_string(change.cpu));
    }
    running = {std::string(change.next_name) + " (" + std::to_string(change.next_tid) + ")", change.at_ns,
               change.next_tid};
    ++switches_;
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
    for (auto& [uuid, track] : tracks_) {
      for (const Open& open : track.open) Add(open, kOpenEnd);
    }
    if (clocks.realtime_ns != 0) builder_.SetUnixOffset(clocks.realtime_ns - clocks.trace_ns);
    builder_.Finish(!report->complete);
    report->counts = {{"unused", unused_},
                      {"arrows", arrows_},
                      {"ends_without_begin", ends_},
                      {"switches", switches_},
                      {"gpu", gpu_}};
    builder_.ReportTimes(report);
    if (clocks.realtime_ns == 0) report->lacks.push_back("the date");
    if (gpu_ == 0) report->lacks.push_back("GPU work (the file has no stages of a GPU)");
    if (ends_ != 0)
      AddProblem(base::Plural(ends_, "end") +
                     " of slices had no begin before them: packets of a track are not in the " +
                     "order of time, or its begin was lost",
                 report);
    if (too_deep_ != 0) AddProblem(base::Plural(too_deep_, "slice") + " below 512 others were left out", report);
    if (args_left_out_ != 0)
      AddProblem(base::Plural(args_left_out_, "argument") + " of open slices were left out: they are too long", report);
    if (backwards_ != 0)
      AddProblem(base::Plural(backwards_, "slice") +
                     " ended before its begin: packets of a track are not in the order of time",
                 report);
  }

 private:
  static constexpr int64_t kOpenEnd = INT64_MIN;

  // A slice that has not ended.
  struct Open {
    std::string name;  // as its end may name it
    uint32_t thread = 0, site = 0;
    int64_t begin_ns = 0;
    uint64_t call = 0;   // the GPU work that it caused
    uint64_t bytes = 0;  // of the arguments
    std::vector<std::pair<std::string, bool>> args;
    std::vector<std::string> keys;
  };
  struct Track {
    uint64_t parent = 0;
    std::string name;
    bool has_pid = false, is_thread = false, is_incremental = false;
    int64_t pid = 0, tid = 0;
    double multiplier = 1, sum = 0;
    uint32_t row = model::kNone;
    std::vector<Open> open;
    uint64_t too_deep = 0;  // slices left out, by depth
  };
  struct Running {
    std::string name;
    int64_t since_ns = 0, tid = 0;
  };

  // The process of a track: its own, or that of the nearest above it.
  int64_t ProcessOf(uint64_t uuid) const {
    for (int step = 0; step < 32; ++step) {
      const auto found = tracks_.find(uuid);
      if (found == tracks_.end()) break;
      if (found->second.has_pid) return found->second.pid;
      uuid = found->second.parent;
    }
    return kNoProcess;
  }

  uint32_t RowOf(const PerfettoEvent& event, Track* track) {
    if (track->row != model::kNone) return track->row;
    if (track->is_thread) return track->row = builder_.Thread(track->pid, track->tid);
    const std::string key = "track " + std::to_string(event.track);
    const ChromeValue id = {"", key, true};
    const int64_t process = ProcessOf(event.track), thread = builder_.Number(id);
    std::string name = track->name;
    if (name.empty()) name = track->has_pid ? "(process)" : std::string(event.name);
    builder_.NameThread(process, thread, name);
    return track->row = builder_.Thread(process, thread);
  }

  void Begin(const PerfettoEvent& event, Track* track) {
    Open open;
    open.name = event.name;
    open.thread = RowOf(event, track);
    open.begin_ns = event.at_ns;
    if (!event.submitted.empty()) open.call = event.submitted[0];
    AddArgs(event, &open);
    constexpr size_t kMostOpen = 512;  // as Perfetto's own limit
    if (track->open.size() < kMostOpen) return track->open.push_back(std::move(open));
    open_bytes_ -= open.bytes;
    ++track->too_deep;
    ++too_deep_;
  }
  // Texts of names may be long, and each open slice has copies of them.
  void AddArgs(const PerfettoEvent& event, Open* open) {
    constexpr uint64_t kMostOpenBytes = 64 << 20;
    for (const ChromeValue& arg : event.args) {
      const uint64_t bytes = arg.key.size() + arg.text.size();
      if (open_bytes_ + bytes > kMostOpenBytes) {
        ++args_left_out_;
        continue;
      }
      open->bytes += bytes;
      open_bytes_ += bytes;
      open->keys.emplace_back(arg.key);
      open->args.emplace_back(arg.text, arg.is_text);
    }
  }

  // Ends the innermost slice of that name. Those inside it have ended with it.
  void End(const PerfettoEvent& event, Track* track) {
    if (track->too_deep > 0) {
      --track->too_deep;
      return;
    }
    size_t left = track->open.size();
    while (left > 0 && !event.name.empty() && track->open[left - 1].name != event.name) --left;
    if (left == 0) {
      ++ends_;
      return;
    }
    for (; track->open.size() >= left; track->open.pop_back()) {
      Open& open = track->open.back();
      if (track->open.size() == left) AddArgs(event, &open);
      Add(open, event.at_ns);
      open_bytes_ -= open.bytes;
    }
  }

  void Add(const Open& open, int64_t end_ns) {
    TraceBuilder::Span span = {open.begin_ns, model::kOpen};
    if (end_ns != kOpenEnd) {
      backwards_ += end_ns < open.begin_ns;
      if (__builtin_sub_overflow(end_ns, open.begin_ns, &span.duration_ns)) span.duration_ns = 0;
    }
    if (open.call != 0) {
      builder_.AddCall(open.thread, span, open.name, static_cast<int64_t>(open.call & INT64_MAX));
      return;
    }
    std::vector<ChromeValue> args;
    for (size_t i = 0; i < open.args.size(); ++i)
      args.push_back({open.keys[i], open.args[i].first, open.args[i].second});
    builder_.AddEvent(open.thread, builder_.Site(SiteKind::kScope, open.name, args), span, args);
  }

  void AddSample(uint64_t uuid, int64_t at_ns, double value) {
    Track& track = tracks_[uuid];
    value *= track.multiplier;
    if (track.is_incremental) value = track.sum += value;
    builder_.AddSample(ProcessOf(uuid), track.name.empty() ? "counter" : track.name, at_ns, value);
  }

  TraceBuilder builder_;
  std::unordered_map<uint64_t, Track> tracks_;
  std::unordered_map<uint32_t, Running> running_;               // by CPU
  std::map<std::pair<uint32_t, std::string>, int64_t> queues_;  // of devices
  uint64_t open_bytes_ = 0;                                     // of arguments of open slices
  uint64_t unused_ = 0, arrows_ = 0, ends_ = 0, switches_ = 0, gpu_ = 0, backwards_ = 0, too_deep_ = 0,
           args_left_out_ = 0;
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
    {"requests and batches", "operators"},
    {{"scope", "trace slices with TRACE_EVENT"}, {"kernel", "record a data source of GPU stages (gpu.renderstages)"}},
    RecognizesPerfetto,
    ReadPerfetto};

}  // namespace pitot::read
