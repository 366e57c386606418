// SPDX-License-Identifier: Apache-2.0
//
// faulty_image_server: samples/image_server with faults made on purpose, and a log of them.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "image_server/batcher.h"
#include "image_server/classifier.h"
#include "image_server/options.h"
#include "image_server/recorder.h"
#include "scoreboard/clocks.h"
#include "scoreboard/fault_arguments.h"
#include "scoreboard/fault_control.h"
#include "scoreboard/http_delays.h"
#include "scoreboard/image_server/batch_delays.h"
#include "scoreboard/image_server/faults.h"
#include "scoreboard/image_server/faulty_classify.h"
#include "scoreboard/image_server/gpu_faults.h"
#include "scoreboard/image_server/preprocessor.h"
#include "server_common/process.h"

namespace image_server {
namespace {

constexpr char kNames[] =
    "slow_decode_spin, slow_decode_sleep, lock_held, batch_timeout, slow_postprocess, unhooked_hop, decode_again, "
    "cpu_spinners[,threads=2], fsync (dose_bytes=), page_faults, major_faults, memory_leak (dose_mib=); with a GPU "
    "empty_cache, small_copies, sync_each, scalar_readback, tiny_kernels, full_queue, shared_stream, neighbour "
    "(dose_count=), pageable_copy, device_malloc (dose_mib=) or lazy_kernel";

void Run(Options options, FaultOptions fault_options, size_t preprocess_threads) {
  server_common::BlockStopSignals();
  pitot::Recorder recorder = StartRecorder(options);

  Classifier classifier(options.classifier);
  std::printf("model: %s\n", classifier.name().c_str());
  fault_options.has_gpu = UsesCuda(options.classifier);
  Faults faults(fault_options);
  GpuFaults gpu_faults(&faults, options.classifier.device);
  BatchDelays delays(&faults);
  Batcher batcher(
      options.batcher,
      BatchDelays::Around([&](std::span<const Job> jobs, pitot::Batch& batch) { return classifier.Run(jobs, batch); },
                          [&](std::span<const uint64_t> requests) { gpu_faults.BeforeNetwork(requests); }),
      [&] {
        classifier.WarmUp(options.batcher.max_batch);
        BatchDelays::WorkerBegins();
      },
      &delays);
  Preprocessor preprocessor(
      preprocess_threads,
      [&](uint64_t request, uint64_t queued_ns, uint64_t busy_until_ns, std::span<const uint64_t> others) {
        faults.log().WriteQueued(queued_ns, busy_until_ns, request, others);
      },
      [&](uint64_t request, const scoreboard::Delays& of_thread) {
        faults.log().WriteDelays(scoreboard::MonotonicNs(), request, of_thread);
      });

  options.classify.side = options.classifier.side;
  options.http.model = classifier.name();
  options.http.allow_incidentz |= fault_options.allow_control;
  FaultyClassify handler(options.classify, &preprocessor, &batcher, &delays, &faults);
  scoreboard::HttpDelays http_delays(&faults.log());
  server_common::HttpListener http(options.http, &recorder, &http_delays);
  http.Post("/classify",
            [&](const std::string& jpeg, server_common::Exchange& exchange) { return handler.Handle(jpeg, exchange); });
  scoreboard::AllowControl(fault_options, &faults, &http);
  faults.Start();
  http.Serve();

  batcher.Stop();
  recorder.Stop();
}

}  // namespace
}  // namespace image_server

int main(int argc, char** argv) try {
  image_server::Options options;
  image_server::FaultOptions fault_options;
  size_t preprocess_threads = 0;
  server_common::CommandLine command_line(std::string(image_server::kAbout) + " It makes faults on purpose.");
  image_server::AddOptions(&command_line, &options);
  scoreboard::FaultArguments faults(image_server::kNames, &command_line, &fault_options);
  command_line.Add("--preprocess-threads", &preprocess_threads, "Pictures decoded at a time; 0: as many as come",
                   {0, 256});
  command_line.Parse(argc, argv, [&] { faults.Take(image_server::ParseFault); });
  image_server::Run(options, fault_options, preprocess_threads);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "faulty_image_server: %s\n", error.what());
  return 1;
}
