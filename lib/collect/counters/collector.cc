// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/collector.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/library_option.h"
#include "base/message.h"
#include "base/one_in_process.h"
#include "base/patient_thread.h"
#include "base/semaphore.h"
#include "base/until_exit.h"
#include "trace/requests.h"

namespace pitot::counters {
namespace {

using base::Error;

constexpr int kNice = 10;
// How often samples of another process are looked for while an incident waits for them, and how long. They come once a
// round of that process.
constexpr int64_t kLookNs = 50'000'000, kMostBehindNs = 1'500'000'000;

// Several may wait for a round, and one of them takes the signal: so often the others look for themselves.
constexpr int64_t kOthersLookNs = 20'000'000;

// The longest wait for a thread that makes progress.
constexpr int64_t kMostPatiences = 4;

// A GPU's counters have one user.
constinit base::OneInProcess g_only;

// No call of CUPTI or NVML begins in this process any more, once it is closed. Its counters of calls are of the process
// `g_exit_pid`: the child of a fork begins anew.
constinit base::UntilExit g_until_exit;
constinit std::atomic<pid_t> g_exit_pid{0};
constinit std::atomic<uint32_t> g_closed_before{0};  // libraries whose exit handlers run later than the last of ours

void CloseAtExit() {
  if (g_exit_pid.load() == getpid()) g_until_exit.Close();
}

void BeginUntilExit() noexcept {
  if (g_exit_pid.exchange(getpid()) == getpid()) return;
  new (&g_until_exit) base::UntilExit;
  g_closed_before.store(0);
}

// The host's last wish for an interval: how many there have been << 32 | us. A collector heeds those after its start.
constinit std::atomic<uint64_t> g_interval_wish{0};
constinit std::atomic<pid_t> g_running_in{0};  // the process with a running collector

// State of the thread, which keeps it alive, too: a thread that hangs in CUPTI is left behind with all of this.
struct Shared {
  Shared(const CounterOptions& options, Environment given)
      : environment(std::move(given)),
        history(options.memory_bytes),
        sampler({options.library != nullptr ? options.library : "", options.interval_us, options.most_cpu_percent},
                environment, &history) {}

  const Environment environment;
  History history;
  Sampler sampler;  // used by the thread only, except for progress()
  std::atomic<bool> stop{false}, is_paused{false};
  // Rounds asked for and done, for callers that wait for one. A round done covers what was asked before it began. It is
  // complete once samples are there up to kept_at_ns, or too late.
  std::atomic<uint64_t> asked{0}, done{0}, complete{0};
  std::atomic<int64_t> kept_at_ns{0};  // the newest window's end
  std::atomic<bool> is_for_incident{false};
  uint64_t interval_wish = g_interval_wish.load(std::memory_order_acquire);  // heeded
  base::Semaphore round_done;

