// SPDX-License-Identifier: Apache-2.0
//
// faulty_decode_server: samples/decode_server with faults made on purpose, and a log of them.
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "decode_server/options.h"
#include "decode_server/recorder.h"
#include "decode_server/scheduler.h"
#include "decode_server/transformer.h"
#include "scoreboard/decode_server/big_tensor.h"
#include "scoreboard/decode_server/faults.h"
#include "scoreboard/decode_server/faulty_generate.h"
#include "scoreboard/decode_server/faulty_scheduling.h"
#include "scoreboard/fault_arguments.h"
#include "scoreboard/fault_control.h"
#include "scoreboard/http_delays.h"
#include "server_common/process.h"

namespace decode_server {
namespace {

constexpr char kNames[] =
    "slow_tokenizer_spin, slow_tokenizer_sleep, lock_held, long_prompt (dose_tokens=), kv_pressure "
    "(dose_tokens=,dose_ms=), big_tensor (dose_mib=) or cpu_spinners[,threads=2]";

void Run(Options options, const FaultOptions& fault_options) {
  server_common::BlockStopSignals();
  pitot::Recorder recorder = StartRecorder(options);

  Transformer transformer(options.transformer);
  std::printf("model: %s\n", transformer.name().c_str());
  Faults faults(fault_options);
  FaultyScheduling scheduling(&faults, AllocatorOfBigTensors(options.transformer.device));
  Scheduler scheduler(
      options.scheduler,
      [&](std::span<const Slice> slices, pitot::Batch& batch) { return transformer.Run(slices, batch); }, &scheduling);
  scheduler.Start([&] { transformer.WarmUp(); });

  options.http.model = transformer.name();
  options.http.allow_incidentz |= fault_options.allow_control;
  FaultyGenerate handler(options.generate, &scheduler, &scheduling, &faults);
  scoreboard::HttpDelays http_delays(&faults.log());
  server_common::HttpListener http(options.http, &recorder, &http_delays);
  http.Post("/generate",
            [&](const std::string& body, server_common::Exchange& exchange) { return handler.Handle(body, exchange); });
  scoreboard::AllowControl(fault_options, &faults, &http);
  faults.Start();
  http.Serve();

  scheduler.Stop();
  recorder.Stop();
}

}  // namespace
}  // namespace decode_server

int main(int argc, char** argv) try {
  decode_server::Options options;
  decode_server::FaultOptions fault_options;
  server_common::CommandLine command_line(std::string(decode_server::kAbout) + " It makes faults on purpose.");
  decode_server::AddOptions(&command_line, &options);
  scoreboard::FaultArguments faults(decode_server::kNames, &command_line, &fault_options);
  command_line.Parse(argc, argv, [&] {
    faults.Take(decode_server::ParseFault);
    Complete(&options);
  });
  decode_server::Run(options, fault_options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "faulty_decode_server: %s\n", error.what());
  return 1;
}
