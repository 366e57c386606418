// SPDX-License-Identifier: Apache-2.0
//
// Records made through pitot/c.h, read back from a dump.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "bindings/recorded.h"

namespace {

using bindings_test::Events;
using bindings_test::Recorded;
using Args = std::vector<std::pair<std::string, std::string>>;

pitot::SiteKind KindOf(const pitot::model::Trace& trace, uint32_t event) {
  return trace.sites[trace.events.site[event]].kind;
}

}  // namespace

TEST_CASE("instants and counters have the names given at run time", "[bindings]") {
  const pitot::model::Trace trace = Recorded([](pitot_recorder*) {
    pitot_instant(pitot_intern("cache miss"), nullptr);
    pitot_instant(pitot_intern("evicted"), "key 17");
    pitot_counter(pitot_intern("queue depth"), 2.5);
  });

  const std::vector<fakes::EventText> events = Events(trace);
  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "cache miss");
  CHECK(KindOf(trace, 0) == pitot::SiteKind::kInstant);
  CHECK(events[1].name == "evicted");
  CHECK(events[1].args.back() == std::pair<std::string, std::string>("detail", "key 17"));
  CHECK(events[2].name == "queue depth");
  CHECK(events[2].args.back() == std::pair<std::string, std::string>("value", "2.5"));
  CHECK(KindOf(trace, 2) == pitot::SiteKind::kCounter);
}

TEST_CASE("scopes and waits enclose the events inside them", "[bindings]") {
  pitot_owner owner{};
  const pitot::model::Trace trace = Recorded([&](pitot_recorder*) {
    pitot_request* request = pitot_request_begin("/x", nullptr, 0);
    owner = pitot_this_owner();
    pitot_scope_begin(pitot_intern("outer"));
    pitot_wait wait;
    pitot_wait_begin(&wait, PITOT_WAIT_LOCK, pitot_intern("cache"), pitot_owner{});
    pitot_wait_set_owner(&wait, owner);
    pitot_wait_end(&wait);
    pitot_scope_end();
    pitot_request_finish(request, PITOT_OUTCOME_OK);
  });

  const std::vector<fakes::EventText> events = Events(trace);
  REQUIRE(events.size() == 2);
  const fakes::EventText& outer = events[0];
  const fakes::EventText& wait = events[1];
  CHECK(outer.name == "outer");
  CHECK(outer.request_id == owner.request);
  CHECK(wait.begin_ns >= outer.begin_ns);
  CHECK(wait.begin_ns + wait.duration_ns <= outer.begin_ns + outer.duration_ns);
  CHECK(KindOf(trace, 1) == pitot::SiteKind::kWait);
  CHECK(wait.args == Args{{"kind", "1"},
                          {"resource", "cache"},
                          {"owner_thread", std::to_string(owner.thread)},
                          {"owner_request", std::to_string(owner.request)}});
}

TEST_CASE("a batch has its members and its reason for closing", "[bindings]") {
  uint64_t request_id = 0, batch_id = 0;
  const pitot::model::Trace trace = Recorded([&](pitot_recorder*) {
    pitot_request* request = pitot_request_begin("/x", nullptr, 0);
    request_id = pitot_request_id(request);
    pitot_request_set_id(request, "cmpl-17");
    const pitot_token token = pitot_request_enqueue(request, "jobs");
    pitot_batch* batch = pitot_batch_begin("resnet50");
    batch_id = pitot_batch_id(batch);
    pitot_batch_join(batch, &token);
    pitot_batch_close(batch, PITOT_BATCH_TIMEOUT);
    pitot_batch_submitted(batch);
    pitot_batch_finish(batch);
    pitot_request_emit(request, 3);
    pitot_request_set_deadline(request, 5000000);
    pitot_request_finish_reason(request, PITOT_OUTCOME_CANCELLED, "client left");
  });

  REQUIRE(trace.batches.size() == 1);
  CHECK(trace.batches[0].id == batch_id);
  CHECK(trace.strings[trace.batches[0].executor] == "resnet50");
  CHECK(trace.batches[0].close == PITOT_BATCH_TIMEOUT);
  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].id == request_id);
  CHECK(trace.requests[0].outcome == pitot::Outcome::kCancelled);
  CHECK(trace.strings[trace.requests[0].reason] == "client left");
  CHECK(trace.strings[trace.requests[0].host_id] == "cmpl-17");
  CHECK(trace.requests[0].output_tokens == 3);
  CHECK(trace.requests[0].deadline_ns == 5000000);
  REQUIRE(trace.members.size() == 1);
  CHECK(trace.members[0].batch == 0);
  CHECK(trace.members[0].request == 0);
  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.strings[trace.handoffs[0].queue] == "jobs");
}

TEST_CASE("a token defers its request, and sets labels and sizes", "[bindings]") {
  const pitot::model::Trace trace = Recorded([&](pitot_recorder*) {
    pitot_request* request = pitot_request_begin("/x", nullptr, 0);
    const pitot_token token = pitot_request_token(request);
    const pitot_token again = pitot_token_enqueue(&token, "deferred");
    CHECK(pitot_token_request(&again) == pitot_request_id(request));
    pitot_token_set_label(&again, "model", "smol");
    pitot_token_set_size(&again, "tokens", 17);
    pitot_request_finish(request, PITOT_OUTCOME_OK);
  });

  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.strings[trace.handoffs[0].queue] == "deferred");
  REQUIRE(trace.requests.size() == 1);
  REQUIRE(trace.requests[0].labels.size() == 1);
  CHECK(trace.strings[trace.requests[0].labels[0].value] == "smol");
  REQUIRE(trace.requests[0].sizes.size() == 1);
  CHECK(trace.requests[0].sizes[0].value == 17);
}

TEST_CASE("members joined together have their work, however many", "[bindings]") {
  constexpr uint64_t kMembers = 150;
  const pitot::model::Trace trace = Recorded([&](pitot_recorder*) {
    pitot_request* request = pitot_request_begin("/x", nullptr, 0);
    const std::vector<pitot_token> tokens(kMembers, pitot_request_token(request));
    std::vector<double> work;
    for (uint64_t i = 0; i < kMembers; ++i) work.push_back(static_cast<double>(i + 1));
    pitot_batch* batch = pitot_batch_begin_unit("slots", "tokens");
    pitot_batch_join_many(batch, tokens.data(), work.data(), kMembers);
    pitot_batch_join_work(batch, tokens.data(), 2578);
    pitot_batch_join_many(batch, tokens.data(), nullptr, 2);
    pitot_batch_finish(batch);
    pitot_request_finish(request, PITOT_OUTCOME_OK);
  });

  REQUIRE(trace.batches.size() == 1);
  CHECK(trace.strings[trace.batches[0].work_unit] == "tokens");
  std::vector<double> found;
  for (const pitot::model::MemberRow& member : trace.members) found.push_back(member.work);
  REQUIRE(found.size() == kMembers + 3);
  CHECK(std::count(found.begin(), found.end(), 0.0) == 2);
  CHECK(std::accumulate(found.begin(), found.end(), 0.0) == kMembers * (kMembers + 1) / 2.0 + 2578);
}
