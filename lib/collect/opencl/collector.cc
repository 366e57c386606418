// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "base/memory_option.h"
#include "base/message.h"
#include "collect/opencl/layer.h"
#include "pitot/collect/opencl.h"
#include "trace/names.h"
#include "trace/process.h"

namespace pitot::opencl {
namespace {

using base::Error;
using base::Format;

// By Lost.
constexpr const char* kLossReasons[kLostReasons] = {"OpenCL queue without a place", "OpenCL command without a slot",
                                                    "OpenCL gave no times", "OpenCL command failed"};
constexpr const char* kLossCounts[kLostReasons] = {"opencl.no_queue", "opencl.no_slot", "opencl.no_times",
                                                   "opencl.failed"};

// The lane of each row, from 1 on; 0: its queue keeps the order of its commands. Commands of an out-of-order queue do
// not wait for each other, but those of a stream do. So each lane is a stream, on which a command was enqueued after
// the one before it had ended. Throws bad_alloc.
std::vector<uint32_t> LanesOf(std::span<const Work> work) {
  std::vector<uint32_t> lanes(work.size()), rows(work.size());
  std::iota(rows.begin(), rows.end(), 0u);
  std::erase_if(rows, [&](uint32_t row) { return !work[row].is_unordered; });
  const auto key = [&](uint32_t row) { return std::tuple(work[row].queue, work[row].enqueued_ns, row); };
  std::sort(rows.begin(), rows.end(), [&](uint32_t a, uint32_t b) { return key(a) < key(b); });
  std::multimap<int64_t, uint32_t> ends;  // when each lane of the queue is free
  uint32_t queue = 0;
  for (const uint32_t row : rows) {
    if (std::exchange(queue, work[row].queue) != work[row].queue) ends.clear();
    const bool is_free = !ends.empty() && ends.begin()->first <= work[row].enqueued_ns;
    lanes[row] = is_free ? ends.begin()->second : static_cast<uint32_t>(ends.size()) + 1;
    if (is_free) ends.erase(ends.begin());
    ends.emplace(work[row].begin_ns + work[row].duration_ns, lanes[row]);
  }
  return lanes;
}

// Adds what a recording kept to a trace.
class RowAdder {
 public:
  RowAdder(Recording* recording, TraceBuilder* trace) : recording_(*recording), trace_(*trace) {}

  // All queues, because a call may wait for one whose work is not done yet.
  void AddQueues() {
    recording_.queues.ForEach([this](const Queues::Place& place) {
      if (!place.is_unordered) StreamRow(place.number, place.device, 0);
    });
  }
  void AddWork() {
    const std::span<const Work> work = recording_.work();
    const bool has_lanes = std::any_of(work.begin(), work.end(), [](const Work& row) { return row.is_unordered; });
    const std::vector<uint32_t> lanes = has_lanes ? LanesOf(work) : std::vector<uint32_t>();
    for (size_t row = work.size(); row-- > 0;) Add(work[row], has_lanes ? lanes[row] : 0);  // newest first
  }
  void AddLosses() {
    const Recording::Kept& kept = recording_.kept();
    for (uint8_t device = 0; device < kMaxDevices; ++device)
      AddLoss("OpenCL overwritten", device, kept.begin_ns,
              std::min(recording_.overwritten_until_ns(device), kept.end_ns), 0);
    recording_.losses.ForEach(kept.begin_ns, kept.end_ns, kept.session,
                              [&](Lost why, uint8_t device, int64_t begin_ns, int64_t end_ns, uint64_t records) {
                                AddLoss(kLossReasons[static_cast<uint32_t>(why)], device, begin_ns, end_ns, records);
                              });
    // A loss without a device would cast doubt on all verdicts, also in a process that never used OpenCL.
    const uint8_t devices = recording_.queues.device_count();
    for (uint32_t i = 0; i < kept.pause_count; ++i) {
      for (uint8_t device = 0; device < devices; ++device)
        AddLoss("OpenCL paused by the host", device, std::max(kept.pauses[i].begin_ns, kept.begin_ns),
                kept.pauses[i].end_ns, 0);
    }
  }

 private:
  void Add(const Work& work, uint32_t lane) {
    const auto [name, is_new_name] = names_.try_emplace(work.name.index, 0);
    if (is_new_name) name->second = trace_.AddText(std::string(trace::NameText(work.name.index)).c_str());
    GpuActivity activity;
    activity.begin_ns = work.begin_ns;
    activity.duration_ns = work.duration_ns;
    activity.kind = work.kind;
    activity.stream = StreamRow(work.queue, work.device, lane);
    activity.name = name->second;
    activity.correlation = work.correlation;
    activity.bytes = work.bytes;
    if (work.has_shape) {
      const auto& [grid, block] = std::pair(work.grid, work.block);
      const auto [shape, is_new] =
          shapes_.try_emplace({grid[0], grid[1], grid[2], block[0], block[1], block[2]}, kNoRow);
      if (is_new) shape->second = trace_.AddShape(grid, block, 0, 0, 0, 0);
      activity.shape = shape->second;
    }
    trace_.Add(activity);
  }
  // `device`: kMaxDevices is any.
  void AddLoss(const char* reason, uint8_t device, int64_t begin_ns, int64_t end_ns, uint64_t records) {
    if (begin_ns >= end_ns) return;
    trace_.Add(GpuLoss{begin_ns, end_ns, kNoRow, trace_.AddText(reason), records,
                       device < kMaxDevices ? DeviceRow(device) : kNoRow});
  }
  uint32_t DeviceRow(uint8_t place) {
    const auto [row, is_new] = devices_.try_emplace(place, kNoRow);
    if (is_new) {
      const Device device = recording_.queues.device(place);
      GpuDevice facts;
      facts.ordinal = base::kFirstOpenClOrdinal + place;
      facts.name = trace_.AddText(device.name);
      facts.multiprocessors = device.compute_units;
      row->second = trace_.AddDevice(facts);
      const auto error_ns = static_cast<double>(recording_.queues.clock_error_ns(place));
      trace_.AddAttribute(Format("opencl.%u.clock_error_us", facts.ordinal).c_str(),
                          Format("%.1f", error_ns / 1e3).c_str());
    }
    return row->second;
  }
  // `lane`: 0 for an in-order queue, which calls name by its context and number.
  uint32_t StreamRow(uint32_t queue, uint8_t device, uint32_t lane) {
    const auto [row, is_new] = streams_.try_emplace({queue, lane}, kNoRow);
    if (is_new)
      row->second = trace_.AddStream(DeviceRow(device), ContextOf(queue, device, lane != 0), lane != 0 ? lane : queue);
    return row->second;
  }

