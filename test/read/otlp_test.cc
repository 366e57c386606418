// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fakes/string_sink.h"
#include "pitot/serialize/otlp.h"
#include "read/formats.h"
#include "read/parse.h"
#include "serialize/sample_trace.h"

using pitot::Outcome;
using pitot::StatusCode;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::model::RequestRow;
using pitot::model::Trace;
using read_test::Parse;
using read_test::Read;

namespace {

constexpr char kTraceId[] = "5b8efff798038103d269b633813fc60c";

// A span of 1 s, from 1 s on; `more` replaces and adds members.
std::string Span(const std::string& id, const std::string& name, const std::string& more = "") {
  return R"({"traceId":")" + std::string(kTraceId) + R"(","spanId":")" + id + R"(","name":")" + name +
         R"(","startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000")" + (more.empty() ? "" : ",") + more +
         "}";
}
std::string Document(const std::string& spans, const std::string& resource = "") {
  return R"({"resourceSpans":[{"resource":{"attributes":[)" + resource +
         R"(]},"scopeSpans":[{"scope":{"name":"lib"},"spans":[)" + spans + "]}]}]}";
}
std::string Text(const std::string& key, const std::string& value) {
  return R"({"key":")" + key + R"(","value":{"stringValue":")" + value + R"("}})";
}

std::string Labels(const Read& read, const RequestRow& row) {
  std::string text;
  for (const auto& label : row.labels) text += read.Name(label.key) + "=" + read.Name(label.value) + " ";
  return text;
}
std::string Stages(const Trace& trace, const RequestRow& row) {
  std::string text;
  for (const auto& stage : row.stages)
    text += std::string(trace.strings[stage.name]) + " " + std::to_string(stage.begin_ns - row.begin_ns) + "+" +
            std::to_string(stage.duration_ns) + " ";
  return text;
}

bool Lacks(const Read& read, const std::string& what) {
  return std::count(read.report.lacks.begin(), read.report.lacks.end(), what) != 0;
}

std::string Written(const Trace& trace) {
  fakes::StringSink sink;
  REQUIRE(pitot::MakeOtlpSerializer()->Serialize(trace, sink).ok());
  return sink.bytes;
}

}  // namespace

TEST_CASE("ids in base64, as protobuf writes bytes in JSON, are read like hexadecimal ones", "[otlp]") {
  const std::string times = R"("startTimeUnixNano":"1000000000","endTimeUnixNano":"2000000000")";
  const Read read = Parse(Document(
      R"({"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"AAAAAAAAAKo=","name":"/r","kind":2,)" + times + "}," +
      R"({"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"AAAAAAAAAKs=","parentSpanId":"AAAAAAAAAKo=","name":"part",)" +
      times + "}," + R"({"traceId":"W47/95gDgQPSabYzgT/GDA==","spanId":"AAAAAAAA?Ks=","name":"bad",)" + times + "}"));

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events_bad == 1);
  REQUIRE(read.trace.requests.size() == 1);
  CHECK(read.trace.requests[0].id == 0xaa);
  CHECK(read.trace.requests[0].trace_id_high == 0x5b8efff798038103);
  CHECK(read.trace.requests[0].trace_id_low == 0xd269b633813fc60c);
  CHECK(read.trace.asyncs.size() == 1);
}

