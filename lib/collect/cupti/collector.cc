// SPDX-License-Identifier: Apache-2.0
//
// The collector: CUPTI fills buffers on the host's threads, one thread of Pitot's decodes them into the history, and an
// incident pins its window there.
#include "collect/cupti/collector.h"

#include <atomic>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "base/clock.h"
#include "base/message.h"
#include "base/mutex.h"
#include "base/patient_thread.h"
#include "collect/cupti/engine.h"
#include "collect/cupti/kineto.h"
#include "collect/cupti/recording.h"
#include "trace/process.h"

namespace pitot::cupti {
namespace {

using base::Error;

constexpr uint64_t kLeastBytes = 8ull << 20, kMostBytes = 4ull << 30;
// An incident's rows while CUPTI was not called: a depth and an attribute.
constexpr uint64_t kWaitingBytes = 4096;

Status Check(const CuptiOptions& options) {
  if (options.memory_bytes < kLeastBytes || options.memory_bytes > kMostBytes)
    return Error(StatusCode::kInvalidArgument, "CuptiOptions::memory_bytes is %llu; it must be %llu to %llu",
                 static_cast<unsigned long long>(options.memory_bytes), static_cast<unsigned long long>(kLeastBytes),
                 static_cast<unsigned long long>(kMostBytes));
  if (!(options.lasting_cost_percent >= 0))
    return Error(StatusCode::kInvalidArgument, "CuptiOptions::lasting_cost_percent is %g; it must be at least 0",
                 options.lasting_cost_percent);
  if (options.attach > CuptiAttach::kAtStart)
    return Error(StatusCode::kInvalidArgument, "CuptiOptions::attach is %d; it must be a CuptiAttach",
                 static_cast<int>(options.attach));
  if (options.graph_level && options.attach != CuptiAttach::kAtStart)
    return Status(StatusCode::kInvalidArgument, "CuptiOptions::graph_level needs CuptiOptions::attach = kAtStart");
  return {};
}

// Until CUPTI is asked for, nothing exists but this: no thread, no buffers, and libcupti is not opened. Start,
// SetDepth, Pause, Resume and Stop are called one at a time.
class CuptiCollector final : public Collector {
 public:
  CuptiCollector(const CuptiOptions& options, const Environment& environment)
      : library_(options.library != nullptr ? options.library : ""), options_(options), environment_(environment) {
    options_.library = library_.c_str();
  }
  ~CuptiCollector() override { CuptiCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  void ExpectDepth(Depth depth) noexcept override {
    expected_.store(depth);
    if (Recording* const recording = begun()) recording->ExpectDepth(depth);
  }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint32_t Depths() const noexcept override {
    const Recording* const recording = begun();
    return IsOurs() && recording != nullptr ? recording->Depths() : 0;
  }
  uint64_t IncidentBytes() const noexcept override {
    const Recording* const recording = begun();
    return recording != nullptr ? recording->incident_bytes() : kWaitingBytes;
  }
  uint64_t HeldBytes() const noexcept override {
    const Recording* const recording = begun();
    return recording != nullptr ? recording->memory_bytes() : 0;
  }
  void SetDepth(Depth depth) noexcept override;
  Status Pause() noexcept override;
  Status Resume() noexcept override;
  void Keep(int64_t begin_ns, KeepFor) noexcept override {
    if (!IsOurs()) return;
    kept_in_ = begun();
    if (kept_in_ != nullptr) return kept_in_->Keep(begin_ns);
    kept_begin_ns_ = begin_ns, kept_end_ns_ = base::ClockNs(CLOCK_MONOTONIC);
  }
  void AddTo(TraceBuilder& trace) override;

 private:
  Recording* begun() const noexcept { return begun_.load(std::memory_order_acquire); }
  bool IsOfThisProcess() const noexcept { return fork_epoch_.load() == trace::ForkEpoch(); }
  bool IsOurs() const noexcept { return is_running_.load() && IsOfThisProcess(); }
  // Whether the host, not a governor, wants kernels.
  bool IsAsked() const noexcept { return expected_.load() != Depth::kAuto && wanted_.load() != Depth::kScopes; }
  Status Begin(Attach attach) noexcept;
  Status BeginIfAsked() noexcept;
  void EndThread(Recording* recording) noexcept;
  std::string WhyNotBegun();

  const std::string library_;
  CuptiOptions options_;
  const Environment environment_;
  std::shared_ptr<Recording> recording_;    // shared with the thread
  std::atomic<Recording*> begun_{nullptr};  // the same once it runs, for the life of this
  base::PatientThread thread_;
  std::atomic<bool> is_running_{false};
  std::atomic<uint32_t> fork_epoch_{0};
  std::atomic<Depth> expected_{Depth::kAuto}, wanted_{Depth::kScopes};
  std::atomic<bool> is_paused_{false};  // before it has begun
  base::Mutex mutex_;
  std::string failure_ PITOT_GUARDED_BY(mutex_);  // of the last attempt to begin

  // From Keep to AddTo.
  Recording* kept_in_ = nullptr;
  int64_t kept_begin_ns_ = 0, kept_end_ns_ = 0;
};

Status CuptiCollector::Start() noexcept {
  if (Status status = Check(options_); !status.ok()) return status;
  fork_epoch_.store(trace::ForkEpoch());
  const Depth expected = expected_.load();
  const bool is_asked = expected != Depth::kAuto && expected != Depth::kScopes;
  const bool begins =
      options_.attach == CuptiAttach::kAtStart || (options_.attach == CuptiAttach::kWhenAsked && is_asked);
  if (Status status = begins ? Begin(Attach::kAtStart) : Status(); !status.ok()) return status;
  is_running_ = true;
  return {};
}

// Opens CUPTI and starts the thread. On error the next attempt starts anew.
Status CuptiCollector::Begin(Attach attach) noexcept {
  Status status;
  try {
    auto recording = std::make_shared<Recording>(options_, environment_, attach);
    recording->ExpectDepth(expected_.load());
    if (status = Recording::Claim(); !status.ok()) return status;
    recording_ = std::move(recording);
    status = recording_->Open();
    if (status.ok()) thread_.Start([recording = recording_] { recording->Run(); });
  } catch (const std::exception& e) {
    status = Error(StatusCode::kResourceExhausted, "cannot start the CUPTI collector: %s", e.what());
    if (recording_ == nullptr) return status;
  }
  if (!status.ok()) {
    recording_->Release();
  } else if (status = recording_->AwaitStart(); status.ok()) {
    begun_.store(recording_.get(), std::memory_order_release);
    return status;
  } else {
    EndThread(recording_.get());
  }
  recording_ = nullptr;
  return status;
}

// Begins if the host wants kernels and nothing is in the way. The reason of a failure is kept for incidents.
Status CuptiCollector::BeginIfAsked() noexcept {
  if (options_.attach == CuptiAttach::kNever || !IsAsked() || is_paused_.load()) return {};
  Status status = Begin(Attach::kWhenWanted);
  try {
    const base::MutexLock lock(&mutex_);
    failure_ = status.message();
  } catch (const std::bad_alloc&) {
    // The reason before, if any, stays.
  }
  if (Recording* const recording = begun()) recording->SetDepth(wanted_.load());
  return status;
}

void CuptiCollector::SetDepth(Depth depth) noexcept {
  if (!IsOurs()) return;
  wanted_.store(depth);
  if (Recording* const recording = begun()) return recording->SetDepth(depth);
  BeginIfAsked();
}

Status CuptiCollector::Pause() noexcept {
  if (!IsOurs()) return NotRunning();
  if (Recording* const recording = begun()) return recording->Pause();
  is_paused_.store(true);
  return {};
}

// Also tries again what was refused: CUPTI's answer comes from Recording::Resume then.
Status CuptiCollector::Resume() noexcept {
  if (!IsOurs()) return NotRunning();
  is_paused_.store(false);
  Status status = begun() != nullptr ? Status() : BeginIfAsked();
  if (Recording* const recording = begun()) return recording->Resume();
  return status;
}

void CuptiCollector::Stop() noexcept {
  if (!is_running_.exchange(false) || !IsOfThisProcess()) return;
  if (Recording* const recording = begun()) EndThread(recording);
}

void CuptiCollector::EndThread(Recording* recording) noexcept {
  recording->End();
  if (!thread_.End(recording->HangingNs() != 0 ? 0 : environment_.patience_ns)) recording->LeaveBehind();
}

std::string CuptiCollector::WhyNotBegun() {
  const std::string remedy(kRemedy);
  if (options_.attach == CuptiAttach::kNever)
    return "CuptiOptions::attach is kNever" + remedy + "set it to kWhenAsked or kAtStart";
  if (!IsAsked()) return kNotAsked;
  if (is_paused_.load()) return "paused by the host" + remedy + "call Recorder::Resume(\"cupti\")";
  const base::MutexLock lock(&mutex_);
  if (failure_.empty()) return kNotAsked;  // the depth has just been fixed
  return failure_.find(kRemedy) != std::string::npos ? failure_
                                                     : failure_ + remedy + "call Recorder::Resume(\"cupti\")";
}

void CuptiCollector::AddTo(TraceBuilder& trace) {
  if (!IsOfThisProcess()) return;
  if (kept_in_ != nullptr) return kept_in_->AddTo(trace);
  if (kept_begin_ns_ < kept_end_ns_) trace.AddDepth(kept_begin_ns_, kept_end_ns_, Depth::kScopes);
  trace.AddAttribute("cupti.not_recorded", WhyNotBegun().c_str());
}

}  // namespace

std::unique_ptr<Collector> MakeCollector(const CuptiOptions& options, const Environment& environment) {
  Environment allowed = environment;
  if (!options.allow_torch_profiler) allowed.surroundings.ask_kineto = []() noexcept { return KinetoState::kAbsent; };
  return std::make_unique<CuptiCollector>(options, allowed);
}

}  // namespace pitot::cupti

PITOT_NAMESPACE_BEGIN

std::unique_ptr<Collector> MakeCuptiCollector(const CuptiOptions& options) noexcept {
  try {
    return cupti::MakeCollector(options, {{cupti::AskKineto, cupti::AskCuda}});
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

PITOT_NAMESPACE_END
