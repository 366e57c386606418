// SPDX-License-Identifier: Apache-2.0
//
// The part of a recording that goes into an incident.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/message.h"
#include "collect/cupti/memory_names.h"
#include "collect/cupti/recording.h"
#include "trace/names.h"

namespace pitot::cupti {
namespace {

// Adds records to a trace. Rows of the tables become rows of the trace when they are first needed.
class RowAdder {
 public:
  // All must outlive it.
  RowAdder(const Tables& tables, const ApiCalls& calls, const std::map<uint32_t, DeviceFacts>& facts,
           TraceBuilder* trace)
      : tables_(tables),
        api_calls_(calls),
        facts_(facts),
        trace_(*trace),
        streams_(tables.streams.rows().size(), kNotYet),
        names_(tables.names.names().size(), kNotYet),
        shapes_(tables.shapes.rows().size(), kNotYet) {}

  void Add(const GpuRecord& record) {
    switch (record.activity) {
      case Activity::kCall:
        return trace_.Add(GpuCall{record.begin_ns, record.duration_ns, static_cast<int64_t>(record.value),
                                  CallOf(record), record.correlation});
      case Activity::kOverhead:
        return trace_.AddOverhead(record.begin_ns, record.duration_ns, trace_.AddText(OverheadName(record.detail)));
      case Activity::kJit:
        return trace_.AddOverhead(record.begin_ns, record.duration_ns, trace_.AddText("compiling PTX"));
      case Activity::kKernel:
        return AddWork(record, GpuKind::kKernel, NameOf(record.name), ShapeOf(record.detail));
      case Activity::kMemcpy:
        return AddWork(record, GpuKind::kMemcpy, CopyOf(record.detail));
      case Activity::kMemset:
        return AddWork(record, GpuKind::kMemset, trace_.AddText(MemoryName(record.detail)));
      case Activity::kGraph:
        return AddWork(record, GpuKind::kGraph);
    }
  }

  // The loss is of any of the device's streams; which, nobody knows.
  void Add(const Loss& loss) {
    trace_.Add(GpuLoss{loss.begin_ns, loss.end_ns, kNoRow, trace_.AddText(loss.reason), loss.records,
                       loss.device != kNoDevice ? DeviceOf(loss.device) : kNoRow});
  }

  // Whether nodes of graphs were added without their scopes.
  bool has_bare_nodes() const { return has_bare_nodes_; }

 private:
  static constexpr uint32_t kNotYet = kNoRow - 1;

  void AddWork(const GpuRecord& record, GpuKind kind, uint32_t name = 0, uint32_t shape = kNoRow) {
    GpuActivity activity;
    activity.kind = kind;
    activity.name = name;
    activity.shape = shape;
    activity.begin_ns = record.begin_ns;
    activity.duration_ns = record.duration_ns;
    activity.stream = StreamOf(record.stream);
    activity.correlation = record.correlation;
    activity.graph = record.graph;
    activity.node = record.node;
    activity.scope_path = PathOf(record.scope_path);
    has_bare_nodes_ = has_bare_nodes_ || (record.node != 0 && record.scope_path == 0);
    activity.bytes = record.value;
    trace_.Add(activity);
  }

