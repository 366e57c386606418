// SPDX-License-Identifier: Apache-2.0
#include "session/black_box.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/message.h"
#include "base/text.h"
#include "ends/death_note.h"
#include "pitot/version.h"
#include "session/box_room.h"
#include "session/incident_directory.h"
#include "session/incident_pipeline.h"
#include "session/memory_budget.h"
#include "session/process_facts.h"
#include "trace/bus_guard.h"
#include "trace/last_rows.h"
#include "trace/names.h"
#include "trace/parent_only.h"
#include "trace/requests.h"
#include "trace/rings.h"

namespace pitot::session {
namespace {

using base::Error;

constexpr int64_t kSitesNs = 50'000'000;  // between two looks for new sites

// ---- The end of a process that nobody stops. ------------------------------------------------------------------------

// `exit` with a running recorder is no death to be looked into: the file goes. But what fired and has no dump yet lies
// in the file alone: then it stays. One recorder runs at a time.
struct AtExit {
  std::atomic<trace::BoxHeader*> header{nullptr};
  std::atomic<pid_t> pid{0};
  const IncidentPipeline* pipeline = nullptr;
  char path[1280] = {};
};
constinit AtExit g_at_exit;

void RemoveAtEnd(trace::BoxHeader* header) {
  header->state.store(trace::BoxState::kEnded, std::memory_order_release);
  unlink(g_at_exit.path);
}

void OnExit(int status, void*) {
  trace::BoxHeader* const header = g_at_exit.header.exchange(nullptr);
  if (header == nullptr || g_at_exit.pid.load() != getpid()) return;
  if (!g_at_exit.pipeline->HasUnwritten()) return RemoveAtEnd(header);
  ends::Facts facts;
  facts.end = ends::End::kExit;
  facts.exit_status = status;
  ends::FinishNote(ends::WriteNote(facts));
}

// Handlers of exit run in reverse: this one after that of the ends, which writes what fired. So also a recorder without
// a black box registers it before it handles ends.
bool WatchExit() {
  static const bool is_registered = on_exit(OnExit, nullptr) == 0;
  return is_registered;
}

void NoteForExit(trace::BoxHeader* header, const IncidentPipeline* pipeline, const std::string& path) {
  if (!WatchExit() || path.size() >= sizeof g_at_exit.path) return;
  std::memcpy(g_at_exit.path, path.c_str(), path.size() + 1);
  g_at_exit.pipeline = pipeline;
  g_at_exit.pid.store(getpid());
  g_at_exit.header.store(header);
}

template <size_t kSize> void Copy(std::string_view text, char (&out)[kSize]) { out[text.copy(out, kSize - 1)] = '\0'; }

}  // namespace

Status BlackBox::Begin(const OwnedOptions& options, const MemorySplit& split, bool slow_clock,
                       const trace::ClockReading& start, const IncidentPipeline* pipeline,
                       std::vector<std::string>* removed) {
  // In the child of a fork it is the parent's.
  if (const pid_t noted = g_at_exit.pid.load(); noted != 0 && noted != getpid()) ends::SetDeathNote(nullptr);
  WatchExit();
  if (options.black_box_directory.empty()) return {};
  if (!trace::MakeParentOnly())
    return Status(StatusCode::kUnavailable, "no black box: the kernel is older than Linux 4.14");
  const std::string& directory = options.black_box_directory;
  if (options.incident_directory.size() >= sizeof trace::BoxHeader::incident_directory)
    return Error(StatusCode::kUnavailable,
                 "no black box: the path of Options::incident_directory has %zu bytes or more",
                 sizeof trace::BoxHeader::incident_directory);
  const uint64_t most_bytes = split.rings + split.requests_and_names;
  if (Status s = MakeFile(options, most_bytes, removed); !s.ok()) return s;
  if (const std::string doubt = DoubtAboutRoom(directory, most_bytes); !doubt.empty()) {
    End();
    return Error(StatusCode::kUnavailable, "no black box in %s: %s. Name another Options::black_box_directory",
                 directory.c_str(), doubt.c_str());
  }
  box_.reset(new (std::nothrow) trace::Box(fd_, most_bytes));
  if (box_ == nullptr || !box_->Begin() || !trace::WriteNamesTo(box_.get()) || !sites_.Begin(box_.get()) ||
      !trace::WriteLastRowsTo(box_.get(), BoxRowBytes(options.values))) {
    const int error = box_ == nullptr ? ENOMEM : errno;
    End();
    return Error(StatusCode::kUnavailable, "no black box in %s: %s", directory.c_str(),
                 base::SystemText(error).c_str());
  }
  note_ = box_->TakePart(sizeof(ends::DeathNote), sizeof(ends::DeathNote), &box_->header()->death_note);
  if (note_ != nullptr) ends::SetDeathNote(new (note_) ends::DeathNote{});
  slow_clock_ = slow_clock;
  pages_lost_before_ = trace::PagesLost();
  WriteHeader(options, slow_clock, start);
  NoteForExit(box_->header(), pipeline, path_);
  return {};
}

Status BlackBox::MakeFile(const OwnedOptions& options, uint64_t most_bytes, std::vector<std::string>* removed) {
  const std::string& directory = options.black_box_directory;
  const auto fail = [&](const char* what) {
    return Error(StatusCode::kUnavailable, "no black box: cannot %s %s: %s", what, directory.c_str(),
                 base::SystemText(errno).c_str());
  };
  if (mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST) return fail("create");
  const std::string doubt = options.values.accept_unsafe_directory ? "" : DoubtAbout(directory);
  if (!doubt.empty())
    return Error(StatusCode::kUnavailable, "no black box: %s is not safe: %s", directory.c_str(), doubt.c_str());
  *removed = MakeBoxRoom(directory, most_bytes);
  path_ = directory + "/" + OwnBoxName();
  unlink(path_.c_str());  // of this process: an earlier recorder's
  fd_ = open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd_ < 0) {
    path_.clear();
    return fail("create a file in");
  }
  // The lock says that this process lives: a child does not inherit it, and the kernel releases it.
  struct flock lock {};
  lock.l_type = F_WRLCK;
  if (fcntl(fd_, F_SETLK, &lock) == 0) return {};
  const Status status = fail("lock a file in");
  End();
  return status;
}

