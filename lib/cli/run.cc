// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
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
constexpr char kAuto[] = "PITOT_AUTO";                                  // servers in Python record themselves
constexpr int kNotFound = 127, kNotExecutable = 126, kSignalled = 128;  // as of a shell

struct RunOptions {
  WatchOptions watch;
  std::vector<std::string> command;
  std::string memory = "/dev/shm";  // where folders of its own lie; another in tests
};

// The folder of black boxes: as named, or one in memory, which is removed at the end.
class Boxes {
 public:
  Boxes(const std::string& named, const std::string& memory) : path_(named), memory_(memory) {
    if (path_.empty() && getenv(kBoxes) != nullptr) path_ = getenv(kBoxes);
    if (!path_.empty()) return;
    constexpr int kTries = 100;
    for (int i = 0; i < kTries && !is_own_; ++i) {
      path_ = absl::StrCat(memory_, "/", kPrefix, "XXXXXX");
      if (mkdtemp(path_.data()) == nullptr) {
        Complain(absl::StrCat(path_, ": ", base::SystemText(errno), "; name another folder by --dir"));
        break;
      }
      is_own_ = Lock();
    }
    if (!is_own_) path_.clear();
  }
  ~Boxes() {
    const int error = is_own_ && rmdir(path_.c_str()) != 0 ? errno : 0;
    if (lock_ >= 0) close(lock_);
    if (error == 0) return;
    const bool is_used = error == ENOTEMPTY || error == EEXIST;
    Complain(is_used ? absl::StrCat(path_, " has the black box of a process that still runs, or of one without an ",
                                    "incident: see `pitot recover --post-mortem ", path_, "`")
                     : absl::StrCat("cannot remove ", path_, ": ", base::SystemText(error)));
  }
  Boxes(const Boxes&) = delete;
  Boxes& operator=(const Boxes&) = delete;
  const std::string& path() const { return path_; }  // "": there is none

  // Earlier runs may have been killed. Makes incidents of their black boxes in memory, and removes their folders. A run
  // that lives has its folder locked, and cares for it itself.
  void RecoverOthers(const WatchOptions& options) const {
    if (!is_own_) return;
    std::error_code error;
    auto entry = std::filesystem::directory_iterator(memory_, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      struct stat info {};
      const std::string path = entry->path();
      if (entry->path().filename().string().rfind(kPrefix, 0) != 0 || path == path_) continue;
      if (lstat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != geteuid()) continue;
      const int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
      if (folder >= 0 && flock(folder, LOCK_EX | LOCK_NB) == 0) {
        WatchOptions of_other = options;
        of_other.boxes = path;
        Watching(of_other).Round();
        rmdir(path.c_str());
      }
      if (folder >= 0) close(folder);
    }
  }

