// SPDX-License-Identifier: Apache-2.0
//
// A condition variable shared by several waiters: who woke each, and how often in vain.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/virtual_server.h"
#include "fakes/wait_until.h"
#include "pitot/request.h"
#include "pitot/trace.h"
#include "pitot/wait.h"

namespace {

using fakes::EventsNamed;
using pitot::model::kOpen;

constexpr const char* kLock = "1";
constexpr const char* kCondition = "2";

enum class Loop { kPredicate, kOfHost };

// Threads that wait for values of their own, on one condition variable.
class Waiters {
 public:
  Waiters(size_t count, Loop loop) {
    for (size_t i = 0; i < count; ++i) all_.push_back(std::make_unique<Waiter>());
    // One by one: none waits for the mutex at first.
    for (size_t i = 0; i < count; ++i) {
      all_[i]->thread = std::thread([this, i, loop] { Wait(i, loop); });
      AwaitLook(i, 1);
    }
  }
  ~Waiters() {
    for (size_t i = 0; i < all_.size(); ++i) End(i);
  }
  // Notifies all, and waits until those still asleep have looked once more, and sleep again.
  void WakeInVain() {
    std::vector<uint32_t> before;
    for (const auto& waiter : all_) before.push_back(waiter->looks);
    changed.notify_all();
    for (size_t i = 0; i < all_.size(); ++i) {
      if (all_[i]->thread.joinable()) AwaitLook(i, before[i] + 1);
    }
  }
  void MakeTrue(size_t i) {
    const std::lock_guard lock(mutex);
    all_[i]->is_true = true;
  }
  // Waits until one has looked so often, and sleeps again.
  void AwaitLook(size_t i, uint32_t looks) {
    REQUIRE(fakes::WaitUntil([&] { return all_[i]->looks >= looks; }));
    const std::lock_guard lock(mutex);  // free once it sleeps
  }
  void Join(size_t i) { all_[i]->thread.join(); }
  uint32_t looks(size_t i) const { return all_[i]->looks; }

  pitot::Mutex mutex{"state"};
  pitot::ConditionVariable changed{"changed"};

 private:
  struct Waiter {
    std::atomic<uint32_t> looks{0};
    bool is_true = false;
    std::thread thread;
  };
  void Wait(size_t i, Loop loop) {
    pitot::SetThreadName(("waiter " + std::to_string(i)).c_str());
    const auto look = [&] {
      ++all_[i]->looks;
      return all_[i]->is_true;
    };
    std::unique_lock lock(mutex);
    if (loop == Loop::kPredicate) return changed.wait(lock, look);
    while (!look()) changed.wait(lock);
  }
  void End(size_t i) {
    if (!all_[i]->thread.joinable()) return;
    MakeTrue(i);
    changed.notify_all();
    all_[i]->thread.join();
  }

  std::vector<std::unique_ptr<Waiter>> all_;
};

// A thread's waits of a kind.
auto WaitsOf(const pitot::model::Trace& trace, const std::string& thread, const std::string& kind) {
  auto waits = EventsNamed(trace, "wait");
  std::erase_if(waits, [&](const auto& wait) { return wait.thread != thread || wait.args[0].second != kind; });
  return waits;
}

// Does something on a thread of its own, and returns its number.
uint32_t OnThread(const std::function<void()>& work) {
  uint32_t number = 0;
  std::thread([&] {
    number = pitot::ThisOwner().thread;
    work();
  }).join();
  return number;
}

}  // namespace

TEST_CASE("a shared condition's notifier is the thread that made the predicate true, whoever else notifies", "[wait]") {
  const fakes::Recording recording;
  Waiters waiters(3, Loop::kPredicate);
  for (int i = 0; i < 3; ++i) waiters.WakeInVain();
  std::atomic<bool> is_over{false};
  const uint32_t looks = waiters.looks(1);
  std::thread noise([&] {
    while (!is_over) waiters.changed.notify_all();
  });
  const bool is_noisy = fakes::WaitUntil([&] { return waiters.looks(1) > looks; });
  // The noise wakes the waiter before the maker notifies.
  const uint32_t maker = OnThread([&] {
    waiters.MakeTrue(1);
    waiters.Join(1);
    waiters.changed.notify_all();
  });
  is_over = true;
  noise.join();

  const auto trace = recording.Trace();

  CHECK(is_noisy);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto waits = WaitsOf(trace, "waiter 1", kCondition);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[2].second == std::to_string(maker));
  CHECK(waits[0].args[4].first == "spurious");
  CHECK(waits[0].args[4].second == std::to_string(waiters.looks(1) - 2));
  CHECK(waiters.looks(1) >= 5);
  for (const char* thread : {"waiter 0", "waiter 2"}) {
    INFO(thread);
    const auto others = WaitsOf(trace, thread, kCondition);
    REQUIRE(others.size() == 1);
    CHECK(others[0].duration_ns == kOpen);
    CHECK(fakes::WaitUntil([&] { return WaitsOf(recording.Trace(), thread, kLock).empty(); }));
  }
}

