// SPDX-License-Identifier: Apache-2.0
//
// How a sample server records itself: the recorder, its collectors, and its log. Each server adds triggers of its own,
// in its recorder.cc.
#ifndef SAMPLES_SERVER_COMMON_RECORDING_H_
#define SAMPLES_SERVER_COMMON_RECORDING_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/pitot.h"

namespace server_common {

struct RecordingOptions {
  bool record = true;
  std::string incident_directory{};
  bool trigger = true;  // false: incidents only where they are asked for
  bool collect_counters = true;
  bool collect_cuda_calls = true;
  bool collect_cuda_events = true;
  bool collect_nvml = true;
  bool collect_cupti = true;
  bool attach_cupti = false;  // CUPTI is called at the start, otherwise only at a fixed depth
  bool collect_host = true;
  bool collect_nvtx = true;
  bool collect_torch = true;
  double lasting_cost_percent = 1;  // as CuptiOptions
  uint32_t worker_cpu_percent = 0;  // as pitot::Options; 0: as it is there
  bool judge = true;                // incidents say why their requests were slow
  std::string baseline_file{};      // keeps the baseline over restarts
};

// Unless the host set memory itself: 512 MiB, with rings of 4 MiB for the first threads. They hold a second and more of
// a network's operators and launches, some 25 KiB a pass of a ResNet-50. With the default, rings of 1 MiB, a slow
// request of a second ago has lost its batches.
pitot::Options WithRoomForOperators(pitot::Options recording);

// To be called before the network is loaded and threads start. With `attach_cupti` it must come before CUDA. It sets
// variables of the environment: NVTX finds Pitot by one; unless `uses_cuda`, another hides all GPUs. `recording` are
// the host's own settings. Records nothing if `options` say so, or if it cannot; it logs the latter.
pitot::Recorder StartRecorder(pitot::Options recording, const RecordingOptions& options, bool uses_cuda);

// One line for a log from IncidentInfo::verdict: its sentence. "" if there is no verdict.
std::string VerdictLine(std::string_view verdict);

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_RECORDING_H_