TEST_CASE("spans of servers are requests, and spans within them their parts", "[otlp]") {
  const Read read = Parse(Document(
      Span("00000000000000aa", "GET /x", R"("kind":2,"attributes":[)" + Text("http.route", "/x") + "]") + "," +
          Span("00000000000000ab", "redis", R"("kind":3,"parentSpanId":"00000000000000aa")") + "," +
          Span("00000000000000ac", "inner", R"("kind":1,"parentSpanId":"00000000000000ab")") + "," +
          Span("00000000000000ad", "GET /y", R"("kind":"SPAN_KIND_SERVER","parentSpanId":"00000000000000ab")"),
      Text("service.name", "shop") + R"(,{"key":"process.pid","value":{"intValue":"77"}},)" + Text("host.name", "h")));

  REQUIRE(read.status.ok());
  const Trace& trace = read.trace;
  REQUIRE(trace.requests.size() == 2);
  CHECK(read.Name(trace.requests[0].route) == "GET /x");
  CHECK(trace.requests[0].id == 0xaa);
  CHECK(trace.requests[0].trace_id_high == 0x5b8efff798038103);
  CHECK(trace.requests[0].parent_id == 0);
  CHECK(trace.requests[0].duration_ns == 1'000'000'000);
  CHECK(trace.requests[0].outcome == Outcome::kOk);
  CHECK(Labels(read, trace.requests[0]) == "http.route=/x ");
  CHECK(trace.requests[1].parent_id == 0xaa);
  REQUIRE(trace.asyncs.size() == 2);
  CHECK(read.Name(trace.sites[trace.asyncs[0].site].name) == "redis");
  CHECK(trace.asyncs[1].request == 0);
  CHECK(read.Name(trace.process_name) == "shop");
  CHECK(trace.pid == 77);
  CHECK(trace.AttributeOf("host") == "h");
  CHECK(trace.clock.realtime_ns == 2'000'000'000);
  CHECK(read.report.format == "otlp");
  CHECK(read.report.events == 4);
  CHECK(read.report.tool == "an OpenTelemetry exporter");
}

TEST_CASE("a span whose parent is elsewhere is a request, and keeps its parent's id", "[otlp]") {
  const Read read = Parse(Document(Span("00000000000000aa", "work", R"("kind":1,"parentSpanId":"00000000000000ff")")));

  REQUIRE(read.trace.requests.size() == 1);
  CHECK(read.trace.requests[0].parent_id == 0xff);
}

TEST_CASE("an error status is a failure with its message", "[otlp]") {
  const Read read = Parse(Document(
      Span("00000000000000aa", "a", R"("kind":2,"status":{"code":2,"message":"no memory"})") + "," +
      Span("00000000000000ab", "b", R"("kind":5,"status":{"code":"STATUS_CODE_ERROR"},"endTimeUnixNano":"0")")));

  REQUIRE(read.trace.requests.size() == 2);
  CHECK(read.trace.requests[0].outcome == Outcome::kFailed);
  CHECK(read.Name(read.trace.requests[0].reason) == "no memory");
  CHECK(read.trace.requests[1].outcome == Outcome::kFailed);
}

TEST_CASE("a request of vLLM has its tokens, and stages by the times that it says", "[otlp]") {
  const std::string attributes = R"("kind":2,"attributes":[)" + Text("gen_ai.request.id", "cmpl-7") +
                                 R"(,{"key":"gen_ai.usage.completion_tokens","value":{"intValue":16}},)"
                                 R"({"key":"gen_ai.usage.prompt_tokens","value":{"intValue":"5"}},)"
                                 R"({"key":"gen_ai.latency.time_in_queue","value":{"doubleValue":0.25}},)"
                                 R"({"key":"gen_ai.latency.time_to_first_token","value":{"doubleValue":0.5}}])";
  const Read read = Parse(Document(Span("00000000000000aa", "llm_request", attributes)));

  REQUIRE(read.trace.requests.size() == 1);
  const RequestRow& row = read.trace.requests[0];
  CHECK(read.Name(row.host_id) == "cmpl-7");
  CHECK(row.output_tokens == 16);
  CHECK(row.first_token_ns == 500'000'000);
  REQUIRE(row.sizes.size() == 1);
  CHECK(row.sizes[0].value == 5);
  CHECK(Stages(read.trace, row) == "queue 0+250000000 prefill 250000000+250000000 decode 500000000+500000000 ");
  REQUIRE(read.trace.handoffs.size() == 1);
  CHECK(read.trace.handoffs[0].request == 0);
  CHECK(read.trace.handoffs[0].enqueue_ns == row.begin_ns);
  CHECK(read.trace.handoffs[0].take_ns == row.begin_ns + 250'000'000);
  CHECK(!Lacks(read, "queues"));
}

TEST_CASE("spans by others say nothing about queues, and Pitot's do", "[otlp]") {
  const Read others = Parse(Document(Span("00000000000000aa", "GET /", R"("kind":2)")));
  CHECK(Lacks(others, "queues"));

  const Read own = Parse(Written(pitot::test::SampleTrace()));
  CHECK(!Lacks(own, "queues"));
  CHECK(Lacks(own, "losses"));
}

TEST_CASE("a file of a collector has a document in each line, and may end in one", "[otlp]") {
  const std::string first = Document(Span("00000000000000aa", "a", R"("kind":2)"), Text("service.name", "one")),
                    second = Document(Span("00000000000000ab", "b", R"("kind":2)"), Text("service.name", "two"));

  const Read whole = Parse(first + "\n" + second + "\n");
  CHECK(whole.status.ok());
  REQUIRE(whole.trace.requests.size() == 2);
  CHECK(Labels(whole, whole.trace.requests[1]) == "service.name=two ");

  const Read cut = Parse(first + "\n" + second.substr(0, second.size() - 3));
  CHECK(cut.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(cut.status.message()) == "it ends within an object");
  CHECK(cut.trace.requests.size() == 2);
  CHECK(cut.trace.losses.size() == 1);

  CHECK(Parse(read_test::Gzip(first)).trace.requests.size() == 1);
}

TEST_CASE("a span that was exported twice counts once", "[otlp]") {
  const std::string document = Document(Span("00000000000000aa", "a", R"("kind":2)"));
  const Read read = Parse(document + document);

  CHECK(read.status.ok());
  CHECK(read.trace.requests.size() == 1);
  CHECK(read.Count("repeated") == 1);
}

TEST_CASE("spans without ids or times are counted, and do not hide others", "[otlp]") {
  const Read read = Parse(Document(Span("00000000000000aa", "a", R"("kind":2)") + R"(,{"name":"no id"},)" +
                                   R"({"traceId":"zz","spanId":"00000000000000ab","startTimeUnixNano":"5"},)" +
                                   R"({"traceId":")" + std::string(kTraceId) +
                                   R"(","spanId":"00000000000000ac","startTimeUnixNano":"18446744073709551615"})"));

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.trace.requests.size() == 1);
  CHECK(read.report.events_bad == 2);
  CHECK(read.Count("times_out_of_range") == 1);
}

