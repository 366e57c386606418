// SPDX-License-Identifier: Apache-2.0
//
// image_server: classifies JPEGs over HTTP with a ResNet-50, and records itself with Pitot. Read recorder.cc (start the
// recorder, add triggers), classify.cc (a handler) and batcher.cc (queue, batch, workers).
#include <cstdio>
#include <exception>
#include <span>
#include <string>

#include "image_server/batcher.h"
#include "image_server/classifier.h"
#include "image_server/classify.h"
#include "image_server/options.h"
#include "image_server/recorder.h"
#include "server_common/process.h"

namespace image_server {
namespace {

void Run(Options options) {
  server_common::BlockStopSignals();
  pitot::Recorder recorder = StartRecorder(options);

  Classifier classifier(options.classifier);
  std::printf("model: %s\n", classifier.name().c_str());
  Batcher batcher(
      options.batcher, [&](std::span<const Job> jobs, pitot::Batch& batch) { return classifier.Run(jobs, batch); },
      [&] { classifier.WarmUp(options.batcher.max_batch); });

  options.classify.side = options.classifier.side;
  options.http.model = classifier.name();
  server_common::HttpListener http(options.http, &recorder);
  http.Post("/classify", [&](const std::string& jpeg, server_common::Exchange& exchange) {
    return Classify(jpeg, exchange, &batcher, options.classify);
  });
  http.Serve();

  batcher.Stop();
  recorder.Stop();
}

}  // namespace
}  // namespace image_server

int main(int argc, char** argv) try {
  image_server::Options options;
  server_common::CommandLine command_line(image_server::kAbout);
  image_server::AddOptions(&command_line, &options);
  command_line.Parse(argc, argv);
  image_server::Run(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "image_server: %s\n", error.what());
  return 1;
}
