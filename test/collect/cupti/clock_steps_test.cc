// SPDX-License-Identifier: Apache-2.0
//
// The clock of CUPTI's stamps.
#include <catch2/catch.hpp>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <thread>

#include "collect/cupti/rig.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::Find;
using fakes::GpuHost;
using fakes::HasLoss;
using model::kNone;
using pitot::Depth;

// A kernel's times, in ms of the clocks.
struct Span {
  int64_t begin, end;
  bool operator==(const Span&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Span& span) { return out << span.begin << " to " << span.end; }

// A host with a CUPTI that stamps by clocks moved by the test.
struct ClockHost : GpuHost {
  ClockHost() { environment.read_clocks = fakes::FakeClocks::Read; }
  // Moves them, and has the collector read them.
  void MoveTo(int64_t at_ms) {
    clocks.SetMs(at_ms);
    Round();
  }
  void RunStamped(const char* name, int64_t begin, int64_t end) {
    cuda.Run({.name = name, .begin_ns = begin, .duration_ns = end - begin});
  }
  void RunAt(const char* name, int64_t begin_ms, int64_t end_ms) {
    RunStamped(name, clocks.Stamp(begin_ms), clocks.Stamp(end_ms));
  }
  Span MsOf(const model::Trace& trace, std::string_view name) const {
    const uint32_t at = Find(trace, name);
    if (at == kNone) return {-1, -1};
    const int64_t begin_ns = trace.gpu.begin_ns[at];
    return {clocks.MsOf(begin_ns), clocks.MsOf(begin_ns + static_cast<int64_t>(trace.gpu.duration_ns[at]))};
  }
  fakes::FakeClocks clocks;
};

}  // namespace

TEST_CASE("times of no clock and ends before beginnings are counted and left out", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "foreign clock", .begin_ns = 12345});
  host.cuda.Run({.name = "backwards", .duration_ns = -5});
  host.cuda.Run({.name = "well"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "well") == 1);
  CHECK(CountNamed(trace, "foreign clock") + CountNamed(trace, "backwards") == 0);
  CHECK(Attribute(trace, "cupti.bad_timestamps") == "2");
  CHECK_FALSE(trace.gpu_losses.empty());
}

TEST_CASE("a stepped clock misplaces no kernel: records CUPTI errs about are left out, counted and reported",
          "[cupti]") {
  struct Step {
    int64_t ns;
    const char* said;
  };
  for (const auto& [ns, said] :
       {Step{1'500'000'000, "+1.500"}, Step{-1'500'000'000, "-1.500"}, Step{-3'600'000'000'000, "-3600.000"}}) {
    ClockHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    host.MoveTo(2000);
    host.RunAt("before", 900, 910);
    host.Round();
    host.RunAt("before, read after", 1990, 1991);
    const int64_t straddles = host.clocks.Stamp(1995), unaware = host.clocks.Stamp(2020);
    host.clocks.StepBy(ns);
    host.MoveTo(2100);
    host.RunStamped("straddles", straddles, host.clocks.Stamp(2005));
    host.RunStamped("as before", unaware, unaware + 1000);
    host.RunAt("after", 2040, 2050);
    host.MoveTo(13'000);
    host.RunAt("late", 12'990, 12'991);
    host.MoveTo(15'000);
    host.RunAt("read late", 13'500, 13'510);
    host.RunAt("well", 14'500, 14'510);

    const model::Trace trace = host.Incident();

    CHECK(host.MsOf(trace, "before") == Span{900, 910});
    CHECK(host.MsOf(trace, "well") == Span{14'500, 14'510});
    // It is read while the clock is stepped.
    const uint32_t read_before = CountNamed(trace, "before, read after");
    CHECK(trace.gpu.size() == 2 + read_before);
    const std::string count = std::to_string(6 - read_before);
    CHECK(Attribute(trace, "cupti.clock") ==
          std::string("CLOCK_REALTIME stepped by ") + said + " s; " + count + " records could not be placed");
    CHECK(Attribute(trace, "cupti.bad_timestamps").empty());
    uint64_t missing = 0;
    for (const auto& loss : trace.gpu_losses) missing += loss.records;
    CHECK(missing == 6 - read_before);
    CHECK(HasLoss(trace, "the clock stepped"));
  }
}

TEST_CASE("a buffer is converted by clocks read after it was filled", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.cuda.HangIn("cuptiActivityFlushAll");
  host.RunAt("before", 900, 910);
  // The round has begun, and read the clocks.
  std::thread round([&] { host.Round(); });
  CHECK(fakes::WaitUntil([&] { return host.cuda.is_hanging(); }));
  host.clocks.StepBy(-500'000'000);
  host.clocks.SetMs(1100);
  host.RunAt("after", 1010, 1020);
  host.cuda.HangIn("");
  round.join();

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "after") == 0);
  CHECK_THAT(Attribute(trace, "cupti.clock"), Catch::Contains("could not be placed"));
}

