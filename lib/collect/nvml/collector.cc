// SPDX-License-Identifier: Apache-2.0
#include "collect/nvml/collector.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/library_option.h"
#include "base/message.h"
#include "base/one_in_process.h"
#include "base/patient_thread.h"
#include "collect/nvml/history.h"
#include "trace/rest.h"

namespace pitot::nvml {
namespace {

using base::Error;

constexpr int kNice = 5;

// A second one would sample everything twice.
constinit base::OneInProcess g_only;

// State of the thread, which keeps it alive, too: a thread that hangs in the driver is left behind with all of this.
struct Shared {
  Shared(const NvmlOptions& options, Environment environment)
      : library(options.library != nullptr ? options.library : ""),
        period_ns(1'000'000'000 / options.rate_hz),
        rests(environment.rests),
        timer(std::move(environment.timer)),
        history(options.memory_bytes, options.rate_hz),
        sampler(environment.own, options.rate_hz, timer.get(), &history) {}

  const std::string library;
  const int64_t period_ns;
  const bool rests;
  const std::shared_ptr<base::Timer> timer;
  History history;
  Sampler sampler;  // used by the thread only
  std::atomic<bool> stop{false};

  Status opened;  // written before has_opened
  std::atomic<bool> has_opened{false};
  base::Semaphore open_signal;

  void Open() noexcept;
  void Sample() noexcept;
  void Run() noexcept;
};

void Shared::Open() noexcept {
  try {
    opened = sampler.Open(library);
  } catch (const std::exception& e) {
    opened = Error(StatusCode::kResourceExhausted, "cannot start the NVML collector: %s", e.what());
  }
  has_opened.store(true, std::memory_order_release);
  open_signal.Give();
}

void Shared::Sample() noexcept {
  trace::Rest rest([](void* of) { static_cast<base::Timer*>(of)->Wake(); }, timer.get());
  int64_t next_ns = timer->NowNs();
  uint64_t missed = 0;
  while (!stop.load(std::memory_order_acquire)) {
    const int64_t begin_ns = timer->NowNs();
    sampler.Round();
    const int64_t now_ns = timer->NowNs();
    history.EndRound(now_ns - begin_ns, std::exchange(missed, 0));
    // Rounds keep to their times; rounds missed because of the driver are left out, not made up for.
    next_ns += period_ns;
    if (next_ns < now_ns) {
      missed = static_cast<uint64_t>((now_ns - next_ns + period_ns - 1) / period_ns);
      next_ns += static_cast<int64_t>(missed) * period_ns;
    }
    const bool is_at_rest = rests && rest.May(now_ns);
    if (is_at_rest) next_ns = now_ns + trace::Rest::kLookNs;
    if (!stop.load(std::memory_order_acquire)) timer->WaitUntil(next_ns);
    if (is_at_rest) next_ns = timer->NowNs();  // it may have been woken
  }
}

void Shared::Run() noexcept {
  pthread_setname_np(pthread_self(), "pitot-nvml");
  // Sets the priority of this thread only.
  if (getpriority(PRIO_PROCESS, 0) < kNice) setpriority(PRIO_PROCESS, 0, kNice);
  Open();
  if (opened.ok()) {
    Sample();
    sampler.Close();
  }
}

class NvmlCollector final : public Collector {
 public:
  NvmlCollector(const NvmlOptions& options, Environment environment)
      : wrong_(Check(options)),
        options_(options),
        library_(options.library != nullptr ? options.library : ""),
        environment_(std::move(environment)) {
    options_.library = library_.c_str();
  }
  ~NvmlCollector() override { NvmlCollector::Stop(); }

  const char* Name() const noexcept override { return "nvml"; }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint64_t HeldBytes() const noexcept override { return options_.memory_bytes; }
  // A sample takes 24 bytes of it, twice, and 44 in an incident.
  uint64_t IncidentBytes() const noexcept override { return options_.memory_bytes + (1 << 20); }
  void Keep(int64_t begin_ns, KeepFor) noexcept override {
    if (IsOurs()) shared_->history.Keep(begin_ns, shared_->timer->NowNs());
  }
  void AddTo(TraceBuilder& trace) override {
    if (IsOurs()) shared_->history.AddTo(trace);
  }

