// SPDX-License-Identifier: Apache-2.0
#include "image_server/options.h"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <CLI/CLI.hpp>

#include "server_common/command_line.h"

namespace image_server {
namespace {

uint64_t FromMs(double ms) { return static_cast<uint64_t>(ms * 1e6); }

}  // namespace

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app("An image-classification server on LibTorch with Pitot linked in: POST a JPEG to /classify.");
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();

  app.add_option("--port", options.http.port, "Port on 127.0.0.1; 0: a free one")->check(CLI::Range(0, 65535));
  app.add_option("--port-file", options.port_file, "File that gets the port once the server listens");
  app.add_option("--http-threads", options.http.threads, "Connections served at a time")->check(CLI::Range(1, 4096));
  size_t max_body_mib = options.http.max_body_bytes >> 20;
  app.add_option("--max-body-mib", max_body_mib, "Largest request body")->check(CLI::Range(1, 1024));
  double timeout_ms = 5000;
  app.add_option("--timeout-ms", timeout_ms, "Longest wait for the network")->check(CLI::PositiveNumber);

  app.add_option("--preprocess-threads", options.preprocess_threads, "Pictures decoded at a time; 0: as many as come")
      ->check(CLI::Range(0, 256));

  auto* const model = "Network";
  app.add_option("--width", options.classifier.width, "First layer's width; 64 is the published ResNet-50")
      ->check(CLI::Range(1, 256))
      ->group(model);
  app.add_option("--resolution", options.classifier.side, "Side of the pictures the network takes")
      ->check(CLI::Range(32, 1024))
      ->group(model);
  app.add_option("--seed", options.classifier.seed, "Of the random weights")->group(model);
  app.add_option("--device", options.classifier.device, "Where it runs")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->group(model);

  app.add_option("--threads", options.classifier.threads, "CPU threads of one forward pass")
      ->check(CLI::Range(1, 256))
      ->group(model);

  auto* const batching = "Batching";
  app.add_option("--workers", options.batcher.workers, "Batches run at a time")
      ->check(CLI::Range(1, 256))
      ->group(batching);
  app.add_option("--max-batch", options.batcher.max_batch, "Pictures in a batch")
      ->check(CLI::Range(1, 256))
      ->group(batching);
  double max_delay_ms = static_cast<double>(options.batcher.max_delay_ns) * 1e-6;
  app.add_option("--max-delay-ms", max_delay_ms, "How long the first of a batch waits for others")
      ->check(CLI::Range(0.0, 10000.0))
      ->group(batching);
  app.add_option("--max-queue", options.batcher.max_queue, "Pictures waiting; more are refused with 503")
      ->check(CLI::Range(1, 1'000'000))
      ->group(batching);

  auto* const recording = server_common::kRecordingGroup;
  server_common::AddRecordingOptions("batches", &app, &options.recording);
  app.add_option("--slo-ms", options.slo_ms, "A slower request is an incident")
      ->check(CLI::PositiveNumber)
      ->group(recording);

  server_common::FaultArguments faults(
      "slow_decode_spin, slow_decode_sleep, lock_held, "
      "batch_timeout, slow_postprocess, unhooked_hop, decode_again, cpu_spinners[,threads=2], fsync (dose_bytes=), "
      "page_faults, major_faults, memory_leak (dose_mib=); with a GPU empty_cache, small_copies, sync_each, "
      "scalar_readback, "
      "tiny_kernels, "
      "full_queue, shared_stream, neighbour (dose_count=), pageable_copy, device_malloc (dose_mib=) or lazy_kernel",
      &app, &options.faults, &options.http.allow_fault_control);
  app.add_option("--fault-dir", options.faults.directory, "Directory that faults write files to")
      ->group(server_common::kFaultsGroup);

  try {
    app.parse(argc, argv);
    faults.Take(ParseFault);
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }

  options.http.max_body_bytes = max_body_mib << 20;
  options.batcher.max_delay_ns = FromMs(max_delay_ms);
  options.classify.timeout_ns = FromMs(timeout_ms);
  options.classify.side = options.classifier.side;
  return options;
}

}  // namespace image_server
