// SPDX-License-Identifier: Apache-2.0
//
// Compares abi.h with NVIDIA's headers of PM sampling.
#include "collect/counters/abi.h"
#include "fakes/not_run.h"

#include <catch2/catch.hpp>
#include <cstddef>

#if __has_include(<cupti_pmsampling.h>)
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_target.h>

namespace {

using namespace pitot;

template <auto ours, auto theirs> constexpr bool kSame = static_cast<long>(ours) == static_cast<long>(theirs);

static_assert(kSame<counters::kSuccess, CUPTI_SUCCESS>);
static_assert(kSame<counters::kInvalidParameter, CUPTI_ERROR_INVALID_PARAMETER>);
static_assert(kSame<counters::kInvalidOperation, CUPTI_ERROR_INVALID_OPERATION>);
static_assert(kSame<counters::kNotCompatible, CUPTI_ERROR_NOT_COMPATIBLE>);
static_assert(kSame<counters::kNotInitialized, CUPTI_ERROR_NOT_INITIALIZED>);
static_assert(kSame<counters::kHardwareBusy, CUPTI_ERROR_HARDWARE_BUSY>);
static_assert(kSame<counters::kNotSupported, CUPTI_ERROR_NOT_SUPPORTED>);
static_assert(kSame<counters::kVirtualizedDeviceNotSupported, CUPTI_ERROR_VIRTUALIZED_DEVICE_NOT_SUPPORTED>);
static_assert(kSame<counters::kInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES>);
static_assert(
    kSame<counters::kVirtualizedDeviceInsufficientPrivileges, CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES>);
static_assert(kSame<counters::kUnknown, CUPTI_ERROR_UNKNOWN>);
static_assert(kSame<counters::kPmSampling, CUPTI_PROFILER_TYPE_PM_SAMPLING>);
static_assert(kSame<counters::kBySystemClock, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL>);
static_assert(kSame<counters::kByTime, CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL>);
static_assert(kSame<counters::kKeepOldest, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST>);
static_assert(kSame<counters::kKeepLatest, CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_LATEST>);
static_assert(kSame<counters::kCounterDataFull, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL>);
static_assert(kSame<counters::kEndOfRecords, CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS>);

static_assert(offsetof(counters::SetConfigParams, interval) ==
              offsetof(CUpti_PmSampling_SetConfig_Params, samplingInterval));
static_assert(offsetof(counters::SetConfigParams, hardware_buffer_bytes) ==
              offsetof(CUpti_PmSampling_SetConfig_Params, hardwareBufferSize));
static_assert(offsetof(counters::SetConfigParams, trigger) == offsetof(CUpti_PmSampling_SetConfig_Params, triggerMode));
static_assert(offsetof(counters::DataSizeParams, most_samples) ==
              offsetof(CUpti_PmSampling_GetCounterDataSize_Params, maxSamples));
static_assert(offsetof(counters::DecodeParams, stop_reason) ==
              offsetof(CUpti_PmSampling_DecodeData_Params, decodeStopReason));
static_assert(offsetof(counters::EvaluateParams, index) ==
              offsetof(CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex));
static_assert(offsetof(counters::SampleInfoParams, begin_ns) ==
              offsetof(CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp));

}  // namespace

TEST_CASE("parameters of PM sampling have the sizes of NVIDIA's headers", "[counters]") {
  CHECK(counters::Make<counters::InitializeParams>().size == CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::InitializeParams, reserved) == offsetof(CUpti_Profiler_Initialize_Params, pPriv));
  CHECK(counters::Make<counters::ChipNameParams>().size == CUpti_Device_GetChipName_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::ChipNameParams, chip) == offsetof(CUpti_Device_GetChipName_Params, pChipName));
  CHECK(counters::Make<counters::AvailabilityParams>().size ==
        CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::AvailabilityParams, image) ==
        offsetof(CUpti_PmSampling_GetCounterAvailability_Params, pCounterAvailabilityImage));
  CHECK(counters::Make<counters::HostInitializeParams>().size == CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::HostInitializeParams, host) == offsetof(CUpti_Profiler_Host_Initialize_Params, pHostObject));
  CHECK(counters::Make<counters::HostDeinitializeParams>().size == CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::HostDeinitializeParams, host) ==
        offsetof(CUpti_Profiler_Host_Deinitialize_Params, pHostObject));
  CHECK(counters::Make<counters::AddMetricsParams>().size == CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::AddMetricsParams, count) ==
        offsetof(CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics));
  CHECK(counters::Make<counters::ConfigSizeParams>().size == CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::ConfigSizeParams, bytes) ==
        offsetof(CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize));
  CHECK(counters::Make<counters::ConfigImageParams>().size == CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::ConfigImageParams, image) ==
        offsetof(CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage));
  CHECK(counters::Make<counters::PassesParams>().size == CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::PassesParams, passes) == offsetof(CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses));
  CHECK(counters::Make<counters::EnableParams>().size == CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::EnableParams, sampler) == offsetof(CUpti_PmSampling_Enable_Params, pPmSamplingObject));
  CHECK(counters::Make<counters::SetConfigParams>().size == CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::SetConfigParams, append) == offsetof(CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode));
  CHECK(counters::Make<counters::DataSizeParams>().size == CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::DataSizeParams, bytes) ==
        offsetof(CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize));
  CHECK(counters::Make<counters::DataInitializeParams>().size ==
        CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::DataInitializeParams, data) ==
        offsetof(CUpti_PmSampling_CounterDataImage_Initialize_Params, pCounterData));
  CHECK(counters::Make<counters::SamplerParams>().size == CUpti_PmSampling_Start_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::SamplerParams, sampler) == offsetof(CUpti_PmSampling_Start_Params, pPmSamplingObject));
  CHECK(counters::Make<counters::SamplerParams>().size == CUpti_PmSampling_Stop_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::SamplerParams, sampler) == offsetof(CUpti_PmSampling_Stop_Params, pPmSamplingObject));
  CHECK(counters::Make<counters::SamplerParams>().size == CUpti_PmSampling_Disable_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::SamplerParams, sampler) == offsetof(CUpti_PmSampling_Disable_Params, pPmSamplingObject));
  CHECK(counters::Make<counters::DecodeParams>().size == CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::DecodeParams, overflow) == offsetof(CUpti_PmSampling_DecodeData_Params, overflow));
  CHECK(counters::Make<counters::DataInfoParams>().size == CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::DataInfoParams, completed) ==
        offsetof(CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples));
  CHECK(counters::Make<counters::SampleInfoParams>().size ==
        CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::SampleInfoParams, end_ns) ==
        offsetof(CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp));
  CHECK(counters::Make<counters::EvaluateParams>().size == CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
  CHECK(offsetof(counters::EvaluateParams, values) ==
        offsetof(CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues));
}

#else
TEST_CASE("parameters of PM sampling have the sizes of NVIDIA's headers", "[counters][platform]") {
  NOT_RUN("cupti_pmsampling.h is not installed");
}
#endif
