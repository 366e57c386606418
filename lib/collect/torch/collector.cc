// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/collector.h"

#include <ATen/Version.h>
#include <c10/util/Exception.h>
#include <torch/version.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/message.h"
#include "base/mutex.h"
#include "collect/torch/last_memory.h"
#include "collect/torch/memory.h"
#include "collect/torch/operators.h"
#include "collect/torch/thread_state.h"
#include "collect/torch/version.h"
#include "pitot/collect/torch.h"
#include "pitot/trace.h"
#include "trace/clock.h"
#include "trace/last_rows.h"
#include "trace/process.h"

namespace pitot::libtorch {
namespace {

// The fork epoch of the running collector, plus one. There can be only one, because LibTorch calls functions without a
// context. A forked child has its parent's callbacks, but not its collector.
constinit std::atomic<uint32_t> g_taken_by{0};
// A parent may be forked within a change. Its child then knows nothing for sure, and LibTorch's lock may be held there
// forever.
constinit std::atomic<bool> g_is_changing{false};
constinit Sources g_sources = {at::show_config, WatchCpu, WatchCuda};

// Without LibTorch's long account of where an exception of its own was thrown.
std::string ReasonOf(const std::exception& e) {
  const auto* const error = dynamic_cast<const c10::Error*>(&e);
  return error != nullptr ? error->what_without_backtrace() : e.what();
}

std::string Watch(std::string (*watch)()) {
  try {
    return watch();
  } catch (const std::exception& e) {
    return ReasonOf(e);
  }
}

std::string WatchGpus() {
  return AreWatchedByParent() ? "the process was forked from one with pitot::torch, and cannot use its CUDA; to record "
                                "this memory: fork before the parent enables pitot::torch"
                              : g_sources.watch_cuda();
}

// Number of changes kept; the depth before the oldest is not reported.
constexpr size_t kMostDepthChanges = 4096;
// Samples of each history in an incident: a window of 10 s in steps of 1.2 ms.
constexpr size_t kMostSamples = 8192;

struct Changing {
  Changing() noexcept { g_is_changing.store(true); }
  ~Changing() { g_is_changing.store(false); }
};

class TorchCollector final : public Collector {
 public:
  explicit TorchCollector(const TorchOptions& options)
      : detail_(options.shapes ? Detail::kShapes : Detail::kOperators), has_memory_(options.memory) {}
  ~TorchCollector() override { TorchCollector::Stop(); }

