// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of `pitot doctor`: checks the driver, CUPTI and NVML, each in a process of its own.
#ifndef PITOT_LIB_CLI_DOCTOR_GPU_H_
#define PITOT_LIB_CLI_DOCTOR_GPU_H_

#include <stdint.h>

#include <string>
#include <vector>

#include "cli/doctor_machine.h"
#include "collect/counters/shared_file.h"

namespace pitot::cli {

// Where to look; tests use their own places.
struct GpuPlaces {
  std::string driver = "libcuda.so.1";
  std::string driver_files = "/proc/driver/nvidia";
  std::string own_status = "/proc/self/status";               // for its capabilities
  std::string shared_directory = counters::kSharedDirectory;  // of the counters' samplers
  std::string cupti;                                          // as in CuptiOptions::library; "": found automatically
  std::string nvml;                                           // as in NvmlOptions::library; "": found automatically
  // Time limit for each; with many GPUs and no persistence daemon the driver needs seconds.
  int64_t patience_ns = 30'000'000'000;
};

// Checks everything. A GPU that could be recorded but is not is a problem; a machine without GPU is not. Cost: about a
// second; if something hangs, twice the patience.
std::vector<Finding> ExamineGpus(const GpuPlaces& places);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_DOCTOR_GPU_H_
