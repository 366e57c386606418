// SPDX-License-Identifier: Apache-2.0
#include "image_server/options.h"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <CLI/CLI.hpp>

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

  auto* const recording = "Recording";
  app.add_option("--incident-dir", options.incident_directory, "Directory for incidents")->group(recording);
  app.add_option("--slo-ms", options.slo_ms, "A slower request is an incident")
      ->check(CLI::PositiveNumber)
      ->group(recording);
  app.add_flag("!--no-cupti", options.collect_cupti, "Do not record what the GPU does")->group(recording);
  app.add_option("--lasting-cost", options.lasting_cost_percent,
                 "Percent that recording kernels may leave behind for good; 100: any")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str()
      ->group(recording);
  app.add_flag("!--no-cuda-events", options.collect_cuda_events, "Do not time batches on the GPU by CUDA events")
      ->group(recording);
  app.add_flag("!--no-nvml", options.collect_nvml, "Do not record what state the GPU is in")->group(recording);
  app.add_flag("!--no-nvtx", options.collect_nvtx, "Do not record what libraries emit to NVTX")->group(recording);
  app.add_flag("!--no-torch", options.collect_torch, "Do not record LibTorch's operators")->group(recording);
  app.add_flag("!--no-recorder", options.record, "Serve unrecorded")->group(recording);

  auto* const faults = "Faults";
  std::vector<std::string> fault_texts;
  app.add_option("--fault", fault_texts,
                 "NAME[:rate=0.1,dose_ms=40,...], repeatable; NAME is slow_decode_spin, slow_decode_sleep, lock_held, "
                 "batch_timeout, cpu_spinners[,threads=2], fsync (dose_bytes=) or page_faults (dose_mib=)")
      ->take_all()
      ->delimiter('\0')
      ->group(faults);
  app.add_option("--fault-after", options.faults.after_s, "Seconds without faults after the start")
      ->check(CLI::NonNegativeNumber)
      ->group(faults);
  app.add_option("--fault-for", options.faults.for_s, "Seconds with faults after that; 0: for ever")
      ->check(CLI::NonNegativeNumber)
      ->group(faults);
  app.add_option("--fault-seed", options.faults.seed, "Of the choice of victims")->group(faults);
  app.add_option("--fault-log", options.faults.log_file, "File that gets a JSON line per injected fault")
      ->group(faults);
  app.add_option("--fault-dir", options.faults.directory, "Directory that fault fsync writes to")->group(faults);
  app.add_flag("--allow-fault-control", options.http.allow_fault_control, "Serve POST /faultz")->group(faults);

  try {
    app.parse(argc, argv);
    for (const std::string& text : fault_texts) {
      try {
        options.faults.faults.push_back(ParseFault(text));
      } catch (const std::invalid_argument& error) {
        throw CLI::ValidationError("--fault", error.what());
      }
    }
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
