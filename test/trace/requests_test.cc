// SPDX-License-Identifier: Apache-2.0
//
// Requests and tokens, on one clock and many threads.
#include "pitot/request.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fakes/child.h"
#include "fakes/observer.h"
#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/virtual_server.h"
#include "pitot/trace.h"
#include "trace/names.h"

namespace {

using fakes::EventsNamed;
using fakes::kStartNs;
using fakes::RequestOf;
using fakes::Text;
using fakes::VirtualServer;
using pitot::Adopt;
using pitot::Outcome;
using pitot::Request;
using pitot::Token;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::trace::CountRequests;

}  // namespace

TEST_CASE("a request is known from its beginning to its end", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/classify");
  const uint64_t id = request.id();
  server.clock.Advance(500);
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  CHECK(id != 0);
  CHECK(request.id() == 0);
  REQUIRE(trace.requests.size() == 1);
  const auto& row = trace.requests[0];
  CHECK(row.id == id);
  CHECK(row.parent_id == 0);
  CHECK((row.trace_id_high | row.trace_id_low) != 0);
  CHECK(Text(trace, row.route) == "/classify");
  CHECK(row.begin_ns == kStartNs);
  CHECK(row.duration_ns == 500);
  CHECK(row.begin_known);
  CHECK(row.end_known);
  CHECK(row.outcome == Outcome::kOk);
  CHECK(row.begin_thread == 0);
  CHECK(row.end_thread == 0);
  CHECK(row.size_bucket == 0);
  CHECK(CountRequests().begun == 1);
  CHECK(CountRequests().finished == 1);
  CHECK(CountRequests().open == 0);
}

TEST_CASE("every outcome arrives, and each has a name", "[requests]") {
  VirtualServer server;
  const std::vector<std::pair<Outcome, std::string>> outcomes = {{Outcome::kOk, "ok"},
                                                                 {Outcome::kFailed, "failed"},
                                                                 {Outcome::kCancelled, "cancelled"},
                                                                 {Outcome::kTimedOut, "timed_out"},
                                                                 {Outcome::kShed, "shed"},
                                                                 {Outcome::kAbandoned, "abandoned"}};
  std::vector<uint64_t> ids;
  for (const auto& [outcome, name] : outcomes) {
    Request request = Request::Begin("/r");
    ids.push_back(request.id());
    request.Finish(outcome);
    CHECK(pitot::OutcomeName(outcome) == name);
  }

  const auto trace = server.Trace();

  for (size_t i = 0; i < ids.size(); ++i) CHECK(RequestOf(trace, ids[i])->outcome == outcomes[i].first);
  CHECK(std::string(pitot::OutcomeName(static_cast<Outcome>(99))) == "open");
}

TEST_CASE("a request has the host's own id, open or ended, cut at 64 bytes", "[requests]") {
  VirtualServer server;
  std::vector<Request> requests;
  std::vector<std::pair<uint64_t, std::string>> expected;
  for (const size_t size : {0u, 1u, 7u, 8u, 9u, 63u, 64u, 65u, 500u}) {
    for (const bool is_ended : {false, true}) {
      const std::string id(size, static_cast<char>('a' + requests.size()));
      Request& request = requests.emplace_back(Request::Begin("/r"));
      request.SetId(id.c_str());
      expected.emplace_back(request.id(), id.substr(0, Request::kMaxIdBytes));
      if (is_ended) request.Finish(Outcome::kOk);
    }
  }

  const auto trace = server.Trace();

  for (const auto& [id, text] : expected) {
    INFO(text);
    CHECK(Text(trace, RequestOf(trace, id)->host_id) == text);
  }
  CHECK(CountRequests().details_refused == 4);
}

TEST_CASE("an id that is cut ends with a whole character", "[requests]") {
  VirtualServer server;
  const std::string kept(Request::kMaxIdBytes - 1, 'x');
  Request request = Request::Begin("/r");
  request.SetId((kept + "\u00e9").c_str());  // of two bytes
  const uint64_t id = request.id();
  request.Finish(Outcome::kOk);

  CHECK(Text(server.Trace(), RequestOf(server.Trace(), id)->host_id) == kept);
  CHECK(CountRequests().details_refused == 1);
}

TEST_CASE("the first of the host's own ids stays, and further ones are counted", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const uint64_t id = request.id();
  request.SetId(nullptr);
  request.SetId("");
  request.SetId("cmpl-17");
  request.SetId("");
  CHECK(CountRequests().details_refused == 0);
  request.SetId("cmpl-18");
  request.Finish(Outcome::kOk);
  Request next = Request::Begin("/r");  // in the same place
  const uint64_t next_id = next.id();
  next.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  CHECK(Text(trace, RequestOf(trace, id)->host_id) == "cmpl-17");
  CHECK(Text(trace, RequestOf(trace, next_id)->host_id).empty());
  CHECK(CountRequests().details_refused == 1);
}

TEST_CASE("ids of the host's own take no names", "[requests]") {
  VirtualServer server;
  Request::Begin("/r").Finish(Outcome::kOk);
  const uint32_t names = pitot::trace::CountNames();
  for (int i = 0; i < 1000; ++i) {
    Request request = Request::Begin("/r");
    request.SetId(("cmpl-" + std::to_string(i)).c_str());
    request.Finish(Outcome::kOk);
  }

  CHECK(pitot::trace::CountNames() == names);
}

TEST_CASE("a request with as many details as it may have has all of them", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const std::string id(Request::kMaxIdBytes, 'x');
  request.SetId(id.c_str());
  for (int i = 0; i < Request::kMaxLabels; ++i) request.SetLabel("key", "value");
  for (int i = 0; i < Request::kMaxSizes; ++i) request.SetSize("size", i + 1);
  for (int i = 0; i < Request::kMaxStages; ++i) request.Stage("stage");
  request.Finish(Outcome::kFailed, "a reason");

  const auto trace = server.Trace();

  REQUIRE(trace.requests.size() == 1);
  const auto& row = trace.requests[0];
  CHECK(row.labels.size() == Request::kMaxLabels);
  CHECK(row.sizes.size() == Request::kMaxSizes);
  CHECK(row.stages.size() == Request::kMaxStages);
  CHECK(Text(trace, row.host_id) == id);
  CHECK(Text(trace, row.reason) == "a reason");
}

TEST_CASE("a request has the reason of its outcome, or none", "[requests]") {
  VirtualServer server;
  std::vector<uint64_t> ids;
  for (const char* reason :
       {"KV cache full", "", static_cast<const char*>(nullptr), "out of memory\nat line 12", "\n"}) {
    Request request = Request::Begin("/r");
    ids.push_back(request.id());
    request.Finish(Outcome::kFailed, reason);
  }
  const Request open = Request::Begin("/r");

  const auto trace = server.Trace();

  const auto reason_of = [&](uint64_t id) { return Text(trace, RequestOf(trace, id)->reason); };
  CHECK(reason_of(ids[0]) == "KV cache full");
  CHECK(RequestOf(trace, ids[0])->outcome == Outcome::kFailed);
  CHECK(Text(trace, RequestOf(trace, ids[0])->route) == "/r");
  CHECK(reason_of(ids[1]).empty());
  CHECK(reason_of(ids[2]).empty());
  CHECK(reason_of(ids[3]) == "out of memory");
  CHECK(reason_of(ids[4]).empty());
  CHECK(reason_of(open.id()).empty());
}