// Three documents of two spans each, a line each; a span is named by its letter. `replace` damages the text.
std::string Lines(const std::string& what, const std::string& by) {
  std::string text;
  for (const char* const pair : {"ab", "cd", "ef"}) {
    std::string spans;
    for (const char name : std::string(pair))
      spans += (spans.empty() ? "" : ",") +
               Span("00000000000000a" + std::string(1, name), std::string(1, name),
                    R"("kind":2,"attributes":[)" + Text("scope", "{") + R"(],"links":[{"traceId":")" + kTraceId +
                        R"(","spanId":"00000000000000aa"}])");
    text += Document(spans, Text("service.name", pair)) + "\n";
  }
  const size_t at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), by);
}
std::string Names(const Read& read) {
  std::string names;
  for (const RequestRow& row : read.trace.requests) {
    names += (names.empty() ? "" : " ") + read.Name(row.route);
    for (const auto& label : row.labels) {
      if (read.Name(label.key) == "service.name") names += "@" + read.Name(label.value);
    }
  }
  return names;
}

TEST_CASE("a damaged span of JSON costs that span", "[otlp]") {
  const std::pair<const char*, const char*> damages[] = {
      {R"("name":"c")", R"("name":c)"},    {R"("name":"c")", R"("name":"c)"},   {R"("name":"c")", R"("name":c")"},
      {R"("name":"c",)", R"("name":"c")"}, {R"("name":"c")", R"("name":"c"})"}, {R"("name":"c")", R"([name":"c")"},
      {R"("name":"c")", R"({"name":"c")"},
  };
  for (const auto& [what, by] : damages) {
    CAPTURE(by);
    const Read read = Parse(Lines(what, by));
    CHECK(read.status.code() == StatusCode::kDataLoss);
    CHECK(std::string(read.status.message()) == "a part of it is not JSON; 1 span of 6 could not be read");
    CHECK(Names(read) == "a@ab b@ab d@cd e@ef f@ef");
    CHECK(read.trace.losses.size() == 1);
  }
}

TEST_CASE("a damaged byte in a text of JSON costs that byte", "[otlp]") {
  for (const char* const by : {"\"name\":\"\xff\"", "\"name\":\"\x01\""}) {
    const Read read = Parse(Lines(R"("name":"c")", by));
    CHECK(read.status.ok());
    CHECK(read.trace.requests.size() == 6);
    CHECK(read.report.events_bad == 0);
  }
}

TEST_CASE("damage between the spans of JSON hides none of them", "[otlp]") {
  const std::tuple<const char*, const char*, const char*> damages[] = {
      {R"("resource":{)", R"("resource":{{)", "a@ b@ c@cd d@cd e@ef f@ef"},
      {R"(},{"traceId")", R"(}]}]}]},{"traceId")", "a@ab b@ab c@cd d@cd e@ef f@ef"},
      {"\n", "\n#\n", "a@ab b@ab c@cd d@cd e@ef f@ef"},
  };
  for (const auto& [what, by, names] : damages) {
    CAPTURE(by);
    const Read read = Parse(Lines(what, by));
    CHECK(Names(read) == names);
    CHECK(std::string(read.status.message()) == "a part of it is not JSON");
  }
}

