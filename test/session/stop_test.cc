// SPDX-License-Identifier: Apache-2.0
//
// Stop, at the worst moments.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace {

using fakes::Gate;
using pitot::Outcome;
using pitot::Recorder;
using pitot::Request;
using session_test::Host;
using session_test::SmallOptions;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

int64_t MillisecondsOf(auto call) {
  const auto begin = steady_clock::now();
  call();
  return std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count();
}

// Writes until it is cut off.
std::unique_ptr<pitot::Serializer> MakeEndless(std::shared_ptr<Gate> gate, const char* file_name = "endless.txt") {
  return fakes::MakeCallSerializer(file_name, [gate](const auto&, pitot::ByteSink& sink) {
    gate->inside = true;
    while (sink.Write("more", 4)) {}
    return pitot::Status();
  });
}

}  // namespace

TEST_CASE("Stop finishes an incident in progress", "[stop]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host.recorder.Trigger("slow").ok());
  REQUIRE(gate->WaitUntilReached());
  std::thread opener([&] {
    fakes::WaitUntil([&] { return !host.recorder.status().ok(); });
    gate->open = true;
  });
  host.recorder.Stop(60'000);
  opener.join();

  REQUIRE(host.incidents().size() == 1);
  CHECK(host.incidents()[0][0] != '.');
  CHECK(fakes::ReadFile(host.directory / host.incidents()[0] + "/gate.txt") == "halfwhole");
  CHECK(host.told().size() == 2);
}

TEST_CASE("Stop writes an incident waiting for its post window with its present contents", "[stop]") {
  Host host;
  host.options.post_window_ms = 60'000;
  REQUIRE(host.Start());
  PITOT_INSTANT("before Stop");
  REQUIRE(host.recorder.Trigger("waits").ok());
  const int64_t took_ms = MillisecondsOf([&] { host.recorder.Stop(60'000); });

  CHECK(took_ms < 30'000);
  REQUIRE(host.incidents().size() == 1);
  REQUIRE(host.traces().size() == 1);
  CHECK(fakes::EventsNamed(host.traces()[0], "before Stop").size() == 1);
}

TEST_CASE("Stop cuts off a slow file, and leaves nothing of it but the incident's dump", "[stop]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder.Add(MakeEndless(gate)).ok());
  REQUIRE(host.recorder.Trigger("endless").ok());
  REQUIRE(gate->WaitUntilReached());
  const int64_t took_ms = MillisecondsOf([&] { host.recorder.Stop(100); });

  CHECK(took_ms >= 90);
  CHECK(took_ms < 15'000);
  REQUIRE(host.incidents().size() == 1);
  const auto files = fakes::NamesIn(host.directory / host.incidents()[0]);
  CHECK(std::find(files.begin(), files.end(), "dump.pitot") != files.end());
  for (const auto& name : files) CHECK_FALSE(session_test::Contains(name, "endless"));
  // On a machine so busy that the worker did not come back within the grace, the host is not told.
  for (const auto& told : host.told())
    CHECK(told.code == (told.hook == "incident" ? pitot::StatusCode::kOk : pitot::StatusCode::kUnavailable));
}

TEST_CASE("incidents without time at Stop are counted and named", "[stop]") {
  Host host;
  REQUIRE(host.Start());
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.recorder.Add(MakeEndless(gate, "dump.pitot")).ok());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(gate->WaitUntilReached());
  REQUIRE(host.recorder.Trigger("second").ok());
  host.recorder.Stop(100);

  const pitot::Stats stats = host.recorder.Stats();
  CHECK(stats.incidents_written == 0);
  CHECK(stats.incidents_failed == 2);
  CHECK(host.log.Has(pitot::LogLevel::kError, "incident 2, manual: cut off: the recorder was stopped"));
}

namespace {

struct GateJudge final : pitot::Judge {
  explicit GateJudge(std::shared_ptr<Gate> to) : gate(std::move(to)) {}
  const char* Name() const noexcept override { return "gate"; }
  pitot::JudgeNeeds Needs() const noexcept override { return {.budget_ms = 600'000}; }
  pitot::Status Decide(pitot::Hearing&) override { return gate->Pass(), pitot::Status(); }
  std::shared_ptr<Gate> gate;
};

}  // namespace

TEST_CASE("incidents that wait for a hung judge are bounded; the files and verdicts of the others are counted",
          "[stop]") {
  constexpr uint64_t kIncidents = 68;  // one with the judge, 64 that wait, and 3 too many
  const auto gate = std::make_shared<Gate>();
  Host host;
  host.options.max_incidents_per_cause_and_hour = kIncidents;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<GateJudge>(gate)).ok());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(gate->WaitUntilReached());
  for (uint64_t number = 2; number <= kIncidents; ++number) {
    REQUIRE(host.recorder.Trigger("another").ok());
    REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == number; }));
  }
  CHECK(fakes::WaitUntil([&] { return host.recorder.Stats().verdicts_failed == 3; }));
  CHECK(host.recorder.Stats().files_failed == 3 * 2);  // report.txt and the host's
  CHECK(host.log.Has(pitot::LogLevel::kError, "no report and no verdict: too many newer incidents"));

  gate->open = true;
  REQUIRE(host.recorder.Flush(60'000).ok());
  CHECK(host.recorder.Stats().verdicts_failed == kIncidents - 9);  // eight keep their traces
  CHECK(host.recorder.Stats().files_failed == 2 * (kIncidents - 9));
  CHECK(host.recorder.Stats().incidents_failed == 0);
}

TEST_CASE("incidents behind a judge that does not return are counted at Stop, and named if they are not on disk",
          "[stop]") {
  const auto gate = std::make_shared<Gate>();
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<GateJudge>(gate)).ok());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(gate->WaitUntilReached());
  REQUIRE(host.recorder.Trigger("second").ok());
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().incidents_written == 2; }));
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer(
                  "dump.pitot",
                  [](const auto&, const auto&) { return pitot::Status(pitot::StatusCode::kInternal, "no luck"); }))
              .ok());
  REQUIRE(host.recorder.Trigger("third").ok());
  host.recorder.Stop(50);

  const pitot::Stats stats = host.recorder.Stats();
  CHECK(stats.incidents_failed == 1);
  CHECK(stats.verdicts_failed == 2);
  CHECK(host.log.Has(pitot::LogLevel::kError, "incident 3, manual: cut off: the recorder was stopped"));
  gate->open = true;
  CHECK(fakes::WaitUntil([&] { return gate->left.load(); }));
}