TEST_CASE("a reason is cut at 120 bytes", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  request.Finish(Outcome::kFailed, std::string(500, 'x').c_str());

  const auto trace = server.Trace();

  CHECK(Text(trace, trace.requests[0].reason) == std::string(120, 'x'));
}

TEST_CASE("a request with an earlier arrival begins then, and one with a claimed later arrival begins now",
          "[requests]") {
  VirtualServer server;
  const pitot::Timestamp arrival = pitot::Now();
  server.clock.Advance(70);
  Request late = Request::Begin("/late", nullptr, arrival);
  Request early = Request::Begin("/early", nullptr, pitot::Timestamp{server.clock.now_ns() + 1000});
  server.clock.Advance(30);
  const uint64_t late_id = late.id(), early_id = early.id();
  late.Finish(Outcome::kOk);
  early.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  CHECK(RequestOf(trace, late_id)->begin_ns == kStartNs);
  CHECK(RequestOf(trace, late_id)->duration_ns == 100);
  CHECK(RequestOf(trace, early_id)->begin_ns == kStartNs + 70);
}

TEST_CASE("a valid traceparent is taken over and passed on", "[requests]") {
  VirtualServer server;
  for (const char* header : {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
                             "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what the future will be like"}) {
    INFO(header);
    Request request = Request::Begin("/r", header);
    char out[56];
    request.WriteTraceparent(out);
    const uint64_t id = request.id();
    request.Finish(Outcome::kOk);

    const auto trace = server.Trace();
    const auto* row = RequestOf(trace, id);
    CHECK(row->trace_id_high == 0x0af7651916cd43dd);
    CHECK(row->trace_id_low == 0x8448eb211c80319c);
    CHECK(row->parent_id == 0xb7ad6b7169203331);
    char expected[56];
    std::snprintf(expected, sizeof expected, "00-0af7651916cd43dd8448eb211c80319c-%016llx-0%c",
                  static_cast<unsigned long long>(id), header[54]);
    CHECK(std::string(out) == expected);
  }
}

TEST_CASE("a trace that is not sampled stays so, in children and behind queues", "[requests]") {
  VirtualServer server;
  const auto flags = [](const Request& request) {
    char out[56];
    request.WriteTraceparent(out);
    return std::string(out + 53);
  };
  for (const auto& [given, passed_on] :
       {std::pair{"00", "00"}, {"01", "01"}, {"02", "02"}, {"03", "03"}, {"ff", "03"}}) {
    INFO(given);
    const std::string header = std::string("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-") + given;
    Request request = Request::Begin("/r", header.c_str());
    CHECK(flags(request) == passed_on);
    CHECK(flags(request.BeginChild("/child")) == passed_on);
    CHECK(flags(Request::BeginFrom(request.Enqueue("queue"), "/behind")) == passed_on);
  }
  CHECK(flags(Request::Begin("/own")) == "01");
}

TEST_CASE("an invalid traceparent gives a trace of its own", "[requests]") {
  VirtualServer server;
  for (const char* header : {"", "00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 ",
                             "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-B7AD6B7169203331-01",
                             "00-00000000000000000000000000000000-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
                             "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "0g-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0x",
                             "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c_b7ad6b7169203331-01",
                             "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331_01",
                             "00-0af7651916cd43dd8448eb211c8031 c-b7ad6b7169203331-01",
                             "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.future"}) {
    INFO("\"" << header << "\"");
    Request request = Request::Begin("/r", header);
    const uint64_t id = request.id();
    request.Finish(Outcome::kOk);

    const auto trace = server.Trace();
    const auto* row = RequestOf(trace, id);
    CHECK(row->parent_id == 0);
    CHECK(row->trace_id_high != 0x0af7651916cd43dd);
    CHECK((row->trace_id_high | row->trace_id_low) != 0);
  }
}

