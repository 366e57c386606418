// SPDX-License-Identifier: Apache-2.0
//
// A server on LibTorch.
#include <ATen/ATen.h>

#include <cstdio>

#include "pitot/collect/torch.h"
#include "pitot/pitot.h"

int main() {
  pitot::Options options;
  options.depth = pitot::Depth::kOps;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  const pitot::Status added = pitot::torch::Enable(recorder);
  const uint64_t before = recorder.Stats().events_recorded;
  at::ones({8}).add(1);
  const uint64_t operators = recorder.Stats().events_recorded - before;
  recorder.Stop();
  std::printf("torch: %s, operators: %s\n", pitot::StatusCodeName(added.code()), operators != 0 ? "recorded" : "none");
  return added.ok() && operators != 0 ? 0 : 1;
}