TEST_CASE("Stop does not wait forever for a serializer that does not return, and the host is not called afterwards",
          "[stop]") {
  const auto gate = std::make_shared<Gate>();
  auto host = std::make_unique<Host>();
  REQUIRE(host->Start());
  REQUIRE(host->recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host->recorder.Trigger("stuck").ok());
  REQUIRE(gate->WaitUntilReached());
  REQUIRE(host->recorder.Trigger("another").ok());

  const int64_t took_ms = MillisecondsOf([&] { host->recorder.Stop(50); });
  const bool left = gate->left;
  CHECK(took_ms < 15'000);
  CHECK(!left);
  CHECK(host->log.Has(pitot::LogLevel::kWarning, "did not return"));
  for (const auto& told : host->told()) CHECK(told.hook == "incident");
  host.reset();  // with the log and the hooks' context

  // The remaining thread does not disturb the next recorder.
  Host next;
  REQUIRE(next.Start());
  REQUIRE(next.TriggerAndFlush());
  gate->open = true;
  CHECK(fakes::WaitUntil([&] { return gate->left.load(); }));
  REQUIRE(next.TriggerAndFlush());
  CHECK(next.incidents().size() == 2);
}

TEST_CASE("Stop does not wait forever for a trigger that looks at open work and does not return", "[stop]") {
  struct StuckTrigger final : pitot::Trigger {
    explicit StuckTrigger(std::shared_ptr<Gate> g) : gate(std::move(g)) {}
    bool WatchesOpenRequests() const noexcept override { return true; }
    void OnOpenRequest(const pitot::RequestView&, pitot::FiringSink&) noexcept override { gate->Pass(); }
    std::shared_ptr<Gate> gate;
  };
  const auto gate = std::make_shared<Gate>();
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<StuckTrigger>(gate)).ok());
  Request request = Request::Begin("/r");
  REQUIRE(gate->WaitUntilReached());

  const int64_t took_ms = MillisecondsOf([&] { host.recorder.Stop(50); });
  CHECK(took_ms < 15'000);
  CHECK(Recorder::Start(SmallOptions()).status().ok());
  gate->open = true;
  CHECK(fakes::WaitUntil([&] { return gate->left.load(); }));
}

