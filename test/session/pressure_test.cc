// SPDX-License-Identifier: Apache-2.0
//
// A recorder under pressure: storms of triggers, a CPU full of other work, snapshots of rings that fill meanwhile.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace {

using pitot::Outcome;
using pitot::Request;
using session_test::Host;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t mapped = 0, resident = 0;
  statm >> mapped >> resident;
  return resident * 4096;
}

// Threads that do something until the end of the block.
class Threads {
 public:
  Threads(int count, auto body) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, body] {
        while (!over_.load(std::memory_order_relaxed)) body();
      });
    }
  }
  ~Threads() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

// Fires on everything, without a cool-down.
struct EagerTrigger final : pitot::Trigger {
  void OnFinish(const pitot::RequestView& request, pitot::FiringSink& sink) noexcept override {
    pitot::Firing firing;
    firing.request = request.id;
    firing.cause = "storm";
    firing.detail = "every request is slow";
    (void)sink.Fire(firing);
  }
};

}  // namespace

TEST_CASE("a storm of triggers on eight threads leaves few incidents, bounded memory and a recorder that works",
          "[pressure]") {
  Host host;
  host.options.max_incidents_per_cause_and_hour = 5;
  host.options.post_window_ms = 10;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.SetHooks({}).ok());
  REQUIRE(host.recorder.Add(std::make_unique<EagerTrigger>()).ok());
  // Not all traces are kept here: that would be this test's own memory.
  REQUIRE(
      host.recorder.Add(fakes::MakeCallSerializer("keep", [](const auto&, auto&) { return pitot::Status(); })).ok());
  uint64_t resident = 0;
  {
    const Threads storm(8, [] {
      PITOT_SCOPE("handle");
      Request request = Request::Begin("/slow");
      request.Stage("work");
      request.Finish(Outcome::kOk);
    });
    std::this_thread::sleep_for(milliseconds(500));
    resident = ResidentBytes();
    std::this_thread::sleep_for(milliseconds(1000));
  }
  REQUIRE(host.Flush());
  const pitot::Stats stats = host.recorder.Stats();

  CHECK(stats.triggers_fired > 1000);
  CHECK(stats.incidents_written >= 1);
  CHECK(stats.incidents_written <= 6);  // one more may have been earned meanwhile
  CHECK(stats.incidents_suppressed > 0);
  CHECK(stats.requests_open == 0);
  if (!fakes::kThreadSanitizer && !fakes::kAddressSanitizer)
    CHECK(ResidentBytes() <= resident + host.options.memory_budget_bytes + (16 << 20));
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.recorder.Stats().incidents_written == stats.incidents_written + 1);
}

TEST_CASE("the window is whole although the CPU is full of other work", "[pressure]") {
  Host host;
  host.options.pre_window_ms = 200;
  REQUIRE(host.Start());
  const unsigned spinners = std::thread::hardware_concurrency() * 2;
  std::atomic<uint64_t> work{0};
  const Threads other(static_cast<int>(spinners), [&work] { work.fetch_add(1, std::memory_order_relaxed); });
  // At most 2 x 24 bytes each 50 us: a ring of 256 KiB holds more than a quarter of a second of it.
  const Threads recording(2, [] {
    PITOT_SCOPE("paced", 1);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
  const auto begin = steady_clock::now();
  while (steady_clock::now() < begin + milliseconds(500)) PITOT_INSTANT("from the start");
  for (int i = 0; i < 2; ++i) {
    REQUIRE(host.TriggerAndFlush());
    REQUIRE(host.traces().size() == static_cast<size_t>(i + 1));
    const pitot::model::Trace trace = host.traces().back();
    CHECK(pitot::model::FindInconsistency(trace) == "");
    for (const auto& loss : trace.losses) {
      if (loss.thread == pitot::model::kNone) continue;
      const std::string thread(trace.strings[trace.threads[loss.thread].name]);
      INFO(pitot::model::LossReasonName(loss.reason));
      // This thread filled its ring many times over; the paced ones lose nothing.
      CHECK(fakes::EventsNamed(trace, "paced").size() > 0);
      CHECK(trace.threads[loss.thread].number == 1);
    }
  }
}

TEST_CASE("incidents while eight threads record flat out are consistent", "[pressure]") {
  Host host;
  host.options.max_ring_bytes = 1 << 16;
  REQUIRE(host.Start());
  const Threads busy(8, [] {
    PITOT_SCOPE("outer", 7, "text");
    Request request = Request::Begin("/busy");
    const pitot::Token token = request.Enqueue("queue");
    {
      pitot::Batch batch = pitot::Batch::Begin("executor");
      batch.Join(token);
      PITOT_SCOPE("forward");
      request.Emit();
    }
    request.Finish(Outcome::kOk);
  });
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().requests_finished > 100; }));
  for (int i = 0; i < 2; ++i) REQUIRE(host.TriggerAndFlush());

  for (const auto& trace : host.traces()) {
    CHECK(pitot::model::FindInconsistency(trace) == "");
    CHECK(trace.events.size() > 0);
    CHECK(trace.requests.size() > 0);
  }
  CHECK(host.recorder.Stats().incidents_failed == 0);
}

TEST_CASE("the worker keeps to its share of the CPU", "[pressure]") {
  Host host;
  host.options.worker_cpu_percent = 10;
  REQUIRE(host.Start());
  // Burns 50 ms of CPU between writes, many times.
  std::atomic<int64_t> burnt_ms{0};
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("burns",
                                             [&](const auto&, pitot::ByteSink& sink) {
                                               for (int i = 0; i < 10; ++i) {
                                                 timespec t{};
                                                 clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
                                                 const int64_t until =
                                                     t.tv_sec * 1'000'000'000 + t.tv_nsec + 20'000'000;
                                                 do {
                                                   clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
                                                 } while (t.tv_sec * 1'000'000'000 + t.tv_nsec < until);
                                                 burnt_ms += 20;
                                                 if (!sink.Write("x", 1)) break;
                                               }
                                               return pitot::Status();
                                             }))
              .ok());
  const auto begin = steady_clock::now();
  REQUIRE(host.TriggerAndFlush());
  const auto took_ms = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count();

  // 200 ms at 10 %, of which the first 100 and the last 20 are free.
  CHECK(burnt_ms == 200);
  CHECK(took_ms >= 700);
}

TEST_CASE("an incident is on disk in time although the CPU is full of other work, whoever the process runs as",
          "[pressure]") {
  const auto write_one = [] {
    Host host;
    if (!host.Start()) return 1;
    std::atomic<uint64_t> work{0};
    const Threads other(static_cast<int>(std::thread::hardware_concurrency()) * 3,
                        [&work] { work.fetch_add(1, std::memory_order_relaxed); });
    PITOT_INSTANT("event");
    if (!host.recorder.Trigger("busy").ok()) return 2;
    if (!host.recorder.Flush(60'000).ok()) return 3;
    return host.incidents().size() == 1 ? 0 : 4;
  };
  CHECK(write_one() == 0);
  if (fakes::kThreadSanitizer || getuid() != 0) return;
  // A thread of an ordinary user cannot come back from idle priority.
  CHECK(fakes::InChild([&] {
          if (setgid(65534) != 0 || setuid(65534) != 0) return 10;
          return write_one();
        }) == 0);
}
