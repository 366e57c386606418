// SPDX-License-Identifier: Apache-2.0
//
// graph_steps ARM: a server's loop of steps, each the replay of a CUDA graph. A line of input asks for a block of
// steps; the answer is the median time of a step in us. benchmarks/graph_steps.py compares processes of several arms by
// it:
//
//   never      no recorder
//   recorder   requests, batches and scopes are recorded
//   default    also everything of gpu::Enable
//   counters, waits, layers   also that part alone
//   divided, divided_6        everything, and event nodes around all layers of the graph, or 6
//
// At its end an arm "divided" makes an incident.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "graph_decode/decoder.h"
#include "pitot/collect/gpu.h"
#include "pitot/pitot.h"

namespace {

constexpr int kTokens = 64;  // of a request
constexpr int kLayers = 24;

double NowUs() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

pitot::Recorder StartRecorder(const std::string& arm) {
  if (arm == "never") return {};
  pitot::Options options;
  options.incident_directory = "incidents";
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (!recorder.status().ok()) throw std::runtime_error(recorder.status().message());
  if (arm == "recorder") return recorder;
  pitot::GpuOptions gpu;
  const bool is_divided = arm.starts_with("divided");
  if (is_divided) gpu.cuda_events.graph_scopes = arm == "divided_6" ? 6 : kLayers;
  if (arm != "default" && !is_divided) {
    gpu.with_counters = arm == "counters";
    gpu.with_cuda_calls = arm == "waits" || arm == "layers";  // layers use the calls
    gpu.with_cuda_events = arm == "layers";
    gpu.with_nvml = false;
  }
  const pitot::Status status = pitot::gpu::Enable(recorder, gpu);
  if (!status.ok()) throw std::runtime_error(status.message());
  return recorder;
}

// The median time of a step in us.
double Block(graph_decode::Decoder* decoder, int requests) {
  std::vector<double> steps;
  for (int i = 0; i < requests; ++i) {
    auto request = pitot::Request::Begin("/generate");
    decoder->Begin(0);
    for (int token = 0; token < kTokens; ++token) {
      const double begin_us = NowUs();
      auto step = pitot::Batch::Begin("decoder");
      step.Join(request.token());
      {
        PITOT_SCOPE("launch");
        decoder->Launch();
      }
      step.Submitted();
      {
        PITOT_SCOPE("wait");
        decoder->Wait();
      }
      step.Finish();
      request.Emit();
      steps.push_back(NowUs() - begin_us);
    }
    request.Finish(pitot::Outcome::kOk);
  }
  const auto middle = steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2);
  std::nth_element(steps.begin(), middle, steps.end());
  return *middle;
}

int Run(const std::string& arm) {
  pitot::Recorder recorder = StartRecorder(arm);
  graph_decode::Shape shape;
  shape.layers = kLayers;
  shape.positions = kTokens;
  const graph_decode::Weights weights = graph_decode::MakeWeights(shape);
  graph_decode::Decoder decoder(shape, weights);
  // Until the events for layers are there.
  for (const double begin_us = NowUs(); NowUs() - begin_us < 500'000;) {
    const auto warm_up = pitot::Batch::Begin("warm up");
    decoder.Begin(0);
    decoder.Launch();
    decoder.Wait();
  }
  decoder.Capture();
  int requests = 0;
  while (std::cin >> requests) {
    std::printf("%.3f\n", Block(&decoder, requests));
    std::fflush(stdout);
  }
  if (arm.starts_with("divided")) recorder.Trigger(arm.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: graph_steps never|recorder|default|counters|waits|layers|divided|divided_6\n", stderr);
    return 2;
  }
  try {
    return Run(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph_steps: %s\n", error.what());
    return 1;
  }
}