  Recording& recording_;
  TraceBuilder& trace_;
  std::map<uint32_t, uint32_t> names_;
  std::map<uint8_t, uint32_t> devices_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> streams_;  // by queue and lane
  std::map<std::array<uint32_t, 6>, uint32_t> shapes_;
};

class OpenClCollector final : public Collector {
 public:
  explicit OpenClCollector(const OpenClOptions& options) : options_(options) {}
  ~OpenClCollector() override { OpenClCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  // Enough for everything kept.
  uint64_t IncidentBytes() const noexcept override { return 2 * options_.memory_bytes; }
  uint64_t HeldBytes() const noexcept override { return options_.memory_bytes + sizeof(Recording); }
  Status Pause() noexcept override {
    if (!IsOurs()) return NotRunning();
    recording_->Pause();
    return {};
  }
  Status Resume() noexcept override {
    if (!IsOurs()) return NotRunning();
    recording_->Resume();
    return {};
  }
  void Keep(int64_t begin_ns, KeepFor) noexcept override {
    if (IsOurs()) recording_->Keep(begin_ns);
  }
  void AddTo(TraceBuilder& trace) override {
    if (!IsOurs()) return;
    RowAdder adder(recording_, &trace);
    adder.AddQueues();
    adder.AddWork();
    adder.AddLosses();
    AddCounts(trace);
  }

 private:
  static Status NotRunning() {
    return Status(StatusCode::kNotRunning, "the OpenCL collector does not run in this process");
  }
  // In the child of a fork nothing of its parent's is used, not even a lock.
  bool IsOurs() const noexcept { return is_running_.load() && recording_->fork_epoch() == trace::ForkEpoch(); }
  void AddCounts(TraceBuilder& trace) const;

  const OpenClOptions options_;
  Recording* recording_ = nullptr;  // once it runs
  std::atomic<bool> is_running_{false};
};

Status OpenClCollector::Start() noexcept {
  if (options_.memory_bytes < (64 << 10) || options_.memory_bytes > (1 << 30))
    return Error(StatusCode::kInvalidArgument, "OpenClOptions::memory_bytes is %llu; it must be 65536 to 1073741824",
                 static_cast<unsigned long long>(options_.memory_bytes));
  Layer* const layer = Layer::Get();
  Recording* const recording = layer != nullptr ? layer->Now() : nullptr;
  if (recording == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the OpenCL layer");
  if (!recording->Claim()) return Status(StatusCode::kAlreadyRunning, "this process has an OpenCL collector already");
  try {
    recording->Start(options_.memory_bytes);
  } catch (const std::exception&) {
    recording->Unclaim();
    return Status(StatusCode::kResourceExhausted, "no memory for OpenClOptions::memory_bytes");
  }
  recording_ = recording;
  is_running_.store(true);
  return {};
}

void OpenClCollector::Stop() noexcept {
  if (!is_running_.exchange(false) || recording_->fork_epoch() != trace::ForkEpoch()) return;
  recording_->Stop();
  recording_->Unclaim();
}

void OpenClCollector::AddCounts(TraceBuilder& trace) const {
  if (recording_->kept().is_paused)
    trace.AddAttribute("opencl.not_recorded", "paused by the host; to record kernels: Recorder::Resume(\"opencl\")");
  else if (!Layer::Get()->is_loaded())
    trace.AddAttribute("opencl.not_recorded",
                       "no OpenCL call came through the layer; to record kernels: set OPENCL_LAYERS to "
                       "libpitot_opencl_layer.so before the process starts");
  const auto add = [&](const char* key, uint64_t number) {
    if (number != 0) trace.AddAttribute(key, std::to_string(number).c_str());
  };
  for (uint32_t why = 0; why < kLostReasons; ++why)
    add(kLossCounts[why], recording_->losses.Total(static_cast<Lost>(why), recording_->kept().session));
  add("opencl.no_profiling", recording_->no_profiling.load(std::memory_order_relaxed));
  add("opencl.in_flight", recording_->in_flight());
}

}  // namespace
}  // namespace pitot::opencl

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeOpenClCollector(const OpenClOptions& options) noexcept {
  try {
    return std::make_unique<opencl::OpenClCollector>(options);
  } catch (...) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
