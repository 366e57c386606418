// SPDX-License-Identifier: Apache-2.0
//
// A library with Pitot in it: captures an emitter's events. 0 if nothing else is captured.
#include <cstdio>

#include "collect/nvtx/rig.h"

extern "C" [[gnu::visibility("default")]] int CaptureOnce() {
  fakes::NvtxHost host;
  if (!host.Start()) return 2;
  const pitot::Status status = host.recorder.Add(pitot::MakeNvtxCollector());
  if (!status.ok()) {
    std::fprintf(stderr, "%s\n", status.message());
    return 3;
  }
  const fakes::Library library(PITOT_FAKE_EMITTER);
  library->mark_a("captured");
  return fakes::Captured(host.Incident()) == fakes::Texts{"captured(domain=(none))"} ? 0 : 4;
}
