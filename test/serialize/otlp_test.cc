// SPDX-License-Identifier: Apache-2.0
#include "pitot/serialize/otlp.h"

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fakes/string_sink.h"
#include "golden.h"
#include "pitot/model/trace.h"
#include "serialize/proto/otlp_trace.pb.h"
#include "serialize/sample_trace.h"

namespace pitot::test {
namespace {

using fakes::StringSink;
using model::Trace;
using otlp::Span;
using otlp::TracesData;

// Traces made here get a date.
TracesData Write(Trace trace, const OtlpOptions& options = {}) {
  if (trace.clock.realtime_ns == 0) trace.clock.realtime_ns = 1;
  StringSink sink;
  REQUIRE(MakeOtlpSerializer(options)->Serialize(trace, sink).ok());
  TracesData data;
  REQUIRE(data.ParseFromString(sink.bytes));
  return data;
}

std::vector<Span> SpansOf(const TracesData& data) {
  std::vector<Span> spans;
  for (const auto& resource : data.resource_spans()) {
    for (const auto& scope : resource.scope_spans())
      spans.insert(spans.end(), scope.spans().begin(), scope.spans().end());
  }
  return spans;
}

template <class Message> std::map<std::string, std::string> AttributesOf(const Message& message) {
  std::map<std::string, std::string> attributes;
  for (const auto& attribute : message.attributes()) {
    const auto& value = attribute.value();
    attributes[attribute.key()] = value.value_case() == otlp::AnyValue::kStringValue ? value.string_value()
                                  : value.value_case() == otlp::AnyValue::kIntValue
                                      ? std::to_string(value.int_value())
                                      : std::to_string(value.double_value());
  }
  return attributes;
}

const Span& Named(const std::vector<Span>& spans, const std::string& name, int from = 0) {
  for (const Span& span : spans) {
    if (span.name() == name && from-- == 0) return span;
  }
  FAIL("no span " << name);
  return spans[0];
}

TEST_CASE("a request is a span with its stages below it, and a link to its batch", "[otlp]") {
  const std::vector<Span> spans = SpansOf(Write(SampleTrace()));

  const Span &request = Named(spans, "/classify"), &batch = Named(spans, "resnet50 batch");

  CHECK(request.kind() == 2);
  CHECK(request.trace_id() == "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c");
  CHECK(request.span_id() == "\x11\x11\x22\x22\x33\x33\x44\x44");
  CHECK(request.end_time_unix_nano() - request.start_time_unix_nano() == 30'000'000);
  REQUIRE(request.links_size() == 1);
  CHECK(request.links(0).span_id() == batch.span_id());
  CHECK(request.links(0).trace_id() == batch.trace_id());
  CHECK(batch.links_size() == 2);
  CHECK(batch.links(0).span_id() == request.span_id());
  CHECK(AttributesOf(request)["http.route"] == "/classify");
  CHECK(AttributesOf(request)["pitot.request.id"] == "cmpl-17");
  CHECK(AttributesOf(request)["model"] == "resnet50");
  int stages = 0;
  for (const Span& span : spans) stages += span.parent_span_id() == request.span_id();
  CHECK(stages > 0);
}

TEST_CASE("an outcome other than ok is an error status", "[otlp]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  const uint32_t ok = maker.Request(1, "/ok", 10, 5), late = maker.Request(2, "/late", 20, 5);
  maker.trace.requests[ok].outcome = Outcome::kOk;
  maker.trace.requests[late].outcome = Outcome::kTimedOut;
  maker.trace.requests[late].reason = maker.String("queue full");

  const std::vector<Span> spans = SpansOf(Write(maker.Finish()));

  CHECK(Named(spans, "/ok").status().code() == 0);
  CHECK(Named(spans, "/late").status().code() == 2);
  CHECK(Named(spans, "/late").status().message() == "queue full");
  CHECK(AttributesOf(Named(spans, "/late"))["error.type"] == "timed_out");
}

TEST_CASE("a request within a request is in its trace", "[otlp]") {
  TraceMaker maker;
  maker.trace.window_end_ns = 100;
  const uint32_t outer = maker.Request(1, "/outer", 10, 50);
  maker.trace.requests[outer].trace_id_low = 77;
  maker.trace.requests[maker.Request(2, "/inner", 20, 5)].parent_id = 1;
  maker.Request(3, "/other", 30, 5);

  const std::vector<Span> spans = SpansOf(Write(maker.Finish()));

  CHECK(Named(spans, "/inner").trace_id() == Named(spans, "/outer").trace_id());
  CHECK(Named(spans, "/inner").parent_span_id() == Named(spans, "/outer").span_id());
  CHECK(Named(spans, "/other").trace_id() != Named(spans, "/outer").trace_id());
}

TEST_CASE("a request that fired has the verdict as events and attributes", "[otlp]") {
  OtlpOptions options;
  std::vector<uint32_t> judged;
  options.judge_context = &judged;
  options.judge = [](void* context, const Trace&, uint32_t request, OtlpVerdict* verdict) {
    static_cast<std::vector<uint32_t>*>(context)->push_back(request);
    verdict->kind = "causes";
    verdict->sentence = "a lock";
    verdict->causes.push_back({"host_lock", "lock \"cache\"", "hold it for less time", 1'030'000'000, 5'000, 0.95});
    return true;
  };

  const std::vector<Span> spans = SpansOf(Write(SampleTrace(), options));

  CHECK(judged == std::vector<uint32_t>{1});
  const Span& request = Named(spans, "/classify", 1);
  CHECK(AttributesOf(request)["pitot.verdict"] == "causes");
  CHECK(AttributesOf(request)["pitot.verdict.sentence"] == "a lock");
  std::vector<std::string> events;
  for (const auto& event : request.events()) events.push_back(event.name());
  CHECK(std::set<std::string>(events.begin(), events.end()).count("pitot.trigger") == 1);
  REQUIRE(events.back() == "pitot.cause");
  const auto cause = AttributesOf(request.events(request.events_size() - 1));
  CHECK(cause.at("pitot.cause.name") == "host_lock");
  CHECK(cause.at("pitot.cause.lost_ns") == "5000");
  CHECK(AttributesOf(Named(spans, "/classify")).count("pitot.verdict") == 0);
}

TEST_CASE("spans of random traces have distinct ids and do not end before they begin", "[otlp]") {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    INFO("seed " << seed);
    const Trace trace = RandomTrace(seed, 20 + 20 * seed);
    size_t expected = trace.requests.size() + trace.batches.size() + trace.handoffs.size();
    for (const model::RequestRow& request : trace.requests) expected += request.stages.size();
    for (const model::AsyncRow& part : trace.asyncs) expected += part.request != model::kNone;
    std::set<std::string> ids;

    const std::vector<Span> spans = SpansOf(Write(trace));

    for (const Span& span : spans) {
      CHECK(span.trace_id().size() == 16);
      CHECK(ids.insert(span.trace_id() + span.span_id()).second);
      CHECK(span.end_time_unix_nano() >= span.start_time_unix_nano());
    }
    CHECK(spans.size() == expected);
  }
}

TEST_CASE("a trace without a date is refused", "[otlp]") {
  TraceMaker maker;
  maker.Request(1, "/v1", 10, 5);
  StringSink sink;

  CHECK(MakeOtlpSerializer()->Serialize(maker.Finish(), sink).code() == StatusCode::kInvalidArgument);
  CHECK(sink.bytes.empty());
}

// The trace id of its only request.
std::string TraceIdOf(uint64_t request, int64_t realtime_ns) {
  TraceMaker maker;
  maker.trace.clock.realtime_ns = realtime_ns;
  maker.Request(request, "/v1", 10, 5);
  return SpansOf(Write(maker.Finish())).at(0).trace_id();
}

TEST_CASE("requests with ids that count from 1 are in a trace of their file", "[otlp]") {
  constexpr uint64_t kOurs = 0x1111222233338f0c;

  CHECK(TraceIdOf(1, 1000) != TraceIdOf(1, 2000));
  CHECK(TraceIdOf(1, 1000) == TraceIdOf(1, 1000));
  CHECK(TraceIdOf(kOurs, 1000) == TraceIdOf(kOurs, 2000));
}

TEST_CASE("many spans are written in groups, each with its resource", "[otlp]") {
  const TracesData data = Write(LargeTrace(500'000));

  CHECK(data.resource_spans_size() > 1);
  for (const auto& group : data.resource_spans()) CHECK(AttributesOf(group.resource())["process.pid"] == "0");
  CHECK(SpansOf(data).size() == 5001);
}

TEST_CASE("the spans of the sample match the approved file", "[otlp][golden]") {
  std::string text;
  REQUIRE(google::protobuf::TextFormat::PrintToString(Write(SampleTrace()), &text));
  CheckGolden("sample.otlp.pb.txt", text);
}

TEST_CASE("spans that cannot be written return an error", "[otlp]") {
  StringSink sink(10);
  CHECK(MakeOtlpSerializer()->Serialize(SampleTrace(), sink).code() == StatusCode::kIoError);
}

}  // namespace
}  // namespace pitot::test
