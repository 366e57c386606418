// SPDX-License-Identifier: Apache-2.0
//
// What `pitot doctor` asks of GPUs: the driver, CUPTI and NVML, each in a process of its own.
#ifndef PITOT_LIB_CLI_DOCTOR_GPU_H_
#define PITOT_LIB_CLI_DOCTOR_GPU_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "cli/doctor_machine.h"

namespace pitot::cli {

// Where it looks; tests have places of their own.
struct GpuPlaces {
  std::string driver = "libcuda.so.1";
  std::string driver_files = "/proc/driver/nvidia";
  std::string cupti;  // as CuptiOptions::library; "": found
  std::string nvml;   // as NvmlOptions::library; "": found
  // How long each may take; with many GPUs and no persistence daemon the driver needs seconds.
  int64_t patience_ns = 30'000'000'000;
};

// Asks everything. A GPU that could be recorded and is not is a problem; a machine without one is not. Cost: about a
// second; where something hangs, twice the patience.
std::vector<Finding> ExamineGpus(const GpuPlaces& places);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DOCTOR_GPU_H_
