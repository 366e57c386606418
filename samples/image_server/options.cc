// SPDX-License-Identifier: Apache-2.0
#include "image_server/options.h"

#include "server_common/server_options.h"

namespace image_server {

void AddOptions(server_common::CommandLine* command_line, Options* options) {
  server_common::AddHttpOptions(command_line, &options->http);
  command_line->AddMs("--timeout-ms", &options->classify.timeout_ns, "Longest wait for the network",
                      server_common::kAboveZero);

  command_line->Group("Network");
  ClassifierOptions& network = options->classifier;
  command_line->Add("--width", &network.width, "First layer's width; 64 is the published ResNet-50", {1, 256});
  command_line->Add("--resolution", &network.side, "Side of the pictures the network takes", {32, 1024});
  command_line->Add("--seed", &network.seed, "Of the random weights");
  command_line->AddChoice("--device", &network.device, {"auto", "cpu", "cuda"}, "Where the network runs");
  command_line->Add("--threads", &network.threads, "CPU threads of one forward pass", {1, 256});

  command_line->Group("Batching");
  BatcherOptions& batching = options->batcher;
  command_line->Add("--workers", &batching.workers, "Batches that run at the same time", {1, 256});
  command_line->Add("--max-batch", &batching.max_batch, "Pictures in a batch", {1, 256});
  command_line->AddMs("--max-delay-ms", &batching.max_delay_ns, "How long the first of a batch waits for others",
                      {0, 10'000});
  command_line->Add("--max-queue", &batching.max_queue, "Pictures waiting; more are refused with 503", {1, 1'000'000});

  server_common::AddRecordingOptions("batches", command_line, &options->recording);
  command_line->Add("--slo-ms", &options->slo_ms, "A slower request is an incident", server_common::kAboveZero);
}

}  // namespace image_server
