// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_calls/collector.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/loader_lock.h"
#include "base/message.h"
#include "base/one_in_process.h"
#include "base/overhead_name.h"
#include "base/patient_thread.h"
#include "base/semaphore.h"
#include "collect/cuda_calls/look_ups.h"
#include "trace/process.h"
#include "trace/profile_runs.h"
#include "trace/rest.h"

namespace pitot::cuda_calls {
namespace {

using base::Error;

constinit base::OneInProcess g_right;

// Import tables lead to this library's code from now on, so it must stay.
bool StayLoaded() {
  Dl_info info;
  link_map* map = nullptr;
  if (dladdr1(reinterpret_cast<void*>(&StayLoaded), &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0)
    return false;
  const bool is_program = map == nullptr || map->l_name == nullptr || *map->l_name == '\0';
  return is_program || dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE) != nullptr;
}

// State of the thread, which keeps it alive, too.
struct Shared {
  explicit Shared(const Environment& environment)
      : look_ns(environment.look_ns), imports(environment.functions, environment.providers) {}

  // Throws bad_alloc. Threads: one at a time. It may wait for another thread's load of a library.
  void Look() {
    {
      const base::LoaderUse use;
      imports.Change();
    }
    const ImportCounts& counts = imports.counts();
    libraries.store(counts.libraries, std::memory_order_relaxed);
    refused.store(counts.refused, std::memory_order_relaxed);
    pending.store(counts.pending, std::memory_order_relaxed);
    has_cuda.store(imports.has_provider(), std::memory_order_relaxed);
  }
  void Run() noexcept {
    pthread_setname_np(pthread_self(), "pitot-calls");
    trace::Rest rest([](void* semaphore) { static_cast<base::Semaphore*>(semaphore)->Give(); }, &wake);
    while (!stop.load()) {
      try {
        Look();
      } catch (const std::exception&) {
        failed_looks.fetch_add(1, std::memory_order_relaxed);
      }
      const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
      wake.AwaitUntil(now_ns + (rest.May(now_ns) ? std::max(look_ns, trace::Rest::kLookNs) : look_ns));
    }
  }

