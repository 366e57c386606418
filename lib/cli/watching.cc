// SPDX-License-Identifier: Apache-2.0
#include "cli/watching.h"

#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "base/clock.h"
#include "cli/box_incidents.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "session/process_facts.h"

namespace pitot::cli {
namespace {

using session::FoundBox;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSuspiciousNs = 50 * kMs;  // between looks at what may be stopped
constexpr int64_t kQuietNs = 1'000 * kMs;    // of a process that may wait for a CPU

// Whether it is a child of this process, and waitpid has not told its end yet.
bool IsUnreaped(const snapshot::BoxFacts& facts) {
  siginfo_t info{};
  return facts.process_space == session::ProcessSpace() &&
         waitid(P_PID, static_cast<id_t>(facts.pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

}  // namespace

void AddWatchOptions(const Command& command, WatchOptions* options) {
  command.Add("-o,--output", &options->output, "The directory for incidents [the one of the process's own incidents]");
  command.Add("--stalled-after", &options->stalled_after_s, kStalledAfterHelp).ShowDefault().Number(0.001, 1e6);
  command.Add("--interval", &options->interval_ms, "Milliseconds between looks").ShowDefault().Whole(10, 60'000);
  command.AddFlag("--no-stacks", &options->no_stacks, "Read no stacks of a process that hangs: it takes ptrace");
  command.Add("--nvml", &options->nvml).HideFromHelp();
}

// A living process.
class Watching::Watched {
 public:
  Watched(std::unique_ptr<FoundBox> box, const session::WatchLimits& limits) : box_(std::move(box)), watch_(limits) {
    limits_.stalled_after_ns = static_cast<uint64_t>(limits.stalled_after_ns);
    limits_.silent_after_ns = UINT64_MAX;  // `watch_` judges it
  }
  bool IsAlive() const { return box_->IsAlive() && !box_->IsTaken(); }
  bool IsSuspicious() const { return watch_.IsSuspicious(); }
  // So incidents can be written again: also those of other wedges.
  void NoteWritten(const session::Wedge& wedge) {
    watch_.NoteWritten(wedge);
    left_ = Left();
  }
  int64_t pid() const { return pid_; }

  // A wedge that does not get its incident is found again later.
  std::optional<session::Wedge> Look() {
    if (pid_ == 0 || session::ProcessStart(pid_) == 0) pid_ = box_->Owner();
    snapshot::BoxReader& reader = box_->reader();
    reader.Refresh();
    session::WatchLook look;
    const session::StopView view = pid_ != 0 ? session::StopOf(pid_) : session::StopView();
    look.stop = view.stop;
    look.switches = view.switches;
    const session::BoxHealth health = session::HealthIn(&reader, limits_, pid_);
    look.health = health.health;
    look.life = health.life_ticks;
    look.silent_ns = health.silent_ns;
    look.is_ready = health.silent_ns > kQuietNs && pid_ != 0 && session::IsWatcherReady(pid_);
    look.now_ns = base::ClockNs(CLOCK_MONOTONIC);
    if (left_.IsDue()) watch_.ForgetUnwritten();
    std::optional<session::Wedge> wedge = watch_.Note(look);
    if (wedge) left_.Postpone();
    return wedge;
  }

 private:
  const std::unique_ptr<FoundBox> box_;
  session::WedgeWatch watch_;
  session::HealthLimits limits_;
  int64_t pid_ = 0;
  Left left_;  // what has no incident yet
};

Watching::Watching(const WatchOptions& options) : options_(options), own_oom_kills_(getpid()) {
  limits_.stalled_after_ns = static_cast<int64_t>(options.stalled_after_s * 1e9);
  limits_.look_gap_ns = std::max(limits_.look_gap_ns, 3 * options.interval_ms * kMs);
  limits_.life_gap_ns = std::max(limits_.life_gap_ns, 3 * options.interval_ms * kMs);
}
Watching::~Watching() = default;

void Watching::Round() {
  // A watcher without memory for a moment goes on, and so does its server.
  const auto attempt = [](const auto& work) {
    try {
      work();
    } catch (const std::exception& error) {
      Complain(std::string("a look at black boxes failed: ") + error.what());
    }
  };
  attempt([&] {
    is_folder_unsafe_ = is_folder_unsafe_ || ComplainOfFolder(options_.boxes);
    const std::vector<std::string> paths = session::BoxesIn(options_.boxes);
    const auto is_gone = [&paths](const std::string& path) {
      return std::find(paths.begin(), paths.end(), path) == paths.end();
    };
    std::erase_if(watched_, [](const auto& process) { return !process.second->IsAlive(); });
    std::erase_if(oom_kills_, [&is_gone](const auto& kills) { return is_gone(kills.first); });
    std::erase_if(left_, [&is_gone](const auto& left) { return is_gone(left.first); });
    std::erase_if(unreaped_, [&is_gone](const auto& unreaped) { return is_gone(unreaped.first); });
    std::erase_if(broken_, [&is_gone](const auto& broken) { return is_gone(broken.first); });
    for (const std::string& path : paths) {
      const auto left = left_.find(path);
      const bool is_left = left != left_.end() && !left->second.IsDue();
      if (watched_.find(path) == watched_.end() && !is_left) attempt([&] { Meet(path); });
    }
    // All are looked at before the first incident is written, which may take seconds.
    struct Found {
      std::string path;
      Watched* process;
      session::Wedge wedge;
    };
    std::vector<Found> wedged;
    for (const auto& [path, process] : watched_) {
      if (std::optional<session::Wedge> wedge = process->Look())
        wedged.push_back({path, process.get(), *std::move(wedge)});
    }
    for (const Found& found : wedged) attempt([&] { Write(found.path, found.wedge, found.process); });
    Renew();
  });
  fflush(stdout);
}

// Ends count for one round. Kills count for two: a process may be seen dead one round after it.
void Watching::Renew() {
  ends_.clear();
  own_oom_kills_.Renew();
  for (auto& [path, kills] : oom_kills_) kills.Renew();
}

int64_t Watching::SleepNs() const {
  const bool is_suspicious =
      std::any_of(watched_.begin(), watched_.end(), [](const auto& process) { return process.second->IsSuspicious(); });
  const int64_t interval_ns = options_.interval_ms * kMs;
  return is_suspicious ? std::min(interval_ns, kSuspiciousNs) : interval_ns;
}

// A file that is new, or whose process has died.
void Watching::Meet(const std::string& path) {
  constexpr int kRounds = 8;
  auto box = std::make_unique<FoundBox>(path, TrustWith(options_.output));
  switch (box->Look()) {
    case FoundBox::Life::kAlive:
      has_seen_boxes_ = true;
      if (box->IsTaken()) return;
      if (const int64_t pid = box->Owner(); pid != 0) oom_kills_[path] = session::OomKills(pid);
      watched_[path] = std::make_unique<Watched>(std::move(box), limits_);
      return;
    case FoundBox::Life::kDead:
      has_seen_boxes_ = true;
      if (IsUnreaped(box->reader().facts()) && ++unreaped_[path] < kRounds) return;
      // A box whose incident cannot be written is left where it is.
      if (const int written = RecoverBox(box.get(), EndOf(*box), {options_.output, options_.tell}, AfterIt::kRemove);
          Note(written), written != kDone)
        left_[path].Postpone();
      return;
    case FoundBox::Life::kEnded:
      has_seen_boxes_ = true;
      box->Remove();
      return;
    case FoundBox::Life::kBroken:
      break;
  }
  // Perhaps it is just being made.
  if (++broken_[path] < kRounds) return;
  if (left_.find(path) == left_.end()) Complain(path + ": " + box->why());
  left_[path].Postpone();
}

void Watching::Left::Postpone() {
  constexpr int64_t kFirstNs = 5'000 * kMs, kMostNs = 600'000 * kMs;
  pause_ns_ = pause_ns_ == 0 ? kFirstNs : std::min(2 * pause_ns_, kMostNs);
  again_ns_ = base::ClockNs(CLOCK_MONOTONIC) + pause_ns_;
}
bool Watching::Left::IsDue() const { return base::ClockNs(CLOCK_MONOTONIC) >= again_ns_; }

void Watching::Write(const std::string& path, const session::Wedge& wedge, Watched* process) {
  FoundBox box(path, TrustWith(options_.output));
  if (box.Peek() != FoundBox::Life::kAlive) return;
  const WedgeQuestions ask{!options_.no_stacks, options_.nvml};
  const int written = WriteWedged(&box, wedge, process->pid(), ask, {options_.output, options_.tell});
  if (written == kDone) process->NoteWritten(wedge);
  Note(written);
}

void Watching::NoteEnd(int64_t pid, int status) { ends_[pid] = {status, base::ClockNs(CLOCK_REALTIME)}; }

session::SeenEnd Watching::EndOf(const FoundBox& box) const {
  session::SeenEnd end;
  const auto kills = oom_kills_.find(box.path());
  end.had_oom_kills = kills != oom_kills_.end() && kills->second.HaveGrown();
  const auto seen = ends_.find(box.reader().facts().pid);
  if (seen != ends_.end() && box.reader().facts().process_space == session::ProcessSpace()) {
    end.status = seen->second.status;
    end.at_ns = seen->second.at_ns;
    end.had_oom_kills |= own_oom_kills_.HaveGrown();  // a child may die before it was met
  }
  return end;
}

void Watching::Note(int written) { result_ = std::max<int>(result_, written == kDone ? kNothingFound : written); }

void Watching::End() {
  for (const std::string& path : session::BoxesIn(options_.boxes)) {
    const auto broken = broken_.find(path);
    if (broken == broken_.end() || broken->second < 2) continue;  // it is just being made
    FoundBox box(path, TrustWith(options_.output));
    if (box.Peek() != FoundBox::Life::kBroken) continue;
    if (left_.find(path) == left_.end()) Complain(path + ": " + box.why());
    result_ = std::max<int>(result_, kUnreadable);
  }
}

}  // namespace pitot::cli
