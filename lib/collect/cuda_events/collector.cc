// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_events/collector.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "base/columns.h"
#include "base/message.h"
#include "base/one_in_process.h"
#include "base/patient_thread.h"
#include "base/semaphore.h"
#include "collect/cuda_events/history.h"
#include "collect/cuda_events/layers.h"
#include "collect/cuda_events/pools.h"
#include "collect/cuda_events/rounds.h"
#include "trace/process.h"

PITOT_NAMESPACE_BEGIN
namespace detail {
uint32_t g_cuda_events = 0;
}
PITOT_NAMESPACE_END

namespace pitot::cuda_events {
namespace {

using base::ClockNs;
using base::Error;

constexpr int64_t kRoundNs = 5'000'000;
constexpr int64_t kHourNs = 3'600'000'000'000;

// Pools are never freed, because scopes may end at any time. `g_pools` are those of the running or last collector.
// `g_newest` were made last, and lead to all others.
constinit std::atomic<Pools*> g_pools{nullptr};
constinit std::atomic<Pools*> g_newest{nullptr};
constinit base::OneInProcess g_only;
constinit std::atomic<bool> g_has_exit_handler{false};

void CloseAtExit() {
  // Those of former collectors, too: scopes may still be open.
  for (Pools* pools = g_newest; pools != nullptr; pools = pools->former())
    if (pools->fork_epoch() == trace::ForkEpoch()) pools->until_exit.Close();
}

// State of the thread, which keeps it alive, too: a thread that hangs in the driver is left behind with all of this.
struct Shared {
  Shared(const CudaEventOptions& options, Pools* of)
      : pools(*of), history(options.memory_bytes), rounds(of, &history) {}

  Pools& pools;
  History history;
  Rounds rounds;  // the thread's
  std::atomic<bool> stop{false};
  std::atomic<uint32_t> asked{0}, done{0};  // rounds for Keep
  base::Semaphore done_signal;

