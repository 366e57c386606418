// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "base/clock.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/watching.h"

namespace pitot::cli {
namespace {

// With --once: long enough to tell a stop from a short one.
constexpr int64_t kOnceNs = 1'500'000'000;

struct WatchCommand {
  WatchOptions watch;
  bool once = false;
};

int WatchBoxes(const WatchCommand& options) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);  // the reader of messages may go
  const std::string& boxes = options.watch.boxes;
  if (access(boxes.c_str(), R_OK | X_OK) != 0) {
    Complain(boxes + ": " + base::SystemText(errno) + (options.once ? "" : "; waiting for it"));
    if (options.once) return kUnreadable;
  }
  Watching watching(options.watch);
  const int64_t begin_ns = base::ClockNs(CLOCK_MONOTONIC);
  for (;;) {
    watching.Round();
    if (options.once && base::ClockNs(CLOCK_MONOTONIC) - begin_ns >= kOnceNs) {
      watching.End();
      return watching.result();
    }
    const int64_t sleep_ns = watching.SleepNs();
    const timespec sleep{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
    if (sigtimedwait(&signals, nullptr, &sleep) > 0) return options.once ? watching.result() : kDone;
  }
}

}  // namespace

void AddWatch(CommandLine& line) {
  auto options = std::make_shared<WatchCommand>();
  const Command command = line.Command(
      "watch", "Watches processes by their black boxes, and writes an incident when one hangs or has died");
  command.Add("--dir", &options->watch.boxes, "The folder of their black boxes").Required();
  AddWatchOptions(command, &options->watch);
  command.AddFlag("--once", &options->once, "Look for 1.5 s, and end");
  command.Footer(
      "A process is wedged if a request is stalled as for `pitot health`; if it is stopped or frozen for 1 s; or if it "
      "gives no sign of life for 1.5 s, or 5 s with nothing open. Each of these is reported once, until it goes on.\n"
      "Exit codes with --once: 0 all is well; 1 an incident was written; 3 the folder or a black box cannot be read, "
      "for example because it belongs to another user; 6 an incident could not be written; see `pitot --help` for "
      "others.");
  command.Run([options] { return WatchBoxes(*options); });
}

}  // namespace pitot::cli