void BlackBox::WriteHeader(const OwnedOptions& options, bool slow_clock, const trace::ClockReading& start) noexcept {
  trace::BoxHeader* const header = box_->header();
  std::memcpy(header->magic, trace::kBoxMagic, sizeof header->magic);
  header->version = trace::kBoxVersion;
  header->bytes = sizeof *header;
  header->is_clock_slow = slow_clock ? 1 : 0;
  Copy(PITOT_VERSION_STRING, header->library);
  header->pid = getpid();
  header->process_start = ProcessStart(getpid());
  header->process_space = ProcessSpace();
  Copy(BootId(), header->boot_id);
  Copy(options.process_name, header->process_name);
  Copy(options.incident_directory, header->incident_directory);
  header->most_incidents = options.values.max_incidents_kept;
  header->most_incident_bytes = options.values.max_incident_directory_bytes;
  header->start = start;
  header->state.store(trace::BoxState::kRecording, std::memory_order_release);
}

bool BlackBox::Look(const IncidentCounts& counts) noexcept {
  // In this order: EndLooks sets the one, and then looks at the other.
  is_looking_.store(true);
  bool is_newly_removed = false;
  if (!are_looks_over_.load() && box_ != nullptr) {
    TellNow(counts);
    is_newly_removed = IsNewlyRemoved();
  }
  is_looking_.store(false);
  return is_newly_removed;
}

// By others: at the end of the process this one removes it itself.
bool BlackBox::IsNewlyRemoved() noexcept {
  struct stat file {};
  if (is_removed_ || fstat(fd_, &file) != 0 || file.st_nlink != 0) return false;
  is_removed_ = box_->header()->state.load() == trace::BoxState::kRecording;
  return is_removed_;
}

