// SPDX-License-Identifier: Apache-2.0
#include "session/incident_files.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/appendix.h"
#include "base/message.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "pitot/serialize/report.h"
#include "session/text_sink.h"

namespace pitot::session {
namespace {

using base::Error;
using base::MutexLock;

constexpr size_t kMostReportBytes = 4 << 20;  // of a report that is read again
constexpr char kReportName[] = "report.txt";
constexpr char kOthersFollow[] =
    "This is the verdict alone. Tables and pages follow, unless newer incidents displace this one.\n"
    "Run `pitot report DIR` for it: DIR is the directory of this incident\n\n";

bool IsFileName(std::string_view name) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  };
  return !name.empty() && name.size() <= 100 && name[0] != '.' && std::all_of(name.begin(), name.end(), is_plain);
}

// A file of one text.
class Short final : public Serializer {
 public:
  explicit Short(std::string_view text, const char* name = kReportName) : text_(text), name_(name) {}
  const char* FileName() const noexcept override { return name_; }
  Status Serialize(const model::Trace&, ByteSink& sink) override {
    return sink.Write(text_.data(), text_.size()) ? Status()
                                                  : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  const std::string_view text_;
  const char* const name_;
};

// A report with its opening, and with the lines on repeats.
class Opened final : public Serializer {
 public:
  Opened(Serializer* report, std::string_view opening, const std::string* again, base::OpeningSize* size)
      : report_(*report), opening_(opening), again_(*again), size_(*size) {}
  const char* FileName() const noexcept override { return report_.FileName(); }
  Status Serialize(const model::Trace& trace, ByteSink& sink) override {
    TextSink inner;
    if (Status s = report_.Serialize(trace, inner); !s.ok()) return s;
    base::Open(&inner.text, opening_, &size_);
    const std::string text = again_.empty() ? std::move(inner.text) : WithAgain(inner.text, again_);
    return sink.Write(text.data(), text.size()) ? Status()
                                                : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  Serializer& report_;
  const std::string_view opening_;
  const std::string& again_;
  base::OpeningSize& size_;
};

}  // namespace

Status IncidentFiles::OpenDirectory() {
  const auto trust = options_.values.accept_unsafe_directory ? DirectoryTrust::kAny : DirectoryTrust::kOwn;
  if (Status s = directory_.Open(options_.incident_directory, trust); !s.ok()) return s;
  are_kept_ = directory_.IsOpen();
  if (!directory_.doubt().empty())
    host_.Log(LogLevel::kWarning, Error(StatusCode::kInvalidArgument, "Options::incident_directory %s is not safe: %s",
                                        directory_.path().c_str(), directory_.doubt().c_str())
                                      .message());
  for (const std::string& kept : directory_.kept_partial())
    host_.Log(LogLevel::kWarning,
              Error(StatusCode::kUnavailable, "kept what a killed process had written: %s", kept.c_str()).message());
  return later_.Open(options_.incident_directory, trust);
}

Status IncidentFiles::AddBuiltIns() {
  const MutexLock lock(&mutex_);
  serializers_.push_back(MakeDumpSerializer());
  serializers_.push_back(MakeReportSerializer());
  if (options_.values.perfetto_file) serializers_.push_back(MakePerfettoSerializer());
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

IncidentFiles::Serializers IncidentFiles::Get() {
  const MutexLock lock(&mutex_);
  return serializers_;
}

void IncidentFiles::CountOthersMissing(const Case& it) noexcept {
  if (it.path.empty()) return;
  const MutexLock lock(&mutex_);
  for (const auto& serializer : serializers_) {
    if (std::string_view(serializer->FileName()) != kDumpName) IncidentCounts::Add(&counts_.files_failed);
  }
}

Status IncidentFiles::WriteDump(const Incident& incident, const model::Trace& trace, Throttle* throttle,
                                std::string* path) {
  const Serializers serializers = Get();
  const auto is_dump = [](const auto& serializer) { return std::string_view(serializer->FileName()) == kDumpName; };
  const auto dump = std::find_if(serializers.begin(), serializers.end(), is_dump);
  if (Status s = directory_.Begin(incident.number, trace.clock.realtime_ns, incident.cause); !s.ok()) return s;
  Status status = directory_.AddFile(dump->get(), trace, throttle);
  if (lifetime_.HasGivenUp()) status = Status(StatusCode::kUnavailable, "cut off: the recorder was stopped");
  if (!status.ok()) {
    directory_.Abandon();
    return status;
  }
  if (Status s = directory_.Commit(path); !s.ok()) return s;
  NoteWritten(*path);
  Prune(&directory_);
  return {};
}

void IncidentFiles::Prune(IncidentDirectory* directory) noexcept {
  std::string newest;
  try {
    const MutexLock lock(&mutex_);
    newest = newest_;
  } catch (const std::bad_alloc&) {
    return;  // the next incident tries again
  }
  directory->Prune(options_.values.max_incidents_kept, options_.values.max_incident_directory_bytes, newest);
}

void IncidentFiles::NoteWritten(const std::string& path) noexcept {
  try {
    const MutexLock lock(&mutex_);
    newest_ = path;
  } catch (const std::bad_alloc&) {
    // The one before stays in its place.
  }
  IncidentCounts::Add(&counts_.incidents_written);
  host_.Log(LogLevel::kInfo, Error(StatusCode::kInternal, "incident: %s", path.c_str()).message());
}

// The rest of the incident is worth having.
void IncidentFiles::NoteMissing(const Incident& incident, const char* file, const Status& why,
                                Status* missing) noexcept {
  *missing = Error(why.code(), "incident %llu lacks %s: %s", static_cast<unsigned long long>(incident.number), file,
                   why.message());
  IncidentCounts::Add(&counts_.files_failed);
  const Awake awake(throttle_.priority());  // the host's log takes locks of its own
  host_.LogFailure(&failed_, LogLevel::kError, incident.number, missing->message());
}

void IncidentFiles::Reopen() noexcept {
  if (!are_kept_) return;
  try {
    static_cast<void>(later_.Reopen());  // what is written next says what is wrong
  } catch (const std::bad_alloc&) {
    // The same.
  }
}

Status IncidentFiles::WriteOthers(Case* it) {
  const Incident& incident = *it->incident;
  const model::Trace& trace = *it->trace;
  Serializers serializers;
  {
    const Awake awake(throttle_.priority());
    serializers = Get();
  }
  const bool begins = it->path.empty();
  size_t left = serializers.size() - (begins ? 0 : 1);  // files; one is the dump
  bool any = !begins;
  Status missing;  // why a file is missing
  const Status cut_off(StatusCode::kUnavailable, "cut off: the recorder was stopped");
  // If there is no dump, it is tried again: there may be room or a descriptor now.
  if (begins) {
    if (Status s = later_.Begin(incident.number, trace.clock.realtime_ns, incident.cause); !s.ok()) return s;
  }
  for (const auto& serializer : serializers) {
    if (!begins && std::string_view(serializer->FileName()) == kDumpName) continue;
    if (!begins && !later_.Has(it->path))
      return Status(StatusCode::kNotFound, "it was removed before its files were complete");
    // Pays for the CPU time since the last write.
    Status file = cut_off;
    const bool is_report = std::string_view(serializer->FileName()) == kReportName;
    if (throttle_.Proceed())
      file = begins      ? later_.AddFile(serializer.get(), trace, &throttle_)
             : is_report ? WriteReport(it, serializer.get())
                         : AddLater(it->path, serializer.get(), trace);
    if (lifetime_.HasGivenUp()) {
      if (!begins) IncidentCounts::Add(&counts_.files_failed, left - (file.ok() ? 1 : 0));
      return cut_off;
    }
    --left;
    any = any || file.ok();
    if (is_report) it->report = file;
    if (is_report) it->has_report = file.ok();
    if (!file.ok()) NoteMissing(incident, serializer->FileName(), file, &missing);
  }
  if (!any) return Error(missing.code(), "none of its files could be written; the last: %s", missing.message());
  if (begins) {
    if (Status s = later_.Commit(&it->path); !s.ok()) return s;
    const Awake awake(throttle_.priority());
    NoteWritten(it->path);
  }
  Prune();
  return missing;
}

void IncidentFiles::Complete(Case* it) noexcept {
  const bool is_kept = !it->path.empty() || !it->written.ok();
  if (std::exchange(it->is_complete, true) || !is_kept) return;
  const Incident& incident = *it->incident;
  Status& status = it->written;
  try {
    Reopen();
    if (it->trace) status = WriteOthers(it);
  } catch (const std::bad_alloc&) {
    status = Status(StatusCode::kResourceExhausted, "no memory for its files");
  }
  later_.Abandon();
  if (!it->has_report && it->report.ok()) it->report = status;  // it was not come to
  const Awake awake(throttle_.priority());
  if (it->path.empty()) {
    IncidentCounts::Add(&counts_.incidents_failed);
    host_.LogFailure(&failed_, LogLevel::kError, incident.number,
                     Error(status.code(), "incident %llu, %s: %s", static_cast<unsigned long long>(incident.number),
                           incident.cause.c_str(), status.message())
                         .message());
  } else if (status.ok()) {
    if (const uint64_t failed = failed_.count(); failed > 1)
      host_.Log(LogLevel::kInfo, Error(StatusCode::kInternal, "the incident is complete, after %llu failures in a row",
                                       static_cast<unsigned long long>(failed))
                                     .message());
    failed_.End();
  }
}

void IncidentFiles::NoteDropped(const Case& it, const Status& why, Throttle* throttle) noexcept {
  if (it.path.empty()) return;
  try {
    Short report(why.message());
    directory_.AddLater(it.path, &report, model::Trace(), throttle);
  } catch (const std::bad_alloc&) {
    // It is counted and logged.
  }
}

Status IncidentFiles::WriteShortReport(const std::string& path, std::string_view text) noexcept {
  if (path.empty()) return {};
  try {
    Short report(text);
    return AddLater(path, &report, model::Trace());
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for report.txt");
  }
}

std::shared_ptr<Serializer> IncidentFiles::ReportSerializer() noexcept {
  const Awake awake(throttle_.priority());
  const MutexLock lock(&mutex_);
  for (const auto& serializer : serializers_) {
    if (std::string_view(serializer->FileName()) == kReportName) return serializer;
  }
  return nullptr;
}

// The whole of it. Lines on repeats that are there stay.
Status IncidentFiles::WriteReport(Case* it, Serializer* report) {
  std::string before, again;
  if (later_.Read(it->path, kReportName, kMostReportBytes, &before).ok()) again = TakeAgain(&before);
  base::OpeningSize size;
  Opened opened(report, it->opening, &again, &size);
  const Status status = AddLater(it->path, &opened, *it->trace);
  if (status.ok()) it->opened = size;
  return status;
}

// In a report that is there: serializing it again takes much longer than reading it.
Status IncidentFiles::PutOpening(Case* it, std::string_view opening) {
  std::string text;
  base::OpeningSize size = it->opened;
  const bool is_there = it->has_report && later_.Read(it->path, kReportName, kMostReportBytes, &text).ok();
  if (!is_there || text.size() < size.front + size.appendix) {
    it->opening = opening;
    const Status status = WriteReport(it, ReportSerializer().get());
    it->has_report = status.ok();
    return status;
  }
  const std::string again = TakeAgain(&text);
  base::Open(&text, opening, &size);
  const Status status = WriteShortReport(it->path, again.empty() ? text : WithAgain(text, again));
  if (status.ok()) it->opened = size;
  return status;
}

Status IncidentFiles::OpenReport(Case* it, std::string_view opening, Others others) noexcept {
  try {
    if (it->is_complete) return it->path.empty() || opening.empty() ? Status() : PutOpening(it, opening);
    it->opening = opening;
    if (others == Others::kNow) {
      Complete(it);
      return it->report;
    }
    std::string text(opening);
    base::AddToFront(&text, kOthersFollow);
    return WriteShortReport(it->path, text);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to open report.txt");
  }
}

void IncidentFiles::Rewrite(const std::string& path, const char* name,
                            std::string (*with)(const std::string&, const std::string&), const std::string& text) {
  std::string before;
  // The quota may have removed it.
  if (path.empty() || !later_.Read(path, name, kMostReportBytes, &before).ok()) return;
  const std::string after = with(before, text);
  Short file(after, name);
  AddLater(path, &file, model::Trace());
}

void IncidentFiles::NoteRepeats(const Repeats& repeats) noexcept {
  try {
    const std::string lines = AgainText(repeats), member = AgainJson(repeats);
    for (const JudgedIncident* it : {&repeats.first, &repeats.worst, &repeats.last}) {
      const bool is_noted = (it == &repeats.worst && it->number == repeats.first.number) ||
                            (it == &repeats.last && it->number == repeats.worst.number);
      if (is_noted) continue;
      Rewrite(it->path, kReportName, WithAgain, lines);
      Rewrite(it->path, kVerdictName, WithAgainMember, member);
    }
  } catch (const std::bad_alloc&) {
    // The next of its kind tries again.
  }
}

}  // namespace pitot::session
