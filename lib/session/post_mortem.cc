// SPDX-License-Identifier: Apache-2.0
#include "session/post_mortem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <utility>

#include "assemble/assemble.h"
#include "base/causes.h"
#include "base/text.h"
#include "ends/death_note.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/report.h"
#include "session/hung_thread.h"
#include "session/last_words.h"
#include "session/process_facts.h"

namespace pitot::session {
namespace {

constexpr std::string_view kSuffix = ".box";

bool EndsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

void AddAttribute(const char* key, const std::string& value, model::Trace* trace) {
  trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(value)});
}

// By its number, without the lock. Another container's numbers mean nothing here.
bool DoesRun(const snapshot::BoxFacts& facts) {
  return facts.boot_id == BootId() && facts.process_space == ProcessSpace() &&
         ProcessStart(facts.pid) == facts.process_start && !IsZombie(facts.pid);
}

// What collectors of the process had last, as it is in its black box. Counters are few and worth much, so GPU work has
// what they leave of `most_bytes`: the newest.
struct LastRows {
  static constexpr uint64_t kWorkBytes = 144, kValueBytes = 44;  // Collector::IncidentBytes

  LastRows(const snapshot::BoxReader& box, uint64_t most_bytes)
      : work(box.LastWork()),
        values(box.LastValues()),
        depths(box.LastDepths()),
        texts(box.LastTexts()),
        work_lost(box.LastWorkLost()) {
    const uint64_t left = most_bytes - std::min(most_bytes, kValueBytes * values.size());
    const auto dropped = static_cast<std::ptrdiff_t>(work.size() - std::min<uint64_t>(work.size(), left / kWorkBytes));
    work.erase(work.begin(), work.begin() + dropped);
    work_lost += static_cast<uint64_t>(dropped);
  }
  const char* Text(uint32_t number) const {
    return number != 0 && number <= texts.size() ? texts[number - 1].c_str() : "(other)";
  }

  std::vector<trace::LastWork> work;
  std::vector<trace::LastValue> values;
  std::vector<trace::LastDepth> depths;
  std::vector<std::string> texts;
  uint64_t work_lost;
};

// Hands them over as their collector would.
class LastCollector : public Collector {
 public:
  explicit LastCollector(const LastRows* rows) : rows_(*rows) {}
  Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, KeepFor) noexcept override {}

 protected:
  const LastRows& rows_;
};

class LastCounters final : public LastCollector {
 public:
  using LastCollector::LastCollector;
  const char* Name() const noexcept override { return "counters"; }
  uint64_t IncidentBytes() const noexcept override { return LastRows::kValueBytes * rows_.values.size(); }
  void AddTo(TraceBuilder& trace) override {
    for (auto row = rows_.values.rbegin(); row != rows_.values.rend(); ++row) {
      const uint32_t counter =
          trace.AddCounter(kNoRow, rows_.Text(row->name), row->unit != 0 ? rows_.Text(row->unit) : "");
      trace.AddSample(counter, row->at_ns, row->value);
    }
  }
};

class LastOperatorDepths final : public LastCollector {
 public:
  LastOperatorDepths(const LastRows* rows, int64_t end_ns) : LastCollector(rows), end_ns_(end_ns) {}
  const char* Name() const noexcept override { return "operators"; }
  void AddTo(TraceBuilder& trace) override {
    for (auto row = rows_.depths.begin(); row != rows_.depths.end(); ++row) {
      const int64_t end_ns = row + 1 != rows_.depths.end() ? (row + 1)->at_ns : end_ns_;
      if (row->depth <= static_cast<uint64_t>(Depth::kOps))
        trace.AddOperatorDepth(row->at_ns, end_ns, static_cast<Depth>(row->depth));
    }
  }

 private:
  const int64_t end_ns_;  // of the last one
};

// Those that count work by themselves, so that it is tied to the calls of the same.
class LastGpuWork final : public LastCollector {
 public:
  LastGpuWork(const LastRows* rows, const char* name, GpuKind first, GpuKind last)
      : LastCollector(rows), name_(name), first_(first), last_(last) {}
  const char* Name() const noexcept override { return name_; }
  uint64_t IncidentBytes() const noexcept override {
    const auto is_own = [this](const trace::LastWork& row) { return IsOwn(row); };
    return LastRows::kWorkBytes * static_cast<uint64_t>(std::count_if(rows_.work.begin(), rows_.work.end(), is_own));
  }
  void AddTo(TraceBuilder& trace) override {
    for (auto row = rows_.work.rbegin(); row != rows_.work.rend(); ++row) {
      if (IsOwn(*row)) AddWork(*row, &trace);
    }
    // Once: nobody knows whose they were.
    if (rows_.work_lost != 0 && !rows_.work.empty() && IsOwn(rows_.work.front()))
      trace.Add(GpuLoss{0, rows_.work.front().begin_ns, kNoRow, trace.AddText("overwritten"), rows_.work_lost});
  }

