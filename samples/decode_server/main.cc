// SPDX-License-Identifier: Apache-2.0
//
// decode_server: generates text with a small language model, many requests at a time, and records itself with Pitot.
// What a server does to be recorded is in three places: here (start the recorder, say what is worth an incident),
// server_common/http_listener.cc and generate.cc (a request from arrival to its last token), scheduler.cc (queue,
// iterations, output tokens).
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>

#include "decode_server/faults.h"
#include "decode_server/generate.h"
#include "decode_server/http_server.h"
#include "decode_server/options.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/collect/cupti.h"
#include "pitot/collect/nvml.h"
#include "pitot/collect/nvtx.h"
#include "pitot/collect/torch.h"
#include "pitot/pitot.h"
#include "server_common/process.h"

namespace decode_server {
namespace {

// Recording never decides whether the server runs: what goes wrong with it is said and lived with.
void Warn(const pitot::Status& status) {
  if (!status.ok()) std::fprintf(stderr, "recorder: %s\n", status.message());
}

pitot::Recorder StartRecorder(const Options& options) {
  pitot::Options recording = pitot::Options::FromEnvironment();
  if (!options.incident_directory.empty()) recording.incident_directory = options.incident_directory.c_str();
  // One thread runs all iterations, and its ring holds all operators of the slow ones: 300 an iteration of six layers.
  const pitot::Options defaults;
  if (recording.memory_budget_bytes == defaults.memory_budget_bytes &&
      recording.max_ring_bytes == defaults.max_ring_bytes) {
    recording.memory_budget_bytes = uint64_t{256} << 20;
    recording.max_ring_bytes = uint64_t{8} << 20;
  }
  recording.log = [](void*, pitot::LogLevel, const char* message) { std::fprintf(stderr, "recorder: %s\n", message); };

  pitot::Recorder recorder = pitot::Recorder::Start(recording);
  Warn(recorder.status());
  if (!recorder.status().ok()) return recorder;

  // What libraries say of themselves, before they say the first of it, and what LibTorch runs.
  if (options.collect_nvtx) Warn(recorder.Add(pitot::MakeNvtxCollector()));
  if (options.collect_torch) Warn(pitot::torch::Enable(recorder));
  // What the GPU does and what state it is in. Before the network is loaded: CUPTI wants to be there before CUDA.
  if (UsesCuda(options.transformer)) {
    pitot::CuptiOptions cupti;
    cupti.lasting_cost_percent = options.lasting_cost_percent;
    if (options.collect_cupti) Warn(recorder.Add(pitot::MakeCuptiCollector(cupti)));
    if (options.collect_cuda_events) Warn(recorder.Add(pitot::MakeCudaEventCollector()));
    if (options.collect_nvml) Warn(recorder.Add(pitot::MakeNvmlCollector()));
  }

  // What is worth an incident: a first token that is late, or a gap in what the client reads; a request that takes too
  // long in all, which depends on how much it wants; a failure; a request that does not end.
  pitot::TokensTriggerOptions tokens;
  tokens.route = "/generate";
  tokens.first_token_above_ms = options.first_token_slo_ms;
  tokens.gap_above_ms = options.gap_slo_ms;
  Warn(recorder.Add(pitot::MakeTokensTrigger(tokens)));

  pitot::LatencyTriggerOptions objective;
  objective.route = "/generate";
  objective.above_ms = options.slo_ms;
  Warn(recorder.Add(pitot::MakeLatencyTrigger(objective)));

  Warn(recorder.Add(pitot::MakeFailureTrigger({})));

  pitot::StallTriggerOptions stall;
  stall.request_open_ms = std::max(10'000.0, 3 * options.slo_ms);
  Warn(recorder.Add(pitot::MakeStallTrigger(stall)));

  pitot::Hooks hooks;
  hooks.on_incident = [](void*, const pitot::IncidentInfo& incident) {
    std::fprintf(stderr, "incident %llu: %s: %s: %s\n", static_cast<unsigned long long>(incident.number),
                 incident.cause, incident.detail,
                 incident.directory != nullptr ? incident.directory : incident.status.message());
  };
  Warn(recorder.SetHooks(hooks));
  return recorder;
}

int Main(int argc, char** argv) {
  Options options = ParseOptions(argc, argv);
  server_common::BlockStopSignals();

  pitot::Recorder recorder = options.record ? StartRecorder(options) : pitot::Recorder();

  Transformer transformer(options.transformer);
  transformer.WarmUp();
  std::printf("model: %s\n", transformer.name().c_str());

  Faults faults(options.faults);
  Scheduler scheduler(
      options.scheduler,
      [&](std::span<const Slice> slices, pitot::Batch& batch) { return transformer.Run(slices, batch); },
      faults.ForScheduler([&](uint64_t bytes) { transformer.AllocateBigTensor(bytes); }));
  GenerateHandler handler(options.generate, &scheduler, &faults);
  options.http.model = transformer.name();
  HttpServer server(options.http, &handler, &faults, &recorder);

  const int port = server.Bind();  // from here on connections are kept for Run
  if (!options.port_file.empty()) server_common::WritePortFile(options.port_file, port);
  std::printf("listening on 127.0.0.1:%d\n", port);
  std::fflush(stdout);
  faults.Start();
  scheduler.Start();
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
