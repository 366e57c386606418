// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's profiler host: the part of its profiler API that sampling and the range profiler have in common. All of it is
// inline: the two are libraries of their own.
#ifndef PITOT_LIB_COLLECT_COUNTERS_HOST_CONFIG_H_
#define PITOT_LIB_COLLECT_COUNTERS_HOST_CONFIG_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collect/counters/abi.h"

namespace pitot::counters {

struct HostApi {
  Result (*initialize)(InitializeParams*);
  Result (*get_chip_name)(ChipNameParams*);
  Result (*host_initialize)(HostInitializeParams*);
  Result (*host_deinitialize)(HostDeinitializeParams*);
  Result (*add_metrics)(AddMetricsParams*);
  Result (*get_config_size)(ConfigSizeParams*);
  Result (*get_config_image)(ConfigImageParams*);
  Result (*get_passes)(PassesParams*);
  Result (*evaluate)(EvaluateParams*);
  Result (*get_result_string)(Result, const char**);  // may be null
};

// Looks up all but get_result_string by find(name, pointer).
template <class Find> void FindHostFunctions(Find find, HostApi* api) {
  find("cuptiProfilerInitialize", &api->initialize);
  find("cuptiDeviceGetChipName", &api->get_chip_name);
  find("cuptiProfilerHostInitialize", &api->host_initialize);
  find("cuptiProfilerHostDeinitialize", &api->host_deinitialize);
  find("cuptiProfilerHostConfigAddMetrics", &api->add_metrics);
  find("cuptiProfilerHostGetConfigImageSize", &api->get_config_size);
  find("cuptiProfilerHostGetConfigImage", &api->get_config_image);
  find("cuptiProfilerHostGetNumOfPasses", &api->get_passes);
  find("cuptiProfilerHostEvaluateToGpuValues", &api->evaluate);
}

// "CUPTI_ERROR_HARDWARE_BUSY", or "CUPTI error 26".
inline std::string ResultName(const HostApi& api, Result result) {
  const char* text = nullptr;
  if (api.get_result_string != nullptr && api.get_result_string(result, &text) == kSuccess && text != nullptr)
    return text;
  return "CUPTI error " + std::to_string(static_cast<int>(result));
}

// A call of CUPTI that failed.
struct Failure {
  const char* function = nullptr;  // null: none has
  Result result = kSuccess;

  explicit operator bool() const { return function != nullptr; }
};

// "cuptiPmSamplingStop: CUPTI_ERROR_UNKNOWN".
inline std::string TextOf(const HostApi& api, const Failure& failure) {
  return std::string(failure.function) + ": " + ResultName(api, failure.result);
}

// Why a GPU cannot be profiled, and what to do. `if_busy` is the remedy if another profiler does; `otherwise` ends the
// text of a failure without a remedy.
inline std::string Explain(const HostApi& api, const Failure& failure, const char* if_busy, const char* otherwise) {
  const std::string name = " (" + ResultName(api, failure.result) + "): ";
  switch (failure.result) {
    case kHardwareBusy:
      return "another profiler uses this GPU's counters" + name + if_busy;
    case kInsufficientPrivileges:
      return "the driver allows profiling for administrators alone" + name +
             "set NVreg_RestrictProfilingToAdminUsers=0 for the kernel module nvidia, or give the process "
             "CAP_SYS_ADMIN";
    case kVirtualizedDeviceNotSupported:
    case kVirtualizedDeviceInsufficientPrivileges:
      return "the virtual GPU does not allow profiling" + name + "its host's administrator can enable it";
    case kNotCompatible:
      return "CUPTI and the driver do not fit together" + name + "if the driver was upgraded, start the process again";
    default:
      return TextOf(api, failure) + otherwise;
  }
}

// Metrics, configured for a chip. Free ends it.
struct HostConfig {
  void* host = nullptr;  // null: not configured
  std::vector<const char*> names;
  std::vector<uint8_t> image;
  size_t passes = 0;

  // Configures the named metrics; must be free. Throws bad_alloc.
  template <class Metrics> Failure Configure(const HostApi& api, ProfilerType type, const char* chip,
                                             const std::vector<uint8_t>& availability, const Metrics& metrics) {
    names.clear();
    for (const auto& metric : metrics) names.push_back(metric.name);
    auto initialize = Make<HostInitializeParams>();
    initialize.type = type;
    initialize.chip = chip;
    initialize.availability = availability.data();
    if (const Result result = api.host_initialize(&initialize); result != kSuccess)
      return {"cuptiProfilerHostInitialize", result};
    host = initialize.host;
    return Fill(api);
  }
  Failure Free(const HostApi& api) noexcept {
    if (host == nullptr) return {};
    auto free = Make<HostDeinitializeParams>();
    free.host = std::exchange(host, nullptr);
    const Result result = api.host_deinitialize(&free);
    return result == kSuccess ? Failure() : Failure{"cuptiProfilerHostDeinitialize", result};
  }

 private:
  Failure Fill(const HostApi& api) {
    auto add = Make<AddMetricsParams>();
    add.host = host;
    add.metrics = names.data();
    add.count = names.size();
    if (const Result result = api.add_metrics(&add); result != kSuccess)
      return {"cuptiProfilerHostConfigAddMetrics", result};
    auto size = Make<ConfigSizeParams>();
    size.host = host;
    if (const Result result = api.get_config_size(&size); result != kSuccess)
      return {"cuptiProfilerHostGetConfigImageSize", result};
    image.resize(size.bytes);
    auto fill = Make<ConfigImageParams>();
    fill.host = host;
    fill.bytes = image.size();
    fill.image = image.data();
    if (const Result result = api.get_config_image(&fill); result != kSuccess)
      return {"cuptiProfilerHostGetConfigImage", result};
    auto count = Make<PassesParams>();
    count.bytes = image.size();
    count.image = image.data();
    if (const Result result = api.get_passes(&count); result != kSuccess)
      return {"cuptiProfilerHostGetNumOfPasses", result};
    passes = count.passes;
    return {};
  }
};

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_HOST_CONFIG_H_
