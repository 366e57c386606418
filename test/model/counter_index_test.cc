// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "pitot/model/index.h"
#include "serialize/sample_trace.h"

namespace pitot::test {

using model::CounterIndex;
using model::Trace;

namespace {

void AddCounter(Trace* trace, const char* name, const char* unit,
                const std::vector<std::pair<int64_t, double>>& samples) {
  const auto counter = static_cast<uint32_t>(trace->counters.size());
  trace->counters.push_back({model::kNone, trace->strings.Add(name), trace->strings.Add(unit)});
  for (const auto& [at_ns, value] : samples) {
    trace->samples.counter.push_back(counter);
    trace->samples.at_ns.push_back(at_ns);
    trace->samples.value.push_back(value);
  }
}

// A request from 100 to 200, in two batches if `batched`: 120 to 140 and 160 to 180.
Trace MakeTrace(bool batched) {
  Trace trace;
  trace.window_end_ns = 1000;
  model::RequestRow request;
  request.begin_ns = 100, request.duration_ns = 100, request.end_known = true;
  trace.requests.push_back(request);
  for (const int64_t begin_ns : {120, 160}) {
    if (!batched) break;
    const auto batch = static_cast<uint32_t>(trace.batches.size());
    model::BatchRow row;
    row.begin_ns = begin_ns, row.duration_ns = 20, row.first_member = batch, row.member_count = 1;
    trace.batches.push_back(row);
    trace.members.push_back({batch, 0, begin_ns, 0});
  }
  return trace;
}

std::vector<model::MemoryPeak> Peaks(const Trace& trace) {
  return model::MemoryPeaksOf(trace, model::RequestIndex(trace), CounterIndex(trace), 0);
}

}  // namespace

TEST_CASE("a counter holds its value until the next sample", "[index]") {
  Trace trace;
  AddCounter(&trace, "other", "", {{5, 99}});
  AddCounter(&trace, "this", "", {{10, 1}, {20, 7}, {20, 3}, {30, 2}});
  const CounterIndex counters(trace);

  CHECK(counters.At(1, 9) == std::nullopt);
  CHECK(counters.At(1, 10) == 1.0);
  CHECK(counters.At(1, 25) == 3.0);
  CHECK(counters.At(1, 1000) == 2.0);
  CHECK(counters.Most(1, 0, 9) == std::nullopt);
  CHECK(counters.Most(1, 0, 10) == 1.0);
  CHECK(counters.Most(1, 12, 25) == 7.0);
  CHECK(counters.Most(1, 21, 40) == 3.0);
}

TEST_CASE("a request's peak is from its time at work: before it was queued, in its batches, and after", "[index]") {
  // Time of the allocator's peak, and whether the request was at work then.
  const std::vector<std::pair<int64_t, bool>> moments = {{95, false},  {105, true}, {115, false}, {130, true},
                                                         {150, false}, {165, true}, {190, true},  {205, false}};
  for (const auto& [at_ns, is_its] : moments) {
    CAPTURE(at_ns);
    Trace trace = MakeTrace(true);
    trace.handoffs.push_back({});
    trace.handoffs.back().request = 0, trace.handoffs.back().enqueue_ns = 110;
    AddCounter(&trace, "LibTorch allocated", "bytes", {{0, 100}, {at_ns, 9000}, {at_ns + 2, 200}});

    const auto peaks = Peaks(trace);

    REQUIRE(peaks.size() == 1);
    CHECK((peaks[0].most_bytes == 9000) == is_its);
    CHECK(peaks[0].before_bytes == (at_ns < 100 ? 200 : 100));
  }
}

TEST_CASE("events in a request's context between its batches count as work", "[index]") {
  TraceMaker maker;
  maker.trace = MakeTrace(true);
  const uint32_t thread = maker.Thread("handler"), site = maker.Site(SiteKind::kScope, "decode");
  AddCounter(&maker.trace, "LibTorch allocated", "bytes", {{0, 100}, {150, 9000}, {152, 200}});
  const auto before = Peaks(maker.trace);
  maker.Event(thread, site, 145, 10, {0});

  CHECK(before[0].most_bytes == 200);
  CHECK(Peaks(maker.Finish())[0].most_bytes == 9000);
}

TEST_CASE("the peak of a request without a batch is from its whole time", "[index]") {
  Trace trace = MakeTrace(false);
  AddCounter(&trace, "LibTorch allocated", "bytes", {{0, 100}, {110, 9000}, {115, 200}});

  REQUIRE(Peaks(trace).size() == 1);
  CHECK(Peaks(trace)[0].most_bytes == 9000);
  CHECK(Peaks(trace)[0].before_bytes == 100);
}

TEST_CASE("counters not of an allocator, or without a sample in time, do not give a peak", "[index]") {
  Trace trace = MakeTrace(false);
  AddCounter(&trace, "LibTorch reserved", "bytes", {{0, 100}});
  AddCounter(&trace, "blocks allocated", "", {{0, 100}});
  AddCounter(&trace, "late allocated", "bytes", {{500, 100}});

  CHECK(Peaks(trace).empty());
}

}  // namespace pitot::test