  const char* Name() const noexcept override { return "torch"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint64_t HeldBytes() const noexcept override {
    return sizeof *this + kept_bytes_.load() + kMostDepthChanges * sizeof(DepthChange) + HistoryBytes() +
           ThreadState::HeldBytes();
  }
  uint32_t Depths() const noexcept override { return is_running_.load() ? BitOf(Depth::kOps) : 0; }
  void Arm(bool is_armed) noexcept override;
  void SetDepth(Depth depth) noexcept override;
  void Keep(int64_t begin_ns, KeepFor what) noexcept override;
  void AddTo(TraceBuilder& trace) override;

 private:
  struct Kept {
    const Memory* memory;
    std::vector<MemoryHistory::Sample> allocated, reserved;
  };
  struct DepthChange {
    int64_t at_ns;
    Depth depth;
  };
  Status Open();
  void Follow() noexcept;
  void NoteDepth() noexcept;
  void KeepDepths(int64_t begin_ns);
  void KeepMemory(int64_t begin_ns);
  void CountKept() noexcept;
  static Status TakeFromParent();

  static constinit TorchCollector* running_;  // or, in a child, the parent's; null: LibTorch calls nobody

  const Detail detail_;
  const bool has_memory_;
  std::string memory_not_recorded_;
  LastMemory last_memory_;
  std::vector<Kept> kept_;
  base::Mutex depths_mutex_;
  // Each lasts until the next; has room for all from Start.
  std::vector<DepthChange> depths_ PITOT_GUARDED_BY(depths_mutex_);
  std::vector<DepthChange> kept_depths_;
  int64_t kept_end_ns_ = 0;
  std::atomic<uint64_t> kept_bytes_{0};  // of kept_ and kept_depths_
  std::atomic<bool> is_running_{false};
  std::optional<Operators> operators_;
  Depth depth_ = Depth::kScopes;
  bool is_armed_ = false;
};

Status TorchCollector::Open() {
  if (Status status = CheckVersion(TORCH_VERSION, VersionIn(g_sources.configuration())); !status.ok()) return status;
  operators_.emplace();
  if (!has_memory_) return {};
  memory_not_recorded_ = Watch(g_sources.watch_cpu);
  if (const std::string cuda = Watch(WatchGpus); !cuda.empty())
    memory_not_recorded_ += (memory_not_recorded_.empty() ? "CUDA: " : "; CUDA: ") + cuda;
  return {};
}

constinit TorchCollector* TorchCollector::running_ = nullptr;

// Ends the parent's collector, in a child of a fork.
Status TorchCollector::TakeFromParent() {
  if (g_is_changing.load())
    return Status(
        StatusCode::kUnavailable,
        "the process was forked while its parent changed LibTorch's callbacks: LibTorch cannot be recorded here");
  RecordAllocations(false);
  if (running_ != nullptr) running_->operators_.reset();
  running_ = nullptr;
  return {};
}

Status TorchCollector::Start() noexcept {
  const uint32_t us = trace::ForkEpoch() + 1;
  const uint32_t before = g_taken_by.exchange(us);
  if (before == us) return Status(StatusCode::kAlreadyRunning, "a recorder of this process records LibTorch already");
  Status status;
  try {
    if (before != 0) status = TakeFromParent();
    if (!status.ok()) return g_taken_by.store(before), status;
    const Changing changing;
    running_ = this;
    ClearNamesFolded();
    {
      const base::MutexLock lock(&depths_mutex_);
      depths_.reserve(kMostDepthChanges);
    }
    status = Open();
    if (status.ok()) NoteDepth();
    if (status.ok() && has_memory_) trace::SetLastSampler(&last_memory_);
  } catch (const std::exception& e) {
    status = base::Error(StatusCode::kUnavailable, "LibTorch does not call us: %s", ReasonOf(e).c_str());
  }
  if (!status.ok()) {
    running_ = nullptr;
    g_taken_by.store(0);
  }
  is_running_.store(status.ok());
  return status;
}

void TorchCollector::Stop() noexcept {
  if (!is_running_.exchange(false)) return;
  if (has_memory_) trace::SetLastSampler(nullptr);
  {
    const Changing changing;
    RecordAllocations(false);
    operators_.reset();
    running_ = nullptr;
  }
  g_taken_by.store(0);
}

void TorchCollector::Arm(bool is_armed) noexcept {
  is_armed_ = is_armed;
  Follow();
}

void TorchCollector::SetDepth(Depth depth) noexcept {
  depth_ = depth;
  Follow();
}

void TorchCollector::Follow() noexcept {
  if (!is_running_.load()) return;
  const Changing changing;
  const bool is_deep = depth_ >= Depth::kOps;
  // Shapes take longer than all the rest, so they are for incidents only.
  const Detail deep = is_armed_ ? detail_ : Detail::kOperators;
  // Operators are recorded throughout a stretch noted as deep.
  if (!is_deep) NoteDepth();
  try {
    operators_->Record(is_deep ? deep : Detail::kRanges);
  } catch (const std::exception&) {
    // LibTorch refused the callback; it is tried again next time.
  }
  const bool are_recorded = operators_->AreRecorded();
  RecordAllocations(has_memory_ && are_recorded);
  if (is_deep && are_recorded) NoteDepth();
}

void TorchCollector::NoteDepth() noexcept {
  const base::MutexLock lock(&depths_mutex_);
  const bool is_same = !depths_.empty() && (depths_.back().depth >= Depth::kOps) == (depth_ >= Depth::kOps);
  if (is_same) return;
  if (depths_.size() == kMostDepthChanges) depths_.erase(depths_.begin());
  depths_.push_back({trace::MonotonicNs(), depth_});
  trace::AddLast(trace::LastDepth{depths_.back().at_ns, static_cast<uint64_t>(depth_)});
}

// Keeps depths and memory; the rest is in the threads' rings.
void TorchCollector::Keep(int64_t begin_ns, KeepFor) noexcept {
  try {
    KeepDepths(begin_ns);
    if (has_memory_) KeepMemory(begin_ns);
  } catch (const std::bad_alloc&) {
    kept_.clear();
  }
  CountKept();
}

void TorchCollector::CountKept() noexcept {
  uint64_t bytes = kept_.capacity() * sizeof(Kept) + kept_depths_.capacity() * sizeof(DepthChange);
  for (const Kept& kept : kept_)
    bytes += (kept.allocated.capacity() + kept.reserved.capacity()) * sizeof(MemoryHistory::Sample);
  kept_bytes_.store(bytes);
}

void TorchCollector::KeepDepths(int64_t begin_ns) {
  kept_depths_.clear();
  const base::MutexLock lock(&depths_mutex_);
  for (const DepthChange& change : depths_) {
    if (change.at_ns <= begin_ns) kept_depths_.clear();
    kept_depths_.push_back({std::max(change.at_ns, begin_ns), change.depth});
  }
  kept_end_ns_ = trace::MonotonicNs();
}

void TorchCollector::KeepMemory(int64_t begin_ns) {
  const trace::ClockMap clock = MemoryClock();
  const auto end = static_cast<int64_t>(clock.last.ticks);
  const auto window_ns = static_cast<double>(clock.last.monotonic_ns - begin_ns);
  const int64_t begin = end - static_cast<int64_t>(window_ns * clock.TicksPerNs());
  const auto between = [&](const MemoryHistory& history) {
    auto samples = history.Between(begin, end, kMostSamples);
    for (MemoryHistory::Sample& sample : samples) sample.at = clock.Ns(static_cast<uint64_t>(sample.at));
    return samples;
  };
  kept_.clear();
  for (int32_t device = torch::kCpu; device < kMostDevices; ++device) {
    const Memory* const memory = FindMemory(device);
    if (memory == nullptr) continue;
    kept_.push_back({memory, between(memory->allocated), {}});
    if (device != torch::kCpu) kept_.back().reserved = between(*memory->reserved);
  }
}

void TorchCollector::AddTo(TraceBuilder& trace) {
  trace.AddAttribute("torch.version", TORCH_VERSION);
  if (const uint64_t folded = NamesFolded(); folded != 0)
    trace.AddAttribute("torch.names_folded", std::to_string(folded).c_str());
  for (size_t i = 0; i < kept_depths_.size(); ++i)
    trace.AddOperatorDepth(kept_depths_[i].at_ns,
                           i + 1 < kept_depths_.size() ? kept_depths_[i + 1].at_ns : kept_end_ns_,
                           kept_depths_[i].depth);
  if (!memory_not_recorded_.empty()) trace.AddAttribute("torch.memory.not_recorded", memory_not_recorded_.c_str());
  for (const Kept& kept : kept_) {
    const bool is_cpu = kept.memory->device == torch::kCpu;
    const uint32_t device = is_cpu ? kNoRow : trace.AddDevice({.ordinal = static_cast<uint32_t>(kept.memory->device)});
    const auto add = [&](const char* name, const std::vector<MemoryHistory::Sample>& samples) {
      const uint32_t counter = trace.AddCounter(device, name, "bytes");
      for (const MemoryHistory::Sample& sample : samples)
        trace.AddSample(counter, sample.at, static_cast<double>(sample.bytes));
    };
    add(is_cpu ? "LibTorch CPU allocated" : "LibTorch allocated", kept.allocated);
    if (is_cpu) continue;
    add("LibTorch reserved", kept.reserved);
    const std::string gpu = "torch.gpu" + std::to_string(kept.memory->device);
    if (const uint64_t retries = kept.memory->retries.load(); retries != 0)
      trace.AddAttribute((gpu + ".retries").c_str(), std::to_string(retries).c_str());
    if (const uint64_t times = kept.memory->out_of_memory.load(); times != 0)
      trace.AddAttribute((gpu + ".out_of_memory").c_str(), std::to_string(times).c_str());
  }
  kept_.clear();
  CountKept();
}

}  // namespace

Sources GetSources() noexcept { return g_sources; }
void SetSourcesForTesting(const Sources& sources) noexcept { g_sources = sources; }

}  // namespace pitot::libtorch

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions& options) noexcept {
  return std::unique_ptr<Collector>(new (std::nothrow) libtorch::TorchCollector(options));
}

PITOT_NAMESPACE_END
