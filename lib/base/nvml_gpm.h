// SPDX-License-Identifier: Apache-2.0
//
// The part of NVML's binary interface that two collectors use: its results, and GPM. The numbers are those of nvml.h; a
// test compares them with the real header if it is installed.
#ifndef PITOT_LIB_BASE_NVML_GPM_H_
#define PITOT_LIB_BASE_NVML_GPM_H_

namespace pitot::nvml {

enum Result : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNoPermission = 4,
  kNotFound = 6,
  kInsufficientSize = 7,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kResetRequired = 16,
  kOperatingSystem = 17,
  kLibraryDriverMismatch = 18,
  kInUse = 19,
  kMemory = 20,
  kNoData = 21,
  kInsufficientResources = 23,
  kArgumentVersionMismatch = 25,
  kDeprecated = 26,
  kNotReady = 27,
  kGpuNotFound = 28,
  kInvalidState = 29,
  kUnknown = 999,
};

using GpmSample = void*;

enum GpmMetricId : unsigned int {
  kGpmSmActive = 2,
  kGpmSmOccupancy = 3,
  kGpmTensorActive = 5,
  kGpmDramBandwidth = 10,
  kGpmPcieSent = 20,  // MiB/s, as all traffic
  kGpmPcieReceived = 21,
  kGpmNvlinkReceived = 60,
  kGpmNvlinkSent = 61,
};

struct GpmMetric {
  unsigned int id;
  Result result;
  double value;
  struct {
    char* short_name;
    char* long_name;
    char* unit;
  } info;
};

inline constexpr unsigned int kGpmVersion = 1;
// More than any library knows: the real one's array has as many as its version has metrics (98 to 477 so far).
inline constexpr unsigned int kGpmMostMetrics = 512;

struct GpmMetricsGet {
  unsigned int version;
  unsigned int count;
  GpmSample sample1;
  GpmSample sample2;
  GpmMetric metrics[kGpmMostMetrics];
};

struct GpmSupport {
  unsigned int version;
  unsigned int is_supported;
};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_BASE_NVML_GPM_H_
