// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/text.h"
#include "cli/box_incidents.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "session/health.h"
#include "session/kernel_view.h"
#include "session/post_mortem.h"
#include "session/process_facts.h"
#include "session/wedge.h"

namespace pitot::cli {
namespace {

using session::FoundBox;

constexpr int64_t kMs = 1'000'000;
constexpr int64_t kSuspiciousNs = 50 * kMs;  // between looks at what may be stopped
constexpr int64_t kQuietNs = 2'000 * kMs;    // of a process that may wait for a CPU
// With --once: long enough to tell a stop from a short one.
constexpr int64_t kOnceNs = 1'500 * kMs;

struct WatchOptions {
  std::string boxes, output;
  double stalled_after_s = 10;
  uint32_t interval_ms = 250;
  bool once = false;
};

// A living process.
class Watched {
 public:
  Watched(std::unique_ptr<FoundBox> box, const session::WatchLimits& limits) : box_(std::move(box)), watch_(limits) {
    limits_.stalled_after_ns = static_cast<uint64_t>(limits.stalled_after_ns);
    limits_.silent_after_ns = UINT64_MAX;  // `watch_` judges it
  }
  bool IsAlive() const { return box_->IsAlive() && !box_->IsTaken(); }
  bool IsSuspicious() const { return watch_.IsSuspicious(); }
  int64_t pid() const { return pid_; }

  std::optional<session::Wedge> Look() {
    if (pid_ == 0 || session::ProcessStart(pid_) == 0) pid_ = box_->Owner();
    snapshot::BoxReader& reader = box_->reader();
    reader.Refresh();
    session::WatchLook look;
    const session::StopView view = pid_ != 0 ? session::StopOf(pid_) : session::StopView();
    look.stop = view.stop;
    look.switches = view.switches;
    const session::BoxHealth health = session::HealthIn(&reader, limits_);
    look.health = health.health;
    look.life = health.life_ticks;
    look.silent_ns = health.silent_ns;
    look.is_ready = health.silent_ns > kQuietNs && pid_ != 0 && session::IsWatcherReady(pid_);
    look.now_ns = base::ClockNs(CLOCK_MONOTONIC);
    return watch_.Note(look);
  }

 private:
  const std::unique_ptr<FoundBox> box_;
  session::WedgeWatch watch_;
  session::HealthLimits limits_;
  int64_t pid_ = 0;
};

class Watch {
 public:
  explicit Watch(const WatchOptions& options) : options_(options) {
    limits_.stalled_after_ns = static_cast<int64_t>(options.stalled_after_s * 1e9);
  }

  // Looks at all black boxes in the folder.
  void Round() {
    const std::vector<std::string> paths = session::BoxesIn(options_.boxes);
    std::erase_if(watched_, [](const auto& process) { return !process.second->IsAlive(); });
    std::erase_if(left_, [&paths](const std::string& path) {
      return std::find(paths.begin(), paths.end(), path) == paths.end();
    });
    for (const std::string& path : paths) {
      if (watched_.find(path) == watched_.end() && left_.find(path) == left_.end()) Meet(path);
    }
    for (const auto& [path, process] : watched_) LookAt(path, process.get());
    fflush(stdout);
  }
  int64_t SleepNs() const {
    const bool is_suspicious = std::any_of(watched_.begin(), watched_.end(),
                                           [](const auto& process) { return process.second->IsSuspicious(); });
    const int64_t interval_ns = options_.interval_ms * kMs;
    return is_suspicious ? std::min(interval_ns, kSuspiciousNs) : interval_ns;
  }
  int result() const { return result_; }

 private:
  // A file that is new, or whose process has died.
  void Meet(const std::string& path) {
    auto box = std::make_unique<FoundBox>(path);
    switch (box->Look()) {
      case FoundBox::Life::kAlive:
        if (!box->IsTaken()) watched_[path] = std::make_unique<Watched>(std::move(box), limits_);
        return;
      case FoundBox::Life::kDead:
        Note(RecoverBox(box.get(), options_.output, AfterIt::kRemove), path);
        return;
      case FoundBox::Life::kEnded:
        box->Remove();
        return;
      case FoundBox::Life::kBroken:
        break;
    }
    // Perhaps it is just being made.
    constexpr int kRounds = 8;
    if (++broken_[path] < kRounds) return;
    Complain(path + ": " + box->why());
    left_.insert(path);
  }

  void LookAt(const std::string& path, Watched* process) {
    const std::optional<session::Wedge> wedge = process->Look();
    if (!wedge) return;
    FoundBox box(path);
    if (box.Peek() == FoundBox::Life::kAlive) Note(WriteWedged(&box, *wedge, process->pid(), options_.output), "");
  }

  // A box whose incident cannot be written is left where it is.
  void Note(int written, const std::string& path) {
    if (written != kDone && !path.empty()) left_.insert(path);
    result_ = std::max<int>(result_, written == kDone ? kNothingFound : written);
  }

  const WatchOptions& options_;
  session::WatchLimits limits_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // by path
  std::map<std::string, int> broken_;                        // how often
  std::set<std::string> left_;                               // nothing can be done for them
  int result_ = kDone;
};

int WatchBoxes(const WatchOptions& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (access(options.boxes.c_str(), R_OK | X_OK) != 0) {
    Complain(options.boxes + ": " + base::SystemText(errno) + (options.once ? "" : "; waiting for it"));
    if (options.once) return kUnreadable;
  }
  Watch watch(options);
  const int64_t begin_ns = base::ClockNs(CLOCK_MONOTONIC);
  for (;;) {
    watch.Round();
    if (options.once && base::ClockNs(CLOCK_MONOTONIC) - begin_ns >= kOnceNs) return watch.result();
    const int64_t sleep_ns = watch.SleepNs();
    const timespec sleep{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
    if (sigtimedwait(&signals, nullptr, &sleep) > 0) return options.once ? watch.result() : kDone;
  }
}

}  // namespace

void AddWatch(CommandLine& line) {
  auto options = std::make_shared<WatchOptions>();
  const Command command = line.Command(
      "watch", "Watches processes by their black boxes, and writes an incident when one hangs or has died");
  command.Add("--dir", &options->boxes, "The folder of their black boxes").Required();
  command.Add("-o,--output", &options->output, "The directory for incidents [the one of the process's own incidents]");
  command
      .Add("--stalled-after", &options->stalled_after_s, "Seconds without progress of a request, until it is stalled")
      .ShowDefault()
      .Number(0.001, 1e6);
  command.Add("--interval", &options->interval_ms, "Milliseconds between looks").ShowDefault().Whole(10, 60'000);
  command.AddFlag("--once", &options->once, "Look for 1.5 s, and end");
  command.Footer(
      "A process is wedged if a request is stalled as for `pitot health`; if it is stopped or frozen for 1 s; or if it "
      "gives no sign of life for 5 s. Each of these is reported once, until it goes on.\n"
      "Exit codes with --once: 0 all is well; 1 an incident was written; 3 there is no such folder; 6 one could not be "
      "written; see `pitot "
      "--help` "
      "for others.");
  command.Run([options] { return WatchBoxes(*options); });
}

}  // namespace pitot::cli