 private:
  // Locks the new folder. False: the look of another run has taken it before.
  bool Lock() {
    if (lock_ >= 0) close(lock_);
    lock_ = open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (lock_ < 0) return errno != ENOENT;
    if (flock(lock_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return false;
    struct stat locked {
    }, named{};
    return fstat(lock_, &locked) == 0 && lstat(path_.c_str(), &named) == 0 && locked.st_ino == named.st_ino;
  }

  static constexpr char kPrefix[] = "pitot-run-";
  std::string path_;
  const std::string memory_;
  bool is_own_ = false;
  int lock_ = -1;  // of its own folder; not inherited by the command
};

constexpr int kPassedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// For the handler.
volatile sig_atomic_t g_command = 0, g_runner = 0;

// Whether a terminal sent it, and to the command as well: both are in its foreground group. A hang-up goes to the first
// process of a session alone.
bool HasComeByItself(int signal, const siginfo_t& info) {
  if (info.si_code != SI_KERNEL || getpgid(g_command) != getpgrp()) return false;
  return signal != SIGHUP || getsid(0) != getpid();
}

void PassOn(int signal, siginfo_t* info, void*) {
  const int error = errno;
  if (getpid() == g_runner && !HasComeByItself(signal, *info)) kill(g_command, signal);
  errno = error;
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

// Starts it with signals as they were; from then on they are passed on. -1: it cannot be started.
pid_t Start(const std::vector<std::string>& command) {
  sigset_t passed, before;
  sigemptyset(&passed);
  sigaddset(&passed, SIGCHLD);
  for (const int signal : kPassedOn) sigaddset(&passed, signal);
  pthread_sigmask(SIG_BLOCK, &passed, &before);
  signal(SIGCHLD, SIG_DFL);  // ignored, ends of children are lost
  const pid_t pid = fork();
  if (pid == 0) Execute(command, before);
  if (pid < 0) return -1;
  signal(SIGPIPE, SIG_IGN);  // the reader of messages may go
  g_runner = getpid();
  g_command = pid;
  struct sigaction action {};
  action.sa_sigaction = PassOn;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigset_t now = passed;
  for (const int signal : kPassedOn) {
    struct sigaction ignored {};
    if (sigaction(signal, nullptr, &ignored) == 0 && ignored.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
    sigdelset(&now, signal);
  }
  pthread_sigmask(SIG_SETMASK, &now, nullptr);  // SIGCHLD is waited for
  return pid;
}

// Takes the ends of children, also of orphans. Whether `command` is among them.
bool Reap(pid_t command, Watching* watching, int* status) {
  for (bool has_ended = false;;) {
    int one = 0;
    const pid_t pid = waitpid(-1, &one, WNOHANG);
    if (pid < 0 && errno == ECHILD) return true;
    if (pid <= 0) return has_ended;
    if (WIFSTOPPED(one)) continue;  // it is traced
    watching->NoteEnd(pid, one);
    if (pid == command) *status = one, has_ended = true;
  }
}

int RunCommand(const RunOptions& given) {
  if (given.command.empty()) {
    Complain("there is no command after --. See `pitot run --help`.");
    return kUsage;
  }
  const Boxes boxes(given.watch.boxes, given.memory);
  if (boxes.path().empty()) return kNotWritten;
  RunOptions options = given;
  options.watch.boxes = boxes.path();
  options.watch.tell = Complain;
  setenv(kBoxes, boxes.path().c_str(), 1);
  if (!options.watch.output.empty()) setenv(kIncidents, options.watch.output.c_str(), 1);
  setenv(kAuto, "1", 0);

  Watching watching(options.watch);
  const pid_t command = Start(options.command);
  if (command < 0) {
    Complain(absl::StrCat("cannot start a process: ", base::SystemText(errno)));
    return kNotWritten;
  }
  boxes.RecoverOthers(options.watch);
  sigset_t ended;
  sigemptyset(&ended);
  sigaddset(&ended, SIGCHLD);
  int status = 1 << 8;  // exit code 1, if its end should be lost
  while (!Reap(command, &watching, &status)) {
    watching.Round();
    const int64_t sleep_ns = watching.SleepNs();
    const timespec sleep{sleep_ns / 1'000'000'000, sleep_ns % 1'000'000'000};
    sigtimedwait(&ended, nullptr, &sleep);
  }
  watching.Round();
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  Complain(absl::StrCat(options.command[0], " was ended by ", base::SignalText(WTERMSIG(status))));
  if (!watching.HasSeenBoxes())
    Complain(
        absl::StrCat("no black box was seen in ", boxes.path(),
                     ": does its recorder take options from the environment (C++ Options::FromEnvironment, Python ",
                     "from_environment=True), and is there room? Its log says more."));
  return kSignalled + WTERMSIG(status);
}

}  // namespace

void AddRun(CommandLine& line) {
  auto options = std::make_shared<RunOptions>();
  const Command command = line.Command(
      "run", "Runs a command with a black box, and writes an incident when it hangs or dies: pitot run -- COMMAND");
  command.TakeRest(&options->command);
  command.Add("--dir", &options->watch.boxes,
              "The folder for black boxes [PITOT_BLACK_BOX_DIRECTORY; otherwise a new one in /dev/shm, until it ends]");
  AddWatchOptions(command, &options->watch);
  command.Add("--memory", &options->memory).HideFromHelp();
  command.Footer(
      "It sets PITOT_BLACK_BOX_DIRECTORY for the command, and with -o also PITOT_INCIDENT_DIRECTORY. A server with "
      "pitot::Options::FromEnvironment has a black box then. Unless PITOT_AUTO is set, it sets that to 1: servers in "
      "Python with Pitot's wheel record themselves. SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are "
      "passed on to the command.\n"
      "Exit codes: the command's; 128 and the signal's number if it was ended by one; 127 there is no such command; "
      "126 it cannot be run; 6 there is no folder for black boxes.");
  command.Run([options] { return RunCommand(*options); });
}

}  // namespace pitot::cli