TEST_CASE("a step is noticed while nothing is recorded, and reported in its incidents", "[cupti]") {
  ClockHost host;
  host.clocks.SetMs(-60'000);
  REQUIRE(host.StartAt(Depth::kKernels));
  host.collector->SetDepth(Depth::kScopes);
  host.clocks.StepBy(250'000'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock").empty());  // it was long ago
  host.MoveTo(1000);
  host.clocks.StepBy(-250'000'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped by -0.250 s; 0 records could not be placed");
  host.clocks.StepBy(-600'000);
  host.Round();
  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped 2 times, the last time by -0.000600 s; 0 records could not be placed");
}

TEST_CASE("records left without a place by a step are reported while they are in the window, even if the step is not",
          "[cupti]") {
  ClockHost host;
  host.clocks.SetMs(-60'000);
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(-50'000);
  host.clocks.StepBy(-500'000'000);
  host.MoveTo(-49'900);
  host.RunAt("twice", -49'950, -49'940);

  CHECK(Attribute(host.Incident(), "cupti.clock") ==
        "CLOCK_REALTIME stepped by -0.500 s; 1 record could not be placed");
}

TEST_CASE("a slewed clock was not stepped", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  // 2 us in 20 ms, and once 40 us at once.
  for (int64_t ms = 20; ms <= 1000; ms += 20) {
    host.clocks.StepBy(ms == 500 ? -40'000 : 2000);
    host.MoveTo(ms);
    host.RunAt("slewed", ms - 10, ms - 5);
  }

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "slewed") == 50);
  CHECK(Attribute(trace, "cupti.clock").empty());
  CHECK(trace.gpu_losses.empty());
}

TEST_CASE("a time later than now is invalid, whether the clock was stepped or not", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.RunAt("to come", 1010, 1020);
  host.RunAt("goes on", 990, 1020);
  host.RunAt("well", 990, 1000);

  const model::Trace trace = host.Incident();

  CHECK(trace.gpu.size() == 1);
  CHECK(host.MsOf(trace, "well") == Span{990, 1000});
  CHECK(Attribute(trace, "cupti.bad_timestamps") == "2");
  CHECK(Attribute(trace, "cupti.clock").empty());
}

TEST_CASE("kernels stamped with the CPU's cycles are not affected by a step", "[cupti]") {
  ClockHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.MoveTo(1000);
  host.RunStamped("before", host.clocks.Cycles(900), host.clocks.Cycles(910));
  host.Round();
  host.clocks.StepBy(-500'000'000);
  host.MoveTo(1100);
  host.RunStamped("straddles", host.clocks.Cycles(990), host.clocks.Cycles(1010));
  host.RunStamped("after", host.clocks.Cycles(1050), host.clocks.Cycles(1060));

  const model::Trace trace = host.Incident();

  CHECK(host.MsOf(trace, "before") == Span{900, 910});
  CHECK(host.MsOf(trace, "straddles") == Span{990, 1010});
  CHECK(host.MsOf(trace, "after") == Span{1050, 1060});
  CHECK(Attribute(trace, "cupti.clock").empty());
  CHECK(trace.gpu_losses.empty());
}
