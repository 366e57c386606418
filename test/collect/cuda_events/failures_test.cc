// SPDX-License-Identifier: Apache-2.0
//
// The host goes on, whatever the driver does and whenever the collector stops.
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "collect/cuda_events/rig.h"
#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/string_sink.h"
#include "pitot/serialize/report.h"

namespace {

namespace model = pitot::model;
using fakes::EventHost;
using fakes::kMs;

constexpr int kOutOfMemory = 2, kIllegalAddress = 700, kDestroyed = 709, kDeinitialized = 4;

}  // namespace

TEST_CASE("the host goes on and incidents are written whichever call of the driver fails", "[cuda_events]") {
  for (const int result : {kIllegalAddress, kDestroyed, kDeinitialized}) {
    uint64_t most = 400;
    for (uint64_t at = 1; at <= most; at += at < 60 ? 1 : 7) {
      INFO(result << " at " << at);
      EventHost host;
      host.event_options.pairs_per_context = 4;
      REQUIRE(host.Start());
      host.cuda.FailAt(at, result);
      REQUIRE(host.Add().ok());
      for (int i = 0; i < 4; ++i) {
        host.Run("forward");
        host.Round();
      }
      if (at % 16 == 1) CHECK(model::FindInconsistency(host.Incident()) == "");
      host.recorder.Stop();
      CHECK(host.cuda.broken_rules() == "");
      if (host.cuda.calls() < at) most = at;
    }
    CHECK(most < 400);
  }
}

TEST_CASE("a failed call is counted, with the driver's number, and the next scope is timed", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  host.cuda.FailAt(1, kIllegalAddress);  // no context then
  host.Run("failed");
  host.cuda.FailAt(5, kIllegalAddress);  // the first event
  host.Run("failed");
  host.Run("timed");
  REQUIRE(host.AwaitSpans("timed", 1, &trace));
  CHECK(EventHost::Count(trace, "failed") == 0);
  CHECK(EventHost::NumberOf(trace, "cuda_events.no_context") == 1);
  CHECK(fakes::Attribute(trace, "cuda_events.failed") == "1 calls, the last with CUDA error 700");
}

