// SPDX-License-Identifier: Apache-2.0
#include "cli/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/clock.h"

namespace pitot::cli {
namespace {

constexpr size_t kMostBytes = 1 << 20;  // of a child's output
constexpr int kSliceMs = 10;

// Does not return.
void RunChild(const std::function<void(const Teller&)>& ask, int fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the child is useless without its parent
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  for (const int signal_number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT}) signal(signal_number, SIG_DFL);
  // Hide the output of libraries.
  if (const int null = open("/dev/null", O_RDWR); null >= 0) {
    for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) dup2(null, standard);
  }
  const Teller teller(fd);
  try {
    ask(teller);
    teller.Tell("end", "");
  } catch (const std::exception& error) {
    teller.Tell("exception", error.what());
  }
  _exit(0);
}

// Whether the child has ended; `status` is then waitpid's. (It fails if our own parent made us ignore SIGCHLD.)
bool HasEnded(pid_t child, int* status) { return waitpid(child, status, WNOHANG) != 0; }

// Reads everything available. False at the end.
bool Drain(int fd, std::string* bytes) {
  char block[4096];
  for (;;) {
    const ssize_t count = read(fd, block, sizeof block);
    if (count > 0) bytes->append(block, static_cast<size_t>(count));
    if (bytes->size() > kMostBytes || count == 0) return false;
    if (count < 0) return errno == EAGAIN || errno == EINTR;
  }
}

// Collects output until the child has ended; `status` is then waitpid's. False if it has not within the patience.
bool Listen(pid_t child, int fd, int64_t patience_ns, std::string* bytes, int* status) {
  const int64_t deadline_ns = base::ClockNs(CLOCK_MONOTONIC) + patience_ns;
  // The end of the pipe alone proves little: the library may have started processes that hold it open.
  for (bool is_open = true;;) {
    pollfd waited{fd, POLLIN, 0};
    if (poll(&waited, is_open ? 1 : 0, kSliceMs) > 0) is_open = Drain(fd, bytes);
    if (HasEnded(child, status)) return true;
    if (base::ClockNs(CLOCK_MONOTONIC) >= deadline_ns) return false;
  }
}

void Kill(pid_t child, int* status) {
  kill(child, SIGKILL);
  // With a limit: a process that hangs in the kernel does not die.
  for (int slice = 0; slice < 100 && !HasEnded(child, status); ++slice) poll(nullptr, 0, kSliceMs);
}

// The keys and values of a child's output.
std::vector<std::pair<std::string, std::string>> ReadLines(std::string bytes) {
  std::vector<std::pair<std::string, std::string>> told;
  // A line that was cut off does not count.
  bytes.resize(bytes.rfind('\n') + 1);
  const std::vector<std::string> lines = absl::StrSplit(bytes, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const std::pair<std::string, std::string> both = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    told.push_back(both);
  }
  return told;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return absl::StrCat("crashed (", strsignal(WTERMSIG(status)), ")");
  return absl::StrCat("ended the process (exit code ", WEXITSTATUS(status), ")");
}

}  // namespace

void Teller::Tell(const std::string& key, std::string value) const {
  std::replace(value.begin(), value.end(), '\n', ' ');
  const std::string line = key + " " + value + "\n";
  for (size_t at = 0; at < line.size();) {
    const ssize_t count = write(fd_, line.data() + at, line.size() - at);
    if (count < 0 && errno != EINTR) return;
    if (count > 0) at += static_cast<size_t>(count);
  }
}

bool Told::Has(const std::string& key) const {
  return std::any_of(all.begin(), all.end(), [&](const auto& told) { return told.first == key; });
}
std::vector<std::string> Told::Each(const std::string& key) const {
  std::vector<std::string> values;
  for (const auto& [of, value] : all) {
    if (of == key) values.push_back(value);
  }
  return values;
}
std::string Told::Get(const std::string& key) const {
  const std::vector<std::string> values = Each(key);
  return values.empty() ? "" : values.back();
}
int64_t Told::Number(const std::string& key) const {
  int64_t number = 0;
  return absl::SimpleAtoi(Get(key), &number) ? number : 0;
}

Told AskInChild(const std::function<void(const Teller&)>& ask, int64_t patience_ns) {
  Told told;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return told.failure = absl::StrCat("could not be asked: ", strerror(errno)), told;
  const pid_t child = fork();
  if (child == 0) RunChild(ask, ends[1]);
  const int fork_error = errno;
  close(ends[1]);
  if (child < 0) {
    close(ends[0]);
    return told.failure = absl::StrCat("could not be asked: ", strerror(fork_error)), told;
  }
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
  std::string bytes, how;
  int status = 0;
  if (!Listen(child, ends[0], patience_ns, &bytes, &status)) {
    how = absl::StrFormat("did not return within %g s", static_cast<double>(patience_ns) / 1e9);
    Kill(child, &status);
  }
  Drain(ends[0], &bytes);
  close(ends[0]);
  told.all = ReadLines(std::move(bytes));
  if (how.empty() && told.Has("end")) return told;
  if (told.Has("exception")) how = "failed (" + told.Get("exception") + ")";
  if (how.empty()) how = HowItEnded(status);
  told.failure = told.Has("step") ? how + " " + told.Get("step") : how;
  return told;
}

}  // namespace pitot::cli
