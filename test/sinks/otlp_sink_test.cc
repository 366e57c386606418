// SPDX-License-Identifier: Apache-2.0
//
// The sink in a host: from served requests to what the receiver gets.
#include "pitot/sinks/otlp.h"

#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <utility>

#include "pitot/analyze/judge.h"
#include "pitot/trigger/predicate.h"
#include "serialize/proto/otlp_trace.pb.h"
#include "session/host.h"
#include "sinks/fake_receiver.h"

namespace {

using fakes::FakeReceiver;
using fakes::Replies;
using pitot::OtlpSink;
using pitot::OtlpSinkOptions;
using pitot::StatusCode;
using session_test::Host;

// 100 requests in batches, and one that fires.
void Serve() {
  for (int i = 0; i < 101; ++i) {
    pitot::Request request = pitot::Request::Begin("/classify");
    request.Stage("model");
    pitot::Batch batch = pitot::Batch::Begin("resnet");
    batch.Join(request.token());
    batch.Finish();
    request.Finish(i < 100 ? pitot::Outcome::kOk : pitot::Outcome::kShed);
  }
}

std::unique_ptr<pitot::Trigger> MakeShedTrigger() {
  return pitot::MakePredicateTrigger(
      {.predicate = [](void*, const pitot::RequestView& view) { return view.outcome == pitot::Outcome::kShed; },
       .cause = "shed"});
}

OtlpSinkOptions PlainOptions(const std::string& url) {
  OtlpSinkOptions options;
  options.url = url.c_str();
  options.is_packed = false;
  return options;
}

std::string BodiesOf(const FakeReceiver& receiver) {
  std::string bodies;
  for (const fakes::Received& received : receiver.received()) bodies += received.body;
  return bodies;
}

TEST_CASE("an incident's requests are sent with stages, links to batches and the verdict", "[sinks]") {
  const FakeReceiver receiver;
  const std::string url = receiver.url();
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeWhyJudge()).ok());
  REQUIRE(host.recorder.Add(MakeShedTrigger()).ok());
  OtlpSinkOptions options = PlainOptions(url);
  options.service_name = "ranker";
  OtlpSink sink = OtlpSink::Start(options);
  REQUIRE(sink.AddTo(host.recorder).ok());

  Serve();
  REQUIRE(host.Flush());
  host.recorder.Stop();
  sink.Stop(60'000);

  const std::string bodies = BodiesOf(receiver);
  REQUIRE(host.incidents().size() == 1);
  CHECK(bodies == fakes::ReadFile(host.directory / host.incidents().at(0) + "/trace.otlp.pb"));
  CHECK(sink.Stats().messages_sent == receiver.received().size());
  pitot::otlp::TracesData data;
  REQUIRE(data.ParseFromString(bodies));
  size_t requests = 0, stages = 0, batches = 0, verdicts = 0, links = 0;
  for (const auto& group : data.resource_spans()) {
    CHECK(group.resource().attributes(0).value().string_value() == "ranker");
    for (const auto& span : group.scope_spans(0).spans()) {
      requests += span.name() == "/classify";
      stages += span.name() == "model";
      batches += span.name() == "resnet batch";
      links += span.name() == "/classify" ? span.links_size() : 0;
      for (const auto& attribute : span.attributes()) verdicts += attribute.key() == "pitot.verdict";
    }
  }
  CHECK(requests == 101);
  CHECK(stages == 101);
  CHECK(batches == 101);
  CHECK(links == 101);
  CHECK(verdicts == 1);
}

TEST_CASE("a receiver that refuses everything does not cost the incident a file", "[sinks]") {
  const FakeReceiver receiver(Replies{{400}, {400}, {400}, {400}});
  const std::string url = receiver.url();
  Host host;
  REQUIRE(host.Start());
  OtlpSink sink = OtlpSink::Start(PlainOptions(url));
  REQUIRE(sink.AddTo(host.recorder).ok());
  Serve();

  REQUIRE(host.TriggerAndFlush());
  host.recorder.Stop();
  sink.Stop(60'000);

  CHECK(sink.Stats().messages_refused == receiver.received().size());
  CHECK(sink.Stats().messages_sent == 0);
  CHECK(host.recorder.Stats().files_failed == 0);
}

TEST_CASE("a sink that was not started, was stopped, or was moved away, says so", "[sinks]") {
  Host host;
  REQUIRE(host.Start());
  OtlpSink none;
  CHECK(none.status().code() == StatusCode::kNotRunning);
  CHECK(none.AddTo(host.recorder).code() == StatusCode::kNotRunning);
  CHECK(none.Flush(0).code() == StatusCode::kNotRunning);
  CHECK(none.Stats().messages_sent == 0);
  none.Stop();

  OtlpSink sink = OtlpSink::Start({});
  CHECK(sink.status().ok());
  OtlpSink other = std::move(sink);
  CHECK(sink.status().code() == StatusCode::kNotRunning);  // NOLINT(bugprone-use-after-move)
  CHECK(other.status().ok());
  other.Stop();
  CHECK(other.status().code() == StatusCode::kNotRunning);
  CHECK(other.AddTo(host.recorder).code() == StatusCode::kNotRunning);

  OtlpSinkOptions wrong;
  wrong.url = "collector";
  CHECK(OtlpSink::Start(wrong).status().code() == StatusCode::kInvalidArgument);
}

TEST_CASE("a recorder outlives its sink", "[sinks]") {
  const FakeReceiver receiver;
  const std::string url = receiver.url();
  Host host;
  REQUIRE(host.Start());
  {
    OtlpSink sink = OtlpSink::Start(PlainOptions(url));
    REQUIRE(sink.AddTo(host.recorder).ok());
  }
  Serve();

  CHECK(host.TriggerAndFlush());

  CHECK(receiver.received().empty());
}

}  // namespace
