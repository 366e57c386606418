// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <atomic>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "base/columns.h"
#include "base/message.h"
#include "collect/opencl/layer.h"
#include "pitot/collect/opencl.h"
#include "trace/names.h"
#include "trace/process.h"

namespace pitot::opencl {
namespace {

using base::Error;

constexpr uint32_t kFirstOrdinal = 100;  // apart from CUDA's

constinit std::atomic<bool> g_is_taken{false};  // a collector runs
constinit std::atomic<uint32_t> g_taken_in{0};  // trace::ForkEpoch() of its process

class OpenClCollector final : public Collector {
 public:
  explicit OpenClCollector(const OpenClOptions& options) : options_(options) {}
  ~OpenClCollector() override { OpenClCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  // Enough for everything kept.
  uint64_t IncidentBytes() const noexcept override { return 2 * options_.memory_bytes; }
  uint64_t HeldBytes() const noexcept override { return options_.memory_bytes; }
  void Keep(int64_t begin_ns, KeepFor) noexcept override {
    if (!IsOfThisProcess()) return;
    kept_from_ns_ = begin_ns;
    layer_->finished.Keep(begin_ns);
  }
  void AddTo(TraceBuilder& trace) override {
    if (!IsOfThisProcess()) return;
    AddWork(trace);
    AddCounts(trace);
  }

 private:
  // In the child of a fork the driver's threads are gone.
  bool IsOfThisProcess() const noexcept { return is_running_ && g_taken_in.load() == trace::ForkEpoch(); }
  void AddWork(TraceBuilder& trace);
  void AddCounts(TraceBuilder& trace);

  const OpenClOptions options_;
  Layer* const layer_ = Layer::Get();
  bool is_running_ = false;
  int64_t kept_from_ns_ = 0;
};

Status OpenClCollector::Start() noexcept {
  if (options_.memory_bytes < (64 << 10) || options_.memory_bytes > (1 << 30))
    return Error(StatusCode::kInvalidArgument, "OpenClOptions::memory_bytes is %llu; it must be 65536 to 1073741824",
                 static_cast<unsigned long long>(options_.memory_bytes));
  if (layer_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the OpenCL layer");
  const bool is_childs = g_taken_in.load() != trace::ForkEpoch();  // a child does not inherit its parent's collector
  if (g_is_taken.exchange(true) && !is_childs)
    return Status(StatusCode::kAlreadyRunning, "this process has an OpenCL collector already");
  g_taken_in.store(trace::ForkEpoch());
  Status status;
  try {
    layer_->finished.Reserve(options_.memory_bytes);
  } catch (const std::exception&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for OpenClOptions::memory_bytes");
  }
  if (!status.ok()) {
    g_is_taken.store(false);
    return status;
  }
  layer_->Start(trace::ForkEpoch());
  is_running_ = true;
  return {};
}

void OpenClCollector::Stop() noexcept {
  if (!std::exchange(is_running_, false) || g_taken_in.load() != trace::ForkEpoch()) return;
  layer_->Stop();
  g_is_taken.store(false);
}

void OpenClCollector::AddWork(TraceBuilder& trace) {
  std::map<uint32_t, uint32_t> names, devices;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> streams;  // by queue and device: a new queue may have an old place
  std::map<std::array<uint32_t, 6>, uint32_t> shapes;
  const auto device_row = [&](uint16_t place) {
    const auto [row, is_new] = devices.try_emplace(place, kNoRow);
    if (is_new) {
      const Device device = layer_->queues.device(place);
      GpuDevice facts;
      facts.ordinal = kFirstOrdinal + place;
      facts.name = trace.AddText(device.name);
      facts.multiprocessors = device.compute_units;
      row->second = trace.AddDevice(facts);
      trace.AddAttribute(base::Format("opencl.%u.clock_error_us", facts.ordinal).c_str(),
                         base::Format("%.1f", static_cast<double>(layer_->queues.clock_error_ns(place)) / 1e3).c_str());
    }
    return row->second;
  };
  const auto stream_row = [&](uint16_t queue, uint16_t device) {
    const auto [row, is_new] = streams.try_emplace({queue, device}, kNoRow);
    if (is_new) row->second = trace.AddStream(device_row(device), device + 1u, queue + 1u);
    return row->second;
  };
  // All of them, because a call may wait for a queue whose work is not done yet.
  for (uint16_t queue = 0; queue < layer_->queues.size(); ++queue) stream_row(queue, layer_->queues.DeviceOf(queue));
  if (layer_->finished.lost_until_ns() != 0) {
    GpuLoss loss;
    loss.begin_ns = kept_from_ns_;
    loss.end_ns = layer_->finished.lost_until_ns();
    loss.reason = trace.AddText("overwritten");
    trace.Add(loss);
  }
  const std::span<const Work> kept = layer_->finished.kept();
  for (auto work = kept.rbegin(); work != kept.rend(); ++work) {  // newest first
    const auto [name, is_new_name] = names.try_emplace(work->name.index, 0);
    if (is_new_name) name->second = trace.AddText(std::string(trace::NameText(work->name.index)).c_str());
    GpuActivity activity;
    activity.begin_ns = work->begin_ns;
    activity.duration_ns = work->duration_ns;
    activity.kind = work->kind;
    activity.stream = stream_row(work->queue, work->device);
    activity.name = name->second;
    activity.correlation = work->correlation;
    activity.bytes = work->bytes;
    if (work->has_shape) {
      const auto& [grid, block] = std::pair(work->grid, work->block);
      const auto [shape, is_new] =
          shapes.try_emplace({grid[0], grid[1], grid[2], block[0], block[1], block[2]}, kNoRow);
      if (is_new) shape->second = trace.AddShape(grid, block, 0, 0, 0, 0);
      activity.shape = shape->second;
    }
    trace.Add(activity);
  }
}

void OpenClCollector::AddCounts(TraceBuilder& trace) {
  if (!layer_->is_loaded())
    trace.AddAttribute("opencl.not_recorded",
                       "no OpenCL call came through the layer; to record kernels: set OPENCL_LAYERS to "
                       "libpitot_opencl_layer.so before the process starts");
  const auto add = [&](const char* key, const std::atomic<uint64_t>& count) {
    if (const uint64_t number = count.load(std::memory_order_relaxed); number != 0)
      trace.AddAttribute(key, std::to_string(number).c_str());
  };
  add("opencl.no_queue", layer_->counts.no_queue);
  add("opencl.no_slot", layer_->counts.no_slot);
  add("opencl.no_times", layer_->counts.no_times);
  add("opencl.failed", layer_->counts.failed);
  add("opencl.no_profiling", layer_->counts.no_profiling);
  if (const uint32_t number = layer_->in_flight(); number != 0)
    trace.AddAttribute("opencl.in_flight", std::to_string(number).c_str());
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
