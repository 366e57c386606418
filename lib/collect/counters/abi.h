// SPDX-License-Identifier: Apache-2.0
//
// The used part of CUPTI's profiler API for sampling, declared here so that Pitot builds without CUDA. Sizes and
// numbers are those of NVIDIA's headers of CUDA 12.6 and later; a test compares them with the real ones if they are
// installed.
#ifndef PITOT_LIB_COLLECT_COUNTERS_ABI_H_
#define PITOT_LIB_COLLECT_COUNTERS_ABI_H_

#include <cstddef>
#include <cstdint>

namespace pitot::counters {

enum Result : int {
  kSuccess = 0,
  kInvalidParameter = 1,
  kInvalidOperation = 7,
  kNotCompatible = 14,  // with the driver
  kNotInitialized = 15,
  kHardwareBusy = 26,  // another process samples this GPU, or a profiler holds it
  kNotSupported = 27,
  kVirtualizedDeviceNotSupported = 33,
  kInsufficientPrivileges = 35,
  kVirtualizedDeviceInsufficientPrivileges = 40,
  kUnknown = 999,  // among others: this process has no CUDA context
};

enum ProfilerType : int { kPmSampling = 1 };
enum TriggerMode : int { kBySystemClock = 0, kByTime = 1 };
enum AppendMode : int { kKeepOldest = 0, kKeepLatest = 1 };
enum StopReason : int { kOther = 0, kCounterDataFull = 1, kEndOfRecords = 2 };

// Each begins with its size.
struct InitializeParams {
  size_t size;
  void* reserved;
};
struct ChipNameParams {
  size_t size;
  void* reserved;
  size_t device;
  const char* chip;
};
struct AvailabilityParams {
  size_t size;
  void* reserved;
  size_t device, image_bytes;
  uint8_t* image;
};
struct HostInitializeParams {
  size_t size;
  void* reserved;
  ProfilerType type;
  const char* chip;
  const uint8_t* availability;
  void* host;
};
struct HostDeinitializeParams {
  size_t size;
  void* reserved;
  void* host;
};
struct AddMetricsParams {
  size_t size;
  void* reserved;
  void* host;
  const char** metrics;
  size_t count;
};
struct ConfigSizeParams {
  size_t size;
  void* reserved;
  void* host;
  size_t bytes;
};
struct ConfigImageParams {
  size_t size;
  void* reserved;
  void* host;
  size_t bytes;
  uint8_t* image;
};
struct PassesParams {
  size_t size;
  void* reserved;
  size_t bytes;
  uint8_t* image;
  size_t passes;
};
struct EnableParams {
  size_t size;
  void* reserved;
  size_t device;
  void* sampler;
};
struct SetConfigParams {
  size_t size;
  void* reserved;
  void* sampler;
  size_t config_bytes;
  const uint8_t* config;
  size_t hardware_buffer_bytes;
  uint64_t interval;
  TriggerMode trigger;
  AppendMode append;
};
struct DataSizeParams {
  size_t size;
  void* reserved;
  void* sampler;
  const char** metrics;
  size_t count;
  uint32_t most_samples;
  size_t bytes;
};
struct DataInitializeParams {
  size_t size;
  void* reserved;
  void* sampler;
  size_t bytes;
  uint8_t* data;
};
struct SamplerParams {  // of start, stop and disable
  size_t size;
  void* reserved;
  void* sampler;
};
struct DecodeParams {
  size_t size;
  void* reserved;
  void* sampler;
  uint8_t* data;
  size_t bytes;
  StopReason stop_reason;
  uint8_t overflow;
};
struct DataInfoParams {
  size_t size;
  void* reserved;
  const uint8_t* data;
  size_t bytes;
  size_t total, populated, completed;
};
struct SampleInfoParams {
  size_t size;
  void* reserved;
  void* sampler;
  const uint8_t* data;
  size_t bytes, index;
  uint64_t begin_ns, end_ns;  // CLOCK_REALTIME
};
struct EvaluateParams {
  size_t size;
  void* reserved;
  void* host;
  const uint8_t* data;
  size_t bytes, index;
  const char** metrics;
  size_t count;
  double* values;
};

// Zeroed, with its size.
template <class Params> Params Make() {
  Params params{};
  params.size = sizeof params;
  return params;
}
template <> inline DecodeParams Make() {
  DecodeParams params{};
  params.size = offsetof(DecodeParams, overflow) + sizeof params.overflow;  // NVIDIA counts up to the last member
  return params;
}

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_ABI_H_
