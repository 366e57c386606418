// SPDX-License-Identifier: Apache-2.0
//
// What an incident has of the scheduler's work.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "decode_server/scheduler.h"
#include "fakes/trace_text.h"
#include "session/host.h"

namespace decode_server {
namespace {

using pitot::model::Trace;
using Texts = std::vector<std::string>;

Job MakeJob(size_t prompt, size_t max_tokens) {
  Job job;
  job.prompt.assign(prompt, 7);
  job.max_tokens = max_tokens;
  job.stream = std::make_shared<TokenStream>();
  return job;
}

const pitot::model::RequestRow& Row(const Trace& trace, uint64_t id) {
  const auto row =
      std::find_if(trace.requests.begin(), trace.requests.end(), [id](const auto& one) { return one.id == id; });
  REQUIRE(row != trace.requests.end());
  return *row;
}
Texts StagesOf(const Trace& trace, uint64_t id) {
  Texts names;
  for (const auto& stage : Row(trace, id).stages) names.push_back(fakes::Text(trace, stage.name));
  return names;
}
// The members of each batch.
std::vector<std::vector<uint64_t>> Batches(const Trace& trace) {
  std::vector<std::vector<uint64_t>> batches;
  for (const auto& batch : trace.batches) {
    CHECK(fakes::Text(trace, batch.executor) == "decode");
    batches.emplace_back();
    for (uint32_t i = 0; i < batch.member_count; ++i)
      batches.back().push_back(trace.requests[trace.members[batch.first_member + i].request].id);
  }
  return batches;
}

// The tokens that they bring.
std::vector<std::vector<double>> Works(const Trace& trace) {
  std::vector<std::vector<double>> works;
  for (const auto& batch : trace.batches) {
    works.emplace_back();
    for (uint32_t i = 0; i < batch.member_count; ++i)
      works.back().push_back(trace.members[batch.first_member + i].work);
  }
  return works;
}

}  // namespace

TEST_CASE("iterations are batches of the requests that ran in them, stages and tokens are the requests'",
          "[scheduler]") {
  session_test::Host host;
  REQUIRE(host.Start());
  Scheduler scheduler({.prefill_chunk = 8}, [](std::span<const Slice> slices, pitot::Batch&) {
    return std::vector<int32_t>(slices.size(), 1);
  });
  pitot::Request longer = pitot::Request::Begin("/generate"), shorter = pitot::Request::Begin("/generate");
  const uint64_t a = longer.id(), b = shorter.id();

  REQUIRE(scheduler.Submit(MakeJob(5, 3), longer) == Admission::kQueued);
  REQUIRE(scheduler.Submit(MakeJob(6, 1), shorter) == Admission::kQueued);
  while (scheduler.Step()) {}
  shorter.Finish(pitot::Outcome::kOk);
  longer.Finish(pitot::Outcome::kOk);
  REQUIRE(host.TriggerAndFlush());
  const Trace trace = host.traces().back();

  // 5 + 3 of the second prompt's 6 tokens, the rest beside the first's second token, its third.
  CHECK(Batches(trace) == std::vector<std::vector<uint64_t>>{{a, b}, {b, a}, {a}});
  CHECK(Works(trace) == std::vector<std::vector<double>>{{5, 3}, {3, 1}, {1}});
  for (const auto& batch : trace.batches) CHECK(fakes::Text(trace, batch.work_unit) == "tokens");
  CHECK(StagesOf(trace, a) == Texts{"queue", "prefill", "decode", "respond"});
  CHECK(StagesOf(trace, b) == Texts{"queue", "prefill", "respond"});
  CHECK((Row(trace, a).output_tokens == 3 && Row(trace, b).output_tokens == 1));
  CHECK((Row(trace, a).first_token_ns > 0 && Row(trace, a).max_token_gap_ns > 0));
  CHECK(trace.tokens.size() == 4);
  CHECK(trace.handoffs.size() == 2);  // taken from the queue once, however many iterations they are in
}

TEST_CASE("a request that waits for room in the KV cache has a stage for it", "[scheduler]") {
  session_test::Host host;
  REQUIRE(host.Start());
  Scheduler scheduler({.kv_tokens = 10}, [](std::span<const Slice> slices, pitot::Batch&) {
    return std::vector<int32_t>(slices.size(), 1);
  });
  pitot::Request first = pitot::Request::Begin("/generate"), waiting = pitot::Request::Begin("/generate");
  const uint64_t id = waiting.id();

  REQUIRE(scheduler.Submit(MakeJob(5, 2), first) == Admission::kQueued);
  REQUIRE(scheduler.Submit(MakeJob(5, 1), waiting) == Admission::kQueued);
  while (scheduler.Step()) {}
  first.Finish(pitot::Outcome::kOk);
  waiting.Finish(pitot::Outcome::kOk);
  REQUIRE(host.TriggerAndFlush());

  CHECK(StagesOf(host.traces().back(), id) == Texts{"queue", "kv cache", "prefill", "respond"});
}

TEST_CASE("the depth of the queue is how many wait, also after some were cancelled", "[scheduler]") {
  session_test::Host host;
  REQUIRE(host.Start());
  Scheduler scheduler({.max_batch = 1}, [](std::span<const Slice> slices, pitot::Batch&) {
    return std::vector<int32_t>(slices.size(), 1);
  });
  pitot::Request requests[] = {pitot::Request::Begin("/generate"), pitot::Request::Begin("/generate"),
                               pitot::Request::Begin("/generate")};
  std::vector<std::shared_ptr<TokenStream>> streams;
  for (pitot::Request& request : requests) {
    Job job = MakeJob(2, 2);
    streams.push_back(job.stream);
    REQUIRE(scheduler.Submit(std::move(job), request) == Admission::kQueued);
  }
  scheduler.Step();
  streams[1]->Cancel();
  while (scheduler.Step()) {}
  for (pitot::Request& request : requests) request.Finish(pitot::Outcome::kOk);
  REQUIRE(host.TriggerAndFlush());

  const Trace trace = host.traces().back();
  Texts depths;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.EventName(event) == "queue depth")
      depths.push_back(std::to_string(trace.arg_values[trace.events.args[event]]));
  }
  CHECK(depths == Texts{"1", "2", "3", "2", "1", "0"});
}

}  // namespace decode_server
