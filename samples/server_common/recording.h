// SPDX-License-Identifier: Apache-2.0
//
// How a sample server records itself: the recorder, what it collects, and who is told. What is worth an incident each
// server says itself, in its main.cc.
#ifndef SAMPLES_SERVER_COMMON_RECORDING_H_
#define SAMPLES_SERVER_COMMON_RECORDING_H_

#include <cstdint>
#include <string>

#include "pitot/pitot.h"

namespace server_common {

struct RecordingOptions {
  bool record = true;
  std::string incident_directory{};
  bool trigger = true;  // false: incidents only where they are asked for
  bool collect_cupti = true;
  bool attach_at_start = true;  // as CuptiOptions
  bool collect_cuda_events = true;
  bool collect_nvml = true;
  bool collect_host = true;
  bool collect_nvtx = true;
  bool collect_torch = true;
  double lasting_cost_percent = 1;  // as CuptiOptions
  uint32_t worker_cpu_percent = 0;  // as pitot::Options; 0: as it is there
  bool judge = true;                // incidents say why their requests were slow
  std::string baseline_file{};      // what is normal, over restarts
};

// Where nothing else was said, 256 MiB, of which the first threads have rings of 4 MiB: a second and more of a
// network's operators and launches, some 25 KiB a pass of a ResNet-50. In rings of 1 MiB, the default, requests that
// were slow a second ago have lost their batches.
pitot::Options WithRoomForOperators(pitot::Options recording);

// Before the network is loaded and threads start: CUPTI wants to be there before CUDA, and variables of the environment
// are set, so that NVTX finds Pitot and, unless `uses_cuda`, nobody a GPU. `recording` are the host's own settings.
// Records nothing where `options` say so or where it cannot, which is said.
pitot::Recorder StartRecorder(pitot::Options recording, const RecordingOptions& options, bool uses_cuda);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_RECORDING_H_
