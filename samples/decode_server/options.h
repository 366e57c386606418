// SPDX-License-Identifier: Apache-2.0
//
// The server's command line.
#ifndef SAMPLES_DECODE_SERVER_OPTIONS_H_
#define SAMPLES_DECODE_SERVER_OPTIONS_H_

#include <string>

#include "decode_server/generate.h"
#include "decode_server/http_server.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "scoreboard/decode_server/faults.h"
#include "server_common/recording.h"

namespace decode_server {

struct Options {
  HttpOptions http;
  std::string port_file;
  TransformerOptions transformer;
  SchedulerOptions scheduler;
  GenerateOptions generate;
  FaultOptions faults;

  server_common::RecordingOptions recording;
  double slo_ms = 5000;
  double first_token_slo_ms = 500;
  double gap_slo_ms = 100;
};

// Exits the process for --help and for what it does not understand.
Options ParseOptions(int argc, char** argv);

}  // namespace decode_server

#endif  // SAMPLES_DECODE_SERVER_OPTIONS_H_
