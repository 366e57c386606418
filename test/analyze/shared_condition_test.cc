// SPDX-License-Identifier: Apache-2.0
//
// A request that waits on a condition variable which others notify, too: from its threads to its blame.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "analyze/blame_of.h"
#include "fakes/recording.h"
#include "fakes/virtual_clock.h"
#include "fakes/virtual_server.h"
#include "fakes/wait_until.h"
#include "pitot/request.h"
#include "pitot/trace.h"
#include "pitot/wait.h"

namespace pitot::test {
namespace {

constexpr int64_t kMs = 1'000'000;

// The time that a scope took.
int64_t BlamedNs(const model::Trace& trace, const analyze::RequestBlame& blame, const std::string& scope) {
  int64_t ns = 0;
  for (const analyze::BlameSegment& segment : blame.segments) {
    if (segment.event != model::kNone && trace.EventName(segment.event) == scope)
      ns += segment.end_ns - segment.begin_ns;
  }
  return ns;
}

void OnThread(const char* name, const std::function<void()>& work) {
  std::thread([&] {
    SetThreadName(name);
    work();
  }).join();
}

}  // namespace

TEST_CASE("a request waits on a shared condition for the thread that made its predicate true", "[why]") {
  fakes::VirtualClock clock{fakes::kStartNs};
  const fakes::Recording recording;
  Mutex mutex("state");
  ConditionVariable changed("results");
  std::atomic<uint32_t> looks{0};
  bool is_done = false;
  const auto await_look = [&](uint32_t count) {
    REQUIRE(fakes::WaitUntil([&] { return looks >= count; }));
    const std::lock_guard lock(mutex);  // free once it sleeps
  };
  Token token;
  std::thread handler([&] {
    SetThreadName("handler");
    Request request = Request::Begin("/classify");
    token = request.token();
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] {
        ++looks;
        return is_done;
      });
    }
    request.Finish(Outcome::kOk);
  });
  const auto publish = [&] {
    {
      PITOT_SCOPE("publish");
      clock.Advance(5 * kMs);
    }
    changed.notify_all();
  };
  await_look(1);
  clock.Advance(10 * kMs);
  OnThread("publisher", publish);
  await_look(2);
  OnThread("worker", [&] {
    {
      const Adopt adopted(token);
      PITOT_SCOPE("work");
      clock.Advance(50 * kMs);
    }
    const std::lock_guard lock(mutex);
    is_done = true;
    changed.notify_all();
    OnThread("publisher", publish);  // the last to notify, before the handler can look
  });
  handler.join();
  const model::Trace trace = recording.Trace();

  const analyze::RequestBlame blame = BlameOf(trace, 0);

  CHECK(BlamedNs(trace, blame, "work") == 50 * kMs);
  CHECK(BlamedNs(trace, blame, "publish") == 0);
}

}  // namespace pitot::test
