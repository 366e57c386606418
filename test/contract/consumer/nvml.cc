// SPDX-License-Identifier: Apache-2.0
//
// A server with a collector that the machine may have no use for.
#include <cstdio>

#include "pitot/collect/nvml.h"
#include "pitot/pitot.h"

int main() {
  pitot::Recorder recorder = pitot::Recorder::Start(pitot::Options());
  const pitot::Status status = recorder.Add(pitot::MakeNvmlCollector());
  recorder.Stop();
  std::printf("nvml: %s\n", pitot::StatusCodeName(status.code()));
  return status.code() == pitot::StatusCode::kInternal ? 1 : 0;
}
