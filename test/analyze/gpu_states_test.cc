// SPDX-License-Identifier: Apache-2.0
//
// What a verdict says of the GPU meanwhile, by its hardware counters.
#include "analyze/blame/gpu_states.h"

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "analyze/blame_of.h"
#include "base/gpu_counters.h"
#include "pitot/analyze/verdict.h"
#include "pitot/analyze/why.h"
#include "serialize/sample_trace.h"

using namespace pitot;
using namespace pitot::model;
using analyze::Blame;
using base::GpuCounter;
using blame::GpuBound;
using blame::GpuState;
using Catch::Matchers::Contains;
using test::TraceMaker;

namespace {

constexpr int64_t kMs = 1'000'000;
using Values = test::CounterValues;

// A GPU sampled every 4 ms for a second, and a request from 400 to 500 ms. Its batch is from 410 to 490.
struct Sampled {
  Sampled() {
    maker.trace.window_end_ns = 1'000 * kMs;
    executor = maker.Thread("executor");
    request = maker.Request(1, "/classify", 400 * kMs, 100 * kMs);
    maker.trace.requests[request].begin_thread = maker.trace.requests[request].end_thread = executor;
    batch = maker.Batch(11, "resnet50", executor, 410 * kMs, 80 * kMs);
    maker.Member(batch, request, 410 * kMs);
    maker.Event(executor, maker.Site(SiteKind::kScope, "forward"), 410 * kMs, 80 * kMs, {kNone, batch});
    maker.trace.devices.push_back({0});
    trace = maker.Finish();
    trace.attributes.push_back({trace.strings.Add("counters.0.interval_us"), trace.strings.Add("4000")});
    Counter(GpuCounter::kSampled, {{0, 1}, {1000, 0}});
  }
  void Counter(GpuCounter counter, const Values& values) { test::AddCounter(&trace, 0, base::NameOf(counter), values); }
  std::optional<GpuState> In(int64_t begin_ms, int64_t end_ms) const {
    return blame::GpuStates(trace).In(0, {{begin_ms * kMs, end_ms * kMs}});
  }
  GpuBound Bound() const {
    const std::optional<GpuState> state = In(410, 490);
    REQUIRE(state);
    return state->Bound();
  }

  TraceMaker maker;
  Trace trace;
  uint32_t executor, request, batch;
};

}  // namespace

TEST_CASE("a GPU near the peak of one of its units is bound by that unit", "[gpu_states]") {
  Sampled sampled;
  sampled.Counter(GpuCounter::kEngineActive, {{0, 5}, {400, 98}, {500, 5}});
  sampled.Counter(GpuCounter::kSmActive, {{0, 3}, {400, 96}, {500, 3}});
  const auto bound = [&](double tensor, double dram, double instructions) {
    Sampled other = sampled;
    other.Counter(GpuCounter::kTensorActive, {{0, 0}, {400, tensor}, {500, 0}});
    other.Counter(GpuCounter::kDramBandwidth, {{0, 0}, {400, dram}, {500, 0}});
    other.Counter(GpuCounter::kInstructions, {{0, 0}, {400, instructions}, {500, 0}});
    return other.Bound();
  };
  CHECK(bound(2, 84, 20) == GpuBound::kMemory);
  CHECK(bound(88, 70, 20) == GpuBound::kTensor);
  CHECK(bound(0, 30, 75) == GpuBound::kIssue);
  CHECK(bound(20, 59, 40) == GpuBound::kLatency);
}

TEST_CASE("a GPU that is idle waits for the host, or for copies over the bus", "[gpu_states]") {
  Sampled sampled;
  sampled.Counter(GpuCounter::kEngineActive, {{0, 98}, {400, 4}, {500, 98}});
  CHECK(sampled.Bound() == GpuBound::kHost);
  sampled.Counter(GpuCounter::kPcieReceiving, {{0, 1e7}, {400, 11e9}, {500, 1e7}});
  CHECK(sampled.Bound() == GpuBound::kCopies);
  CHECK_THAT(sampled.In(410, 490)->Text(), Contains("PCIe 11.0 GB/s: bound by copies over the bus"));
}

TEST_CASE("work that leaves SMs idle does not fill the GPU", "[gpu_states]") {
  Sampled sampled;
  sampled.Counter(GpuCounter::kEngineActive, {{0, 95}});
  sampled.Counter(GpuCounter::kSmActive, {{0, 12}});
  CHECK(sampled.Bound() == GpuBound::kFewSms);
}

TEST_CASE("nothing is said of what bound a GPU that was active for a part of the time, or hardly measured",
          "[gpu_states]") {
  Sampled sampled;
  CHECK_FALSE(sampled.In(410, 490));
  sampled.Counter(GpuCounter::kEngineActive, {{0, 0}, {400, 45}, {500, 0}});
  CHECK(sampled.Bound() == GpuBound::kUnknown);
  CHECK(sampled.In(410, 490)->Text() == "the GPU was active 45 % of the time");
  CHECK_FALSE(sampled.In(410, 413));  // within one sample
  CHECK_FALSE(blame::GpuStates(sampled.trace).In(1, {{410 * kMs, 490 * kMs}}));
}

