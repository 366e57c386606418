// SPDX-License-Identifier: Apache-2.0
#include "session/previous_lives.h"

#include <exception>
#include <string>
#include <utility>

#include "base/causes.h"
#include "base/message.h"
#include "session/post_mortem.h"

namespace pitot::session {

using base::Error;

void PreviousLives::Recover() noexcept {
  if (options_.black_box_directory.empty() || options_.incident_directory.empty()) return;
  const auto attempt = [this](const auto& work) {
    try {
      work();
    } catch (const std::exception& e) {
      host_.Log(LogLevel::kWarning,
                Error(StatusCode::kResourceExhausted, "black boxes of earlier processes: %s", e.what()).message());
    }
  };
  attempt([&] {
    for (const std::string& path : BoxesIn(options_.black_box_directory)) {
      if (!throttle_.Proceed()) return;
      attempt([&] { RecoverOne(path); });
    }
  });
}

// Others' are left to them, and not locked: their server may look for them now.
bool PreviousLives::IsOthers(const std::string& path) const {
  FoundBox box(path);
  return box.Peek() != FoundBox::Life::kBroken &&
         box.reader().facts().incident_directory != options_.incident_directory;
}

void PreviousLives::RecoverOne(const std::string& path) {
  if (IsOthers(path)) return;
  FoundBox box(path);
  const FoundBox::Life life = box.Look();
  if (box.IsUnwritten()) {
    if (!box.Remove()) return;
    host_.Log(
        LogLevel::kWarning,
        Error(StatusCode::kUnavailable, "removed the black box %s: %s", path.c_str(), box.why().c_str()).message());
    return;
  }
  if (life == FoundBox::Life::kAlive || life == FoundBox::Life::kBroken) return;
  if (life == FoundBox::Life::kEnded) {
    box.Remove();
    return;
  }
  const MemorySplit split = budget_.AtStart();
  const model::Trace trace = TraceOf(&box.reader(), {}, split.snapshot_reserve / sizeof(uint64_t), RowBytes(split));
  const auto trust = options_.values.accept_unsafe_directory ? DirectoryTrust::kAny : DirectoryTrust::kOwn;
  IncidentDirectory directory;
  Incident incident;
  QueuedFiring firing;
  Firing fired;
  fired.cause = base::kPreviousLife;
  const std::string detail(trace.strings[trace.firings.front().detail]);
  fired.detail = detail.c_str();
  firing.Set(fired, 0, 0);
  incident.cause = base::kPreviousLife;
  incident.firings.push_back(firing);
  std::string written;
  Status status = directory.Open(options_.incident_directory, trust);
  const DirectoryQuota quota{options_.values.max_incidents_kept, options_.values.max_incident_directory_bytes};
  if (status.ok()) status = WritePostMortem(trace, box, quota, &directory, &throttle_, &written);
  if (!status.ok()) {
    host_.Log(LogLevel::kError,
              Error(status.code(), "%s. Its black box stays in %s: %s", detail.c_str(), path.c_str(), status.message())
                  .message());
    return;
  }
  if (!box.Remove())
    host_.Log(LogLevel::kWarning, Error(StatusCode::kUnavailable,
                                        "the black box %s cannot be removed, and will be found again", path.c_str())
                                      .message());
  host_.Log(LogLevel::kWarning,
            Error(StatusCode::kUnavailable, "%s. Its last seconds: %s", detail.c_str(), written.c_str()).message());
  host_.Tell(&Hooks::on_incident, incident, written, status, "");
}

}  // namespace pitot::session