TEST_CASE("a holder that did not notify, and a notifier that was no holder, made no predicate true", "[wait]") {
  const fakes::Recording recording;
  Waiters waiters(1, Loop::kPredicate);
  const auto hold = [&] { const std::lock_guard lock(waiters.mutex); };
  OnThread(hold);
  waiters.MakeTrue(0);
  OnThread(hold);
  std::unique_lock lock(waiters.mutex);
  lock.unlock();
  waiters.changed.notify_all();
  OnThread([&] { waiters.changed.notify_all(); });
  waiters.Join(0);

  const auto waits = WaitsOf(recording.Trace(), "waiter 0", kCondition);

  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[2].second == std::to_string(pitot::ThisOwner().thread));
}

TEST_CASE("a notifier's request is that of its last hold of the mutex", "[wait]") {
  const fakes::Recording recording;
  Waiters waiters(1, Loop::kPredicate);
  pitot::Request request = pitot::Request::Begin("/made");
  const uint64_t id = request.id();
  waiters.MakeTrue(0);
  request.Finish(pitot::Outcome::kOk);
  waiters.changed.notify_all();
  waiters.Join(0);

  const auto waits = WaitsOf(recording.Trace(), "waiter 0", kCondition);

  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[3].second == std::to_string(id));
}

TEST_CASE("a predicate not guarded by the mutex was made true by the last notifier", "[wait]") {
  const fakes::Recording recording;
  pitot::Mutex mutex("state");
  pitot::ConditionVariable changed("changed");
  std::atomic<bool> is_true{false}, has_looked{false}, is_over{false};
  std::thread waiter([&] {
    pitot::SetThreadName("waiter 0");
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] {
      const bool was_true = is_true;
      has_looked = true;
      return was_true;
    });
    is_over = true;
  });
  REQUIRE(fakes::WaitUntil([&] { return has_looked.load(); }));
  const uint32_t notifier = OnThread([&] {
    is_true = true;
    while (!is_over) changed.notify_all();
  });
  waiter.join();

  const auto waits = WaitsOf(recording.Trace(), "waiter 0", kCondition);

  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[2].second == std::to_string(notifier));
}

TEST_CASE("wake-ups in vain of a loop of the host's are one wait", "[wait]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  Waiters waiters(3, Loop::kOfHost);
  for (int i = 0; i < 4; ++i) {
    clock.Advance(1'000'000);
    waiters.WakeInVain();
  }
  clock.Advance(1'000'000);
  const uint32_t looks[] = {waiters.looks(0), 0, waiters.looks(2)};
  const uint32_t maker = OnThread([&] {
    waiters.MakeTrue(1);
    waiters.changed.notify_all();
  });
  waiters.Join(1);
  for (const size_t i : {0, 2}) waiters.AwaitLook(i, looks[i] + 1);

  const auto trace = recording.Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto waits = WaitsOf(trace, "waiter 1", kCondition);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[2].second == std::to_string(maker));
  CHECK(waits[0].args[4].second == std::to_string(waiters.looks(1) - 2));
  CHECK(waits[0].duration_ns > 4'900'000);
  for (const char* thread : {"waiter 0", "waiter 2"}) {
    INFO(thread);
    const auto others = WaitsOf(trace, thread, kCondition);
    REQUIRE(others.size() == 1);
    CHECK(others[0].duration_ns == kOpen);
    CHECK(others[0].begin_ns < waits[0].begin_ns + 1'000'000);
    CHECK(WaitsOf(trace, thread, kLock).empty());
  }
}

namespace {

// Wakes the waiter of `changed` each time after it has counted up to one more, and is asleep.
void Wake(int times, int64_t every_ns, const std::atomic<int>& sleeps, pitot::Mutex& mutex,
          pitot::ConditionVariable& changed, fakes::VirtualClock& clock) {
  for (int i = 1; i <= times; ++i) {
    REQUIRE(fakes::WaitUntil([&] { return sleeps == i; }));
    { const std::lock_guard lock(mutex); }  // free once it sleeps
    clock.Advance(every_ns);
    changed.notify_all();
  }
}

}  // namespace