TEST_CASE("a scope with an impossible time from the driver is counted, and the next is timed", "[cuda_events]") {
  for (const float ms : {-1.0f, std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    INFO(ms);
    EventHost host;
    REQUIRE(host.StartTiming());
    model::Trace trace;
    REQUIRE(host.AwaitSpans("warm up", 1, &trace));
    host.cuda.Hold();
    host.Run("without a time");
    host.cuda.SayElapsed(ms);
    host.cuda.Release();
    REQUIRE(fakes::WaitUntil([&] { return EventHost::NumberOf(host.Incident(), "cuda_events.no_time") == 1; }));

    host.Run("timed");

    REQUIRE(host.AwaitSpans("timed", 1, &trace));
    CHECK(EventHost::Count(trace, "without a time") == 0);
  }
}

TEST_CASE("a context without a pool is tried again after a while, and not before", "[cuda_events]") {
  EventHost host;
  host.environment.retry_ns = 50 * kMs;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  const auto has_failed = [&](int tries) {
    return fakes::WaitUntil([&] {
      host.Run("no pool");
      return EventHost::NumberOf(host.Incident(), "cuda_events.pool_tries_failed") >= tries;
    });
  };
  host.cuda.FailIn("cuEventCreate", kOutOfMemory, 0);
  const int64_t begin_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  REQUIRE(has_failed(3));
  CHECK(pitot::base::ClockNs(CLOCK_MONOTONIC) - begin_ns >= 2 * host.environment.retry_ns);
  const model::Trace failed = host.Incident();
  CHECK(EventHost::NumberOf(failed, "cuda_events.pool_failed") > 0);
  fakes::StringSink report;
  REQUIRE(pitot::MakeReportSerializer()->Serialize(failed, report).ok());
  const std::string unwrapped = std::regex_replace(report.bytes, std::regex("\\s+"), " ");
  CHECK_THAT(unwrapped, Catch::Contains("of contexts without events: making them failed"));
  CHECK(host.cuda.CallsOf("cuEventRecord") == 0);

  host.cuda.FailIn("", 0, 0);
  REQUIRE(host.WarmUp());
  host.Run("forward", kMs);

  model::Trace trace;
  REQUIRE(host.AwaitSpans("forward", 1, &trace));
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a pool with missing parts is completed after a while", "[cuda_events]") {
  EventHost host;
  host.event_options.pairs_per_context = 4;
  host.environment.retry_ns = 20 * kMs;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  host.cuda.FailIn("cuEventCreate", kOutOfMemory, 2 + 3);  // the anchors, and half of the second pair
  REQUIRE(host.WarmUp());
  REQUIRE(host.Settle());
  CHECK(host.cuda.events() == 2 + 2);
  host.cuda.FailIn("", 0, 0);

  REQUIRE(fakes::WaitUntil([&] {
    const pitot::CudaEventScope first(host.stream, "first"), second(host.stream, "second");
    return host.cuda.events() == 2 + 8;
  }));

  CHECK(EventHost::NumberOf(host.Incident(), "cuda_events.no_pair") > 0);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a destroyed context takes its pool with it, and a new one at its address gets its own", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  host.cuda.Hold();
  host.Run("lost");
  {
    const pitot::CudaEventScope scope(host.stream, "lost, too");
    host.cuda.DestroyContext(host.context);
    REQUIRE(fakes::WaitUntil([&] { return EventHost::NumberOf(host.Incident(), "cuda_events.dropped") == 2; }));
  }
  host.cuda.Release();
  CHECK(host.cuda.events() == 0);

  CHECK(host.cuda.MakeContext() == host.context);
  host.stream = host.cuda.MakeStream();
  REQUIRE(host.WarmUp());
  host.Run("after", kMs);

  REQUIRE(host.AwaitSpans("after", 1, &trace));
  CHECK(EventHost::Count(trace, "lost") == 0);
  CHECK(fakes::Attribute(trace, "cuda_events.failed") == "");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a context destroyed while the collector asks about its events takes its pool with it, without a failure",
          "[cuda_events]") {
  EventHost host;
  REQUIRE(host.Start());
  REQUIRE(host.Add().ok());
  // The first query is for the collector's own event, by which it places the others in time.
  const bool is_own = GENERATE(true, false);
  const char* const function = GENERATE("cuEventQuery", "cuEventElapsedTime");
  INFO(function);
  model::Trace trace;
  if (!is_own) {
    REQUIRE(host.WarmUp());
    REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  }
  const uint64_t asked = host.cuda.CallsOf(function);
  host.cuda.HangIn(function);
  if (is_own) REQUIRE(host.WarmUp());
  host.Run("lost");
  {
    const pitot::CudaEventScope scope(host.stream, "lost, too");
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.CallsOf(function) != asked; }));
    host.cuda.DestroyContext(host.context);
    host.cuda.HangIn("");
    REQUIRE(fakes::WaitUntil(
        [&] { return EventHost::NumberOf(host.Incident(), "cuda_events.dropped") == (is_own ? 3 : 2); }));
  }
  CHECK(fakes::Attribute(host.Incident(), "cuda_events.failed") == "");
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("a scope is dropped, without a span, if its context goes while it is placed", "[cuda_events]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  host.cuda.Hold();
  host.Run("lost");
  host.cuda.FailIn("cuEventElapsedTime", kDestroyed, 1);  // its length is known, its begin is not
  host.cuda.Release();
  REQUIRE(fakes::WaitUntil([&] { return EventHost::NumberOf(host.Incident(), "cuda_events.dropped") == 1; }));
  CHECK(EventHost::Count(host.Incident(), "lost") == 0);
}

