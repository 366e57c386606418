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

using pitot::stacks::ReadStacks;
using pitot::stacks::TracedStacks;

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
      signal(SIGUSR1, [](int) { ++traced::g_shared->signals; });
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

// Whether stacks can be had here; otherwise it says why not.
bool CanRead(const TracedStacks& stacks) {
  if (stacks.problem.empty()) return true;
  WARN("left out: " << stacks.problem);
  return false;
}

}  // namespace

TEST_CASE("stacks of another process's threads have its functions, and it goes on", "[stacks]") {
  const Child child;

  TracedStacks stacks = ReadStacks(child.pid(), child.threads());

  if (!CanRead(stacks)) return;
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

  TracedStacks stacks = ReadStacks(child.pid(), child.threads());

  if (!CanRead(stacks)) return;
  CHECK(HasFunction(stacks.frames[child.shared().sleeper], "traced::HandleRequest"));
  for (const int64_t tid : child.threads()) {
    const std::string stat = "/proc/" + std::to_string(child.pid()) + "/task/" + std::to_string(tid) + "/stat";
    CHECK(fakes::WaitUntil([&] { return fakes::ReadFile(stat).find(") T ") != std::string::npos; }));
  }
  kill(child.pid(), SIGCONT);
  CHECK(child.GoesOn());
}

TEST_CASE("signals that arrive while stacks are read are not lost", "[stacks]") {
  const Child child;
  constexpr uint64_t kSignals = 200;
  for (uint64_t i = 1; i <= kSignals; ++i) {
    kill(child.pid(), SIGUSR1);
    const TracedStacks stacks = ReadStacks(child.pid(), child.threads());
    if (!CanRead(stacks)) return;
    REQUIRE(fakes::WaitUntil([&] { return child.shared().signals == i; }));
  }
  CHECK(child.GoesOn());
}

TEST_CASE("threads that have ended are left out, and others' processes say why they have no stacks", "[stacks]") {
  const Child child;
  std::vector<int64_t> tids = child.threads();
  tids.insert(tids.begin(), 1 << 22);  // beyond the largest number of a process

  const TracedStacks stacks = ReadStacks(child.pid(), tids);

  if (!CanRead(stacks)) return;
  CHECK(stacks.frames.size() == 2);
  if (getuid() != 0) return;  // another user's process can be made by root only
  CHECK(fakes::InChild([&] {
          HOLDS(setresuid(65534, 65534, 65534) == 0);
          HOLDS(ReadStacks(child.pid(), tids).problem.find("ptrace is not allowed") != std::string::npos);
          return 0;
        }) == 0);
}
