// SPDX-License-Identifier: Apache-2.0
//
// Compares abi.h with NVIDIA's header of NVML's binary interface.
#include "collect/nvml/abi.h"

#include <catch2/catch.hpp>
#include <cstddef>
#include <type_traits>

#include "collect/nvml/api.h"

#if __has_include(<nvml.h>)
#include <nvml.h>

namespace {

using namespace pitot;

template <auto ours, auto theirs> constexpr bool kSame = static_cast<long>(ours) == static_cast<long>(theirs);

static_assert(kSame<nvml::kSuccess, NVML_SUCCESS>);
static_assert(kSame<nvml::kUninitialized, NVML_ERROR_UNINITIALIZED>);
static_assert(kSame<nvml::kInvalidArgument, NVML_ERROR_INVALID_ARGUMENT>);
static_assert(kSame<nvml::kNotSupported, NVML_ERROR_NOT_SUPPORTED>);
static_assert(kSame<nvml::kNoPermission, NVML_ERROR_NO_PERMISSION>);
static_assert(kSame<nvml::kNotFound, NVML_ERROR_NOT_FOUND>);
static_assert(kSame<nvml::kInsufficientSize, NVML_ERROR_INSUFFICIENT_SIZE>);
static_assert(kSame<nvml::kDriverNotLoaded, NVML_ERROR_DRIVER_NOT_LOADED>);
static_assert(kSame<nvml::kTimeout, NVML_ERROR_TIMEOUT>);
static_assert(kSame<nvml::kFunctionNotFound, NVML_ERROR_FUNCTION_NOT_FOUND>);
static_assert(kSame<nvml::kGpuIsLost, NVML_ERROR_GPU_IS_LOST>);
static_assert(kSame<nvml::kResetRequired, NVML_ERROR_RESET_REQUIRED>);
static_assert(kSame<nvml::kOperatingSystem, NVML_ERROR_OPERATING_SYSTEM>);
static_assert(kSame<nvml::kLibraryDriverMismatch, NVML_ERROR_LIB_RM_VERSION_MISMATCH>);
static_assert(kSame<nvml::kInUse, NVML_ERROR_IN_USE>);
static_assert(kSame<nvml::kMemory, NVML_ERROR_MEMORY>);
static_assert(kSame<nvml::kNoData, NVML_ERROR_NO_DATA>);
static_assert(kSame<nvml::kInsufficientResources, NVML_ERROR_INSUFFICIENT_RESOURCES>);
static_assert(kSame<nvml::kUnknown, NVML_ERROR_UNKNOWN>);

static_assert(nvml::kDriverVersionBytes >= NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE);
static_assert(nvml::kNameBytes >= NVML_DEVICE_NAME_BUFFER_SIZE && nvml::kNameBytes >= NVML_DEVICE_NAME_V2_BUFFER_SIZE);
static_assert(nvml::kUuidBytes >= NVML_DEVICE_UUID_BUFFER_SIZE && nvml::kUuidBytes >= NVML_DEVICE_UUID_V2_BUFFER_SIZE);

static_assert(sizeof(nvml::PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(nvml::PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(nvml::Utilization) == sizeof(nvmlUtilization_t));
static_assert(offsetof(nvml::Utilization, memory) == offsetof(nvmlUtilization_t, memory));
static_assert(sizeof(nvml::Memory) == sizeof(nvmlMemory_t));
static_assert(offsetof(nvml::Memory, total) == offsetof(nvmlMemory_t, total));
static_assert(offsetof(nvml::Memory, used) == offsetof(nvmlMemory_t, used));
static_assert(sizeof(nvml::ProcessInfo) == sizeof(nvmlProcessInfo_v2_t));
static_assert(offsetof(nvml::ProcessInfo, used_bytes) == offsetof(nvmlProcessInfo_v2_t, usedGpuMemory));
static_assert(nvml::kNotAvailable == static_cast<unsigned long long>(NVML_VALUE_NOT_AVAILABLE));

static_assert(kSame<nvml::kClockSm, NVML_CLOCK_SM>);
static_assert(kSame<nvml::kClockMemory, NVML_CLOCK_MEM>);
static_assert(kSame<nvml::kSensorGpu, NVML_TEMPERATURE_GPU>);
static_assert(kSame<nvml::kCorrected, NVML_MEMORY_ERROR_TYPE_CORRECTED>);
static_assert(kSame<nvml::kUncorrected, NVML_MEMORY_ERROR_TYPE_UNCORRECTED>);
static_assert(kSame<nvml::kVolatile, NVML_VOLATILE_ECC>);

static_assert(kSame<nvml::kReasonIdle, nvmlClocksThrottleReasonGpuIdle>);
static_assert(kSame<nvml::kReasonApplicationClocks, nvmlClocksThrottleReasonApplicationsClocksSetting>);
static_assert(kSame<nvml::kReasonSoftwarePowerCap, nvmlClocksThrottleReasonSwPowerCap>);
static_assert(kSame<nvml::kReasonHardwareSlowdown, nvmlClocksThrottleReasonHwSlowdown>);
static_assert(kSame<nvml::kReasonSyncBoost, nvmlClocksThrottleReasonSyncBoost>);
static_assert(kSame<nvml::kReasonSoftwareThermal, nvmlClocksThrottleReasonSwThermalSlowdown>);
static_assert(kSame<nvml::kReasonHardwareThermal, nvmlClocksThrottleReasonHwThermalSlowdown>);
static_assert(kSame<nvml::kReasonHardwarePowerBrake, nvmlClocksThrottleReasonHwPowerBrakeSlowdown>);
static_assert(kSame<nvml::kReasonDisplayClocks, nvmlClocksThrottleReasonDisplayClockSetting>);

static_assert(kSame<nvml::kDouble, NVML_VALUE_TYPE_DOUBLE>);
static_assert(kSame<nvml::kUnsignedInt, NVML_VALUE_TYPE_UNSIGNED_INT>);
static_assert(kSame<nvml::kUnsignedLong, NVML_VALUE_TYPE_UNSIGNED_LONG>);
static_assert(kSame<nvml::kUnsignedLongLong, NVML_VALUE_TYPE_UNSIGNED_LONG_LONG>);
static_assert(kSame<nvml::kSignedLongLong, NVML_VALUE_TYPE_SIGNED_LONG_LONG>);
static_assert(sizeof(nvml::FieldValue) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(nvml::FieldValue, scope) == offsetof(nvmlFieldValue_t, scopeId));
static_assert(offsetof(nvml::FieldValue, value_type) == offsetof(nvmlFieldValue_t, valueType));
static_assert(offsetof(nvml::FieldValue, result) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(nvml::FieldValue, value) == offsetof(nvmlFieldValue_t, value));
static_assert(kSame<nvml::kFieldPowerCapNs, NVML_FI_DEV_PERF_POLICY_POWER>);
#ifdef NVML_FI_DEV_PCIE_COUNT_TX_BYTES
static_assert(kSame<nvml::kFieldPcieSentBytes, NVML_FI_DEV_PCIE_COUNT_TX_BYTES>);
static_assert(kSame<nvml::kFieldPcieReceivedBytes, NVML_FI_DEV_PCIE_COUNT_RX_BYTES>);
#endif
#ifdef NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN
// The header's own major version tells its drivers: 12 had them in its last release only.
constexpr nvml::SlowdownFields kSlowdown = nvml::SlowdownFieldsOf(NVML_API_VERSION >= 13 ? 580 : 575);
static_assert(kSlowdown.software_thermal == NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN);
static_assert(kSlowdown.hardware_thermal == NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN);
static_assert(kSlowdown.power_brake == NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN);
#endif

static_assert(kSame<nvml::kEventXid, nvmlEventTypeXidCriticalError>);
static_assert(sizeof(nvml::EventData) == sizeof(nvmlEventData_t));
static_assert(offsetof(nvml::EventData, type) == offsetof(nvmlEventData_t, eventType));
static_assert(offsetof(nvml::EventData, data) == offsetof(nvmlEventData_t, eventData));

#ifdef NVML_GPM_METRICS_GET_VERSION
static_assert(kSame<nvml::kGpmVersion, NVML_GPM_METRICS_GET_VERSION>);
static_assert(kSame<nvml::kGpmVersion, NVML_GPM_SUPPORT_VERSION>);
static_assert(kSame<nvml::kGpmSmActive, NVML_GPM_METRIC_SM_UTIL>);
static_assert(kSame<nvml::kGpmSmOccupancy, NVML_GPM_METRIC_SM_OCCUPANCY>);
static_assert(kSame<nvml::kGpmTensorActive, NVML_GPM_METRIC_ANY_TENSOR_UTIL>);
static_assert(kSame<nvml::kGpmDramBandwidth, NVML_GPM_METRIC_DRAM_BW_UTIL>);
static_assert(kSame<nvml::kGpmPcieSent, NVML_GPM_METRIC_PCIE_TX_PER_SEC>);
static_assert(kSame<nvml::kGpmPcieReceived, NVML_GPM_METRIC_PCIE_RX_PER_SEC>);
static_assert(kSame<nvml::kGpmNvlinkReceived, NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC>);
static_assert(kSame<nvml::kGpmNvlinkSent, NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC>);
static_assert(sizeof(nvml::GpmMetric) == sizeof(nvmlGpmMetric_t));
static_assert(offsetof(nvml::GpmMetric, result) == offsetof(nvmlGpmMetric_t, nvmlReturn));
static_assert(offsetof(nvml::GpmMetric, value) == offsetof(nvmlGpmMetric_t, value));
static_assert(offsetof(nvml::GpmMetricsGet, count) == offsetof(nvmlGpmMetricsGet_t, numMetrics));
static_assert(offsetof(nvml::GpmMetricsGet, sample1) == offsetof(nvmlGpmMetricsGet_t, sample1));
static_assert(offsetof(nvml::GpmMetricsGet, sample2) == offsetof(nvmlGpmMetricsGet_t, sample2));
static_assert(offsetof(nvml::GpmMetricsGet, metrics) == offsetof(nvmlGpmMetricsGet_t, metrics));
static_assert(sizeof(nvml::GpmMetricsGet) >= sizeof(nvmlGpmMetricsGet_t));
static_assert(sizeof(nvml::GpmSupport) == sizeof(nvmlGpmSupport_t));
static_assert(offsetof(nvml::GpmSupport, is_supported) == offsetof(nvmlGpmSupport_t, isSupportedDevice));
#endif

}  // namespace
#endif

TEST_CASE("the fields of lowered clocks are those of the driver's version", "[nvml]") {
  using pitot::nvml::SlowdownFieldsOf;
  CHECK(SlowdownFieldsOf(0).software_thermal == 0);
  CHECK(SlowdownFieldsOf(570).power_brake == 0);
  CHECK(SlowdownFieldsOf(575).software_thermal == 251);
  CHECK(SlowdownFieldsOf(580).software_thermal == 269);
  CHECK(SlowdownFieldsOf(600).power_brake == 271);
}

TEST_CASE("an error without a name in the header has its number", "[nvml]") {
  CHECK(pitot::nvml::ResultName(pitot::nvml::kNoPermission) == "NO_PERMISSION");
  CHECK(pitot::nvml::ResultName(static_cast<pitot::nvml::Result>(77)) == "error 77");
}