TEST_CASE("a context at the address of another gets its own pool even if the driver has no numbers of contexts",
          "[cuda_events]") {
  EventHost host(PITOT_FAKE_CUDA_OLD);
  host.event_options.pairs_per_context = 2;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  for (int i = 0; i < 3; ++i) {
    INFO(i);
    host.cuda.Hold();
    if (i == 1) host.Run("lost");
    host.cuda.DestroyContext(host.context);
    host.cuda.Release();

    REQUIRE(host.cuda.MakeContext() == host.context);
    host.stream = host.cuda.MakeStream();
    REQUIRE(host.WarmUp());
    host.Run("after", kMs);

    REQUIRE(host.AwaitSpans("after", static_cast<uint32_t>(i) + 1, &trace));
    CHECK(EventHost::Count(trace, "lost") == 0);
    CHECK(host.cuda.broken_rules() == "");
  }
  CHECK(EventHost::NumberOf(trace, "cuda_events.dropped") == 1);
  CHECK(host.cuda.allocations() == 1);
  REQUIRE(host.Settle());
  host.recorder.Stop();
  CHECK(host.cuda.allocations() == 0);
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("contexts that come and go one after the other do not use up the places", "[cuda_events]") {
  EventHost host;
  host.event_options.pairs_per_context = 2;
  REQUIRE(host.StartTiming());
  for (int i = 0; i < 40; ++i) {
    INFO(i);
    REQUIRE(host.Settle());
    host.cuda.DestroyContext(host.context);
    host.context = host.cuda.MakeContext();
    host.stream = host.cuda.MakeStream();
    REQUIRE(host.WarmUp());
  }
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("contexts beyond the number of places are counted", "[cuda_events]") {
  EventHost host;
  host.event_options.pairs_per_context = 2;
  REQUIRE(host.StartTiming());
  for (int i = 0; i < 15; ++i) {
    host.context = host.cuda.MakeContext();
    host.stream = host.cuda.MakeStream();
    REQUIRE(host.WarmUp());
  }
  host.cuda.MakeContext();
  { const pitot::CudaEventScope scope(nullptr, "refused"); }
  CHECK(EventHost::NumberOf(host.Incident(), "cuda_events.contexts_refused") == 1);
}

TEST_CASE("stopping destroys nothing in use, and open scopes go on with the next collector", "[cuda_events]") {
  EventHost host;
  host.event_options.pairs_per_context = 4;
  REQUIRE(host.StartTiming());
  model::Trace trace;
  REQUIRE(host.AwaitSpans("warm up", 1, &trace));
  host.cuda.Hold();
  host.Run("pending");
  {
    std::optional<pitot::CudaEventScope> open(std::in_place, host.stream, "open");
    host.recorder.Stop();
    CHECK(host.cuda.broken_rules() == "");
    CHECK(host.cuda.events() >= 4);  // of two pairs, and the anchors if the GPU has not reached them
    CHECK(host.cuda.events() <= 6);
  }
  host.cuda.Release();

  REQUIRE(host.StartTiming());
  host.Run("after", kMs);
  REQUIRE(host.AwaitSpans("after", 1, &trace));
  REQUIRE(fakes::WaitUntil([&] { return fakes::Attribute(host.Incident(), "cuda_events.under_way") == ""; }));
  host.recorder.Stop();
  CHECK(host.cuda.events() == 0);
  CHECK(host.cuda.streams() == 1);  // the host's
  CHECK(host.cuda.broken_rules() == "");
}

TEST_CASE("collectors with two alternating numbers of pairs reuse the first two sets", "[cuda_events]") {
  EventHost host;
  std::vector<std::set<void*>> pairs_of;  // each collector's
  for (const uint32_t pairs : {5, 6, 5, 6, 5}) {
    host.event_options.pairs_per_context = pairs;
    REQUIRE(host.StartTiming());
    REQUIRE(host.Settle());
    std::vector<pitot::detail::CudaSpan> open(pairs);
    for (auto& span : open) span = pitot::detail::BeginCudaSpan(host.stream, "open");
    for (const auto& span : open) pitot::detail::EndCudaSpan(span);
    std::set<void*>& had = pairs_of.emplace_back();
    for (const auto& span : open) had.insert(span.pair);
    REQUIRE(had.size() == pairs);
    host.recorder.Stop();
  }
  CHECK(pairs_of[2] == pairs_of[0]);
  CHECK(pairs_of[3] == pairs_of[1]);
  CHECK(pairs_of[4] == pairs_of[0]);
}

TEST_CASE("a hanging driver costs the stop its patience and no more", "[cuda_events]") {
  EventHost host;
  host.environment.stop_patience_ns = 50 * kMs;
  host.environment.keep_patience_ns = 10 * kMs;
  REQUIRE(host.StartTiming());
  host.cuda.HangIn("cuEventQuery");
  host.Run("hangs");
  CHECK(fakes::Attribute(host.Incident(), "cuda_events.late") != "");
  host.recorder.Stop();
  host.cuda.HangIn("");
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.events() == 0; }));  // the thread left behind has ended

  REQUIRE(host.StartTiming());
  host.Run("after");
  model::Trace trace;
  CHECK(host.AwaitSpans("after", 1, &trace));
}

TEST_CASE("the child of a fork does nothing, and the parent goes on", "[cuda_events][fork]") {
  EventHost host;
  REQUIRE(host.StartTiming());
  std::optional<pitot::CudaEventScope> open(std::in_place, host.stream, "open");
  const int status = fakes::InChild([&] {
    const uint64_t before = host.cuda.calls();
    open.reset();
    { const pitot::CudaEventScope scope(host.stream, "child's"); }
    return host.cuda.calls() == before ? 0 : 1;
  });
  CHECK(status == 0);
  open.reset();
  host.Run("parent's");
  model::Trace trace;
  REQUIRE(host.AwaitSpans("parent's", 1, &trace));
  CHECK(EventHost::Count(trace, "open") == 1);
}

TEST_CASE("many threads time their batches while incidents are written and the collector comes and goes",
          "[cuda_events][threads]") {
  EventHost host;
  host.event_options.pairs_per_context = 32;
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> scopes{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      host.cuda.MakeCurrent(host.context);
      void* const stream = host.cuda.MakeStream();
      while (!stop) {
        const pitot::Batch batch = pitot::Batch::Begin("executor");
        const pitot::CudaEventScope outer(stream, "outer"), inner(nullptr, "inner");
        host.cuda.Enqueue(stream, 20'000);
        ++scopes;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    });
  }
  for (int round = 0; round < 3; ++round) {
    REQUIRE(host.Start());
    REQUIRE(host.Add().ok());
    model::Trace trace;
    CHECK(host.AwaitSpans("outer", 50, &trace));
    CHECK(model::FindInconsistency(trace) == "");
    host.recorder.Stop();
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(host.cuda.broken_rules() == "");
}
