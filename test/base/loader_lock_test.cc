// SPDX-License-Identifier: Apache-2.0
#include "base/loader_lock.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/patient_thread.h"
#include "fakes/child.h"
#include "fakes/fork_patience.h"
#include "fakes/scale.h"
#include "fakes/wait_until.h"

namespace {

using pitot::base::LoaderUse;
using pitot::base::PatientThread;
using std::chrono::steady_clock;

constexpr int64_t kPatienceNs = 60'000'000'000;

std::atomic<bool> g_is_inside{false};  // a thread of Pitot
std::atomic<bool> g_has_begun{false}, g_may_go_on{false}, g_was_inside{false};
std::function<void()> g_in_constructor;

// Handlers around Pitot's: before a fork the last one registered runs first.
void WatchForks() {
  static const bool is_watching = [] {
    return pthread_atfork([] { g_was_inside = g_is_inside.load(), g_may_go_on = true; }, nullptr, nullptr) == 0 &&
           pitot::base::HoldForksForLoader() && pthread_atfork([] { g_has_begun = true; }, nullptr, nullptr) == 0;
  }();
  REQUIRE(is_watching);
  g_has_begun = g_may_go_on = g_was_inside = false;
}

// Whether a thread of this process sleeps.
bool IsAsleep(pid_t thread) {
  const std::string path = "/proc/self/task/" + std::to_string(thread) + "/stat";
  std::FILE* const file = std::fopen(path.c_str(), "r");
  char state = '?';
  const bool is_read = file != nullptr && std::fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
  if (file != nullptr) std::fclose(file);
  return is_read && state == 'S';
}

// A thread of Pitot that is inside the loader until `may_leave` says otherwise. It lives on: ThreadSanitizer reports
// one that has ended unjoined before a fork.
class Inside {
 public:
  template <class MayLeave> explicit Inside(MayLeave may_leave) {
    thread_.Start([this, may_leave] {
      {
        const LoaderUse use, nested;
        g_is_inside = true;
        fakes::WaitUntil(may_leave);
        g_is_inside = false;
      }
      fakes::WaitUntil([this] { return may_end_.load(); });
    });
    REQUIRE(fakes::WaitUntil([] { return g_is_inside.load(); }));
  }
  ~Inside() {
    may_end_ = true;
    thread_.End(kPatienceNs);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;

 private:
  std::atomic<bool> may_end_{false};
  PatientThread thread_;
};

// Whether a thread of Pitot can enter the loader.
bool CanEnter() {
  PatientThread thread;
  thread.Start([] { const LoaderUse use; });
  return thread.End(kPatienceNs);
}

}  // namespace

extern "C" [[gnu::visibility("default")]] void RunInConstructor() {
  if (g_in_constructor) g_in_constructor();
}

TEST_CASE("a fork waits until a thread of Pitot has left the loader", "[loader_lock]") {
  WatchForks();
  const fakes::ForkPatience patience(kPatienceNs);
  const pid_t forking = gettid();
  pid_t child = 0;
  {
    const Inside inside([forking] { return (g_has_begun && IsAsleep(forking)) || g_may_go_on; });
    child = fakes::StartChild([] {
      HOLDS(!pitot::base::WasForkedInsideLoader());
      pitot::base::BecomeOwnThread();
      const LoaderUse use;
      return 0;
    });
  }
  CHECK_FALSE(g_was_inside);
  CHECK(fakes::WaitForChild(child) == 0);
  CHECK(CanEnter());
}

TEST_CASE("a fork goes on when a thread of Pitot stays inside the loader, and its child knows", "[loader_lock]") {
  WatchForks();
  constexpr int64_t kShortNs = 20'000'000;
  const fakes::ForkPatience patience(kShortNs);
  pid_t child = 0;
  const auto begin = steady_clock::now();
  {
    std::atomic<bool> is_over{false};
    const Inside inside([&] { return is_over.load(); });
    child = fakes::StartChild([] {
      HOLDS(pitot::base::WasForkedInsideLoader());
      pitot::base::BecomeOwnThread();
      const LoaderUse use;
      return 0;
    });
    is_over = true;
  }
  CHECK(steady_clock::now() - begin >= std::chrono::nanoseconds(kShortNs));
  CHECK(fakes::WaitForChild(child) == 0);
  CHECK_FALSE(pitot::base::WasForkedInsideLoader());
  CHECK(CanEnter());
}

TEST_CASE("a host's thread never waits for Pitot's threads to leave the loader", "[loader_lock]") {
  std::atomic<bool> is_over{false};
  const Inside inside([&] { return is_over.load(); });
  {
    const LoaderUse use;
    CHECK(g_is_inside);
  }
  is_over = true;
}

TEST_CASE("a library's constructor can fork while a thread of Pitot waits for the loader", "[loader_lock]") {
  WatchForks();
  PatientThread thread;
  std::atomic<pid_t> waiting{0};
  pid_t child = 0;
  g_in_constructor = [&] {
    thread.Start([&] {
      const LoaderUse use;
      waiting = gettid();
      Dl_info info;
      dladdr(reinterpret_cast<void*>(&RunInConstructor), &info);
    });
    fakes::WaitUntil([&] { return waiting != 0 && IsAsleep(waiting); });
    child = fakes::StartChild([] { return 0; });
  };
  void* const library = dlopen(PITOT_TEST_LOADER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  g_in_constructor = nullptr;

  REQUIRE(library != nullptr);
  CHECK(child > 0);
  CHECK(fakes::WaitForChild(child) == 0);
  CHECK(thread.End(kPatienceNs));
  dlclose(library);
}

TEST_CASE("a child loads libraries although threads of Pitot used the loader until the fork", "[loader_lock][stress]") {
  if (fakes::kThreadSanitizer) return;  // its runtime uses the loader, too
  WatchForks();
  const fakes::ForkPatience patience(kPatienceNs);
  std::atomic<bool> is_over{false};
  PatientThread user;
  user.Start([&] {
    while (!is_over) {
      {
        const LoaderUse use;
        dl_iterate_phdr([](dl_phdr_info*, size_t, void*) { return usleep(100); }, nullptr);
        if (void* const library = dlopen(PITOT_TEST_LOADER_PLUGIN, RTLD_NOW | RTLD_LOCAL)) dlclose(library);
      }
      usleep(100);  // a fork's turn
    }
  });
  int failed = 0;
  for (int i = 0; i < fakes::Scaled(50) && failed == 0; ++i) {
    const pid_t child = fakes::StartChild(
        [] { return dlopen(PITOT_TEST_LOADER_PLUGIN, RTLD_NOW | RTLD_LOCAL) != nullptr ? 0 : 1; }, 20);
    failed += fakes::WaitForChild(child) != 0;
  }
  is_over = true;
  CHECK(failed == 0);
  CHECK(user.End(kPatienceNs));
}

TEST_CASE("forks by several threads at once leave the lock free", "[loader_lock][stress]") {
  WatchForks();
  std::atomic<bool> is_over{false};
  PatientThread user;
  user.Start([&] {
    while (!is_over) const LoaderUse use;
  });
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < fakes::Scaled(50); ++i) failed += fakes::InChild([] { return 0; }) != 0;
    });
  }
  for (std::thread& thread : threads) thread.join();
  is_over = true;
  CHECK(failed == 0);
  CHECK(user.End(kPatienceNs));
  CHECK(CanEnter());
}

TEST_CASE("a closed library with Pitot leaves no handler of forks behind", "[loader_lock]") {
  void* const library = dlopen(PITOT_TEST_LOADER_PLUGIN, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto hold = reinterpret_cast<bool (*)()>(dlsym(library, "HoldForksOfPlugin"));
  REQUIRE(hold != nullptr);
  REQUIRE(hold());
  dlclose(library);
  REQUIRE(dlopen(PITOT_TEST_LOADER_PLUGIN, RTLD_NOW | RTLD_NOLOAD) == nullptr);
  CHECK(fakes::InChild([] { return 0; }) == 0);
}
