// SPDX-License-Identifier: Apache-2.0
#include "decode_server/options.h"

#include "server_common/server_options.h"

namespace decode_server {

void AddOptions(server_common::CommandLine* command_line, Options* options) {
  server_common::AddHttpOptions(command_line, &options->http);
  command_line->AddMs("--timeout-ms", &options->generate.timeout_ns, "Longest that a request takes",
                      server_common::kAboveZero);

  command_line->Group("Network");
  TransformerOptions& network = options->transformer;
  command_line->Add("--layers", &network.layers, "Layers", {1, 256});
  command_line->Add("--width", &network.width, "Features of a token", {8, 16384});
  command_line->Add("--heads", &network.heads, "Attention heads", {1, 256});
  command_line->Add("--vocabulary", &network.vocabulary, "Tokens there are", {2, 1'000'000});
  command_line->Add("--context", &network.context, "Tokens of a request, prompt and output", {2, 1'000'000});
  command_line->Add("--seed", &network.seed, "Of the random weights");
  command_line->Add("--temperature", &options->generate.temperature,
                    "Of requests that name none; 0: the likeliest token", {0, 100});
  command_line->AddChoice("--device", &network.device, {"auto", "cpu", "cuda"},
                          "Where the network runs: 32-bit floats on cpu, 16-bit floats on cuda");
  command_line->Add("--threads", &network.threads, "CPU threads", {1, 256});

  command_line->Group("Batching");
  SchedulerOptions& batching = options->scheduler;
  command_line->Add("--max-batch", &batching.max_batch, "Requests that run at the same time", {1, 1024});
  command_line->Add("--kv-tokens", &batching.kv_tokens, "Tokens that the KV cache has room for", {2, 100'000'000});
  command_line->Add("--prefill-chunk", &batching.prefill_chunk, "Tokens of prompts in one iteration", {1, 1'000'000});
  command_line->AddFlag("--whole-prompts", &options->generate.chunks_prompts,
                        "Take each prompt in one piece, while others wait", false);
  command_line->AddFlag("--mixed-prompts", &options->generate.mixes_prompts,
                        "Take each prompt in one piece, next to the others' tokens");
  command_line->Add("--max-queue", &batching.max_queue, "Requests waiting; more are refused with 503", {1, 1'000'000});

  server_common::AddRecordingOptions("iterations", command_line, &options->recording);
  command_line->Add("--ttft-slo-ms", &options->first_token_slo_ms, "A later first token is an incident",
                    server_common::kAboveZero);
  command_line->Add("--gap-slo-ms", &options->gap_slo_ms, "A longer gap between tokens is an incident",
                    server_common::kAboveZero);
  command_line->Add("--slo-ms", &options->slo_ms, "A slower request is an incident", server_common::kAboveZero);
}

void Complete(Options* options) {
  TransformerOptions& network = options->transformer;
  if (network.width % network.heads != 0) throw server_common::BadOption("--width", "it is not a multiple of --heads");
  network.slots = static_cast<int64_t>(options->scheduler.max_batch);
  options->generate.vocabulary = network.vocabulary;
  options->generate.context = static_cast<size_t>(network.context);
}

}  // namespace decode_server