TEST_CASE("a traceparent without a terminating zero in reach is not read beyond 56 bytes", "[requests]") {
  VirtualServer server;
  // The page after the header is not mapped: reading on would fault.
  char* pages = static_cast<char*>(mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  REQUIRE(munmap(pages + 4096, 4096) == 0);
  const std::string header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  char* at = pages + 4096 - header.size() - 1;
  std::memcpy(at, header.c_str(), header.size() + 1);

  Request request = Request::Begin("/r", at);

  CHECK(request.id() != 0);
  munmap(pages, 4096);
}

TEST_CASE("an inert request has no traceparent and no token, and takes everything without effect", "[requests]") {
  VirtualServer server;
  Request request;
  char out[56] = "something";
  request.WriteTraceparent(out);
  request.SetId("cmpl-17");
  request.SetLabel("key", "value");
  request.SetSize("size", 1);
  request.SetDeadline(1);
  request.Stage("stage");
  request.Emit();
  const Token token = request.token(), enqueued = request.Enqueue("queue");
  Request child = request.BeginChild("/child");
  request.Finish(Outcome::kOk);

  CHECK(std::string(out).empty());
  CHECK(!request.IsLate());
  CHECK(token.request == 0);
  CHECK(enqueued.request == 0);
  CHECK(child.id() == 0);
  CHECK(server.Trace().requests.empty());
  CHECK(CountRequests().begun == 0);
}

TEST_CASE("everything is inert while nothing records", "[requests]") {
  Request request = Request::Begin("/r");
  const Token token = request.Enqueue("queue");
  const Adopt adopt(token);
  pitot::Batch batch = pitot::Batch::Begin("executor");
  batch.Join(token);
  batch.Submitted();
  batch.Finish();
  auto async = PITOT_ASYNC_SCOPE("async", token);
  pitot::Stage(token, "stage");
  pitot::Emit(token);
  pitot::SetLabel(token, "key", "value");
  pitot::SetSize(token, "size", 1);
  Token foreign = token;
  foreign.request = 17;
  CHECK(pitot::Enqueue(token, "queue").request == 0);
  CHECK(pitot::Enqueue(foreign, "queue").request == 17);

  CHECK(request.id() == 0);
  CHECK(batch.id() == 0);
  CHECK(!pitot::IsLate(token));
  CHECK(pitot::Now().ticks == 0);
  request.Finish(Outcome::kOk);
}

TEST_CASE("labels and sizes arrive, and the first size makes the bucket", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const uint64_t id = request.id();
  request.SetLabel("model", "resnet50");
  request.SetLabel("tenant", "a\nb");
  request.SetSize("pixels", 640.0 * 480);
  request.SetSize("bytes", 12.5);
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  const auto* row = RequestOf(trace, id);
  REQUIRE(row->labels.size() == 2);
  CHECK(Text(trace, row->labels[0].key) == "model");
  CHECK(Text(trace, row->labels[0].value) == "resnet50");
  CHECK(Text(trace, row->labels[1].value) ==
        "a\xef\xbf\xbd"
        "b");
  REQUIRE(row->sizes.size() == 2);
  CHECK(Text(trace, row->sizes[0].name) == "pixels");
  CHECK(row->sizes[0].value == 307200.0);
  CHECK(row->sizes[1].value == 12.5);
  CHECK(row->size_bucket == 19);  // 2^18 <= 307,200 < 2^19
}

TEST_CASE("every size has a bucket from 1 to 63", "[requests]") {
  VirtualServer server;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<double, uint32_t>> buckets = {
      {0, 1},    {-5, 1},    {0.5, 1},     {1, 1},      {1.99, 1},      {2, 2},         {3.99, 2},        {4, 3},
      {1e9, 30}, {1e18, 60}, {9.3e18, 63}, {1e300, 63}, {infinity, 63}, {-infinity, 1}, {std::nan(""), 1}};
  for (const auto& [size, bucket] : buckets) {
    INFO("size " << size);
    Request request = Request::Begin("/r");
    const uint64_t id = request.id();
    request.SetSize("size", size);
    request.Finish(Outcome::kOk);
    CHECK(RequestOf(server.Trace(), id)->size_bucket == bucket);
  }
}

TEST_CASE("labels, sizes and stages beyond a request's limit are ignored and counted", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const uint64_t id = request.id();
  for (int i = 0; i < Request::kMaxLabels + 2; ++i) request.SetLabel("key", std::to_string(i).c_str());
  for (int i = 0; i < Request::kMaxSizes + 3; ++i) request.SetSize("size", i);
  for (int i = 0; i < Request::kMaxStages + 4; ++i) {
    request.Stage(("stage " + std::to_string(i)).c_str());
    server.clock.Advance(1);
  }
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  const auto* row = RequestOf(trace, id);
  CHECK(row->labels.size() == Request::kMaxLabels);
  CHECK(row->sizes.size() == Request::kMaxSizes);
  REQUIRE(row->stages.size() == Request::kMaxStages);
  CHECK(Text(trace, row->stages[14].name) == "stage 14");
  CHECK(Text(trace, row->stages.back().name) == "(later stages)");
  CHECK(row->stages.back().duration_ns == 5);
  CHECK(CountRequests().details_refused == 2 + 3 + 4);
}

TEST_CASE("stages follow each other, from any thread, and the last ends with the request", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const uint64_t id = request.id();
  const Token token = request.token();
  server.clock.Advance(10);
  request.Stage("decode");
  server.clock.Advance(20);
  server.threads.Become(1);
  pitot::Stage(token, "infer");
  server.clock.Advance(30);
  server.threads.Become(0);
  request.Stage("send");
  server.clock.Advance(40);
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  const auto* row = RequestOf(trace, id);
  REQUIRE(row->stages.size() == 3);
  CHECK(Text(trace, row->stages[0].name) == "decode");
  CHECK(row->stages[0].begin_ns == kStartNs + 10);
  CHECK(row->stages[0].duration_ns == 20);
  CHECK(Text(trace, row->stages[1].name) == "infer");
  CHECK(row->stages[1].begin_ns == kStartNs + 30);
  CHECK(row->stages[1].duration_ns == 30);
  CHECK(row->stages[2].begin_ns == kStartNs + 60);
  CHECK(row->stages[2].duration_ns == 40);
}

TEST_CASE("an open request shows its known facts", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/open", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  request.SetLabel("model", "m");
  request.SetSize("tokens", 100);
  request.SetDeadline(5'000);
  server.clock.Advance(10);
  request.Stage("prefill");
  server.clock.Advance(20);
  request.Emit(3);
  server.clock.Advance(70);

  const auto trace = server.Trace();
  // So long after the request that its records are not in the window: from the table alone.
  server.clock.Advance(1'000'000);
  const auto later = server.Trace(server.recording.Now() - 500);

  REQUIRE(trace.requests.size() == 1);
  for (const auto* row : {&trace.requests[0], RequestOf(later, request.id())}) {
    REQUIRE(row != nullptr);
    CHECK(row->id == request.id());
    CHECK(row->begin_ns == kStartNs);
    CHECK(row->begin_known);
    CHECK(row->duration_ns == kOpen);
    CHECK(!row->end_known);
    CHECK(row->begin_thread == 0);
    CHECK(row->end_thread == kNone);
    CHECK(row->parent_id == 0xb7ad6b7169203331);
    CHECK(row->deadline_ns == 5'000);
    CHECK(row->output_tokens == 3);
    CHECK(row->first_token_ns == 30);
    CHECK(row->labels.size() == 1);
    CHECK(row->sizes.size() == 1);
    CHECK(row->size_bucket == 7);
    REQUIRE(row->stages.size() == 1);
    CHECK(row->stages[0].begin_ns == kStartNs + 10);
    CHECK(row->stages[0].duration_ns == kOpen);
  }
  request.Finish(Outcome::kOk);
}

TEST_CASE("a child is a request with its parent's trace, and the thread goes on for the parent afterwards",
          "[requests]") {
  VirtualServer server;
  Request parent = Request::Begin("/ensemble");
  PITOT_INSTANT("before");
  server.clock.Advance(10);
  Request child = parent.BeginChild("/model");
  PITOT_INSTANT("inside");
  server.clock.Advance(10);
  const uint64_t parent_id = parent.id(), child_id = child.id();
  child.Finish(Outcome::kFailed);
  PITOT_INSTANT("after");
  server.clock.Advance(10);
  parent.Finish(Outcome::kOk);
  server.clock.Advance(10);
  PITOT_INSTANT("outside");

  const auto trace = server.Trace();

  const auto *parent_row = RequestOf(trace, parent_id), *child_row = RequestOf(trace, child_id);
  CHECK(child_row->parent_id == parent_id);
  CHECK(child_row->trace_id_high == parent_row->trace_id_high);
  CHECK(child_row->trace_id_low == parent_row->trace_id_low);
  CHECK(child_row->duration_ns == 10);
  CHECK(EventsNamed(trace, "before")[0].request_id == parent_id);
  CHECK(EventsNamed(trace, "inside")[0].request_id == child_id);
  CHECK(EventsNamed(trace, "after")[0].request_id == parent_id);
  CHECK(EventsNamed(trace, "outside")[0].request_id == 0);
}

TEST_CASE("a token from another process begins a request with that process's as parent, and means nothing else",
          "[requests]") {
  VirtualServer server;
  Request own = Request::Begin("/own");
  Token foreign = own.Enqueue("queue");
  foreign.process ^= 0x1234;
  server.clock.Advance(25);

  pitot::Stage(foreign, "stage");
  pitot::Emit(foreign);
  const bool late = pitot::IsLate(foreign);
  Request request = Request::BeginFrom(foreign, "/here");
  const uint64_t id = request.id();
  request.Finish(Outcome::kOk);
  const auto trace = server.Trace();

  CHECK(!late);
  CHECK(RequestOf(trace, own.id())->stages.empty());
  CHECK(RequestOf(trace, own.id())->output_tokens == 0);
  const auto* row = RequestOf(trace, id);
  CHECK(row->parent_id == own.id());
  CHECK(row->begin_ns == kStartNs);  // when it was enqueued over there
  CHECK((row->trace_id_high | row->trace_id_low) != 0);
  own.Finish(Outcome::kOk);
}

TEST_CASE("a thread with only the token puts the request into a queue again, as often as it likes", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/generate");
  Token token = request.Enqueue("arrived");
  server.threads.Become(1);
  for (int i = 0; i < 3; ++i) {
    server.clock.Advance(10);
    pitot::Batch step = pitot::Batch::Begin("slots");
    step.Join(token);
    step.Join(token);  // it is not taken again
    step.Finish();
    server.clock.Advance(5);
    token = pitot::Enqueue(token, "deferred");
    CHECK(token.request == request.id());
  }

  const auto trace = server.Trace();

  REQUIRE(trace.handoffs.size() == 4);
  for (size_t i = 0; i < 4; ++i) {
    const auto& handoff = trace.handoffs[i];
    INFO(i);
    CHECK(trace.requests[handoff.request].id == request.id());
    CHECK(Text(trace, handoff.queue) == (i == 0 ? "arrived" : "deferred"));
    CHECK(handoff.from_thread == (i == 0 ? 0 : 1));
    CHECK(handoff.enqueue_ns == kStartNs + 15 * static_cast<int64_t>(i));
    CHECK(handoff.take_ns == (i == 3 ? 0 : handoff.enqueue_ns + 10));
  }
  request.Finish(Outcome::kOk);
}

TEST_CASE("a token of an ended request, or of none, is put into no queue", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const Token token = request.token();
  request.Finish(Outcome::kOk);

  CHECK(pitot::Enqueue(token, "queue").request == 0);
  CHECK(pitot::Enqueue(Token(), "queue").request == 0);
  CHECK(server.Trace().handoffs.empty());
}

TEST_CASE("a token from another process is put into a queue without a name and taken from there", "[requests]") {
  VirtualServer server;
  Request own = Request::Begin("/own");
  Token foreign = own.token();
  foreign.process ^= 0x1234;

  const Token again = pitot::Enqueue(foreign, "queue");
  server.clock.Advance(25);
  { const Adopt adopt(again); }
  const auto trace = server.Trace();

  CHECK(again.request == own.id());
  CHECK(again.process == foreign.process);
  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.handoffs[0].enqueue_ns == kStartNs);
  CHECK(trace.handoffs[0].take_ns == kStartNs + 25);
  CHECK(Text(trace, trace.handoffs[0].queue) == "(other)");
}

TEST_CASE("labels and sizes come by token, too, and the first size makes the bucket", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const Token token = request.token();
  server.threads.Become(1);
  pitot::SetSize(token, "prompt tokens", 2578);
  pitot::SetLabel(token, "model", "smol");
  Token foreign = token;
  foreign.process ^= 0x1234;
  pitot::SetSize(foreign, "prompt tokens", 1);
  pitot::SetLabel(foreign, "model", "other");
  request.SetLabel("tenant", "a");
  request.Finish(Outcome::kOk);
  pitot::SetLabel(token, "model", "late");

  const auto trace = server.Trace();

  REQUIRE(trace.requests.size() == 1);
  const auto& row = trace.requests[0];
  REQUIRE(row.sizes.size() == 1);
  CHECK(Text(trace, row.sizes[0].name) == "prompt tokens");
  CHECK(row.sizes[0].value == 2578);
  CHECK(row.size_bucket == 12);
  REQUIRE(row.labels.size() == 2);
  CHECK(Text(trace, row.labels[0].key) == "model");
  CHECK(Text(trace, row.labels[0].value) == "smol");
  CHECK(Text(trace, row.labels[1].key) == "tenant");
}

TEST_CASE("details that two threads set at the same time are all there, whole, or counted", "[requests]") {
  constexpr int kRequests = 500, kRounds = fakes::Scaled(40);
  const fakes::Recording recording({.max_ring_bytes = 1 << 20, .max_open_requests = kRequests});
  for (int round = 0; round < kRounds; ++round) {
    std::vector<Request> requests;
    for (int i = 0; i < kRequests; ++i) requests.push_back(Request::Begin("/r"));
    std::atomic<int> ready{0};
    const auto set = [&](const char* name) {
      ++ready;
      while (ready < 2) {}
      for (const Request& request : requests) {
        for (int i = 0; i < 3; ++i) {
          pitot::SetLabel(request.token(), name, name);
          pitot::SetSize(request.token(), name, name[0]);
        }
      }
    };
    std::thread other(set, "a");
    set("b");
    other.join();
    for (Request& request : requests) request.Finish(Outcome::kOk);
  }

  const auto trace = recording.Trace();

  int ended = 0, whole = 0;
  for (const auto& row : trace.requests) {
    if (!row.end_known) continue;  // overwritten
    bool is_whole = row.labels.size() == Request::kMaxLabels && row.sizes.size() == Request::kMaxSizes;
    for (const auto& label : row.labels) is_whole &= Text(trace, label.key) == Text(trace, label.value);
    for (const auto& size : row.sizes) is_whole &= size.value == Text(trace, size.name)[0];
    ++ended;
    whole += is_whole ? 1 : 0;
  }
  CHECK(ended >= kRequests);
  CHECK(whole == ended);
  CHECK(CountRequests().details_refused == 2 * 2 * kRequests * kRounds);
}

TEST_CASE("neither queue nor thread of a token from another process is believed", "[requests]") {
  VirtualServer server;
  Request own = Request::Begin("/own");
  Token foreign = own.Enqueue("queue");
  foreign.process ^= 0x1234;
  server.clock.Advance(25);
  server.threads.Become(1);
  { const Adopt adopt(foreign); }
  pitot::Batch batch = pitot::Batch::Begin("executor");
  batch.Join(foreign);
  batch.Finish();

  const auto trace = server.Trace();

  int taken = 0;
  for (const auto& handoff : trace.handoffs) {
    if (handoff.to_thread == kNone) continue;  // the enqueuing itself
    ++taken;
    CHECK(trace.requests[handoff.request].id == own.id());
    CHECK(handoff.enqueue_ns == kStartNs);
    CHECK(handoff.take_ns == kStartNs + 25);
    CHECK(Text(trace, handoff.queue) == "(other)");
    CHECK(handoff.from_thread == kNone);
    CHECK(handoff.to_thread == 1);
  }
  CHECK(taken == 2);
}

TEST_CASE("a traceparent sent along with a token keeps another process in the trace", "[requests]") {
  VirtualServer server;
  Request there = Request::Begin("/there", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  Token token = there.Enqueue("to another process");
  token.process ^= 0x1234;
  char traceparent[56];
  there.WriteTraceparent(traceparent);
  server.clock.Advance(25);

  Request here = Request::Begin("/here", traceparent, pitot::Timestamp{token.enqueued_ticks});

  const auto trace = server.Trace();
  const auto* row = RequestOf(trace, here.id());
  CHECK(row->trace_id_high == 0x0af7651916cd43dd);
  CHECK(row->trace_id_low == 0x8448eb211c80319c);
  CHECK(row->parent_id == there.id());
  CHECK(row->begin_ns == kStartNs);
}

TEST_CASE("a request begun for a token of this process has that request's trace", "[requests]") {
  VirtualServer server;
  Request first = Request::Begin("/first", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");

  Request second = Request::BeginFrom(first.token(), "/second");

  const auto trace = server.Trace();
  CHECK(RequestOf(trace, second.id())->trace_id_high == 0x0af7651916cd43dd);
  CHECK(RequestOf(trace, second.id())->parent_id == first.id());
  Request none = Request::BeginFrom(Token{}, "/none");
  CHECK(RequestOf(server.Trace(), none.id())->parent_id == 0);
}

TEST_CASE("a token is 32 bytes and survives a copy through a pipe to another process", "[requests]") {
  int there[2], back[2];
  REQUIRE(pipe(there) == 0);
  REQUIRE(pipe(back) == 0);
  VirtualServer server;
  Request request = Request::Begin("/r");
  const Token token = request.Enqueue("queue");
  static_assert(sizeof token == 32 && std::is_trivially_copyable_v<Token>);

  const pid_t child = fakes::StartChild([&] {
    Token copy;
    if (read(there[0], &copy, sizeof copy) != sizeof copy) return 1;
    if (pitot::IsLate(copy)) return 2;  // it means nothing here
    pitot::Emit(copy);
    if (write(back[1], &copy, sizeof copy) != sizeof copy) return 3;
    return 0;
  });
  REQUIRE(write(there[1], &token, sizeof token) == sizeof token);
  Token returned;
  REQUIRE(read(back[0], &returned, sizeof returned) == sizeof returned);

  CHECK(fakes::WaitForChild(child) == 0);
  CHECK(std::memcmp(&returned, &token, sizeof token) == 0);
  pitot::Stage(returned, "back");
  CHECK(RequestOf(server.Trace(), request.id())->stages.size() == 1);
  request.Finish(Outcome::kOk);
  for (const int fd : {there[0], there[1], back[0], back[1]}) close(fd);
}

TEST_CASE("a request is late once its deadline or its route's objective has passed", "[requests]") {
  VirtualServer server;
  fakes::Observer observer;
  observer.late_route = "/strict";
  observer.late_after_ns = 1000;
  pitot::trace::RefreshLateness();
  Request strict = Request::Begin("/strict");
  Request lax = Request::Begin("/lax");
  Request deadline = Request::Begin("/lax");
  deadline.SetDeadline(0);  // none
  deadline.SetDeadline(500);
  Request both = Request::Begin("/strict");
  both.SetDeadline(5000);

  server.clock.Advance(501);
  CHECK(deadline.IsLate());
  CHECK(pitot::IsLate(deadline.token()));
  CHECK(!strict.IsLate());
  CHECK(!lax.IsLate());
  server.clock.Advance(499);
  CHECK(!strict.IsLate());
  server.clock.Advance(1);
  CHECK(strict.IsLate());
  CHECK(both.IsLate());
  CHECK(!lax.IsLate());
  const Token token = strict.token();
  strict.Finish(Outcome::kOk);
  CHECK(!pitot::IsLate(token));
}

TEST_CASE("a deadline beyond all times never passes and is recorded as the longest possible", "[requests]") {
  VirtualServer server;
  for (const uint64_t ns : {~uint64_t{0}, ~uint64_t{0} - kStartNs, uint64_t{1} << 63, (uint64_t{1} << 62) + 1}) {
    INFO("deadline " << ns);
    Request request = Request::Begin("/r");
    request.SetDeadline(ns);
    const uint64_t id = request.id();
    server.clock.Advance(1'000'000);
    CHECK(!request.IsLate());
    request.Finish(Outcome::kOk);
    CHECK(RequestOf(server.Trace(), id)->deadline_ns == pitot::model::kMaxTimeNs);
  }
  fakes::Observer observer;
  observer.late_after_ns = ~uint64_t{0};
  Request request = Request::Begin("/a route with an endless objective");
  server.clock.Advance(1'000'000);
  CHECK(!request.IsLate());
}

TEST_CASE("an observer asked about a route's lateness may begin requests on new routes", "[requests]") {
  struct Asks final : pitot::trace::RequestObserver {
    Asks() { pitot::trace::SetRequestObserver(this, 0); }
    ~Asks() { pitot::trace::SetRequestObserver(nullptr, 10'000'000'000); }
    void OnFinish(const pitot::RequestView&, uint64_t) noexcept override {}
    void OnTokens(const pitot::RequestView&, uint64_t, uint64_t) noexcept override {}
    uint64_t LateAfterNs(const char* route) noexcept override {
      if (std::string(route) == "/asked") Request::Begin(("/asked" + std::to_string(++asked)).c_str());
      return 1000;
    }
    int asked = 0;
  };
  VirtualServer server;
  Asks asks;
  Request request = Request::Begin("/asked");
  pitot::trace::RefreshLateness();
  server.clock.Advance(1001);

  CHECK(asks.asked == 2);
  CHECK(request.IsLate());
}

TEST_CASE("a route's objective is forgotten with its recorder", "[requests]") {
  fakes::VirtualClock clock;
  {
    fakes::Recording recording;
    fakes::Observer observer;
    observer.late_after_ns = 1000;
    Request request = Request::Begin("/route with an objective");
    pitot::trace::RefreshLateness();
  }
  fakes::Recording recording;
  fakes::Observer observer;
  pitot::trace::RefreshLateness();
  Request request = Request::Begin("/route with an objective");
  clock.Advance(2000);

  CHECK(!request.IsLate());
}

TEST_CASE("output tokens are counted, timed and reported to the triggers", "[requests]") {
  VirtualServer server;
  fakes::Observer observer;
  Request request = Request::Begin("/generate");
  const uint64_t id = request.id();
  const Token token = request.token();
  server.clock.Advance(100);
  request.Emit();
  server.clock.Advance(10);
  pitot::Emit(token, 4);
  server.clock.Advance(30);
  server.threads.Become(1);
  pitot::Emit(token);
  server.clock.Advance(20);
  server.threads.Become(0);
  request.Emit();
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  const auto* row = RequestOf(trace, id);
  CHECK(row->output_tokens == 7);
  CHECK(row->first_token_ns == 100);
  CHECK(row->max_token_gap_ns == 30);
  REQUIRE(trace.tokens.size() == 4);
  CHECK(trace.tokens[0].at_ns == kStartNs + 100);
  CHECK(trace.tokens[1].count == 4);
  CHECK(trace.tokens[2].thread == 1);
  for (const auto& tokens : trace.tokens) CHECK(trace.requests[tokens.request].id == id);
  const auto told = observer.tokens();
  REQUIRE(told.size() == 4);
  CHECK(told[0].gap_ns == 100);
  CHECK(told[1].gap_ns == 10);
  CHECK(told[2].gap_ns == 30);
  CHECK(told[3].output_tokens == 7);
  REQUIRE(observer.finished().size() == 1);
  CHECK(observer.finished()[0].view.first_token_ns == 100);
  CHECK(observer.finished()[0].view.max_token_gap_ns == 30);
}

TEST_CASE("concurrent marks of two threads are all counted", "[requests]") {
  constexpr uint32_t kMarks = fakes::Scaled(100'000);
  const fakes::Recording recording;
  fakes::Observer observer;
  Request request = Request::Begin("/generate");
  const Token token = request.token();
  std::atomic<int> ready{0};
  const auto mark = [&] {
    ++ready;
    while (ready < 2) {}
    for (uint32_t i = 0; i < kMarks; ++i) pitot::Emit(token, 3);
  };
  std::thread other(mark);
  mark();
  other.join();
  request.Finish(Outcome::kOk);

  REQUIRE(observer.finished().size() == 1);
  CHECK(observer.finished()[0].view.output_tokens == 2 * 3 * kMarks);
}

TEST_CASE("zero tokens are not a mark", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/generate");
  server.clock.Advance(10);
  request.Emit(0);
  server.clock.Advance(10);
  request.Emit(1);

  const auto trace = server.Trace();
  CHECK(trace.tokens.size() == 1);
  CHECK(RequestOf(trace, request.id())->first_token_ns == 20);
}

TEST_CASE("triggers get a finished request's facts", "[requests]") {
  VirtualServer server;
  fakes::Observer observer;
  Request request = Request::Begin("/told");
  request.SetSize("n", 8);
  request.SetDeadline(77);
  const uint64_t id = request.id();
  server.clock.Advance(1234);
  request.Finish(Outcome::kTimedOut);

  const auto finished = observer.finished();
  REQUIRE(finished.size() == 1);
  CHECK(finished[0].view.id == id);
  CHECK(finished[0].route == "/told");
  CHECK(finished[0].view.route_index < pitot::trace::kMaxRoutes);
  CHECK(finished[0].view.size_bucket == 4);
  CHECK(finished[0].view.outcome == Outcome::kTimedOut);
  CHECK(finished[0].view.latency_ns == 1234);
  CHECK(finished[0].view.deadline_ns == 77);
  CHECK(finished[0].view.output_tokens == 0);
  CHECK(finished[0].view.first_token_ns == 0);
}

TEST_CASE("a token of an ended request does nothing, even when its place is taken", "[requests]") {
  VirtualServer server;
  Request first = Request::Begin("/first");
  const Token stale = first.Enqueue("queue");
  first.Finish(Outcome::kOk);
  Request second = Request::Begin("/second");
  second.SetDeadline(1);
  server.clock.Advance(10);

  pitot::Stage(stale, "stage");
  pitot::Emit(stale, 5);

  CHECK(second.token().slot == stale.slot);
  CHECK(!pitot::IsLate(stale));
  CHECK(second.IsLate());
  const auto trace = server.Trace();
  CHECK(RequestOf(trace, second.id())->stages.empty());
  CHECK(trace.tokens.empty());
}

TEST_CASE("a request's place is not given to another before the last operation on it is over", "[requests]") {
  // Ends the request and begins the next one while a mark of the first is still in progress.
  struct Ends final : pitot::trace::RequestObserver {
    Ends() { pitot::trace::SetRequestObserver(this, 0); }
    ~Ends() { pitot::trace::SetRequestObserver(nullptr, 10'000'000'000); }
    void OnFinish(const pitot::RequestView&, uint64_t) noexcept override {}
    void OnTokens(const pitot::RequestView&, uint64_t, uint64_t) noexcept override {
      first.Finish(Outcome::kOk);
      second = Request::Begin("/second");
    }
    uint64_t LateAfterNs(const char*) noexcept override { return 0; }
    Request first, second;
  };
  VirtualServer server;
  Ends ends;
  ends.first = Request::Begin("/first");
  const Token token = ends.first.token();

  pitot::Emit(token);

  CHECK(ends.second.id() != 0);
  CHECK(ends.second.token().slot != token.slot);
  CHECK(CountRequests().open == 1);
  CHECK(Request::Begin("/third").token().slot == token.slot);
}

TEST_CASE("operations on a token in a race with the end of its request reach no other request", "[requests]") {
  const fakes::Recording recording;
  struct Watches final : pitot::trace::RequestObserver {
    Watches() { pitot::trace::SetRequestObserver(this, 0); }
    ~Watches() { pitot::trace::SetRequestObserver(nullptr, 10'000'000'000); }
    void OnFinish(const pitot::RequestView& request, uint64_t) noexcept override {
      if (std::string(request.route) == "/quiet" && (request.output_tokens | request.size_bucket) != 0) ++disturbed;
    }
    void OnTokens(const pitot::RequestView& request, uint64_t, uint64_t) noexcept override {
      if (std::string(request.route) == "/quiet") ++disturbed;
    }
    uint64_t LateAfterNs(const char*) noexcept override { return 0; }
    std::atomic<int> disturbed{0};
  } watches;
  std::atomic<uint64_t> id{0};
  std::atomic<bool> over{false};
  const Token of_this_process = Request::Begin("/quiet").token();
  std::thread marks([&] {
    Token token = of_this_process;
    while (!over.load(std::memory_order_relaxed)) {
      token.request = id.load(std::memory_order_relaxed);
      pitot::Emit(token);
      pitot::Stage(token, "stage");
      pitot::SetSize(token, "size", 1);
    }
  });
  uint64_t same_place = 0;
  for (int i = 0; i < fakes::Scaled(600'000); ++i) {
    Request loud = Request::Begin("/loud");
    const uint32_t slot = loud.token().slot;
    if (slot == of_this_process.slot) id.store(loud.id(), std::memory_order_relaxed);
    loud.Finish(Outcome::kOk);
    Request quiet = Request::Begin("/quiet");
    if (quiet.token().slot == slot) ++same_place;
    quiet.Finish(Outcome::kOk);
  }
  over = true;
  marks.join();

  CHECK(watches.disturbed == 0);
  CHECK(same_place > 0);
  CHECK(CountRequests().open == 0);
}

TEST_CASE("nonsensical tokens do nothing", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  Token token = request.token();
  token.slot = 0xffffffff;
  pitot::Stage(token, "stage");
  CHECK(!pitot::IsLate(token));
  token.slot = 65535;
  pitot::Emit(token);
  token = request.token();
  token.request = 0;
  pitot::Stage(token, "stage");
  token.request = 0xdeadbeef;
  pitot::Stage(token, "stage");
  {
    const Adopt adopt(token);
    PITOT_INSTANT("of an unknown request");
  }

  const auto trace = server.Trace();
  CHECK(RequestOf(trace, request.id())->stages.empty());
}

TEST_CASE("one request beyond the limit of open ones is inert and counted, until another ends", "[requests]") {
  VirtualServer server({.max_open_requests = 16});
  std::vector<Request> requests;
  for (int i = 0; i < 16; ++i) requests.push_back(Request::Begin("/r"));

  Request refused = Request::Begin("/r");
  CHECK(refused.id() == 0);
  CHECK(CountRequests().refused == 1);
  CHECK(CountRequests().open == 16);
  requests[7].Finish(Outcome::kOk);
  Request served = Request::Begin("/r");
  CHECK(served.id() != 0);
  CHECK(CountRequests().refused == 1);
}

TEST_CASE("an invalid outcome counts as abandoned, not as an open request", "[requests]") {
  VirtualServer server;
  for (const int number : {0, 99}) {
    Request request = Request::Begin("/r");
    const uint64_t id = request.id();
    request.Finish(static_cast<Outcome>(number));
    CHECK(RequestOf(server.Trace(), id)->outcome == Outcome::kAbandoned);
  }
  CHECK(pitot::trace::CountRequests().abandoned == 2);
}

TEST_CASE("a handle dropped without an outcome is an abandoned request", "[requests]") {
  VirtualServer server;
  uint64_t dropped = 0, overwritten = 0;
  {
    const Request request = Request::Begin("/dropped");
    dropped = request.id();
    server.clock.Advance(10);
  }
  Request request = Request::Begin("/overwritten");
  overwritten = request.id();
  request = Request::Begin("/next");
  request.Finish(Outcome::kOk);

  const auto trace = server.Trace();

  CHECK(RequestOf(trace, dropped)->outcome == Outcome::kAbandoned);
  CHECK(RequestOf(trace, dropped)->duration_ns == 10);
  CHECK(RequestOf(trace, overwritten)->outcome == Outcome::kAbandoned);
  CHECK(CountRequests().abandoned == 2);
  CHECK(CountRequests().finished == 3);
}

TEST_CASE("a moved-from handle is inert, and finishing twice finishes once", "[requests]") {
  VirtualServer server;
  Request first = Request::Begin("/r");
  const uint64_t id = first.id();
  Request second = std::move(first);
  first.Finish(Outcome::kFailed);
  Request& same = second;
  second = std::move(same);
  CHECK(second.id() == id);
  second.Finish(Outcome::kOk);
  second.Finish(Outcome::kFailed);

  const auto trace = server.Trace();
  REQUIRE(trace.requests.size() == 1);
  CHECK(trace.requests[0].outcome == Outcome::kOk);
  CHECK(CountRequests().finished == 1);
}

TEST_CASE("a request finished on another thread leaves the first one's context, which then counts for nothing",
          "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const uint64_t id = request.id();
  PITOT_INSTANT("while open");
  server.clock.Advance(10);
  server.threads.Become(1);
  request.Finish(Outcome::kOk);
  server.clock.Advance(10);
  server.threads.Become(0);
  PITOT_INSTANT("afterwards");
  Request next = Request::Begin("/next");
  PITOT_INSTANT("for the next");

  const auto trace = server.Trace();

  const auto* row = RequestOf(trace, id);
  CHECK(row->begin_thread == 0);
  CHECK(row->end_thread == 1);
  CHECK(EventsNamed(trace, "while open")[0].request_id == id);
  CHECK(EventsNamed(trace, "afterwards")[0].request_id == 0);
  CHECK(EventsNamed(trace, "for the next")[0].request_id == next.id());
}

TEST_CASE("adopting a token makes its request the context of a block, nested ones too", "[requests]") {
  VirtualServer server;
  Request a = Request::Begin("/a");
  const Token token_a = a.Enqueue("queue a");
  Request b = Request::Begin("/b");
  const Token token_b = b.token();
  server.clock.Advance(40);
  server.threads.Become(1);
  PITOT_INSTANT("of none");
  {
    const Adopt adopt_a(token_a);
    PITOT_INSTANT("of a");
    {
      const Adopt adopt_b(token_b);
      PITOT_INSTANT("of b");
      server.clock.Advance(1);
    }
    PITOT_INSTANT("of a again");
    {
      const Adopt nobody(Token{});
      PITOT_INSTANT("still of a");
    }
  }
  server.clock.Advance(1);
  PITOT_INSTANT("of none again");

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "of none")[0].request_id == 0);
  CHECK(EventsNamed(trace, "of a")[0].request_id == a.id());
  CHECK(EventsNamed(trace, "of b")[0].request_id == b.id());
  CHECK(EventsNamed(trace, "of a again")[0].request_id == a.id());
  CHECK(EventsNamed(trace, "still of a")[0].request_id == a.id());
  CHECK(EventsNamed(trace, "of none again")[0].request_id == 0);
  // Only the enqueued one was taken.
  REQUIRE(trace.handoffs.size() == 1);
  const auto& handoff = trace.handoffs[0];
  CHECK(trace.requests[handoff.request].id == a.id());
  CHECK(Text(trace, handoff.queue) == "queue a");
  CHECK(handoff.from_thread == 0);
  CHECK(handoff.to_thread == 1);
  CHECK(handoff.enqueue_ns == kStartNs);
  CHECK(handoff.take_ns == kStartNs + 40);
  CHECK(handoff.batch == kNone);
}

TEST_CASE("an adoption that ends on another thread is counted and changes nothing there", "[requests]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  server.threads.Become(1);
  std::optional<Adopt> adopt(std::in_place, request.token());
  server.threads.Become(2);
  PITOT_INSTANT("elsewhere");
  adopt.reset();

  const auto trace = server.Trace();
  CHECK(EventsNamed(trace, "elsewhere")[0].request_id == 0);
  CHECK(pitot::trace::CountRings().closed_elsewhere == 1);
}

TEST_CASE("requests open when recording stops are forgotten by the next recorder", "[requests]") {
  fakes::VirtualClock clock;
  auto recording = std::make_unique<fakes::Recording>();
  Request request = Request::Begin("/before");
  const Token token = request.token();
  pitot::Batch batch = pitot::Batch::Begin("executor");
  auto async = PITOT_ASYNC_SCOPE("async", token);
  recording.reset();
  request.Stage("stopped");
  clock.Advance(10);
  recording = std::make_unique<fakes::Recording>();
  request.Stage("started");
  pitot::Emit(token);

  request.Finish(Outcome::kOk);
  batch.Finish();
  async.End();

  CHECK(CountRequests().finished == 0);
  CHECK(CountRequests().open == 0);
  CHECK(pitot::model::FindInconsistency(recording->Trace()) == "");
}

TEST_CASE("threads that begin and finish requests while recording stops and starts leave none open", "[requests]") {
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&over] {
      while (!over.load(std::memory_order_relaxed)) {
        Request request = Request::Begin("/busy");
        request.SetSize("n", 5);
        request.Stage("stage");
        const Token token = request.Enqueue("queue");
        Request child = request.BeginChild("/child");
        {
          const Adopt adopt(token);
          PITOT_SCOPE("work");
          pitot::Emit(token);
        }
        child.Finish(Outcome::kOk);
        request.Finish(Outcome::kOk);
      }
    });
  }
  for (int i = 0; i < fakes::Scaled(300); ++i) {
    const fakes::Recording recording({.max_ring_bytes = 1 << 16, .max_open_requests = 16});
    fakes::Observer observer;
    if (i % 20 == 0) (void)recording.Trace();
  }
  over = true;
  for (auto& thread : threads) thread.join();

  // All places of the table are free.
  const fakes::Recording recording({.max_open_requests = 16});
  std::vector<Request> requests;
  for (int i = 0; i < 17; ++i) requests.push_back(Request::Begin("/r"));
  CHECK(requests[15].id() != 0);
  CHECK(requests[16].id() == 0);
  CHECK(CountRequests().open == 16);
}

TEST_CASE("a request that begins or ends during a snapshot is open or has ended, and its end is not lost",
          "[requests]") {
  const fakes::Recording recording({.max_ring_bytes = 1 << 20, .max_open_requests = 64});
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&over] {
      while (!over.load(std::memory_order_relaxed)) {
        Request request = Request::Begin("/r", nullptr, pitot::Now());
        request.Finish(Outcome::kOk);
      }
    });
  }
  uint64_t seen = 0, lost = 0;
  for (int i = 0; i < fakes::Scaled(200) || seen < 100; ++i) {
    const auto trace = recording.Trace(pitot::Now().ticks - pitot::detail::TicksOf(1'000'000));
    for (const auto& request : trace.requests) {
      if (!request.begin_known || request.begin_ns <= trace.window_begin_ns) continue;
      ++seen;
      lost += !request.end_known && request.duration_ns != pitot::model::kOpen;
    }
  }
  over = true;
  for (auto& thread : threads) thread.join();

  CHECK(lost == 0);
}

TEST_CASE("a snapshot knows all open requests, with details of the wanted and the first as far as there is room",
          "[requests]") {
  const fakes::Recording recording({.max_open_requests = 4096});
  std::vector<Request> open;
  for (int i = 0; i < 2000; ++i) {
    open.push_back(Request::Begin("/open"));
    open.back().SetLabel("key", "value");
    open.back().Stage("stage");
  }
  const uint64_t wanted = open.back().id();
  pitot::snapshot::Reserve reserve = recording.reserve();
  reserve.first = reserve.last - 8192;  // room for 4,096 words of requests: about 260

  pitot::snapshot::Snapshot snapshot;
  pitot::snapshot::TakeSnapshot(recording.start(), recording.slow_clock(), 0, {wanted}, reserve, &snapshot);

  REQUIRE(snapshot.open_requests.size() == 2000);
  CHECK(snapshot.open_requests[0].id == wanted);
  std::set<uint64_t> ids;
  size_t said = 0;
  uint64_t last_said = 0, first_unsaid = ~uint64_t{0};
  for (const auto& copy : snapshot.open_requests) {
    ids.insert(copy.id);
    if (copy.words == nullptr) {
      first_unsaid = std::min(first_unsaid, copy.begin_ticks);
      continue;
    }
    ++said;
    CHECK(copy.words[0] == copy.id);
    CHECK(copy.words >= reserve.first);
    CHECK(copy.words + copy.count <= reserve.last - 4096);
    if (copy.id != wanted) last_said = std::max(last_said, copy.begin_ticks);
  }
  CHECK(ids.size() == 2000);
  CHECK(said > 200);
  CHECK(said < 300);
  CHECK(last_said <= first_unsaid);
}

TEST_CASE("a thread finds the end of the request that it has just finished, and of no other", "[requests]") {
  const fakes::Recording recording;
  Request earlier = Request::Begin("/earlier"), last = Request::Begin("/last");
  const Request open = Request::Begin("/open");
  const uint64_t earlier_id = earlier.id(), last_id = last.id();
  earlier.Finish(Outcome::kOk);
  for (int i = 0; i < 200; ++i) PITOT_INSTANT("something else");
  last.Stage("a stage");
  last.Finish(Outcome::kFailed);
  const pitot::trace::ThreadRing* const ring = pitot::trace::AttachedRing();
  REQUIRE(ring != nullptr);
  const auto end_of = [&](uint64_t id) {
    pitot::snapshot::EndCopy end;
    pitot::snapshot::CopyNewestEnd(*ring, id, &end);
    return end;
  };

  const pitot::snapshot::EndCopy end = end_of(last_id);
  CHECK(end.count == pitot::trace::kRequestFixedWords + 1);
  CHECK(end.words[0] == last_id);
  CHECK(end.thread == ring->number);
  CHECK(end.begin_ticks <= end.end_ticks);
  CHECK(end_of(earlier_id).count == 0);
  CHECK(end_of(open.id()).count == 0);
}

TEST_CASE("a snapshot copies the rings of threads whose requests fired before all others", "[requests]") {
  static constinit std::atomic<uint64_t> readings{0};
  pitot::trace::SetClockForTesting([]() -> uint64_t { return ++readings; });
  const fakes::Recording recording;
  fakes::VirtualThreads threads;
  for (size_t i = 0; i < 4; ++i) {
    REQUIRE(threads.Become(i));
    for (size_t k = 0; k <= i; ++k) PITOT_INSTANT("event");
  }
  pitot::snapshot::Snapshot snapshot;
  snapshot.ends.resize(1);
  snapshot.ends[0].thread = threads.ring(3)->number;
  pitot::snapshot::TakeSnapshot(recording.start(), recording.slow_clock(), 0, {}, recording.reserve(), &snapshot);
  pitot::trace::SetClockForTesting(nullptr);

  REQUIRE(snapshot.rings.size() == 4);
  for (size_t i = 0; i < 3; ++i) CHECK(snapshot.rings[i].now_ticks > snapshot.rings[3].now_ticks);
  for (size_t i = 0; i < 4; ++i) CHECK(fakes::Records(snapshot.rings[i]).size() == i + 1);
}

TEST_CASE("snapshots taken while requests come and go show only whole ones", "[requests]") {
  const fakes::Recording recording({.max_open_requests = 64});
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&over] {
      for (uint64_t n = 1; !over.load(std::memory_order_relaxed); ++n) {
        const double size = static_cast<double>(n % 50 + 1);
        Request request = Request::Begin(n % 2 == 0 ? "/even" : "/odd");
        request.SetSize("a", size);
        request.SetSize("b", size * 2);
        request.SetDeadline(n % 50 + 1);
        request.Finish(Outcome::kOk);
      }
    });
  }
  uint64_t seen = 0, wrong = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(700);
  while (std::chrono::steady_clock::now() < end) {
    pitot::trace::VisitOpenRequests(
        [](void* context, const pitot::trace::OpenRequest& open) {
          const uint64_t* words = open.words.words;
          const uint64_t sizes = words[4] >> 52 & 15;
          double a = 0, b = 0;
          const uint32_t at = pitot::trace::kRequestFixedWords;
          if (sizes > 0) std::memcpy(&a, &words[at + 1], sizeof a);
          if (sizes > 1) std::memcpy(&b, &words[at + 3], sizeof b);
          const bool right = words[0] != 0 && words[0] == open.view.id && (sizes < 2 || b == 2 * a) &&
                             (words[5] == 0 || sizes == 0 || static_cast<double>(words[5]) == a);
          auto* counts = static_cast<std::pair<uint64_t*, uint64_t*>*>(context);
          ++*(right ? counts->first : counts->second);
        },
        [&] {
          static std::pair<uint64_t*, uint64_t*> counts;
          counts = {&seen, &wrong};
          return static_cast<void*>(&counts);
        }());
  }
  over = true;
  for (auto& thread : threads) thread.join();

  CHECK(wrong == 0);
  CHECK(seen > 0);
}
