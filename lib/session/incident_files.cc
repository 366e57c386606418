// SPDX-License-Identifier: Apache-2.0
#include "session/incident_files.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/message.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/report.h"

namespace pitot::session {
namespace {

using base::Error;
using base::MutexLock;

constexpr char kReportName[] = "report.txt";

bool IsFileName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && std::all_of(name.begin(), name.end(), is_plain);
}

// Another serializer's file after an opening text.
class Opened final : public Serializer {
 public:
  Opened(Serializer* inner, std::string_view opening) : inner_(*inner), opening_(opening) {}
  const char* FileName() const noexcept override { return inner_.FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    if (!sink.Write(opening_.data(), opening_.size()))
      return Status(StatusCode::kIoError, "the sink accepts no more data");
    return inner_.Serialize(trace, sink);
  }

 private:
  Serializer& inner_;
  const std::string_view opening_;
};

}  // namespace

Status IncidentFiles::AddBuiltIns() {
  const MutexLock lock(&mutex_);
  // The smallest first: on a full disk it may be all that fits.
  serializers_.push_back(MakeReportSerializer());
  serializers_.push_back(MakeDumpSerializer());
  serializers_.push_back(MakePerfettoSerializer());
  for (const auto& serializer : serializers_) {
    if (serializer == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for the serializers");
  }
  return {};
}

Status IncidentFiles::Add(std::unique_ptr<Serializer> serializer) noexcept {
  if (serializer == nullptr)
    return Status(StatusCode::kResourceExhausted, "the serializer is null: there was no memory for it");
  const std::string_view name = serializer->FileName() != nullptr ? serializer->FileName() : "";
  if (!IsFileName(name))
    return Status(StatusCode::kInvalidArgument,
                  "Serializer::FileName must be 1 to 100 letters, digits, '.', '_' or '-'");
  try {
    std::shared_ptr<Serializer> shared = std::move(serializer);  // destroyed without the lock
    const MutexLock lock(&mutex_);
    for (auto& there : serializers_) {
      if (name == there->FileName()) {
        there.swap(shared);
        return {};
      }
    }
    serializers_.push_back(std::move(shared));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for another serializer");
  }
  return {};
}

Status IncidentFiles::Write(const Incident& incident, const model::Trace& trace, std::string* path) {
  if (Status s = directory_.Begin(incident.number, trace.clock.realtime_ns, incident.cause); !s.ok()) return s;
  std::vector<std::shared_ptr<Serializer>> serializers;
  {
    const Awake awake(pace_.priority());
    const MutexLock lock(&mutex_);
    serializers = serializers_;
  }
  bool any = false;
  Status missing;  // why a file is missing
  for (const auto& serializer : serializers) {
    // Pays for the CPU time since the last write: the trace, or a serializer's work after its own.
    Status file = pace_.Proceed() ? directory_.AddFile(serializer.get(), trace, &pace_) : Status();
    if (lifetime_.HasGivenUp()) {
      directory_.Abandon();
      return Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
    }
    any = any || file.ok();
    if (file.ok()) continue;
    // The rest of the incident is worth having.
    missing = Error(file.code(), "incident %llu lacks %s: %s", static_cast<unsigned long long>(incident.number),
                    serializer->FileName(), file.message());
    {
      const Awake awake(pace_.priority());  // the host's log takes locks of its own
      host_.LogFailure(&failed_, LogLevel::kError, incident.number, missing.message());
    }
    IncidentCounts::Add(&counts_.files_failed);
  }
  if (!any) {
    directory_.Abandon();
    return Error(missing.code(), "none of its files could be written; the last: %s", missing.message());
  }
  if (Status s = directory_.Commit(path); !s.ok()) return s;
  Prune();
  return missing;
}

void IncidentFiles::Conclude(const Incident& incident, const std::string& path, const Status& status) noexcept {
  if (path.empty() && !status.ok()) {
    IncidentCounts::Add(&counts_.incidents_failed);
    host_.LogFailure(&failed_, LogLevel::kError, incident.number,
                     Error(status.code(), "incident %llu, %s: %s", static_cast<unsigned long long>(incident.number),
                           incident.cause.c_str(), status.message())
                         .message());
  } else if (directory_.IsOpen()) {
    IncidentCounts::Add(&counts_.incidents_written);
    host_.Log(LogLevel::kInfo, Error(StatusCode::kInternal, "incident: %s", path.c_str()).message());
    if (status.ok()) {
      if (const uint64_t failed = failed_.count(); failed > 1)
        host_.Log(LogLevel::kInfo,
                  Error(StatusCode::kInternal, "the incident is complete, after %llu failures in a row",
                        static_cast<unsigned long long>(failed))
                      .message());
      failed_.End();
    }
  }
}

Status IncidentFiles::OpenReport(const std::string& path, std::string_view opening,
                                 const model::Trace& trace) noexcept {
  if (path.empty() || opening.empty()) return {};
  try {
    std::shared_ptr<Serializer> report;
    {
      const Awake awake(pace_.priority());
      const MutexLock lock(&mutex_);
      for (const auto& serializer : serializers_) {
        if (std::string_view(serializer->FileName()) == kReportName) report = serializer;
      }
    }
    Opened opened(report.get(), opening);
    return AddLater(path, &opened, trace);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to open report.txt");
  }
}

}  // namespace pitot::session