TEST_CASE("a first sleep shorter than its wake-ups in vain are many is part of the one wait", "[wait]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  pitot::Mutex mutex("state");
  pitot::ConditionVariable changed("changed");
  constexpr int kSleeps = 8;
  std::atomic<int> sleeps{0};
  std::thread waiter([&] {
    pitot::SetThreadName("waiter");
    std::unique_lock lock(mutex);
    while (sleeps < kSleeps) {
      ++sleeps;
      changed.wait(lock);
    }
  });
  Wake(kSleeps, 2, sleeps, mutex, changed, clock);
  waiter.join();

  const auto waits = WaitsOf(recording.Trace(), "waiter", kCondition);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].args[4].second == std::to_string(kSleeps - 1));
}

TEST_CASE("waits with something between them are several", "[wait]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  pitot::Mutex mutex("state");
  pitot::ConditionVariable changed("changed");
  struct Case {
    const char* between;
    size_t waits;
    std::function<void(std::unique_lock<pitot::Mutex>&)> act;
  };
  const Case cases[] = {
      {"a look", 1, [](auto&) {}},
      {"a release of the mutex", 2, [](auto& lock) { lock.unlock(), lock.lock(); }},
      {"an event", 2, [](auto&) { PITOT_INSTANT("between"); }},
      {"time", 2, [&](auto&) { clock.Advance(200'000); }},
  };
  for (const Case& one : cases) {
    INFO(one.between);
    std::atomic<int> sleeps{0};
    std::thread waiter([&] {
      pitot::SetThreadName(one.between);
      std::unique_lock lock(mutex);
      for (; sleeps < 2; one.act(lock)) {
        ++sleeps;
        changed.wait(lock);
      }
    });
    Wake(2, 1'000'000, sleeps, mutex, changed, clock);
    waiter.join();

    CHECK(WaitsOf(recording.Trace(), one.between, kCondition).size() == one.waits);
  }
}

TEST_CASE("a wait in a scope that began after another wait is its own", "[wait]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  pitot::Mutex mutex("state");
  pitot::ConditionVariable changed("changed");
  std::atomic<int> sleeps{0};
  std::thread waiter([&] {
    pitot::SetThreadName("waiter");
    std::unique_lock lock(mutex);
    ++sleeps;
    changed.wait(lock);
    PITOT_SCOPE("second phase");
    ++sleeps;
    changed.wait(lock);
  });
  Wake(2, 1'000'000, sleeps, mutex, changed, clock);
  waiter.join();

  CHECK(WaitsOf(recording.Trace(), "waiter", kCondition).size() == 2);
}

TEST_CASE("a wait after one whose predicate held is another", "[wait]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  pitot::Mutex mutex("state");
  pitot::ConditionVariable changed("changed");
  int value = 0;
  std::atomic<int> awaited{0};
  std::thread waiter([&] {
    pitot::SetThreadName("waiter 0");
    std::unique_lock lock(mutex);
    for (int i = 1; i <= 2; ++i) {
      changed.wait(lock, [&] {
        awaited = i;
        return value >= i;
      });
    }
  });
  for (int i = 1; i <= 2; ++i) {
    REQUIRE(fakes::WaitUntil([&] { return awaited == i; }));
    clock.Advance(1'000'000);
    const std::lock_guard lock(mutex);
    value = i;
    changed.notify_all();
  }
  waiter.join();

  const auto waits = WaitsOf(recording.Trace(), "waiter 0", kCondition);

  REQUIRE(waits.size() == 2);
  for (const auto& wait : waits) CHECK(wait.args[4].second == "0");
}

TEST_CASE("a thread woken while another holds the mutex waits for that one, too", "[wait]") {
  const fakes::Recording recording;
  Waiters waiters(1, Loop::kPredicate);
  {
    const std::lock_guard lock(waiters.mutex);
    waiters.changed.notify_all();
    REQUIRE(fakes::WaitUntil([&] { return !WaitsOf(recording.Trace(), "waiter 0", kLock).empty(); }));
  }
  // In vain: it goes on waiting for the condition, and not for the mutex.
  REQUIRE(fakes::WaitUntil([&] { return waiters.looks(0) == 2; }));
  { const std::lock_guard lock(waiters.mutex); }
  CHECK(WaitsOf(recording.Trace(), "waiter 0", kLock).empty());

  waiters.MakeTrue(0);
  {
    const std::lock_guard lock(waiters.mutex);
    waiters.changed.notify_all();
    REQUIRE(fakes::WaitUntil([&] { return !WaitsOf(recording.Trace(), "waiter 0", kLock).empty(); }));
  }
  waiters.Join(0);

  const auto trace = recording.Trace();
  const auto waits = WaitsOf(trace, "waiter 0", kLock);
  REQUIRE(waits.size() == 1);
  CHECK(waits[0].duration_ns != kOpen);
  CHECK(waits[0].args[2].second == std::to_string(pitot::ThisOwner().thread));
  CHECK(WaitsOf(trace, "waiter 0", kCondition).size() == 1);
}
