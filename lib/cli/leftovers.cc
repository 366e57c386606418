// SPDX-License-Identifier: Apache-2.0
#include "cli/leftovers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

namespace pitot::cli {
namespace {

constexpr int kEnding[] = {SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};

// For the handler: these change only while the signals are blocked.
struct Leftover {
  std::string path;
  bool is_folder;
};
std::vector<Leftover>& Leftovers() {
  static auto* const leftovers = new std::vector<Leftover>;  // a signal may come at any time
  return *leftovers;
}
pid_t g_program = 0;  // also the number of its group

sigset_t Ending() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : kEnding) sigaddset(&signals, number);
  return signals;
}

// Whatever runs in a handler is safe there: it takes no memory and no lock.
void RemoveFolder(const char* path) {
  const int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
  alignas(dirent64) char entries[4096];
  // From the start each time: removing files may hide others.
  for (bool is_removed = folder >= 0; is_removed && lseek(folder, 0, SEEK_SET) == 0;) {
    is_removed = false;
    const ssize_t size = getdents64(folder, entries, sizeof entries);
    for (ssize_t at = 0; at < size;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      is_removed |= unlinkat(folder, entry->d_name, 0) == 0;
      at += entry->d_reclen;
    }
  }
  if (folder >= 0) close(folder);
  rmdir(path);
}
void Remove(const Leftover& leftover) {
  if (leftover.is_folder) return RemoveFolder(leftover.path.c_str());
  unlink(leftover.path.c_str());
}

// If standard error has room: a reader that does not read must not keep the program.
void TellOfEnd(int number) {
  pollfd waited{STDERR_FILENO, POLLOUT, 0};
  const char* const name = sigabbrev_np(number);
  if (poll(&waited, 1, 0) != 1 || name == nullptr) return;
  char text[80] = "pitot: ended by SIG";
  strncat(text, name, 20);
  strcat(text, "; its unfinished output was removed.\n");
  static_cast<void>(!write(STDERR_FILENO, text, strlen(text)));
}

void End(int number) {
  const bool is_told = number != SIGPIPE && (g_program != 0 || !Leftovers().empty());
  if (g_program != 0) {
    kill(-g_program, SIGKILL);
    while (waitpid(g_program, nullptr, 0) < 0 && errno == EINTR) {}
  }
  std::for_each(Leftovers().rbegin(), Leftovers().rend(), Remove);
  if (is_told) TellOfEnd(number);
  raise(number);  // with the default action, which ends the program when this returns
}

// A signal with another action is left alone: it is ignored, or a command has its own handler.
void Install() {
  for (const int number : kEnding) {
    struct sigaction now {
    }, action{};
    if (sigaction(number, nullptr, &now) != 0 || (now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL)
      continue;
    action.sa_handler = End;
    action.sa_mask = Ending();
    action.sa_flags = SA_RESTART | SA_RESETHAND;
    sigaction(number, &action, nullptr);
  }
}

// While it lives, no signal ends the program.
class Uninterrupted {
 public:
  Uninterrupted() {
    const sigset_t signals = Ending();
    pthread_sigmask(SIG_BLOCK, &signals, &before_);
    Install();
  }
  ~Uninterrupted() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  Uninterrupted(const Uninterrupted&) = delete;
  Uninterrupted& operator=(const Uninterrupted&) = delete;
  const sigset_t& before() const { return before_; }

 private:
  sigset_t before_;
};

void Forget(const std::string& path) {
  std::vector<Leftover>& all = Leftovers();
  all.erase(std::remove_if(all.begin(), all.end(), [&](const Leftover& one) { return one.path == path; }), all.end());
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

TemporaryFile::TemporaryFile(const std::string& path) : path_(path + ".XXXXXX") {
  const Uninterrupted uninterrupted;
  descriptor_ = mkostemp(path_.data(), O_CLOEXEC);
  if (descriptor_ >= 0) Leftovers().push_back({path_, false});
}

TemporaryFile::~TemporaryFile() {
  if (path_.empty() || descriptor_ < 0) return;
  const Uninterrupted uninterrupted;
  unlink(path_.c_str());
  Forget(path_);
}

bool TemporaryFile::MoveTo(const std::string& path) {
  const Uninterrupted uninterrupted;
  if (rename(path_.c_str(), path.c_str()) != 0) return false;
  Forget(path_);
  path_.clear();
  return true;
}

TemporaryFolder::TemporaryFolder(std::string path) : path_(std::move(path)) {
  constexpr std::string_view kUnique = "XXXXXX";
  const bool is_unique =
      path_.size() >= kUnique.size() && std::string_view(path_).substr(path_.size() - kUnique.size()) == kUnique;
  const Uninterrupted uninterrupted;
  const bool is_made = is_unique ? mkdtemp(path_.data()) != nullptr : mkdir(path_.c_str(), 0700) == 0;
  error_ = is_made ? 0 : errno;
  if (is_made) Leftovers().push_back({path_, true});
}

TemporaryFolder::~TemporaryFolder() {
  if (path_.empty() || error_ != 0) return;
  const Uninterrupted uninterrupted;
  RemoveFolder(path_.c_str());
  Forget(path_);
}

void TemporaryFolder::Keep() {
  const Uninterrupted uninterrupted;
  Forget(path_);
  path_.clear();
}

int TemporaryFolder::MoveFilesTo(const std::string& folder, std::string* failed) const {
  const Uninterrupted uninterrupted;
  std::vector<std::pair<std::string, std::string>> moves;
  for (const auto& entry : std::filesystem::directory_iterator(path_))
    moves.emplace_back(entry.path(), folder + "/" + entry.path().filename().native());
  for (const auto& [file, target] : moves) {
    *failed = target;
    std::error_code error;
    if (std::filesystem::is_directory(std::filesystem::symlink_status(target, error))) return EISDIR;
  }
  for (const auto& [file, target] : moves) {
    *failed = target;
    if (rename(file.c_str(), target.c_str()) != 0) return errno;
  }
  return 0;
}

RunningProgram::RunningProgram(std::vector<std::string> arguments, std::vector<std::string> environment,
                               const std::string& input, int output) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  {
    const Uninterrupted uninterrupted;
    posix_spawnattr_setsigmask(&attributes, &uninterrupted.before());
    pid_t program = 0;
    error_ = posix_spawnp(&program, arguments[0].c_str(), &actions, &attributes, Pointers(arguments).data(),
                          Pointers(environment).data());
    if (error_ == 0) g_program = program;
  }
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
}

int RunningProgram::Wait() {
  siginfo_t ended;
  while (waitid(P_PID, static_cast<id_t>(g_program), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {}
  const Uninterrupted uninterrupted;  // its number may be another's after the next line
  int status = 0;
  waitpid(g_program, &status, 0);
  g_program = 0;
  return status;
}

}  // namespace pitot::cli
