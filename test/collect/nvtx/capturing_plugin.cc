// SPDX-License-Identifier: Apache-2.0
//
// A library that has Pitot in it: captures what an emitter says. 0 if that is all that is captured.
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
