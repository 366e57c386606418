// SPDX-License-Identifier: Apache-2.0
#include "pitot/recorder.h"

#include <utility>

#include "pitot/version.h"
#include "session/session.h"

PITOT_NAMESPACE_BEGIN

const char* Version() noexcept { return PITOT_VERSION_STRING; }

Recorder::Recorder() noexcept : status_(StatusCode::kNotRunning, "the recorder was not started") {}
Recorder::Recorder(Status status) noexcept : status_(std::move(status)) {}

Recorder Recorder::Start(const Options& options) noexcept {
  Status status;
  std::shared_ptr<session::Session> session = session::Session::Start(options, &status);
  // A host that does not look at the status should see it somewhere.
  if (!status.ok() && status.code() != StatusCode::kDisabled)
    session::CallLog(options, LogLevel::kError, status.message());
  Recorder recorder(std::move(status));
  recorder.session_ = std::move(session);
  return recorder;
}

Recorder::Recorder(Recorder&& other) noexcept : Recorder() { *this = std::move(other); }

Recorder& Recorder::operator=(Recorder&& other) noexcept {
  if (this == &other) return *this;
  Stop();
  session_ = std::move(other.session_);
  status_ = std::exchange(other.status_, Status(StatusCode::kNotRunning, "the recorder was moved away"));
  return *this;
}

Recorder::~Recorder() { Stop(); }

Status Recorder::status() const noexcept { return session_ != nullptr ? session_->status() : status_; }

Status Recorder::Add(std::unique_ptr<pitot::Trigger> trigger) noexcept {
  return session_ != nullptr ? session_->AddTrigger(std::move(trigger)) : status_;
}

Status Recorder::Add(std::unique_ptr<Serializer> serializer) noexcept {
  return session_ != nullptr ? session_->AddSerializer(std::move(serializer)) : status_;
}

Status Recorder::Add(std::unique_ptr<Collector> collector) noexcept {
  return session_ != nullptr ? session_->AddCollector(std::move(collector)) : status_;
}

Status Recorder::Add(std::unique_ptr<Judge> judge) noexcept {
  return session_ != nullptr ? session_->AddJudge(std::move(judge)) : status_;
}

Status Recorder::SetHooks(const Hooks& hooks) noexcept {
  return session_ != nullptr ? session_->SetHooks(hooks) : status_;
}

Status Recorder::SetDepth(Depth depth) noexcept { return session_ != nullptr ? session_->SetDepth(depth) : status_; }
Status Recorder::Pause(const char* collector) noexcept {
  return session_ != nullptr ? session_->AskCollector(collector, &Collector::Pause) : status_;
}
Status Recorder::Resume(const char* collector) noexcept {
  return session_ != nullptr ? session_->AskCollector(collector, &Collector::Resume) : status_;
}

Status Recorder::Trigger(const char* reason) noexcept { return session_ != nullptr ? session_->Ask(reason) : status_; }

Status Recorder::Flush(uint32_t timeout_ms) noexcept {
  return session_ != nullptr ? session_->Flush(timeout_ms) : status_;
}

pitot::Stats Recorder::Stats() const noexcept { return session_ != nullptr ? session_->GetStats() : pitot::Stats{}; }

pitot::Health Recorder::Health(uint32_t stalled_after_ms) const noexcept {
  return session_ != nullptr ? session_->GetHealth(stalled_after_ms) : pitot::Health{};
}

void Recorder::Stop(uint32_t timeout_ms) noexcept {
  if (session_ != nullptr) session_->Stop(timeout_ms);
}

PITOT_NAMESPACE_END
