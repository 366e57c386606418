// SPDX-License-Identifier: Apache-2.0
//
// The built-in judge in a host: from served requests to files next to the incident.
#include <catch2/catch.hpp>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "analyze/verdict/proof.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/why.h"
#include "pitot/collect/host.h"
#include "pitot/trigger/predicate.h"
#include "session/host.h"

namespace {

using session_test::Contains;
using session_test::Host;

void Serve(int requests, pitot::Outcome outcome = pitot::Outcome::kOk) {
  for (int i = 0; i < requests; ++i) {
    pitot::Request request = pitot::Request::Begin("/classify");
    { PITOT_SCOPE("decode"); }
    request.Finish(outcome);
  }
}

// Fires for requests that were shed.
std::unique_ptr<pitot::Trigger> MakeShedTrigger() {
  return pitot::MakePredicateTrigger(
      {.predicate = [](void*, const pitot::RequestView& view) { return view.outcome == pitot::Outcome::kShed; },
       .cause = "shed"});
}

std::string File(const Host& host, const std::string& name) {
  return fakes::ReadFile(host.directory / host.incidents().at(0) + "/" + name);
}

}  // namespace

TEST_CASE("an incident of a host with the judge has a verdict, for people, for programs and for browsers", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeWhyJudge()).ok());
  REQUIRE(host.recorder.Add(MakeShedTrigger()).ok());
  Serve(300);
  Serve(1, pitot::Outcome::kShed);
  REQUIRE(host.Flush());

  REQUIRE(host.incidents().size() == 1);
  const std::string report = File(host, "report.txt");
  CHECK(report.find("Request ") == 0);
  CHECK(Contains(report, "\nincident 0001  shed\n"));
  CHECK(Contains(report, "/classify"));
  CHECK(Contains(report, "the sum is"));
  CHECK(Contains(File(host, "verdict.json"), "\"route\": \"/classify\""));
  CHECK(Contains(File(host, "report.html"), "<h1>Request "));
  CHECK(File(host, "dump.pitot").size() > 1000);
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[1].verdict.find("Request ") == 0);
  CHECK(host.recorder.Stats().verdicts_given == 1);
  CHECK(host.recorder.Stats().verdicts_failed == 0);
}

TEST_CASE("an incident that the host asked for opens with that, not with an innocent request", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeWhyJudge()).ok());
  Serve(300);
  REQUIRE(host.TriggerAndFlush("a look"));

  const std::string first = "The host asked for this incident: \"a look\". No request fired.\n";
  REQUIRE(host.incidents().size() == 1);
  CHECK(File(host, "report.txt").find(first) == 0);
  CHECK(Contains(File(host, "verdict.json"), "\"verdict\": \"none\""));
  REQUIRE(host.told().size() == 2);
  CHECK(host.told()[1].verdict.find(first) == 0);
  CHECK(host.recorder.Stats().verdicts_given == 1);
}

TEST_CASE("a host's samples are learned from without an incident", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  pitot::WhyJudgeOptions options;
  options.sample_every_ms = 1;
  REQUIRE(host.recorder.Add(pitot::MakeWhyJudge(options)).ok());

  CHECK(fakes::WaitUntil([&] {
    Serve(10);
    return host.recorder.Stats().samples_learned >= 2;
  }));
  CHECK(host.recorder.Stats().samples_failed == 0);
  CHECK(host.incidents().empty());
}

TEST_CASE("an open request is known to its last moment, asleep or not", "[judge]") {
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeHostCollector()).ok());
  std::mutex mutex;
  std::condition_variable changed;
  bool is_asleep = false, may_end = false;
  std::thread server([&] {
    pitot::Request request = pitot::Request::Begin("/classify");
    PITOT_SCOPE("decode");
    std::unique_lock lock(mutex);
    is_asleep = true;
    changed.notify_all();
    changed.wait(lock, [&] { return may_end; });
    request.Finish(pitot::Outcome::kOk);
  });
  {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_asleep; });
  }
  const bool is_taken = host.TriggerAndFlush();
  {
    const std::lock_guard lock(mutex);
    may_end = true;
    changed.notify_all();
  }
  server.join();

  REQUIRE(is_taken);
  const pitot::model::Trace trace = host.traces().at(0);
  pitot::analyze::BlameIndex index;
  REQUIRE(pitot::analyze::BlameIndex::Make(trace, {}, &index).ok());
  pitot::analyze::RequestBlame blame;
  REQUIRE(FindBlame(index, 0, &blame).ok());
  REQUIRE(trace.requests[0].duration_ns == pitot::model::kOpen);
  for (const pitot::analyze::BlameSegment& segment : blame.segments) CHECK_FALSE(pitot::verdict::IsUnseen(segment));
}