TEST_CASE("spans behind a document without a resource are read", "[otlp]") {
  const std::string spans =
      Span("00000000000000aa", "a", R"("kind":2)") + "," + Span("00000000000000ab", "b", R"("kind":2)");
  const Read read = Parse(R"({"resourceSpans":[]},"spans":[)" + spans);
  CHECK(read.trace.requests.size() == 2);
  CHECK(std::string(read.status.message()) == "a part of it is not JSON");
}

TEST_CASE("spans of JSON with damage everywhere are counted in bounded time", "[otlp]") {
  std::string text = R"({"resourceSpans":[{"scopeSpans":[{"spans":[)";
  for (int i = 0; i < 100'000; ++i) text += R"({"traceId":"a","startTimeUnixNano":")";
  const Read read = Parse(text);
  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events_bad == 100'000);
}

TEST_CASE("spans as JSON are recognised behind other members", "[otlp]") {
  const Read read = Parse(R"({"schemaUrl":"x",)" + Document(Span("00000000000000aa", "a")).substr(1));

  CHECK(read.status.ok());
  CHECK(read.trace.requests.size() == 1);
}

TEST_CASE("parents that go round, and hostile times, do no harm", "[otlp]") {
  const Read round = Parse(Document(Span("00000000000000aa", "a", R"("parentSpanId":"00000000000000ab")") + "," +
                                    Span("00000000000000ab", "b", R"("parentSpanId":"00000000000000aa")") + "," +
                                    Span("00000000000000ac", "c")));
  CHECK(round.trace.requests.size() == 1);
  CHECK(round.Count("too_deep") == 2);
  CHECK(round.report.problems == "2 spans more than 256 deep in others were left out");

  std::string spans;
  for (int i = 0; i < 9; ++i)
    spans += (i == 0 ? "" : ",") + std::string(R"({"traceId":")") + kTraceId + R"(","spanId":"00000000000000a)" +
             std::to_string(i) + R"(","kind":2,"startTimeUnixNano":"1","endTimeUnixNano":"4611686018427387904"})";
  const Read long_ones = Parse(Document(spans));
  CHECK(long_ones.trace.requests.size() == 9);
  CHECK(long_ones.Count("times_out_of_range") == 8);
}

TEST_CASE("a span more than 256 deep in a request is left out, and so is one in none", "[otlp]") {
  std::string spans = Span("0000000000000001", "request", R"("kind":2)");
  for (int i = 2; i <= 259; ++i) {
    char id[17], parent[17];
    snprintf(id, sizeof id, "%016x", i);
    snprintf(parent, sizeof parent, "%016x", i - 1);
    spans += "," + Span(id, "part", std::string(R"("parentSpanId":")") + parent + "\"");
  }
  const Read deep = Parse(Document(spans));
  CHECK(deep.trace.asyncs.size() == 256);
  CHECK(deep.report.problems == "2 spans more than 256 deep in others were left out");
}

TEST_CASE("what Pitot writes as spans comes back as it was", "[otlp]") {
  Trace before = pitot::test::SampleTrace();
  before.requests[0].host_id = before.strings.Add("cmpl-7");
  before.requests[0].begin_known = false;
  before.window_begin_ns = before.requests[0].begin_ns + 1;
  const Read read = Parse(Written(before));

  REQUIRE(read.status.ok());
  const Trace& after = read.trace;
  CHECK(read.report.tool == "Pitot");
  CHECK(after.clock.realtime_ns - after.clock.monotonic_ns + after.requests[0].begin_ns ==
        before.clock.realtime_ns - before.clock.monotonic_ns + before.requests[0].begin_ns);
  CHECK(after.window_begin_ns == after.requests[0].begin_ns + 1);
  REQUIRE(after.requests.size() == before.requests.size());
  for (size_t i = 0; i < before.requests.size(); ++i) {
    const RequestRow &was = before.requests[i], &is = after.requests[i];
    INFO("request " << i);
    CHECK(is.id == was.id);
    CHECK(after.strings[is.host_id] == before.strings[was.host_id]);
    CHECK(is.parent_id == was.parent_id);
    CHECK(is.begin_ns - after.requests[0].begin_ns == was.begin_ns - before.requests[0].begin_ns);
    CHECK(is.duration_ns == was.duration_ns);
    CHECK(is.begin_known == was.begin_known);
    CHECK(is.end_known == was.end_known);
    if (was.end_known) CHECK(is.outcome == was.outcome);
    CHECK(after.strings[is.route] == before.strings[was.route]);
    CHECK(after.strings[is.reason] == before.strings[was.reason]);
    CHECK(is.output_tokens == was.output_tokens);
    CHECK(is.first_token_ns == was.first_token_ns);
    CHECK(is.max_token_gap_ns == was.max_token_gap_ns);
    CHECK(is.deadline_ns == was.deadline_ns);
    CHECK(is.labels.size() == was.labels.size());
    CHECK(is.sizes.size() == was.sizes.size());
    CHECK(Stages(after, is) == Stages(before, was));
  }
  REQUIRE(after.batches.size() == before.batches.size());
  for (size_t i = 0; i < before.batches.size(); ++i) {
    CHECK(after.batches[i].id == before.batches[i].id);
    CHECK(after.batches[i].duration_ns == before.batches[i].duration_ns);
    CHECK(after.batches[i].close == before.batches[i].close);
    CHECK(after.batches[i].member_count == before.batches[i].member_count);
    CHECK(after.strings[after.batches[i].executor] == before.strings[before.batches[i].executor]);
  }
  REQUIRE(after.handoffs.size() == before.handoffs.size());
  for (size_t i = 0; i < before.handoffs.size(); ++i) {
    CHECK(after.handoffs[i].request == before.handoffs[i].request);
    CHECK(after.handoffs[i].batch == before.handoffs[i].batch);
    CHECK((after.handoffs[i].take_ns == 0) == (before.handoffs[i].take_ns == 0));
    CHECK(after.strings[after.handoffs[i].queue] == before.strings[before.handoffs[i].queue]);
  }
  REQUIRE(after.firings.size() == before.firings.size());
  for (size_t i = 0; i < before.firings.size(); ++i)
    CHECK(after.strings[after.firings[i].cause] == before.strings[before.firings[i].cause]);
}