  void Wait() noexcept;
  void Run() noexcept;
};

void Shared::Wait() noexcept {
  if (rounds.HasWork()) {
    pools.wake.AwaitUntil(ClockNs(CLOCK_MONOTONIC) + kRoundNs);
    return;
  }
  pools.is_idle.store(true);
  if (!rounds.HasWork()) pools.wake.AwaitUntil(std::min(rounds.due_ns(), ClockNs(CLOCK_MONOTONIC) + kHourNs));
  pools.is_idle.store(false);
}

void Shared::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-events");
  while (!stop.load()) {
    const uint32_t wanted = asked.load();
    if (const base::UntilExit::Entered entered(&pools.until_exit); entered) rounds.Round();
    // Registered after the driver's own handlers, so it runs before them.
    if (pools.is_used.load() && !g_has_exit_handler.exchange(true)) std::atexit(CloseAtExit);
    if (done.exchange(wanted) != wanted) done_signal.Give();
    Wait();
  }
  if (const base::UntilExit::Entered entered(&pools.until_exit); entered) rounds.Close();
}

class CudaEventCollector final : public Collector {
 public:
  CudaEventCollector(const CudaEventOptions& options, const Environment& environment)
      : options_(options), environment_(environment) {}
  ~CudaEventCollector() override { CudaEventCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  // Enough for everything kept.
  uint64_t IncidentBytes() const noexcept override { return 2 * options_.memory_bytes; }
  uint64_t HeldBytes() const noexcept override { return options_.memory_bytes; }
  void Keep(int64_t begin_ns, KeepFor what) noexcept override;
  void AddTo(TraceBuilder& trace) override;

 private:
  Status Open();
  // In the child of a fork there is no thread, and locks it held are never released.
  bool IsOfThisProcess() const noexcept { return is_running_ && shared_->pools.fork_epoch() == trace::ForkEpoch(); }

  const CudaEventOptions options_;
  const Environment environment_;
  bool is_running_ = false;
  std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;

  // From Keep to AddTo.
  bool is_complete_ = true;
  uint32_t under_way_ = 0;
  int64_t oldest_for_ns_ = 0;
};

Status CudaEventCollector::Start() noexcept {
  if (Status status = Check(options_); !status.ok()) return status;
  if (!g_only.Take()) return Status(StatusCode::kAlreadyRunning, "this process has a CUDA event collector already");
  Status status;
  try {
    status = Open();
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot start the CUDA event collector: %s", e.what());
  }
  if (!status.ok()) g_only.GiveBack();
  return status;
}

Status CudaEventCollector::Open() {
  // Scopes of a former collector may still hold pairs. Its pools are used again if they suit.
  const auto suits = [this](const Pools& it) {
    return it.pair_count() == options_.pairs_per_context && it.library() == environment_.library &&
           it.fork_epoch() == trace::ForkEpoch() && !it.is_hanging.load();
  };
  Pools* pools = g_newest;
  while (pools != nullptr && !suits(*pools)) pools = pools->former();
  if (pools == nullptr) {
    pools = new Pools(environment_.library, options_.pairs_per_context, trace::ForkEpoch(), g_newest);
    g_newest.store(pools);
  }
  g_pools.store(pools);
  pools->counts().Clear();
  pools->retry_ns.store(environment_.retry_ns);
  pools->most_graph_scopes.store(options_.graph_scopes);
  pools->are_launches_seen.store(false);
  pools->lone_graph_ns.store(INT64_MIN / 2);
  pools->slow_end_ticks.store(detail::TicksOf(environment_.slow_end_ns));
  shared_ = std::make_shared<Shared>(options_, pools);
  thread_.Start([shared = shared_] { shared->Run(); });
  pools->is_running.store(true);
  is_running_ = true;
  __atomic_store_n(&detail::g_cuda_events, 1, __ATOMIC_RELEASE);
  if (options_.layers) BeginLayers(pools, options_.layer_cost_percent);
  return {};
}

void CudaEventCollector::Stop() noexcept {
  if (!std::exchange(is_running_, false)) return;
  Pools& pools = shared_->pools;
  if (pools.fork_epoch() != trace::ForkEpoch()) return;
  EndLayers();
  __atomic_store_n(&detail::g_cuda_events, 0, __ATOMIC_RELAXED);
  pools.is_running.store(false);
  shared_->stop.store(true);
  pools.wake.Give();
  if (!thread_.End(environment_.stop_patience_ns)) pools.is_hanging.store(true);
  g_only.GiveBack();
}

void CudaEventCollector::Keep(int64_t begin_ns, KeepFor) noexcept {
  if (!IsOfThisProcess()) return;
  // Collect everything the GPU has finished by now.
  const uint32_t asked = shared_->asked.fetch_add(1) + 1;
  shared_->pools.wake.Give();
  const int64_t until_ns = ClockNs(CLOCK_MONOTONIC) + environment_.keep_patience_ns;
  const auto is_done = [&] { return static_cast<int32_t>(shared_->done.load() - asked) >= 0; };
  while (!is_done() && shared_->done_signal.AwaitUntil(until_ns)) {}
  is_complete_ = is_done();
  under_way_ = shared_->rounds.under_way();
  oldest_for_ns_ = ClockNs(CLOCK_MONOTONIC) - shared_->rounds.oldest_ns();
  shared_->history.Keep(begin_ns);
}

void CudaEventCollector::AddTo(TraceBuilder& trace) {
  if (!IsOfThisProcess()) return;
  shared_->history.AddTo(trace);
  Counts& counts = shared_->pools.counts();
  const auto add = [&](const char* key, const std::atomic<uint64_t>& count) {
    if (const uint64_t number = count.load(std::memory_order_relaxed); number != 0)
      trace.AddAttribute(key, std::to_string(number).c_str());
  };
  add("cuda_events.before_driver", counts.no_driver);
  add("cuda_events.no_context", counts.no_context);
  add("cuda_events.before_pool", counts.no_pool);
  add("cuda_events.pool_failed", counts.failed_pool);
  add("cuda_events.pool_tries_failed", counts.failed_tries);
  add("cuda_events.contexts_refused", counts.no_room);
  add("cuda_events.no_pair", counts.no_pair);
  add("cuda_events.capturing", counts.capturing);
  add("cuda_events.record_failed", counts.failed_record);
  add("cuda_events.no_time", counts.no_time);
  add("cuda_events.dropped", counts.dropped);
  add("cuda_events.graph_scopes_refused", counts.no_graph_scope);
  add("cuda_events.replays_missed", counts.replays_missed);
  add("cuda_events.replays_unsure", counts.replays_unsure);
  add("cuda_events.stream_unsure", g_layer_counts.stream_unsure);
  add("cuda_events.ended_elsewhere", g_layer_counts.ended_elsewhere);
  add("cuda_events.further_streams", g_layer_counts.streams);
  add("cuda_events.after_waits", g_layer_counts.after_waits);
  if (const uint64_t works = g_layer_counts.too_costly.load(std::memory_order_relaxed); works != 0)
    trace.AddAttribute(
        "cuda_events.too_costly",
        base::Format("inner scopes of %llu batches or requests: in the last they would have taken %.2f %% "
                     "of its time, and may take %g %%",
                     static_cast<unsigned long long>(works),
                     100 * g_layer_counts.last_cost_share.load(std::memory_order_relaxed), options_.layer_cost_percent)
            .c_str());
  if (const uint64_t failed = counts.failed.load(std::memory_order_relaxed); failed != 0)
    trace.AddAttribute("cuda_events.failed",
                       base::Format("%llu calls, the last with CUDA error %d", static_cast<unsigned long long>(failed),
                                    counts.last_error.load(std::memory_order_relaxed))
                           .c_str());
  if (under_way_ != 0)
    trace.AddAttribute(
        "cuda_events.under_way",
        base::Format("%u, the oldest for %.3f s", under_way_, static_cast<double>(oldest_for_ns_) / 1e9).c_str());
  if (!is_complete_)
    trace.AddAttribute("cuda_events.late", "the driver did not answer in time: the newest are missing");
}

}  // namespace

Status Check(const CudaEventOptions& options) noexcept {
  if (options.pairs_per_context < 1 || options.pairs_per_context > 4096)
    return Error(StatusCode::kInvalidArgument, "CudaEventOptions::pairs_per_context is %u; it must be 1 to 4096",
                 options.pairs_per_context);
  if (!(options.layer_cost_percent > 0) || options.layer_cost_percent > 100)
    return Error(StatusCode::kInvalidArgument,
                 "CudaEventOptions::layer_cost_percent is %g; it must be above 0, and at most 100",
                 options.layer_cost_percent);
  if (options.graph_scopes > options.pairs_per_context)
    return Error(StatusCode::kInvalidArgument,
                 "CudaEventOptions::graph_scopes is %u; it must be 0 to pairs_per_context, which is %u",
                 options.graph_scopes, options.pairs_per_context);
  if (options.memory_bytes < (64 << 10) || options.memory_bytes > (1 << 30))
    return Error(StatusCode::kInvalidArgument, "CudaEventOptions::memory_bytes is %llu; it must be 65536 to 1073741824",
                 static_cast<unsigned long long>(options.memory_bytes));
  return {};
}

std::unique_ptr<Collector> MakeCollector(const CudaEventOptions& options, const Environment& environment) {
  return std::make_unique<CudaEventCollector>(options, environment);
}

}  // namespace pitot::cuda_events

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeCudaEventCollector(const CudaEventOptions& options) noexcept {
  try {
    return cuda_events::MakeCollector(options, {});
  } catch (...) {
    return nullptr;
  }
}

namespace detail {

CudaSpan BeginCudaSpan(void* stream, Name name) noexcept {
  cuda_events::Pools* const pools = cuda_events::g_pools.load(std::memory_order_acquire);
  return pools != nullptr ? pools->BeginScope(stream, name) : CudaSpan();
}

CudaSpan BeginCudaSpan(void* stream, const char* name) noexcept { return BeginCudaSpan(stream, Intern(name)); }

void EndCudaSpan(CudaSpan span) noexcept { cuda_events::Pools::End(span); }

}  // namespace detail

PITOT_NAMESPACE_END