  void Run() noexcept;
  // A round; none: only the samples of GPM that are due. False: the process exits.
  bool Work(std::optional<RoundFor> round) noexcept;
  // Asks for a round now. Returns its number.
  uint64_t Ask() noexcept {
    const uint64_t number = asked.fetch_add(1, std::memory_order_acq_rel) + 1;
    environment.timer->Wake();
    return number;
  }
  bool Await(const std::atomic<uint64_t>& counter, uint64_t number) noexcept;
};

// Waits until `counter`, which is done or complete, is at that number. False: not in time. The round after a rest may
// take longer than the patience: it is in time as long as it makes progress.
bool Shared::Await(const std::atomic<uint64_t>& counter, uint64_t number) noexcept {
  const int64_t begin_ns = base::ClockNs(CLOCK_MONOTONIC),
                last_ns = begin_ns + kMostPatiences * environment.patience_ns;
  int64_t until_ns = begin_ns + environment.patience_ns;
  uint64_t progress = sampler.progress();
  while (counter.load(std::memory_order_acquire) < number) {
    const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
    const uint64_t before = std::exchange(progress, sampler.progress());
    if (progress != before) until_ns = std::min(now_ns + environment.patience_ns, last_ns);
    if (now_ns >= until_ns) return false;
    round_done.AwaitUntil(std::min(until_ns, now_ns + kOthersLookNs));
  }
  return true;
}

bool Shared::Work(std::optional<RoundFor> round) noexcept {
  const base::UntilExit::Entered entered(&g_until_exit);
  if (!entered) return false;
  try {
    const uint64_t wish = g_interval_wish.load(std::memory_order_acquire);
    if (round && std::exchange(interval_wish, wish) != wish) sampler.SetInterval(static_cast<uint32_t>(wish));
    round ? sampler.Round(*round) : sampler.SampleGpm();
  } catch (const std::exception&) {
    // Out of memory: the next round tries again.
  }
  // Registered after the libraries' own handlers, so it runs before them.
  if (sampler.libraries() > g_closed_before.load()) {
    g_closed_before.store(sampler.libraries());
    std::atexit(CloseAtExit);
  }
  return true;
}

void Shared::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-counters");
  // Sets the priority of this thread only.
  if (getpriority(PRIO_PROCESS, 0) < kNice) setpriority(PRIO_PROCESS, 0, kNice);
  int64_t next_ns = 0;     // of a round
  bool is_wanted = false;  // somebody waits for samples, even in a rest
  for (;;) {
    const bool is_last = stop.load(std::memory_order_acquire);
    const uint64_t number = asked.load(std::memory_order_acquire);
    if (is_last && number == done.load(std::memory_order_acquire)) break;
    is_wanted |= is_for_incident.exchange(false, std::memory_order_acq_rel);
    const bool is_round = environment.timer->NowNs() >= next_ns || number != done.load(std::memory_order_acquire);
    const RoundFor what = is_paused.load(std::memory_order_acquire) ? RoundFor::kPause
                          : is_wanted                               ? RoundFor::kIncident
                                                                    : RoundFor::kTime;
    const bool is_open = Work(is_round ? std::optional(what) : std::nullopt);
    is_wanted |= number != complete.load(std::memory_order_acquire) && sampler.is_needed();
    const int64_t now_ns = environment.timer->NowNs(), kept_ns = kept_at_ns.load(std::memory_order_acquire);
    const bool is_behind = is_wanted && now_ns - kept_ns < kMostBehindNs && sampler.IsBehind(kept_ns);
    is_wanted = is_behind;
    const bool is_done = done.exchange(number, std::memory_order_acq_rel) != number;
    const bool is_complete = !is_behind && complete.exchange(number, std::memory_order_acq_rel) != number;
    if (is_done || is_complete) round_done.Give();
    if (is_round) next_ns = now_ns + (is_behind ? kLookNs : kRoundNs);
    const int64_t due_ns = is_open ? std::min(next_ns, sampler.NextGpmNs()) : next_ns;
    if (!stop.load(std::memory_order_acquire)) environment.timer->WaitUntil(due_ns);
  }
  const base::UntilExit::Entered entered(&g_until_exit);
  entered ? sampler.Close() : sampler.Abandon();
}

bool IsInterval(uint32_t interval_us) {
  return interval_us == 0 || (interval_us >= kLeastIntervalUs && interval_us <= kMostIntervalUs);
}

Status WishFor(uint32_t interval_us) noexcept {
  if (!IsInterval(interval_us))
    return Error(StatusCode::kInvalidArgument, "an interval of %u us was given; it must be 0 or 100 to 1000000",
                 interval_us);
  if (g_running_in.load() != getpid())
    return Status(StatusCode::kUnavailable, "no counter collector runs in this process");
  uint64_t wish = g_interval_wish.load();
  while (!g_interval_wish.compare_exchange_weak(wish, ((wish >> 32) + 1) << 32 | interval_us)) {}
  return {};
}

class CounterCollector final : public Collector {
 public:
  CounterCollector(const CounterOptions& options, Environment environment)
      : wrong_(Check(options)),
        options_(options),
        library_(options.library != nullptr ? options.library : ""),
        environment_(std::move(environment)) {
    options_.library = library_.c_str();
    environment_.until_exit = &g_until_exit;
  }
  ~CounterCollector() override { CounterCollector::Stop(); }

  const char* Name() const noexcept override { return "counters"; }
  Status Start() noexcept override;
  void Stop() noexcept override {
    if (!IsOurs() || std::exchange(has_stopped_, true)) return;
    g_running_in.store(0);
    shared_->stop.store(true, std::memory_order_release);
    shared_->environment.timer->Wake();
    has_ended_ = thread_.End(environment_.patience_ns);
    if (environment_.is_only && has_ended_) g_only.GiveBack();  // a thread left behind may still be in CUPTI
  }
  // A thread left behind still uses what it counts.
  Status Stopped() const noexcept override { return has_ended_ ? shared_->sampler.Closed() : Status(); }
  Status Pause() noexcept override { return SetPaused(true); }
  Status Resume() noexcept override { return SetPaused(false); }
  uint64_t HeldBytes() const noexcept override { return IsOurs() ? shared_->history.HeldBytes() : 0; }
  uint64_t IncidentBytes() const noexcept override { return 4 * options_.memory_bytes; }
  void Keep(int64_t begin_ns, KeepFor what) noexcept override {
    if (!IsOurs()) return;
    begin_ns_ = begin_ns, end_ns_ = environment_.timer->NowNs();
    shared_->kept_at_ns.store(end_ns_, std::memory_order_release);
    if (what == KeepFor::kIncident) shared_->is_for_incident.store(true, std::memory_order_release);
    asked_ = shared_->Ask();
  }
  // The newest samples are still with CUPTI: the thread fetches them first.
  void AddTo(TraceBuilder& trace) override {
    if (!IsOurs()) return;
    // Once CUPTI did not answer, incidents do not wait for it until it has.
    const bool is_stuck = missed_ != 0 && shared_->done.load(std::memory_order_acquire) < missed_;
    if (!has_stopped_ && (is_stuck || !shared_->Await(shared_->complete, asked_))) {
      if (!is_stuck) missed_ = asked_;
      trace.AddAttribute("counters.not_recorded", "CUPTI does not answer");
    }
    shared_->history.AddTo(begin_ns_, end_ns_, trace);
  }