 private:
  bool IsOwn(const trace::LastWork& row) const {
    return row.kind >= static_cast<uint32_t>(first_) && row.kind <= static_cast<uint32_t>(last_);
  }
  void AddWork(const trace::LastWork& row, TraceBuilder* trace) const {
    GpuActivity activity;
    activity.kind = static_cast<GpuKind>(row.kind);
    activity.name = trace->AddText(rows_.Text(row.name));
    activity.begin_ns = row.begin_ns;
    activity.duration_ns = row.duration_ns;
    activity.bytes = row.bytes;
    activity.correlation = row.correlation;
    activity.stream = trace->AddStream(DeviceOf(row.device, trace), row.context, row.stream);
    trace->Add(activity);
  }
  static uint32_t DeviceOf(uint32_t ordinal, TraceBuilder* trace) {
    constexpr uint32_t kMostDevices = 1024;
    return ordinal < kMostDevices ? trace->AddDevice({ordinal}) : kNoRow;
  }

  const char* const name_;
  const GpuKind first_, last_;
};

// The id of the open request that began first; 0: there is none. Requests are in the order of their begins.
uint64_t LongestOpen(const model::Trace& trace) {
  const auto open = std::find_if(trace.requests.begin(), trace.requests.end(), [](const model::RequestRow& row) {
    return row.begin_known && row.duration_ns == model::kOpen;
  });
  return open != trace.requests.end() ? open->id : 0;
}

}  // namespace

FoundBox::~FoundBox() {
  if (fd_ >= 0) close(fd_);
}

bool FoundBox::IsRemoved() const noexcept {
  struct stat file {};
  return fstat(fd_, &file) != 0 || file.st_nlink == 0;
}

bool FoundBox::IsAlive() const noexcept {
  if (IsRemoved()) return false;
  if (IsLocked(Hold::kLeave, F_WRLCK)) return true;
  return DoesRun(reader_.facts());
}

// 0: nobody, or a process that is not seen from here.
int64_t FoundBox::LockHolder() const noexcept {
  struct flock lock {};
  lock.l_type = F_WRLCK;
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK ? lock.l_pid : 0;
}

bool FoundBox::IsTaken() const noexcept {
  const int64_t holder = LockHolder();
  return holder > 0 && ProcessStart(holder) != reader_.facts().process_start;
}

int64_t FoundBox::Owner() const noexcept {
  const snapshot::BoxFacts& facts = reader_.facts();
  const int64_t holder = LockHolder();
  if (holder > 0 && ProcessStart(holder) == facts.process_start) return holder;
  // Its file may name any process: it must be of the same user.
  struct stat file {
  }, process{};
  const std::string folder = "/proc/" + std::to_string(facts.pid);
  const bool is_same = fstat(fd_, &file) == 0 && stat(folder.c_str(), &process) == 0 && file.st_uid == process.st_uid;
  return is_same && DoesRun(facts) ? facts.pid : 0;
}