TEST_CASE("Stop does not wait forever for a predicate on a host's thread, which then returns unharmed", "[stop]") {
  static std::shared_ptr<Gate> gate;
  gate = std::make_shared<Gate>();
  auto host = std::make_unique<Host>();
  REQUIRE(host->Start());
  REQUIRE(host->recorder
              .Add(pitot::MakePredicateTrigger({.predicate =
                                                    [](void*, const pitot::RequestView&) {
                                                      gate->Pass();
                                                      return true;
                                                    }}))
              .ok());
  REQUIRE(host->recorder.Add(pitot::MakeFailureTrigger({})).ok());  // asked after it
  std::thread finisher([] { Request::Begin("/r").Finish(Outcome::kFailed); });
  REQUIRE(gate->WaitUntilReached());

  const int64_t took_ms = MillisecondsOf([&] { host->recorder.Stop(50); });
  CHECK(took_ms < 15'000);
  CHECK(host->log.Has(pitot::LogLevel::kWarning, "trigger did not return"));
  host.reset();
  gate->open = true;
  finisher.join();
}

namespace {

// Takes its time to record everything.
struct SlowCollector final : pitot::Collector {
  explicit SlowCollector(std::shared_ptr<Gate> to) : gate(std::move(to)) {}
  const char* Name() const noexcept override { return "slow"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override { gate->inside = false; }
  uint32_t Depths() const noexcept override { return pitot::BitOf(pitot::Depth::kKernels); }
  void SetDepth(pitot::Depth depth) noexcept override {
    if (depth == pitot::Depth::kKernels) gate->Pass();
  }
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder&) override {}
  std::shared_ptr<Gate> gate;
};

}  // namespace

TEST_CASE("Stop waits for a collector being told its depth, and then stops it", "[stop]") {
  const auto gate = std::make_shared<Gate>();
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<SlowCollector>(gate)).ok());
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(gate->WaitUntilReached());
  std::thread opener([&] {
    fakes::WaitUntil([&] { return !host.recorder.status().ok(); });
    gate->open = true;
  });
  host.recorder.Stop(60'000);
  opener.join();

  CHECK(gate->left);
  CHECK_FALSE(gate->inside);
  CHECK_FALSE(host.log.Has(pitot::LogLevel::kWarning, "did not return"));
}

TEST_CASE("Stop does not wait forever for a collector that hangs in being told its depth", "[stop]") {
  const auto gate = std::make_shared<Gate>();
  auto host = std::make_unique<Host>();
  REQUIRE(host->Start());
  REQUIRE(host->recorder.Add(std::make_unique<SlowCollector>(gate)).ok());
  REQUIRE(host->TriggerAndFlush());
  REQUIRE(gate->WaitUntilReached());

  const int64_t took_ms = MillisecondsOf([&] { host->recorder.Stop(50); });
  CHECK(took_ms < 15'000);
  CHECK(host->log.Has(pitot::LogLevel::kWarning, "collector did not return"));
  CHECK(gate->inside);  // a thread hanging in it keeps everything it works on
  host.reset();

  gate->open = true;
  CHECK(fakes::WaitUntil([&] { return gate.use_count() == 1; }));
  CHECK(Recorder::Start(SmallOptions()).status().ok());
}

TEST_CASE("a handle that goes out of scope in mid-incident stops cleanly", "[stop]") {
  size_t written = 0;
  for (int i = 0; i < 20; ++i) {
    Host host;
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Trigger("and gone").ok());
    if (i % 2 == 0) std::this_thread::yield();
    host.recorder = Recorder();
    // Written; or cut off, if this machine took longer than Stop waits by default.
    for (const auto& name : host.incidents()) CHECK(name[0] != '.');
    CHECK(host.incidents().size() <= 1);
    written += host.incidents().size();
  }
  CHECK(written > 0);
}

TEST_CASE("Stop from several threads at once, while others trigger and flush, stops once", "[stop]") {
  for (int i = 0; i < fakes::Scaled(20); ++i) {
    Host host;
    REQUIRE(host.Start());
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&host] {
        for (int n = 0; n < 20; ++n) (void)host.recorder.Trigger("storm");
        (void)host.recorder.Flush(10);
        host.recorder.Stop(60'000);
      });
    }
    for (auto& thread : threads) thread.join();
    CHECK(!host.recorder.status().ok());
    CHECK(!host.incidents().empty());
    for (const auto& name : host.incidents()) CHECK(name[0] != '.');
  }
}

TEST_CASE("a waiting Flush ends when the recorder is stopped, and does not claim that all is written", "[stop]") {
  Host host;
  const auto gate = std::make_shared<Gate>();
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(fakes::MakeGateSerializer(gate)).ok());
  REQUIRE(host.recorder.Trigger("slow").ok());
  REQUIRE(gate->WaitUntilReached());
  std::atomic<bool> flushed{false};
  pitot::Status status;
  std::thread flusher([&] {
    status = host.recorder.Flush(600'000);
    flushed = true;
  });
  std::thread stopper([&] { host.recorder.Stop(60'000); });
  CHECK(fakes::WaitUntil([&] { return flushed.load(); }));
  CHECK(fakes::ReadFile(host.directory / host.incidents()[0] + "/gate.txt").empty());
  gate->open = true;
  flusher.join();
  stopper.join();
  CHECK(!status.ok());
}
