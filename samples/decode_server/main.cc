// SPDX-License-Identifier: Apache-2.0
//
// decode_server: generates text with a small language model, many requests at a time, and records itself with Pitot.
// Read recorder.cc (start the recorder, add triggers), generate.cc (a streaming handler) and scheduler.cc (queue,
// iterations, output tokens).
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "decode_server/generate.h"
#include "decode_server/options.h"
#include "decode_server/recorder.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "server_common/process.h"

namespace decode_server {
namespace {

void Run(Options options) {
  server_common::BlockStopSignals();
  pitot::Recorder recorder = StartRecorder(options);

  Transformer transformer(options.transformer);
  std::printf("model: %s\n", transformer.name().c_str());
  Scheduler scheduler(options.scheduler, [&](std::span<const Slice> slices, pitot::Batch& batch) {
    return transformer.Run(slices, batch);
  });
  scheduler.Start([&] { transformer.WarmUp(); });

  options.http.model = transformer.name();
  server_common::HttpListener http(options.http, &recorder);
  http.Post("/generate", [&](const std::string& body, server_common::Exchange& exchange) {
    return Generate(body, exchange, &scheduler, options.generate);
  });
  http.Serve();

  scheduler.Stop();
  recorder.Stop();
}

}  // namespace
}  // namespace decode_server

int main(int argc, char** argv) try {
  decode_server::Options options;
  server_common::CommandLine command_line(decode_server::kAbout);
  decode_server::AddOptions(&command_line, &options);
  command_line.Parse(argc, argv, [&] { Complete(&options); });
  decode_server::Run(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "decode_server: %s\n", error.what());
  return 1;
}