  uint32_t DeviceOf(uint32_t ordinal) {
    const auto [device, is_new] = devices_.try_emplace(ordinal, 0);
    if (is_new) {
      const DeviceFacts& facts = facts_.at(ordinal);
      device->second = trace_.AddDevice({.ordinal = ordinal,
                                         .name = trace_.AddText(facts.name.c_str()),
                                         .multiprocessors = facts.multiprocessors,
                                         .threads_per_multiprocessor = facts.threads_per_multiprocessor,
                                         .blocks_per_multiprocessor = facts.blocks_per_multiprocessor,
                                         .registers_per_multiprocessor = facts.registers_per_multiprocessor,
                                         .shared_bytes_per_multiprocessor = facts.shared_bytes_per_multiprocessor,
                                         .uuid = trace_.AddText(facts.uuid.c_str())});
    }
    return device->second;
  }
  uint32_t StreamOf(uint32_t row) {
    uint32_t& stream = streams_[row];
    if (stream == kNotYet) {
      const StreamKey& key = tables_.streams.rows()[row];
      stream = trace_.AddStream(key.device != kNoDevice ? DeviceOf(key.device) : kNoRow, key.context, key.stream);
    }
    return stream;
  }
  uint32_t NameOf(uint32_t row) {
    if (names_[row] == kNotYet) names_[row] = trace_.AddText(tables_.names.names()[row].c_str());
    return names_[row];
  }
  uint32_t ShapeOf(uint32_t row) {
    if (shapes_[row] == kNotYet) {
      const KernelShape& shape = tables_.shapes.rows()[row];
      shapes_[row] = trace_.AddShape(shape.grid, shape.block, shape.static_shared_bytes, shape.dynamic_shared_bytes,
                                     shape.local_bytes_per_thread, shape.registers);
    }
    return shapes_[row];
  }
  uint32_t PathOf(uint32_t name) {
    const auto [path, is_new] = paths_.try_emplace(name, 0);
    if (is_new && name != 0) path->second = TextOf(name);
    return path->second;
  }
  uint32_t CallOf(const GpuRecord& record) {
    const auto [call, is_new] = calls_.try_emplace(record.detail, 0);
    if (is_new) call->second = TextOf(api_calls_.NameOf(DomainOf(record), CallbackOf(record)).index);
    return call->second;
  }
  uint32_t CopyOf(uint32_t detail) {
    const auto [copy, is_new] = copies_.try_emplace(detail, 0);
    if (is_new) copy->second = trace_.AddText(CopyName(detail).c_str());
    return copy->second;
  }
  uint32_t TextOf(uint32_t name) { return trace_.AddText(std::string(pitot::trace::NameText(name)).c_str()); }

