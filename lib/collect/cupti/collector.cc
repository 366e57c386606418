// SPDX-License-Identifier: Apache-2.0
//
// The collector: CUPTI fills buffers on the host's threads, one thread of Pitot's decodes them into the history, and an
// incident pins its window there.
#include "collect/cupti/collector.h"

#include <exception>
#include <new>
#include <utility>

#include "base/message.h"
#include "base/patient_thread.h"
#include "collect/cupti/engine.h"
#include "collect/cupti/kineto.h"
#include "collect/cupti/recording.h"

namespace pitot::cupti {
namespace {

class CuptiCollector final : public Collector {
 public:
  CuptiCollector(const CuptiOptions& options, const Environment& environment)
      : recording_(std::make_shared<Recording>(options, environment)), patience_ns_(environment.patience_ns) {}
  ~CuptiCollector() override { CuptiCollector::Stop(); }

  const char* Name() const noexcept override { return kCollectorName; }
  void ExpectDepth(Depth depth) noexcept override { recording_->ExpectDepth(depth); }
  Status Start() noexcept override;
  void Stop() noexcept override;
  uint32_t Depths() const noexcept override { return IsOurs() ? recording_->Depths() : 0; }
  uint64_t IncidentBytes() const noexcept override { return recording_->incident_bytes(); }
  uint64_t HeldBytes() const noexcept override { return recording_->memory_bytes(); }
  void SetDepth(Depth depth) noexcept override {
    if (IsOurs()) recording_->SetDepth(depth);
  }
  Status Pause() noexcept override { return IsOurs() ? recording_->Pause() : NotRunning(); }
  Status Resume() noexcept override { return IsOurs() ? recording_->Resume() : NotRunning(); }
  void Keep(int64_t begin_ns, KeepFor what) noexcept override {
    if (IsOurs()) recording_->Keep(begin_ns, what);
  }
  void AddTo(TraceBuilder& trace) override {
    if (IsOfThisProcess()) recording_->AddTo(trace);
  }

 private:
  bool IsOurs() const noexcept { return is_running_.load() && IsOfThisProcess(); }
  void EndThread() noexcept;

  const std::shared_ptr<Recording> recording_;  // shared with the thread
  const int64_t patience_ns_;
  base::PatientThread thread_;
  std::atomic<bool> is_running_{false};
};

Status CuptiCollector::Start() noexcept {
  if (Status status = Recording::Claim(); !status.ok()) return status;
  Status status;
  try {
    status = recording_->Open();
    if (status.ok()) thread_.Start([recording = recording_] { recording->Run(); });
  } catch (const std::exception& e) {
    status = base::Error(StatusCode::kResourceExhausted, "cannot start the CUPTI collector: %s", e.what());
  }
  if (!status.ok()) {
    recording_->Release();
    return status;
  }
  status = recording_->AwaitStart();
  if (status.ok())
    is_running_ = true;
  else
    EndThread();
  return status;
}

void CuptiCollector::Stop() noexcept {
  if (is_running_.exchange(false) && IsOfThisProcess()) EndThread();
}

void CuptiCollector::EndThread() noexcept {
  recording_->End();
  if (!thread_.End(recording_->HangingNs() != 0 ? 0 : patience_ns_)) recording_->LeaveBehind();
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
