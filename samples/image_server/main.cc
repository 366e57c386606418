// SPDX-License-Identifier: Apache-2.0
//
// image_server: classifies JPEGs over HTTP with a ResNet-50, and records itself with Pitot. What a server does to be
// recorded is in three places: here and server_common/recording.cc (start the recorder, say what is worth an incident),
// server_common/http_listener.cc and classify.cc (a request from arrival to response), batcher.cc (queue, batch,
// workers).
#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "image_server/batcher.h"
#include "image_server/classifier.h"
#include "image_server/classify.h"
#include "image_server/http_server.h"
#include "image_server/options.h"
#include "pitot/pitot.h"
#include "scoreboard/image_server/faults.h"
#include "scoreboard/image_server/gpu_faults.h"
#include "server_common/process.h"
#include "server_common/recording.h"
#include "server_common/torch_device.h"

namespace image_server {
namespace {

// What is worth an incident is said here; how it is recorded, in server_common/recording.cc.
pitot::Recorder StartRecorder(const Options& options) {
  pitot::Options recording = pitot::Options::FromEnvironment();
  if (UsesCuda(options.classifier)) recording = server_common::WithRoomForOperators(recording);
  pitot::Recorder recorder = server_common::StartRecorder(recording, options.recording, UsesCuda(options.classifier));
  if (!recorder.status().ok() || !options.recording.trigger) return recorder;

  // What is worth an incident: any request above the objective; several within a short time that are slow for their
  // size, although the objective is met; a failure; a request that does not end.
  pitot::LatencyTriggerOptions objective;
  objective.route = "/classify";
  objective.above_ms = options.slo_ms;
  (void)recorder.Add(pitot::MakeLatencyTrigger(objective));

  pitot::LatencyTriggerOptions unusual;
  unusual.route = "/classify";
  unusual.or_above_quantile = 0.995;
  unusual.k = 3;
  unusual.n = 32;
  unusual.cool_down_ms = 10'000;
  (void)recorder.Add(pitot::MakeLatencyTrigger(unusual));

  (void)recorder.Add(pitot::MakeFailureTrigger({}));

  pitot::StallTriggerOptions stall;
  stall.request_open_ms = std::max(1000.0, 20 * options.slo_ms);
  (void)recorder.Add(pitot::MakeStallTrigger(stall));
  return recorder;
}

Batcher::Stretch StretchOf(Faults* faults, GpuFaults* gpu_faults, uint64_t normal_ns) {
  return {[faults](uint64_t delay_ns) { return faults->BatchDelayNs(delay_ns); },
          [faults, normal_ns](std::span<const Job> jobs, uint64_t delay_ns, uint64_t closed_ns) {
            if (delay_ns == normal_ns) return;
            std::vector<Faults::Member> members;
            for (const Job& job : jobs) members.push_back({job.request_id, job.enqueued_ns});
            faults->BatchWaited(members, normal_ns, closed_ns);
          },
          [gpu_faults](std::span<const Job> jobs) {
            std::vector<uint64_t> requests;
            for (const Job& job : jobs) requests.push_back(job.request_id);
            gpu_faults->BeforeNetwork(requests);
          },
          [faults](const Job& job, uint64_t busy_until_ns, std::span<const uint64_t> others) {
            faults->log().WriteQueued(job.enqueued_ns, busy_until_ns, job.request_id, others);
          },
          [faults](const Job& job) {
            faults->log().WriteDelays(job.enqueued_ns, job.request_id, job.delays);
            faults->log().WriteBatch(job.enqueued_ns, job.request_id, job.work);
          }};
}

int Main(int argc, char** argv) {
  Options options = ParseOptions(argc, argv);
  server_common::BlockStopSignals();

  pitot::Recorder recorder = StartRecorder(options);

  Classifier classifier(options.classifier);
  std::printf("model: %s\n", classifier.name().c_str());

  options.faults.has_gpu = UsesCuda(options.classifier);
  Faults faults(options.faults);
  GpuFaults gpu_faults(&faults, server_common::ChooseDevice(options.classifier.device));
  Batcher batcher(
      options.batcher,
      [&](std::span<const Planes* const> inputs, pitot::Batch& batch) { return classifier.Run(inputs, batch); },
      StretchOf(&faults, &gpu_faults, options.batcher.max_delay_ns),
      [&] { classifier.WarmUp(options.batcher.max_batch); });
  Preprocessor preprocessor(
      options.preprocess_threads,
      [&](uint64_t request, uint64_t queued_ns, uint64_t busy_until_ns, std::span<const uint64_t> others) {
        faults.log().WriteQueued(queued_ns, busy_until_ns, request, others);
      },
      [&](uint64_t request, const server_common::Delays& delays) {
        faults.log().WriteDelays(server_common::MonotonicNs(), request, delays);
      });
  ClassifyHandler handler(options.classify, &preprocessor, &batcher, &faults);
  options.http.model = classifier.name();
  HttpServer server(options.http, &handler, &faults, &recorder);

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
  batcher.Stop();
  recorder.Stop();
  return 0;
}

}  // namespace
}  // namespace image_server

int main(int argc, char** argv) {
  try {
    return image_server::Main(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "image_server: %s\n", error.what());
    return 1;
  }
}