TEST_CASE("pieces too short for a sample are taken together", "[gpu_states]") {
  Sampled sampled;
  sampled.Counter(GpuCounter::kEngineActive, {{0, 1}, {400, 98}, {500, 1}});
  Intervals pieces;
  for (int64_t at_ms = 410; at_ms < 490; at_ms += 4) pieces.push_back({at_ms * kMs, at_ms * kMs + kMs});
  const std::optional<GpuState> state = blame::GpuStates(sampled.trace).In(0, pieces);
  REQUIRE(state);
  CHECK(*state->engine == Approx(98));
}

TEST_CASE("a clock lower than usual is named, and idle moments do not count", "[gpu_states]") {
  Sampled sampled;
  sampled.Counter(GpuCounter::kEngineActive, {{0, 98}, {600, 1}});
  sampled.Counter(GpuCounter::kSmClock, {{0, 1755}, {400, 1200}, {500, 1755}, {600, 345}});
  const std::optional<GpuState> slow = sampled.In(410, 490);
  REQUIRE(slow);
  CHECK(slow->IsClockLow());
  CHECK_THAT(slow->Text(), Contains("its SM clock was 1200 MHz, usually 1755 MHz"));
  CHECK_FALSE(sampled.In(310, 390)->IsClockLow());
  CHECK_FALSE(sampled.In(700, 800)->clock);
}

TEST_CASE("work on the GPU while the process has none is others' work", "[gpu_states]") {
  Sampled sampled;
  SECTION("around that time") {
    sampled.Counter(GpuCounter::kEngineActive, {{0, 0}, {340, 90}, {560, 0}});
    const std::optional<GpuState> state = sampled.In(410, 490);
    REQUIRE(state);
    CHECK(state->HasOthers());
    CHECK_THAT(state->Text(), Contains("without work of this process"));
  }
  SECTION("long before") {
    sampled.Counter(GpuCounter::kEngineActive, {{0, 90}, {200, 0}, {400, 98}, {500, 0}});
    CHECK_FALSE(sampled.In(410, 490)->HasOthers());
  }
  SECTION("a server that always works has no such time") {
    sampled.trace.requests[0].begin_ns = 0;
    sampled.trace.requests[0].duration_ns = 1'000 * kMs;
    sampled.Counter(GpuCounter::kEngineActive, {{0, 98}});
    CHECK_FALSE(sampled.In(410, 490)->others);
  }
}

TEST_CASE("a cause says what its GPU did, as text and as the reason for its advice", "[gpu_states]") {
  Sampled sampled;
  double otherwise = 1;    // % of the time
  double usual_dram = 20;  // while the GPU was active
  const char* advice = "move_fewer_bytes";
  SECTION("bound by memory") {}
  SECTION("next to another process, which works while this one does not") {
    otherwise = 40;
    advice = "keep_gpu_to_itself";
    test::AddCounter(&sampled.trace, kNone, base::GpuCounterName(0, "", base::NameOf(GpuCounter::kOtherProcesses)),
                     {{0, 1}});
  }
  SECTION("as always") {
    usual_dram = 83;
    advice = "compare_kernels";
  }
  sampled.Counter(GpuCounter::kEngineActive, {{0, 98}, {300, otherwise}, {410, 98}, {490, otherwise}});
  sampled.Counter(GpuCounter::kSmActive, {{0, 1}, {410, 96}, {490, 1}});
  sampled.Counter(GpuCounter::kDramBandwidth, {{0, usual_dram}, {300, 1}, {410, 84}, {490, 1}});

  analyze::BlameIndex index;
  REQUIRE(analyze::BlameIndex::Make(sampled.trace, {}, &index).ok());
  analyze::RequestBlame blame;
  REQUIRE(FindBlame(index, sampled.request, &blame).ok());
  REQUIRE(blame.blame[Blame::kGpuExecExpected] > 70 * kMs);
  analyze::Baseline baseline;
  analyze::Verdict verdict;
  REQUIRE(FindVerdict(index, blame, baseline, 0, {}, &verdict).ok());
  REQUIRE_FALSE(verdict.largest.empty());
  REQUIRE(verdict.largest[0].blame == Blame::kGpuExecExpected);
  CHECK_THAT(EvidenceText(index, blame, verdict.largest[0]),
             Contains("meanwhile the GPU was active 98 % of the time, SMs 96 %, DRAM 84 %: bound by its memory"));
  CHECK(std::string(verdict.largest[0].advice.code) == advice);
  CHECK_THAT(VerdictJson(index, blame, verdict),
             Contains("\"bound_by\":\"memory\"") || Contains("\"bound_by\": \"memory\""));
}
