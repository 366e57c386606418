// SPDX-License-Identifier: Apache-2.0
//
// The server's options.
#ifndef SAMPLES_DECODE_SERVER_OPTIONS_H_
#define SAMPLES_DECODE_SERVER_OPTIONS_H_

#include "decode_server/generate.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "server_common/command_line.h"
#include "server_common/http_listener.h"
#include "server_common/recording.h"

namespace decode_server {

inline constexpr char kAbout[] =
    "A server of a small language model on LibTorch, with continuous batching and Pitot linked in: POST "
    "{\"prompt_length\": 64, \"max_tokens\": 32} to /generate.";

struct Options {
  server_common::HttpOptions http{};
  TransformerOptions transformer{};
  SchedulerOptions scheduler{};
  GenerateOptions generate{};

  server_common::RecordingOptions recording{};
  double slo_ms = 5000;
  double first_token_slo_ms = 500;
  double gap_slo_ms = 100;
};

void AddOptions(server_common::CommandLine* command_line, Options* options);

// After parsing: derives options from others. Throws BadOption when they do not fit together.
void Complete(Options* options);

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_OPTIONS_H_