// By another process. If not, and it is to be taken, the lock is this one's from here on.
bool FoundBox::IsLocked(Hold hold, int16_t type) const noexcept {
  struct flock lock {};
  lock.l_type = type;
  if (hold == Hold::kTake) return fcntl(fd_, F_SETLK, &lock) != 0 && (errno == EACCES || errno == EAGAIN);
  return fcntl(fd_, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

FoundBox::Life FoundBox::Look() { return LookFor(Hold::kTake); }
FoundBox::Life FoundBox::Peek() { return LookFor(Hold::kLeave); }

FoundBox::Life FoundBox::LookFor(Hold hold) {
  const auto broken = [this](const std::string& why) {
    why_ = why;
    return Life::kBroken;
  };
  fd_ = open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  const bool may_write = fd_ >= 0;
  if (fd_ < 0) fd_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd_ < 0) {
    error_ = errno;
    return broken(base::SystemText(error_));
  }
  struct stat file {};
  if (fstat(fd_, &file) != 0) return broken(base::SystemText(errno));
  if (trust_ == BoxTrust::kOwn && file.st_uid != geteuid()) {
    error_ = EPERM;
    return broken("it belongs to user " + std::to_string(file.st_uid) + ": name a place for its incident (-o)");
  }
  if (const char* why = reader_.Open(fd_); why[0] != '\0') {
    // A loss of power leaves a file whose pages had not been written back: empty, or of zeros. A process that is just
    // making its own gets the lock.
    is_unwritten_ = IsNothingWritten() && IsOwnerGone(path_.substr(path_.rfind('/') + 1)) &&
                    !IsLocked(hold, may_write ? F_WRLCK : F_RDLCK) && !IsRemoved();
    return broken(is_unwritten_ ? "nothing was written to it before its process or the machine ended" : why);
  }
  if (IsLocked(hold, may_write ? F_WRLCK : F_RDLCK)) return Life::kAlive;
  if (IsRemoved()) return broken("another process has just removed it");
  // The lock is gone also if the process itself opened and closed the file, and some file systems have none.
  const snapshot::BoxFacts& facts = reader_.facts();
  if (DoesRun(facts)) return Life::kAlive;
  switch (facts.state) {
    case trace::BoxState::kRecording:
      return Life::kDead;
    case trace::BoxState::kIncomplete:
      is_unwritten_ = true;
      return broken("its process ended while it made the file");
    case trace::BoxState::kEnded:
      break;
  }
  return Life::kEnded;
}

// The header begins with it. Without one, what else its process may have made cannot be understood.
bool FoundBox::IsNothingWritten() const {
  char magic[sizeof trace::kBoxMagic];
  const ssize_t got = pread(fd_, magic, sizeof magic, 0);
  return got >= 0 && std::all_of(magic, magic + got, [](char byte) { return byte == 0; });
}

bool FoundBox::Remove() noexcept { return unlink(path_.c_str()) == 0; }

std::vector<std::string> BoxesIn(const std::string& path, int* error) {
  std::vector<std::string> paths;
  struct stat info {};
  if (error != nullptr) *error = 0;
  if (stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode)) return {path};
  DIR* const directory = opendir(path.c_str());
  if (directory == nullptr) {
    if (error != nullptr) *error = errno;
    return paths;
  }
  const struct Closed {
    ~Closed() { closedir(directory); }  // even if there is no memory
    DIR* directory;
  } closed{directory};
  // Closing a file of one's own would release the lock on it.
  const std::string own = OwnBoxName();
  while (const dirent* entry = readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (EndsWith(name, kSuffix) && name != own) paths.push_back(path + "/" + entry->d_name);
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

namespace {

// What the box holds, with a firing for `cause`. Its detail is to be set.
model::Trace ReadTrace(snapshot::BoxReader* box, const char* cause, uint64_t most_words, uint64_t most_row_bytes) {
  const snapshot::BoxFacts& facts = box->facts();
  const uint64_t held = box->CountWords();
  // Open requests have the lower half.
  std::vector<uint64_t> words(std::min(2 * held + (uint64_t{1} << 20), most_words));
  snapshot::Snapshot snapshot;
  box->Read(facts.start.ticks, {words.data(), words.data() + words.size()}, &snapshot);
  const LastRows last(*box, most_row_bytes / assemble::kCollectorPart);
  LastCounters counters(&last);
  LastOperatorDepths operators(&last, snapshot.clock.Ns(snapshot.window_end_ticks));
  LastGpuWork work(&last, "cupti", GpuKind::kKernel, GpuKind::kGraph);
  LastGpuWork spans(&last, "cuda_events", GpuKind::kSpan, GpuKind::kSpan);
  Collector* const collectors[] = {&counters, &operators, &work, &spans};
  model::Trace trace = assemble::Assemble(snapshot, {most_row_bytes}, collectors);
  trace.process_name = trace.strings.Add(facts.process_name);
  trace.pid = facts.pid;
  model::FiringRow firing;
  firing.at_ns = std::clamp<int64_t>(snapshot.clock.Ns(snapshot.window_end_ticks), 0, model::kMaxTimeNs / 2);
  firing.cause = trace.strings.Add(cause);
  trace.firings.push_back(firing);
  AddAttribute("pitot.version", facts.library, &trace);
  AddAttribute("incident.cause", cause, &trace);
  AddAttribute("post_mortem.pid", std::to_string(facts.pid), &trace);
  AddAttribute("post_mortem.last_look", TimeText(facts.last.realtime_ns), &trace);
  AddAttribute("post_mortem.requests_begun", std::to_string(facts.requests_begun), &trace);
  AddAttribute("post_mortem.triggers_fired", std::to_string(facts.triggers_fired), &trace);
  AddAttribute("post_mortem.incidents_written", std::to_string(facts.incidents_written), &trace);
  if (!box->HasRequests()) AddAttribute("post_mortem.open_requests", "not in the black box", &trace);
  const auto add_missing = [&trace](const char* key, uint64_t count) {
    if (count != 0) AddAttribute(key, std::to_string(count), &trace);
  };
  add_missing("post_mortem.rings_outside", facts.rings_outside);
  add_missing("post_mortem.rings_damaged", box->rings_damaged());
  add_missing("post_mortem.pages_lost", facts.pages_lost);
  return trace;
}

// Tells of which black box an incident is.
constexpr char kBoxFile[] = "black_box.txt";
class BoxFile final : public Serializer {
 public:
  explicit BoxFile(const std::string& name) : name_(name) {}
  const char* FileName() const noexcept override { return kBoxFile; }
  Status Serialize(const model::Trace&, ByteSink& sink) override {
    return sink.Write(name_.data(), name_.size()) ? Status()
                                                  : Status(StatusCode::kIoError, "the sink accepts no more data");
  }

 private:
  const std::string& name_;
};

void AddKnown(const char* key, const std::string& text, model::Trace* trace) {
  if (!text.empty()) AddAttribute(key, text, trace);
}

}  // namespace

model::Trace TraceOf(snapshot::BoxReader* box, const SeenEnd& seen, uint64_t most_words, uint64_t most_row_bytes) {
  const bool is_of_other_boot = IsOfOtherBoot(box->facts());
  if (is_of_other_boot || !box->IsInMemory()) box->ExpectTornPages();
  model::Trace trace = ReadTrace(box, base::kPreviousLife, most_words, most_row_bytes);
  if (is_of_other_boot) AddAttribute("post_mortem.machine", "went down: the newest seconds may be missing", &trace);
  const std::optional<ends::DeathNote> note = NoteOf(box->DeathNote());
  trace.firings[0].detail = trace.strings.Add(LastWords(box->facts(), note, seen, trace));
  trace.firings[0].request_id = LongestOpen(trace);
  if (note) {
    AddKnown(base::kIncidentThread, ThreadOf(*note, trace), &trace);
    AddKnown("post_mortem.exception", ExceptionOf(*note), &trace);
    AddKnown("post_mortem.stack", StackOf(*note), &trace);
  }
  return trace;
}

model::Trace TraceOfWedged(snapshot::BoxReader* box, const Wedge& wedge, const KernelView& view, uint64_t most_words,
                           uint64_t most_row_bytes) {
  model::Trace trace = ReadTrace(box, base::kWedged, most_words, most_row_bytes);
  const snapshot::BoxFacts& facts = box->facts();
  trace.firings[0].detail =
      trace.strings.Add(facts.process_name + " (process " + std::to_string(facts.pid) + ") " + wedge.text);
  trace.firings[0].request_id = wedge.request;
  const ViewNumbers numbers = facts.process_space == ProcessSpace() ? ViewNumbers::kOwn : ViewNumbers::kOthers;
  AddKnown(base::kIncidentThread, HungThread(trace, wedge.request, view, numbers), &trace);
  AddAttribute("watch.threads", Summary(view), &trace);
  AddKnown("watch.problem", view.problem, &trace);
  return trace;
}

Status WritePostMortem(const model::Trace& trace, const FoundBox& box, const DirectoryQuota& quota,
                       IncidentDirectory* directory, Throttle* throttle, std::string* path,
                       std::vector<std::unique_ptr<Serializer>> files) {
  constexpr uint64_t kNumber = 0;  // no recorder's
  const std::string cause(trace.strings[trace.firings.front().cause]);
  const std::string name = box.path().substr(box.path().rfind('/') + 1);
  std::vector<std::string> earlier;
  if (cause == base::kPreviousLife) {
    earlier = directory->Find(kNumber, trace.clock.realtime_ns, cause, kBoxFile, name);
    // Each killed reader may have left a partial one. One stays until there is a whole one.
    std::partition(earlier.begin(), earlier.end(), [](const auto& it) { return !IsPartial(it); });
    for (; earlier.size() > 1; earlier.pop_back()) directory->Remove(earlier.back());
    if (!earlier.empty() && !IsPartial(earlier.front())) {
      *path = earlier.front();
      return {};
    }
    // Before the dump, so that a partial incident has it.
    files.insert(files.begin(), std::unique_ptr<Serializer>(new (std::nothrow) BoxFile(name)));
  }
  Status status = directory->Begin(kNumber, trace.clock.realtime_ns, cause);
  if (!status.ok()) return status;
  files.push_back(MakeDumpSerializer());
  files.push_back(MakeReportSerializer());
  for (const std::unique_ptr<Serializer>& serializer : files) {
    if (serializer == nullptr) status = Status(StatusCode::kResourceExhausted, "no memory for a file");
    if (status.ok()) status = directory->AddFile(serializer.get(), trace, throttle);
  }
  if (status.ok()) status = directory->Commit(path);
  if (!status.ok()) {
    directory->Abandon();
    return status;
  }
  if (!earlier.empty()) directory->Remove(earlier.front());
  directory->Prune(quota.most_incidents, quota.most_bytes, *path);
  return status;
}

}  // namespace pitot::session