void BlackBox::TellNow(const IncidentCounts& counts) noexcept {
  const trace::ClockReading now = trace::ReadClocks(slow_clock_);
  if (now.monotonic_ns - sites_looked_ns_ >= kSitesNs) {
    sites_looked_ns_ = now.monotonic_ns;
    try {
      sites_.Look(trace::PinnedRings());
    } catch (const std::bad_alloc&) {
      // The next look tries again.
    }
    rings_outside_ = trace::CountRings().outside_box;
    NoteRoutes();
    trace::SampleLast(now.monotonic_ns);
  }
  constexpr auto kRelaxed = std::memory_order_relaxed;
  Stats stats{};
  counts.CopyTo(&stats);
  const trace::RequestCounts requests = trace::CountRequests();
  // In turns: whoever finds one half written has the other.
  trace::BoxPulse& pulse = box_->header()->pulse[turns_ % 2];
  static_cast<void>(pulse.turn.exchange(2 * turns_ + 1, std::memory_order_acq_rel));  // nothing below comes before
  pulse.ticks.store(now.ticks, kRelaxed);
  pulse.monotonic_ns.store(static_cast<uint64_t>(now.monotonic_ns), kRelaxed);
  pulse.realtime_ns.store(static_cast<uint64_t>(now.realtime_ns), kRelaxed);
  pulse.boottime_ns.store(static_cast<uint64_t>(now.boottime_ns), kRelaxed);
  pulse.triggers_fired.store(stats.triggers_fired, kRelaxed);
  pulse.incidents_written.store(stats.incidents_written, kRelaxed);
  pulse.requests_begun.store(requests.begun, kRelaxed);
  pulse.requests_finished.store(requests.finished, kRelaxed);
  pulse.rings_outside.store(rings_outside_, kRelaxed);
  pulse.pages_lost.store(trace::PagesLost() - pages_lost_before_, kRelaxed);
  pulse.open_batches.store(trace::CountOpenBatches(), kRelaxed);
  pulse.turn.store(2 * ++turns_, std::memory_order_release);
}

bool BlackBox::EndLooks(int64_t patience_ns) noexcept {
  are_looks_over_.store(true);
  const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + patience_ns;
  while (is_looking_.load()) {
    if (base::ClockNs(CLOCK_MONOTONIC) >= until_ns) return false;
    sched_yield();
  }
  return true;
}

void BlackBox::LeaveAtExit() noexcept { g_at_exit.header.store(nullptr); }

void BlackBox::NoteRoutes() noexcept {
  static_assert(trace::kBoxRoutes == trace::kMaxRoutes);
  constexpr auto kRelaxed = std::memory_order_relaxed;
  std::array<trace::RouteProgress, trace::kBoxRoutes> routes;
  for (uint32_t i = 0; i < trace::kBoxRoutes; ++i) {
    const trace::RouteProgress progress = routes[i] = trace::ProgressOfRoute(i);
    box_->header()->routes[i].name.store(progress.name, kRelaxed);
    box_->header()->routes[i].ok_ticks.store(progress.ok_ticks, kRelaxed);
    const uint64_t longest_us = std::min<uint64_t>((progress.longest_ns + 999) / 1000, UINT32_MAX);
    box_->header()->routes[i].longest_us.store(static_cast<uint32_t>(longest_us), kRelaxed);
  }
  std::sort(routes.begin(), routes.end(), [](const auto& a, const auto& b) { return a.failed_ticks > b.failed_ticks; });
  for (uint32_t i = 0; i < trace::kBoxFailing; ++i) {
    trace::BoxFailing& failing = box_->header()->failing[i];
    static_cast<void>(failing.failing_ticks.exchange(0, std::memory_order_acq_rel));  // nothing below comes before
    failing.name.store(routes[i].name, kRelaxed);
    failing.failed.store(routes[i].failed, kRelaxed);
    failing.failed_ticks.store(routes[i].failed_ticks, kRelaxed);
    failing.failing_ticks.store(routes[i].failing_ticks, std::memory_order_release);
  }
}

void BlackBox::RemoveBeforeTermination() noexcept {
  constexpr pid_t kFirstOfContainer = 1;  // it may live on
  const pid_t pid = getpid();
  if (pid == kFirstOfContainer || pid != g_at_exit.pid.load() || trace::CountRequests().open != 0) return;
  if (trace::BoxHeader* const header = g_at_exit.header.load();
      header != nullptr && !g_at_exit.pipeline->HasUnwritten())
    RemoveAtEnd(header);
}

void BlackBox::End() noexcept {
  if (box_ != nullptr) {
    g_at_exit.header.store(nullptr);
    trace::WriteNamesTo(nullptr);
    trace::WriteLastRowsTo(nullptr, 0);
    if (note_ != nullptr) {
      ends::SetDeathNote(nullptr);
      box_->Leave(std::exchange(note_, nullptr));
    }
    if (box_->header() != nullptr) box_->header()->state.store(trace::BoxState::kEnded, std::memory_order_release);
  }
  if (!path_.empty()) unlink(path_.c_str());
  path_.clear();
  box_.reset();
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

}  // namespace pitot::session