  const int64_t look_ns;
  Imports imports;  // the thread's, once it runs
  std::atomic<bool> stop{false}, is_paused{false}, has_cuda{false};
  std::atomic<uint64_t> libraries{0}, refused{0}, pending{0}, failed_looks{0};
  base::Semaphore wake;
};

class CudaCallCollector final : public Collector {
 public:
  CudaCallCollector(const CudaCallOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}
  ~CudaCallCollector() override { CudaCallCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  Status Pause() noexcept override;
  Status Resume() noexcept override;
  // The calls are in the rings.
  void Keep(int64_t begin_ns, KeepFor) noexcept override {
    kept_begin_ns_ = begin_ns, kept_end_ns_ = base::ClockNs(CLOCK_MONOTONIC);
  }
  void AddTo(TraceBuilder& trace) override;

 private:
  // In the child of a fork nothing of its parent's is used, not even a lock.
  bool IsOurs() const noexcept { return is_running_.load() && fork_epoch_ == trace::ForkEpoch(); }
  void AddProfiles(TraceBuilder& trace) const;
  void Begin() noexcept { BeginRecording(options_.slow_copy_us * uint64_t{1000}, environment_.slow_launch_ns); }

  const CudaCallOptions options_;
  const Environment environment_;
  std::atomic<bool> is_running_{false};
  uint32_t fork_epoch_ = 0;
  std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;
  int64_t kept_begin_ns_ = 0, kept_end_ns_ = 0;  // from Keep to AddTo
};

Status CudaCallCollector::Start() noexcept {
  if (Status status = Check(options_); !status.ok()) return status;
  if (!g_right.Take()) return Status(StatusCode::kAlreadyRunning, "this process has a collector of CUDA calls already");
  Status status;
  if (!StayLoaded()) {
    status =
        Status(StatusCode::kUnavailable, "cannot keep Pitot's library loaded, which calls of CUDA would go through");
  } else {
    try {
      shared_ = std::make_shared<Shared>(environment_);
      shared_->Look();
      fork_epoch_ = trace::ForkEpoch();
      thread_.Start([shared = shared_] { shared->Run(); });
    } catch (const std::exception& e) {
      status = Error(StatusCode::kResourceExhausted, "cannot start the collector of CUDA calls: %s", e.what());
    }
  }
  if (!status.ok()) {
    g_right.GiveBack();
    return status;
  }
  Begin();
  is_running_.store(true);
  return {};
}

void CudaCallCollector::Stop() noexcept {
  if (!is_running_.exchange(false) || fork_epoch_ != trace::ForkEpoch()) return;
  EndRecording();
  shared_->stop.store(true);
  shared_->wake.Give();
  thread_.End(environment_.stop_patience_ns);
  g_right.GiveBack();
}

Status CudaCallCollector::Pause() noexcept {
  if (!IsOurs()) return Status(StatusCode::kNotRunning, "the collector of CUDA calls does not run in this process");
  shared_->is_paused.store(true);
  EndRecording();
  return {};
}

Status CudaCallCollector::Resume() noexcept {
  if (!IsOurs()) return Status(StatusCode::kNotRunning, "the collector of CUDA calls does not run in this process");
  shared_->is_paused.store(false);
  Begin();
  shared_->wake.Give();
  return {};
}

// Says when kernels were profiled: launches took longer for it.
void CudaCallCollector::AddProfiles(TraceBuilder& trace) const {
  const trace::ProfileRuns found = trace::ProfileRunsWithin(kept_begin_ns_, kept_end_ns_);
  if (!found.are_all)
    trace.AddAttribute("cuda_calls.profiles_left_out", "kernels were profiled more often than the incident shows");
  for (uint32_t i = 0; i < found.count; ++i) {
    const int64_t begin_ns = found.runs[i].begin_ns, end_ns = std::min(found.runs[i].end_ns, kept_end_ns_);
    trace.AddOverhead(begin_ns, end_ns - begin_ns, trace.AddText(base::kProfilingKernels));
  }
}

void CudaCallCollector::AddTo(TraceBuilder& trace) {
  if (!IsOurs()) return;
  AddProfiles(trace);
  if (shared_->is_paused.load())
    trace.AddAttribute("cuda_calls.not_recorded",
                       "paused by the host; to record waits for the GPU: Recorder::Resume(\"cuda_calls\")");
  else if (shared_->has_cuda.load() && shared_->libraries.load() == 0 && LookUps() == 0)
    trace.AddAttribute(
        "cuda_calls.not_recorded",
        "no library here imports CUDA's functions, or has looked them up since the recorder got its collector; to "
        "record waits for the GPU: add the collector before CUDA's first use, or link CUDA's runtime as a shared "
        "library (nvcc -cudart shared)");
  const auto add = [&](const char* key, const std::atomic<uint64_t>& count) {
    if (const uint64_t number = count.load(std::memory_order_relaxed); number != 0)
      trace.AddAttribute(key, std::to_string(number).c_str());
  };
  add("cuda_calls.libraries", shared_->libraries);
  if (const uint64_t number = LookUps(); number != 0)
    trace.AddAttribute("cuda_calls.looked_up", std::to_string(number).c_str());
  add("cuda_calls.entries_refused", shared_->refused);
  add("cuda_calls.entries_pending", shared_->pending);
  add("cuda_calls.failed_looks", shared_->failed_looks);
}

}  // namespace

Status Check(const CudaCallOptions& options) noexcept {
  if (options.slow_copy_us < 1 || options.slow_copy_us > 1'000'000)
    return Error(StatusCode::kInvalidArgument, "CudaCallOptions::slow_copy_us is %u; it must be 1 to 1000000",
                 options.slow_copy_us);
  return {};
}

std::unique_ptr<Collector> MakeCollector(const CudaCallOptions& options, const Environment& environment) {
  return std::make_unique<CudaCallCollector>(options, environment);
}

}  // namespace pitot::cuda_calls

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeCudaCallCollector(const CudaCallOptions& options) noexcept {
  try {
    return cuda_calls::MakeCollector(options, {});
  } catch (...) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