 private:
  // In the child of a fork there is no thread, and locks it held are never released.
  bool IsOurs() const noexcept { return has_started_ && getpid() == pid_; }
  // Waits for the thread's end for at most `patience_ns`, then leaves the thread to itself.
  void EndThread(int64_t patience_ns) noexcept;

  const Status wrong_;  // a fault of the options
  NvmlOptions options_;
  const std::string library_;
  const Environment environment_;
  std::shared_ptr<Shared> shared_;
  base::PatientThread thread_;
  pid_t pid_ = 0;
  bool has_started_ = false, has_stopped_ = false;
};

Status NvmlCollector::Start() noexcept {
  if (!wrong_.ok()) return wrong_;
  if (shared_ != nullptr || !g_only.Take())
    return Status(StatusCode::kAlreadyRunning, "this process has an NVML collector already");
  try {
    shared_ = std::make_shared<Shared>(options_, environment_);
    pid_ = getpid();
    thread_.Start([shared = shared_] { shared->Run(); });
  } catch (const std::exception& e) {
    g_only.GiveBack();
    return Error(StatusCode::kResourceExhausted, "cannot start the NVML collector: %s", e.what());
  }
  const int64_t begin_ns = base::ClockNs(CLOCK_MONOTONIC);
  shared_->open_signal.AwaitUntil(begin_ns + environment_.start_patience_ns);
  if (shared_->has_opened.load(std::memory_order_acquire)) {
    if (shared_->opened.ok()) {
      has_started_ = true;
      return {};
    }
    const Status opened = shared_->opened;
    EndThread(environment_.stop_patience_ns);
    if (opened.code() != StatusCode::kNotFound) return opened;
    return Error(StatusCode::kNotFound, "%s%s", opened.message(), environment_.without_driver.c_str());
  }
  EndThread(0);
  return Error(
      StatusCode::kUnavailable,
      "NVML did not start within %.1f s: the driver hangs (the kernel's log may say why), or this was called while "
      "a library is being loaded",
      static_cast<double>(environment_.start_patience_ns) / 1e9);
}

void NvmlCollector::Stop() noexcept {
  if (IsOurs() && !std::exchange(has_stopped_, true)) EndThread(environment_.stop_patience_ns);
}

void NvmlCollector::EndThread(int64_t patience_ns) noexcept {
  shared_->stop.store(true, std::memory_order_release);
  shared_->timer->Wake();
  thread_.End(patience_ns);
  g_only.GiveBack();
}

}  // namespace

Status Check(const NvmlOptions& options) noexcept {
  if (options.rate_hz < 1 || options.rate_hz > 50)
    return Error(StatusCode::kInvalidArgument, "NvmlOptions::rate_hz is %u; it must be 1 to 50", options.rate_hz);
  if (options.memory_bytes < (64 << 10) || options.memory_bytes > (1 << 30))
    return Error(StatusCode::kInvalidArgument, "NvmlOptions::memory_bytes is %llu; it must be 65536 to 1073741824",
                 static_cast<unsigned long long>(options.memory_bytes));
  return base::CheckLibrary("NvmlOptions::library", options.library);
}

Environment SystemEnvironment() {
  Environment environment;
  environment.timer = std::make_shared<base::SystemTimer>();
  environment.own = FindOwnProcess();
  environment.rests = true;
  return environment;
}

std::unique_ptr<Collector> MakeCollector(const NvmlOptions& options, Environment environment) {
  return std::make_unique<NvmlCollector>(options, std::move(environment));
}

}  // namespace pitot::nvml

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeNvmlCollector(const NvmlOptions& options) noexcept {
  try {
    return nvml::MakeCollector(options, nvml::SystemEnvironment());
  } catch (...) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