TEST_CASE("parts of requests come back as parts, and what a file lacked is lacking in the next", "[otlp]") {
  const auto part = [](const std::string& id, const std::string& name, const std::string& end_ns) {
    return R"({"traceId":")" + std::string(kTraceId) + R"(","spanId":")" + id + R"(","name":")" + name +
           R"(","parentSpanId":"00000000000000aa","startTimeUnixNano":"1000000000","endTimeUnixNano":")" + end_ns +
           "\"}";
  };
  const Read first =
      Parse(Document(Span("00000000000000aa", "GET /x", R"("kind":2)") + "," +
                     part("00000000000000ab", "redis", "1250000000") + "," + part("00000000000000ac", "late", "0")));
  REQUIRE(first.trace.asyncs.size() == 2);

  const Read second = Parse(Written(first.trace));

  REQUIRE(second.trace.asyncs.size() == 2);
  CHECK(second.Name(second.trace.sites[second.trace.asyncs[0].site].name) == "redis");
  CHECK(second.trace.asyncs[0].request == 0);
  CHECK(second.trace.asyncs[0].duration_ns == 250'000'000);
  CHECK(second.trace.asyncs[1].duration_ns == kOpen);
  CHECK(second.trace.requests[0].stages.empty());
  CHECK(second.trace.AttributeOf("not_recorded") == first.trace.AttributeOf("not_recorded"));
}

TEST_CASE("spans of random traces come back, and cut files give what is whole", "[otlp]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    Trace before = pitot::test::RandomTrace(seed, 20 + 20 * seed);
    if (before.clock.realtime_ns == 0) before.clock.realtime_ns = 1'700'000'000'000'000'000;
    const std::string bytes = Written(before);

    const Read read = Parse(bytes);

    CHECK(read.trace.requests.size() == before.requests.size());
    CHECK(read.trace.batches.size() == before.batches.size());
    CHECK(read.trace.handoffs.size() == before.handoffs.size());
    const auto parts = std::count_if(before.asyncs.begin(), before.asyncs.end(),
                                     [](const auto& part) { return part.request != kNone; });
    CHECK(read.trace.asyncs.size() == static_cast<size_t>(parts));
    if (bytes.size() < 1000) continue;
    const Read cut = Parse(bytes.substr(0, bytes.size() - 7));
    CHECK(cut.status.code() != StatusCode::kOk);
  }
}

TEST_CASE("other protobuf and other JSON are not taken for spans", "[otlp]") {
  for (const std::string& bytes : {std::string("\x0a\x04\x12\x02\x08\x01", 6), std::string("{\"spans\":[]}"),
                                   std::string("\x0a"), std::string("\x0a\xff\xff\xff\xff\xff\xff", 7)}) {
    const Read read = Parse(bytes);
    CHECK(read.status.code() == StatusCode::kInvalidArgument);
    CHECK(read.report.format != "otlp");
  }
  const Read empty = Parse(R"({"resourceSpans":[]})");
  CHECK(empty.status.code() == StatusCode::kInvalidArgument);
}
