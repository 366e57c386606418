// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/files.h"
#include "cli/watching.h"

namespace pitot::cli {
namespace {

constexpr char kBoxes[] = "PITOT_BLACK_BOX_DIRECTORY", kIncidents[] = "PITOT_INCIDENT_DIRECTORY";
constexpr int kNotFound = 127, kNotExecutable = 126, kSignalled = 128;  // as of a shell

struct RunOptions {
  WatchOptions watch;
  std::vector<std::string> command;
};

// The folder of black boxes: as named, or one in memory that ends with this object.
class Boxes {
 public:
  explicit Boxes(const std::string& named) : path_(named) {
    if (path_.empty() && getenv(kBoxes) != nullptr) path_ = getenv(kBoxes);
    if (!path_.empty()) return;
    char name[] = "/dev/shm/pitot-run-XXXXXX";
    if (mkdtemp(name) == nullptr) {
      Complain(absl::StrCat(name, ": ", base::SystemText(errno), "; name another folder by --dir"));
      return;
    }
    path_ = name;
    is_own_ = true;
  }
  ~Boxes() {
    if (is_own_ && rmdir(path_.c_str()) != 0)
      Complain(absl::StrCat(path_,
                            " has the black box of a process that still runs, or of one without an incident: "
                            "see `pitot recover --post-mortem`"));
  }
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;
  const std::string& path() const { return path_; }  // "": there is none

 private:
  std::string path_;
  bool is_own_ = false;
};

// What it gets for itself, and for the command.
sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  return signals;
}

// In the child. Does not return.
[[noreturn]] void Execute(std::vector<std::string> command, const sigset_t& mask) {
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  Complain(absl::StrCat(command[0], ": ", base::SystemText(error)));
  _exit(error == ENOENT ? kNotFound : kNotExecutable);
}

// Takes the ends of children, also of those that others left to this process. Whether `command` is among them.
bool Reap(pid_t command, Watching* watching, int* status) {
  bool has_ended = false;
  for (;;) {
    int one = 0;
    const pid_t pid = waitpid(-1, &one, WNOHANG);
    if (pid <= 0) return has_ended;
    watching->NoteEnd(pid, one);
    if (pid == command) *status = one, has_ended = true;
  }
}

int RunCommand(const RunOptions& given) {
  const Boxes boxes(given.watch.boxes);
  if (boxes.path().empty()) return kNotWritten;
  RunOptions options = given;
  options.watch.boxes = boxes.path();
  options.watch.tell = Complain;
  setenv(kBoxes, boxes.path().c_str(), 1);
  if (!options.watch.output.empty()) setenv(kIncidents, options.watch.output.c_str(), 1);

  const sigset_t signals = Signals();
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  const pid_t command = fork();
  if (command < 0) {
    Complain(absl::StrCat("cannot start a process: ", base::SystemText(errno)));
    return kNotWritten;
  }
  if (command == 0) Execute(options.command, before);

  Watching watching(options.watch);
  int status = 0;
  while (!Reap(command, &watching, &status)) {
    watching.Round();
    const int64_t sleep_ns = watching.SleepNs();
    const timespec sleep{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
    siginfo_t info{};
    // A terminal's signals reach the command by themselves.
    if (const int signal = sigtimedwait(&signals, &info, &sleep);
        signal > 0 && signal != SIGCHLD && info.si_code != SI_KERNEL)
      kill(command, signal);
  }
  watching.Round();
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  const char* const name = sigabbrev_np(WTERMSIG(status));
  Complain(absl::StrCat(options.command[0], " was ended by ",
                        name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", WTERMSIG(status))));
  return kSignalled + WTERMSIG(status);
}

}  // namespace

void AddRun(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  const Command command =
      line.Command("run", "Runs a command with a black box, and writes an incident when it hangs or dies");
  command.Add("command", &options->command, "The command and its arguments, after --").Required();
  command.Add("--dir", &options->watch.boxes,
              "The folder for black boxes [PITOT_BLACK_BOX_DIRECTORY; otherwise a new one in /dev/shm, until it ends]");
  AddWatchOptions(command, &options->watch);
  command.Footer(
      "It sets PITOT_BLACK_BOX_DIRECTORY for the command, and with -o also PITOT_INCIDENT_DIRECTORY. A server with "
      "pitot::Options::FromEnvironment has a black box then. Signals that it gets are sent on to the command.\n"
      "Exit codes: the command's; 128 and the signal's number if it was ended by one; 127 there is no such command; "
      "126 "
      "it cannot be run; 6 there is no folder for black boxes.");
  command.Run([options] { return RunCommand(*options); });
}

}  // namespace pitot::cli
