// SPDX-License-Identifier: Apache-2.0
//
// Stacks of a child's threads, by ptrace.
#include "collect/stacks/traced.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <map>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"

namespace traced {

// Shared with the child.
struct Shared {
  std::atomic<int64_t> sleeper{0}, runner{0};
  std::atomic<uint64_t> turns{0}, signals{0};
};
Shared* g_shared = nullptr;

[[gnu::noinline]] int WaitForAnswer(int fd) {
  char byte = 0;
  return static_cast<int>(read(fd, &byte, 1)) + byte;
}
[[gnu::noinline]] int HandleRequest(int fd) { return WaitForAnswer(fd) + 1; }
[[gnu::noinline]] void Compute() {
  for (;;) ++g_shared->turns;
}

}  // namespace traced

namespace {

using pitot::stacks::CopiedStacks;
using Frames = std::map<int64_t, std::vector<std::string>>;

// One thread sleeps and one runs, until it is killed.
class Child {
 public:
  Child() {
    void* const memory =
        mmap(nullptr, sizeof(traced::Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(memory != MAP_FAILED);
    traced::g_shared = new (memory) traced::Shared;
    pid_ = fakes::StartChild([] {
      int ends[2];
      HOLDS(pipe(ends) == 0);
      signal(SIGRTMIN, [](int) { ++traced::g_shared->signals; });
      std::thread([] {
        traced::g_shared->runner = gettid();
        traced::Compute();
      }).detach();
      traced::g_shared->sleeper = gettid();
      return traced::HandleRequest(ends[0]);
    });
    REQUIRE(fakes::WaitUntil([this] { return shared().sleeper != 0 && shared().turns != 0; }));
  }
  ~Child() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    munmap(traced::g_shared, sizeof(traced::Shared));
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  const traced::Shared& shared() const { return *traced::g_shared; }
  std::vector<int64_t> threads() const { return {shared().sleeper, shared().runner}; }
  bool GoesOn() const {
    const uint64_t before = shared().turns;
    return fakes::WaitUntil([&] { return shared().turns > before + 1000; });
  }

 private:
  pid_t pid_ = -1;
};

bool HasFunction(const std::vector<std::string>& frames, const std::string& name) {
  for (const std::string& frame : frames) {
    if (frame.rfind(name + " (", 0) == 0) return true;
  }
  return false;
}

// Whether this machine is one where stacks can be had; otherwise it says why not.
bool CanRead(const std::string& problem) {
  for (const char* const reason : {"libdw", "ptrace is not allowed", "x86-64 only"}) {
    if (problem.find(reason) == std::string::npos) continue;
    WARN("left out: " << problem);
    return false;
  }
  CHECK(problem == "");
  return true;
}

struct Stacks {
  Stacks(pid_t pid, const std::vector<int64_t>& tids) {
    const CopiedStacks copied = pitot::stacks::CopyStacks(tids);
    problem = copied.problem;
    const std::string why_not = pitot::stacks::UnwindStacks(
        pid, copied.samples, [this](int64_t tid, const std::vector<std::string>& of) { frames[tid] = of; });
    if (problem.empty()) problem = why_not;
  }
  Frames frames;
  std::string problem;
};

}  // namespace

TEST_CASE("stacks of another process's threads have its functions, and it goes on", "[stacks]") {
  const Child child;

  Stacks stacks(child.pid(), child.threads());

  if (!CanRead(stacks.problem)) return;
  const std::vector<std::string>& sleeper = stacks.frames[child.shared().sleeper];
  CHECK(HasFunction(sleeper, "traced::WaitForAnswer"));
  CHECK(HasFunction(sleeper, "traced::HandleRequest"));
  CHECK(HasFunction(sleeper, "main"));
  CHECK(HasFunction(stacks.frames[child.shared().runner], "traced::Compute"));
  CHECK(child.GoesOn());
}

TEST_CASE("a stopped process is read, and stays stopped", "[stacks]") {
  const Child child;
  kill(child.pid(), SIGSTOP);
  int status = 0;
  REQUIRE(waitpid(child.pid(), &status, WUNTRACED) == child.pid());
  REQUIRE(WIFSTOPPED(status));

  Stacks stacks(child.pid(), child.threads());

  if (!CanRead(stacks.problem)) return;
  CHECK(HasFunction(stacks.frames[child.shared().sleeper], "traced::HandleRequest"));
  for (const int64_t tid : child.threads()) {
    const std::string stat = "/proc/" + std::to_string(child.pid()) + "/task/" + std::to_string(tid) + "/stat";
    CHECK(fakes::WaitUntil([&] { return fakes::ReadFile(stat).find(") T ") != std::string::npos; }));
  }
  kill(child.pid(), SIGCONT);
  CHECK(child.GoesOn());
}

TEST_CASE("signals that arrive while stacks are copied are not lost", "[stacks]") {
  const Child child;
  std::atomic<bool> is_over{false};
  uint64_t sent = 0;
  std::string problem;
  // Real-time signals queue: each is received once.
  std::thread sender([&] {
    while (!is_over) sent += sigqueue(child.pid(), SIGRTMIN, {}) == 0 ? 1 : 0;
  });
  for (int i = 0; i < 200; ++i) problem = pitot::stacks::CopyStacks(child.threads()).problem;
  is_over = true;
  sender.join();
  if (problem.find("did not stop") == std::string::npos && !CanRead(problem)) return;  // on a busy machine
  CHECK(sent > 0);
  CHECK(fakes::WaitUntil([&] { return child.shared().signals == sent; }));
  CHECK(child.GoesOn());
}

TEST_CASE("the end of a child stays for whoever waits for it, though its stacks are copied meanwhile", "[stacks]") {
  const pid_t child = fakes::StartChild([] {
    for (;;) pause();
    return 0;
  });
  std::thread killer([child] { kill(child, SIGKILL); });
  siginfo_t end{};
  do {
    pitot::stacks::CopyStacks({child});
    REQUIRE(waitid(P_PID, static_cast<id_t>(child), &end, WEXITED | WNOWAIT | WNOHANG) == 0);
  } while (end.si_pid == 0);
  killer.join();
  CHECK(fakes::WaitForChild(child) == 1000 + SIGKILL);
}

TEST_CASE("threads that have ended are left out, and others' processes say why they have no stacks", "[stacks]") {
  const Child child;
  std::vector<int64_t> tids = child.threads();
  tids.insert(tids.begin(), 1 << 22);  // beyond the largest number of a process

  const Stacks stacks(child.pid(), tids);

  if (!CanRead(stacks.problem)) return;
  CHECK(stacks.frames.size() == 2);
  if (getuid() != 0) return;  // another user's process can be made by root only
  CHECK(fakes::InChild([&] {
          HOLDS(setresuid(65534, 65534, 65534) == 0);
          HOLDS(pitot::stacks::CopyStacks(tids).problem.find("ptrace is not allowed") != std::string::npos);
          return 0;
        }) == 0);
}
