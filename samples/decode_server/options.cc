// SPDX-License-Identifier: Apache-2.0
#include "decode_server/options.h"

#include <cstdlib>
#include <stdexcept>
#include <vector>

#include <CLI/CLI.hpp>

#include "server_common/command_line.h"

namespace decode_server {

Options ParseOptions(int argc, char** argv) {
  Options options;
  CLI::App app(
      "A server of a small language model on LibTorch, with continuous batching and Pitot linked in: POST "
      "{\"prompt_length\": 64, \"max_tokens\": 32} to /generate.");
  app.get_formatter()->column_width(34);
  app.option_defaults()->always_capture_default();

  app.add_option("--port", options.http.port, "Port on 127.0.0.1; 0: a free one")->check(CLI::Range(0, 65535));
  app.add_option("--port-file", options.port_file, "File that gets the port once the server listens");
  app.add_option("--http-threads", options.http.threads, "Connections served at a time")->check(CLI::Range(1, 4096));
  double timeout_ms = static_cast<double>(options.generate.timeout_ns) * 1e-6;
  app.add_option("--timeout-ms", timeout_ms, "Longest that a request takes")->check(CLI::PositiveNumber);

  auto* const model = "Network";
  TransformerOptions& network = options.transformer;
  app.add_option("--layers", network.layers, "Layers")->check(CLI::Range(1, 256))->group(model);
  app.add_option("--width", network.width, "Features of a token")->check(CLI::Range(8, 16384))->group(model);
  app.add_option("--heads", network.heads, "Attention heads")->check(CLI::Range(1, 256))->group(model);
  app.add_option("--vocabulary", network.vocabulary, "Tokens there are")->check(CLI::Range(2, 1'000'000))->group(model);
  app.add_option("--context", network.context, "Tokens of a request, prompt and output")
      ->check(CLI::Range(2, 1'000'000))
      ->group(model);
  app.add_option("--seed", network.seed, "Of the random weights")->group(model);
  app.add_option("--temperature", options.generate.temperature, "Of requests that name none; 0: the likeliest token")
      ->check(CLI::Range(0.0, 100.0))
      ->group(model);
  app.add_option("--device", network.device, "Where it runs: 32-bit floats on cpu, 16-bit floats on cuda")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->group(model);
  app.add_option("--threads", network.threads, "CPU threads")->check(CLI::Range(1, 256))->group(model);

  auto* const batching = "Batching";
  app.add_option("--max-batch", options.scheduler.max_batch, "Requests that run at a time")
      ->check(CLI::Range(1, 1024))
      ->group(batching);
  app.add_option("--kv-tokens", options.scheduler.kv_tokens, "Tokens that the KV cache has room for")
      ->check(CLI::Range(2, 100'000'000))
      ->group(batching);
  app.add_option("--prefill-chunk", options.scheduler.prefill_chunk, "Tokens of prompts in one iteration")
      ->check(CLI::Range(1, 1'000'000))
      ->group(batching);
  app.add_option("--max-queue", options.scheduler.max_queue, "Requests waiting; more are refused with 503")
      ->check(CLI::Range(1, 1'000'000))
      ->group(batching);

  auto* const recording = server_common::kRecordingGroup;
  server_common::AddRecordingOptions("iterations", &app, &options.recording);
  app.add_option("--ttft-slo-ms", options.first_token_slo_ms, "A later first token is an incident")
      ->check(CLI::PositiveNumber)
      ->group(recording);
  app.add_option("--gap-slo-ms", options.gap_slo_ms, "A longer gap between tokens is an incident")
      ->check(CLI::PositiveNumber)
      ->group(recording);
  app.add_option("--slo-ms", options.slo_ms, "A slower request is an incident")
      ->check(CLI::PositiveNumber)
      ->group(recording);

  server_common::FaultArguments faults(
      "slow_tokenizer_spin, slow_tokenizer_sleep, "
      "lock_held, long_prompt (dose_tokens=), kv_pressure (dose_tokens=,dose_ms=), big_tensor (dose_mib=) "
      "or cpu_spinners[,threads=2]",
      &app, &options.faults, &options.http.allow_fault_control);

  try {
    app.parse(argc, argv);
    faults.Take(ParseFault);
    if (network.width % network.heads != 0) throw CLI::ValidationError("--width", "it is no multiple of --heads");
  } catch (const CLI::ParseError& error) {
    std::exit(app.exit(error) == 0 ? 0 : 2);
  }

  network.slots = static_cast<int64_t>(options.scheduler.max_batch);
  options.generate.vocabulary = network.vocabulary;
  options.generate.context = static_cast<size_t>(network.context);
  options.generate.timeout_ns = static_cast<uint64_t>(timeout_ms * 1e6);
  return options;
}

}  // namespace decode_server