  const Tables& tables_;
  const ApiCalls& api_calls_;
  const std::map<uint32_t, DeviceFacts>& facts_;
  TraceBuilder& trace_;
  std::vector<uint32_t> streams_, names_, shapes_;                           // by row of the tables
  std::unordered_map<uint32_t, uint32_t> devices_, copies_, paths_, calls_;  // by ordinal, detail or name
  bool has_bare_nodes_ = false;
};

}  // namespace

void Recording::Keep(int64_t begin_ns) noexcept {
  missing_from_ns_ = withheld_from_ns_ = 0;
  kept_begin_ns_ = begin_ns;
  bool is_complete = false;
  {
    // Collect what CUPTI has by now.
    const base::MutexLock lock(&mutex_);
    const uint64_t asked = ++rounds_asked_;
    changed_.NotifyAll();
    is_complete = HangingNs() == 0 && AwaitRound(asked, environment_.keep_patience_ns) && is_round_whole_;
  }
  kept_end_ns_ = base::ClockNs(CLOCK_MONOTONIC);
  if (!is_complete) missing_from_ns_ = std::max(begin_ns, drained_ns_.load()), why_missing_ = "not decoded in time";
  // Asked before the records are pinned, so those read meanwhile are among them. They are missing here only, not
  // forever.
  if (const int64_t unread_ns = engine_->pool->OldestUnreadNs(); is_complete && unread_ns < kept_end_ns_)
    withheld_from_ns_ = std::max(begin_ns, unread_ns);
  try {
    history_->Pin(begin_ns, &pinned_);
  } catch (const std::bad_alloc&) {
    pinned_.Release();
    missing_from_ns_ = begin_ns, why_missing_ = "no memory";
  }
}

// Adds the depths. A depth without a sign of CUPTI may not have been in force, so it is shown as scopes.
Recording::Kept Recording::AddDepths(TraceBuilder& trace) {
  Kept kept = Kept::kShallow;
  deep_until_ns_ = 0;
  std::vector<DepthChange> changes;
  {
    const base::MutexLock lock(&mutex_);
    changes.assign(depths_.begin(), depths_.end());
  }
  for (size_t i = 0; i < changes.size(); ++i) {
    const int64_t begin_ns = std::max(changes[i].at_ns, kept_begin_ns_);
    const int64_t end_ns = i + 1 < changes.size() ? std::min(changes[i + 1].at_ns, kept_end_ns_) : kept_end_ns_;
    if (begin_ns >= end_ns) continue;
    const bool is_deep = changes[i].depth != Depth::kScopes;
    trace.AddDepth(begin_ns, end_ns, changes[i].is_heard ? changes[i].depth : Depth::kScopes);
    if (is_deep) kept = std::max(kept, changes[i].is_heard ? Kept::kDeep : Kept::kUnheard);
    if (is_deep && changes[i].is_heard) deep_until_ns_ = end_ns;
  }
  return kept;
}

// Adds losses that the history does not know: the records may be there the next time.
void Recording::AddMissing(TraceBuilder& trace) const {
  const auto add = [&](int64_t begin_ns, int64_t end_ns, const char* why) {
    if (begin_ns != 0 && begin_ns < end_ns) trace.Add(GpuLoss{begin_ns, end_ns, kNoRow, trace.AddText(why), 0});
  };
  add(missing_from_ns_, kept_end_ns_, why_missing_);
  add(withheld_from_ns_, deep_until_ns_, "not handed over by CUPTI yet");
}

// Why there are no kernels, and the remedy; "" if the requested depth explains it.
std::string Recording::WhyNoKernels(Kept kept) const {
  char text[320];
  if (const int64_t ns = HangingNs(); ns != 0) {
    std::snprintf(text, sizeof text,
                  "CUPTI has not answered for %.1f s%srestart the process (the kernel's log may say why the driver "
                  "hangs)",
                  static_cast<double>(ns) / 1e9, kRemedy);
    return text;
  }
  if (kept == Kept::kDeep) return {};
  if (std::string why = control_->WhyNothing(); !why.empty()) return why;
  if (control_->mode() == Mode::kReady && expected_.load(std::memory_order_relaxed) == Depth::kAuto) return kNotAsked;
  if (kept == Kept::kUnheard) return "CUPTI asked for no buffer meanwhile: no GPU worked, or " + control_->WhySilent();
  if (asked_.load(std::memory_order_relaxed) == 0 || MayRecord()) return {};
  if (control_->needs_whole_kinds())
    return std::string(
               "CUDA calls can be recorded only all together here, at about 15 % for the life of the process (PyTorch "
               "has profiled, or CUPTI is called after CUDA)") +
           kRemedy + "set CuptiOptions::lasting_cost_percent = 100, or fix the depth";
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  if (percent < 0)
    return std::string("the lasting cost of CUPTI is not forecast yet") + kRemedy +
           "wait for the first seconds of work, or set CuptiOptions::lasting_cost_percent = 100";
  std::snprintf(text, sizeof text,
                "CUPTI would cost %.1f %% for the life of the process (forecast), above "
                "CuptiOptions::lasting_cost_percent = %g%sset "
                "that to 100, or fix the depth",
                percent, lasting_cost_percent_, kRemedy);
  return text;
}

// Adds the lasting costs of CUPTI's first call and of recording kernels, with the forecast. A forecast without the cost
// is an attribute of its own.
void Recording::AddLastingCost(TraceBuilder& trace) {
  const bool has_recorded = control_->has_recorded();
  std::string cost = Forecast(has_recorded);
  if (!has_recorded && !cost.empty())
    trace.AddAttribute("cupti.lasting_cost_forecast", std::exchange(cost, "").c_str());
  if (control_->has_given())
    cost += std::string(cost.empty() ? "" : "; ") +
            "CUPTI was called: this costs for the life of the process, by an unmeasured amount";
  if (!cost.empty()) trace.AddAttribute("cupti.lasting_cost", cost.c_str());
}

// The lasting cost of recording kernels: its forecast, and whether it is there. "": neither.
std::string Recording::Forecast(bool is_there) const {
  if (!is_there && (asked_.load(std::memory_order_relaxed) == 0 || lasting_cost_percent_ >= kAnyLastingCost)) return {};
  const double percent = lasting_percent_.load(std::memory_order_relaxed);
  char text[256];
  if (percent < 0) {
    std::snprintf(
        text, sizeof text, "%s",
        is_there ? "kernels were recorded in this process: launches cost more for its life; the amount was not forecast"
                 : "not known yet: no kernels at the automatic depth until then");
  } else {
    const char* const then = is_there ? "kernels were recorded, so the cost lasts for the life of the process"
                             : percent > lasting_cost_percent_ ? "no kernels at the automatic depth"
                                                               : "kernels may be recorded";
    std::snprintf(text, sizeof text,
                  "%.1f %% forecast, %s CuptiOptions::lasting_cost_percent (%g): %s; extrapolated from the cost of a "
                  "launch on one H100",
                  percent, percent > lasting_cost_percent_ ? "above" : "within", lasting_cost_percent_, then);
  }
  return text;
}

// Adds the clock steps in the kept window, and those that left records in it unplaced.
void Recording::AddClockSteps(TraceBuilder& trace) {
  uint64_t steps = 0, records = 0;
  int64_t by_ns = 0;
  {
    const base::MutexLock lock(&mutex_);
    for (const ClockStep& step : clock_steps_) {
      if (std::max(step.at_ns, step.until_ns) < kept_begin_ns_) continue;
      ++steps, records += step.records, by_ns = step.by_ns;
    }
  }
  if (steps == 0) return;
  char times[48] = "", text[192];
  if (steps > 1)
    std::snprintf(times, sizeof times, " %llu times, the last time", static_cast<unsigned long long>(steps));
  // Steps below a millisecond are shown, too.
  const int digits = std::llabs(by_ns) < 1'000'000 ? 6 : 3;
  std::snprintf(text, sizeof text, "CLOCK_REALTIME stepped%s by %+.*f s; %llu record%s could not be placed", times,
                digits, static_cast<double>(by_ns) / 1e9, static_cast<unsigned long long>(records),
                records != 1 ? "s" : "");
  trace.AddAttribute("cupti.clock", text);
}

void Recording::AddReasons(TraceBuilder& trace, Kept kept, bool has_bare_nodes) {
  DecodeCounts counts;
  uint64_t names_refused, shapes_refused, streams_refused;
  {
    const base::MutexLock lock(&mutex_);
    counts = counts_;
    names_refused = names_refused_;
    shapes_refused = shapes_refused_;
    streams_refused = streams_refused_;
  }
  const auto add_count = [&](const char* key, uint64_t count) {
    if (count != 0) trace.AddAttribute(key, std::to_string(count).c_str());
  };
  const BufferCounts buffers = engine_->pool->counts();
  trace.AddAttribute("cupti.version", std::to_string(engine_->api.version).c_str());
  const CallSource source = control_->call_source();
  // CUPTI makes no records of calls if CUDA was in use before, which the driver does not always tell.
  const bool lacks_calls = source == CallSource::kRecords && counts.calls == 0 && awaits_calls_.load();
  std::string reason = control_->Reason();
  if (lacks_calls)
    reason += std::string(reason.empty() ? "" : "; ") +
              "calls are not recorded, and GPU work is not tied to requests: PyTorch's profiler is in the process, and "
              "CUPTI makes no records of calls, as happens if CUDA was in use before the collector was added";
  if (has_bare_nodes && source == CallSource::kCallbacks && control_->has_begun_late())
    reason += std::string(reason.empty() ? "" : "; ") +
              "graphs captured before CUPTI was first called carry no scopes: set CuptiOptions::attach = kAtStart";
  if (!reason.empty()) trace.AddAttribute("cupti", reason.c_str());
  AddLastingCost(trace);
  if (const std::string why = WhyNoKernels(kept); !why.empty()) trace.AddAttribute("cupti.not_recorded", why.c_str());
  static constexpr const char* kSources[] = {"not recorded", "API callbacks", "API records"};
  trace.AddAttribute("cupti.calls", kSources[lacks_calls ? 0 : static_cast<int>(source)]);
  add_count("cupti.records", counts.records);
  add_count("cupti.bad_timestamps", counts.bad_timestamps);
  AddClockSteps(trace);
  add_count("cupti.clock_error_ns", static_cast<uint64_t>(clock_error_ns_.load(std::memory_order_relaxed)));
  add_count("cupti.calls_missed", engine_->calls.missed() - missed_before_);
  add_count("cupti.unknown_records", counts.unknown);
  add_count("cupti.unreadable_bytes", counts.unreadable_bytes);
  add_count("cupti.foreign_buffers", buffers.foreign - before_.foreign);
  add_count("cupti.buffers_written_off", buffers.written_off - before_.written_off);
  add_count("cupti.buffers_unplaced", buffers.unplaced);
  add_count("cupti.names_refused", names_refused);
  add_count("cupti.shapes_refused", shapes_refused);
  add_count("cupti.streams_refused", streams_refused);
  add_count("cupti.graph_nodes_forgotten", engine_->scopes.forgotten() - forgotten_before_);
}

std::map<uint32_t, DeviceFacts> Recording::Devices() {
  const base::MutexLock lock(&mutex_);
  return devices_;
}

void Recording::AddTo(TraceBuilder& trace) {
  struct Unpin {
    ~Unpin() { pinned->Release(); }
    History::Pinned* pinned;
  } unpin{&pinned_};
  const std::map<uint32_t, DeviceFacts> devices = Devices();
  RowAdder adder(tables_, engine_->calls, devices, &trace);
  pinned_.ForEach([&](const GpuRecord& record) { adder.Add(record); });
  for (const Loss& loss : pinned_.losses()) adder.Add(loss);
  const Kept kept = AddDepths(trace);
  AddMissing(trace);
  AddReasons(trace, kept, adder.has_bare_nodes());
}

}  // namespace pitot::cupti
