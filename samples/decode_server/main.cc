// SPDX-License-Identifier: Apache-2.0
//
// decode_server: generates text with a small language model, many requests at a time, and records itself with Pitot.
// What a server does to be recorded is in three places: here and server_common/recording.cc (start the recorder, say
// what is worth an incident), server_common/http_listener.cc and generate.cc (a request from arrival to its last
// token), scheduler.cc (queue, iterations, output tokens).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "decode_server/generate.h"
#include "decode_server/http_server.h"
#include "decode_server/options.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "pitot/pitot.h"
#include "scoreboard/decode_server/faults.h"
#include "server_common/process.h"
#include "server_common/recording.h"

namespace decode_server {
namespace {

// What is worth an incident is said here; how it is recorded, in server_common/recording.cc.
pitot::Recorder StartRecorder(const Options& options) {
  const pitot::Options recording = server_common::WithRoomForOperators(pitot::Options::FromEnvironment());
  pitot::Recorder recorder = server_common::StartRecorder(recording, options.recording, UsesCuda(options.transformer));
  if (!recorder.status().ok() || !options.recording.trigger) return recorder;

  // What is worth an incident: a first token that is late, or a gap in what the client reads; a request that takes too
  // long in all, which depends on how much it wants; a failure; a request that does not end.
  pitot::TokensTriggerOptions tokens;
  tokens.route = "/generate";
  tokens.first_token_above_ms = options.first_token_slo_ms;
  tokens.gap_above_ms = options.gap_slo_ms;
  (void)recorder.Add(pitot::MakeTokensTrigger(tokens));

  pitot::LatencyTriggerOptions objective;
  objective.route = "/generate";
  objective.above_ms = options.slo_ms;
  (void)recorder.Add(pitot::MakeLatencyTrigger(objective));

  (void)recorder.Add(pitot::MakeFailureTrigger({}));

  pitot::StallTriggerOptions stall;
  stall.request_open_ms = std::max(10'000.0, 3 * options.slo_ms);
  (void)recorder.Add(pitot::MakeStallTrigger(stall));
  return recorder;
}

int Main(int argc, char** argv) {
  Options options = ParseOptions(argc, argv);
  server_common::BlockStopSignals();

  pitot::Recorder recorder = StartRecorder(options);

  Transformer transformer(options.transformer);
  std::printf("model: %s\n", transformer.name().c_str());

  Faults faults(options.faults);
  Scheduler scheduler(
      options.scheduler,
      [&](std::span<const Slice> slices, pitot::Batch& batch) { return transformer.Run(slices, batch); },
      faults.ForScheduler([&](uint64_t bytes) { transformer.AllocateBigTensor(bytes); }));
  GenerateHandler handler(options.generate, &scheduler, &faults);
  options.http.model = transformer.name();
  HttpServer server(options.http, &handler, &faults, &recorder);

  scheduler.Start([&] { transformer.WarmUp(); });
  const int port = server.Bind();  // from here on connections are kept for Run
  if (!options.port_file.empty()) server_common::WritePortFile(options.port_file, port);
  std::printf("listening on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  faults.Start();
  std::thread serving([&] { server.Run(); });

  server_common::WaitForStopSignal();
  std::printf("stopping\n");
  std::fflush(stdout);
  server.Stop();
  serving.join();
  scheduler.Stop();
  recorder.Stop();
  return 0;
}

}  // namespace
}  // namespace decode_server

int main(int argc, char** argv) {
  try {
    return decode_server::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "decode_server: %s\n", error.what());
    return 1;
  }
}
