// SPDX-License-Identifier: Apache-2.0
//
// Sends the requests of an incident to a collector of OpenTelemetry's. By default that is the one on this machine:
// OTEL_EXPORTER_OTLP_ENDPOINT names another.
#include <pitot/analyze/judge.h>
#include <pitot/pitot.h>
#include <pitot/sinks/otlp.h>

#include <chrono>
#include <cstdio>
#include <thread>

using namespace std::chrono_literals;

constexpr int kRequests = 200;

void Classify(std::chrono::milliseconds duration) {
  auto request = pitot::Request::Begin("/classify");
  request.Stage("model");
  auto batch = pitot::Batch::Begin("model");
  batch.Join(request.token());
  {
    PITOT_SCOPE("forward");
    std::this_thread::sleep_for(duration);
  }
  batch.Finish();
  request.Finish(pitot::Outcome::kOk);
}

int main() {
  pitot::Options options;
  options.incident_directory = "otlp_sink_incidents";
  auto recorder = pitot::Recorder::Start(options);
  pitot::LatencyTriggerOptions slow;
  slow.route = "/classify";
  slow.above_ms = 80;
  recorder.Add(pitot::MakeLatencyTrigger(slow));
  recorder.Add(pitot::MakeWhyJudge());

  pitot::OtlpSinkOptions to;
  to.use_environment = true;  // OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT
  to.most_attempts = 3;
  auto sink = pitot::OtlpSink::Start(to);
  sink.AddTo(recorder);

  for (int i = 0; i < kRequests; ++i) Classify(1ms);
  Classify(90ms);

  recorder.Flush(5000);  // the incident is on disk and judged
  recorder.Stop();       // before the sink, which then has everything
  sink.Stop();           // sends what waits
  const pitot::OtlpSinkStats stats = sink.Stats();
  std::printf("%llu messages sent\n", static_cast<unsigned long long>(stats.messages_sent));
  if (stats.messages_sent > 0) return 0;
  const pitot::Status status = sink.status();
  std::fprintf(stderr, "otlp_sink: nothing was sent: %s\n",
               stats.last_error[0] != '\0' ? stats.last_error : status.message());
  return 1;
}