 private:
  // In the child of a fork there is no thread, and locks it held are never released.
  bool IsOurs() const noexcept { return shared_ != nullptr && getpid() == pid_; }
  Status SetPaused(bool is_paused) noexcept {
    if (!IsOurs()) return Status(StatusCode::kUnavailable, "the counter collector does not run in this process");
    shared_->is_paused.store(is_paused, std::memory_order_release);
    if (shared_->Await(shared_->done, shared_->Ask())) return is_paused ? shared_->history.CheckFree() : Status();
    return Error(StatusCode::kUnavailable, "CUPTI has not answered for %.1f s: GPUs may still be sampled",
                 static_cast<double>(environment_.patience_ns) / 1e9);
  }

  const Status wrong_;  // a fault of the options
  CounterOptions options_;
  const std::string library_;
  Environment environment_;
  std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;
  pid_t pid_ = 0;
  bool has_stopped_ = false, has_ended_ = false;
  int64_t begin_ns_ = 0, end_ns_ = 0;  // of the kept window
  uint64_t asked_ = 0;                 // the round that completes it
  uint64_t missed_ = 0;                // that did not come in time; 0: none
};

Status CounterCollector::Start() noexcept {
  if (!wrong_.ok()) return wrong_;
  if (shared_ != nullptr || (environment_.is_only && !g_only.Take()))
    return Status(StatusCode::kAlreadyRunning, "this process has a counter collector already");
  try {
    BeginUntilExit();
    auto shared = std::make_shared<Shared>(options_, environment_);
    thread_.Start([shared] { shared->Run(); });
    pid_ = getpid();
    shared_ = std::move(shared);
    g_running_in.store(pid_);
  } catch (const std::exception& e) {
    if (environment_.is_only) g_only.GiveBack();
    return Error(StatusCode::kResourceExhausted, "cannot start the counter collector: %s", e.what());
  }
  return {};
}

}  // namespace

Status Check(const CounterOptions& options) noexcept {
  if (!IsInterval(options.interval_us))
    return Error(StatusCode::kInvalidArgument, "CounterOptions::interval_us is %u; it must be 0 or 100 to 1000000",
                 options.interval_us);
  if (!(options.most_cpu_percent > 0 && options.most_cpu_percent <= 100))
    return Error(StatusCode::kInvalidArgument, "CounterOptions::most_cpu_percent is %g; it must be above 0, to 100",
                 options.most_cpu_percent);
  if (options.memory_bytes < (64 << 10) || options.memory_bytes > (16 << 20))
    return Error(StatusCode::kInvalidArgument, "CounterOptions::memory_bytes is %llu; it must be 65536 to 16777216",
                 static_cast<unsigned long long>(options.memory_bytes));
  return base::CheckLibrary("CounterOptions::library", options.library);
}

std::function<bool()> NeededByHost() {
  return [begun = trace::CountActivity().begun]() mutable {
    const trace::Activity now = trace::CountActivity();
    return std::exchange(begun, now.begun) != now.begun || now.open != 0;
  };
}

std::unique_ptr<Collector> MakeCollector(const CounterOptions& options, Environment environment) {
  return std::make_unique<CounterCollector>(options, std::move(environment));
}

}  // namespace pitot::counters

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeCounterCollector(const CounterOptions& options) noexcept {
  try {
    counters::Environment environment;
    environment.timer = std::make_shared<base::SystemTimer>();
    environment.find_gpus = counters::FindGpus;
    environment.cpu_ns = [] { return base::ClockNs(CLOCK_THREAD_CPUTIME_ID); };
    environment.realtime_offset_ns = [] { return base::ClockNs(CLOCK_REALTIME) - base::ClockNs(CLOCK_MONOTONIC); };
    environment.is_needed = counters::NeededByHost();
    environment.shared_directory = counters::kSharedDirectory;
    environment.nvml = "libnvidia-ml.so.1";
    environment.is_only = true;
    return counters::MakeCollector(options, std::move(environment));
  } catch (...) {
    return nullptr;
  }
}

Status SetCounterInterval(uint32_t interval_us) noexcept { return counters::WishFor(interval_us); }

PITOT_NAMESPACE_END
