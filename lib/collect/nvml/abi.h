// SPDX-License-Identifier: Apache-2.0
//
// The used part of NVML's binary interface, declared here and in base/nvml_gpm.h so that Pitot builds without NVIDIA
// software. The numbers are those of nvml.h. With one exception (SlowdownFields) that header adds but does not change.
// A test compares all of this with the real header if it is installed.
#ifndef PITOT_LIB_COLLECT_NVML_ABI_H_
#define PITOT_LIB_COLLECT_NVML_ABI_H_

#include <stdint.h>

#include "base/nvml_gpm.h"

namespace pitot::nvml {

using Device = void*;
using EventSet = void*;

inline constexpr uint32_t kNameBytes = 96, kUuidBytes = 96, kDriverVersionBytes = 80;

struct PciInfo {
  char old_bus_id[16];
  unsigned int domain;
  unsigned int bus;
  unsigned int device;
  unsigned int pci_device_id;
  unsigned int pci_subsystem_id;
  char bus_id[32];  // "00000000:01:00.0"
};

struct Utilization {
  unsigned int gpu;  // percent
  unsigned int memory;
};

struct Memory {
  unsigned long long total;  // bytes
  unsigned long long free;
  unsigned long long used;
};

// As filled by nvmlDeviceGetComputeRunningProcesses_v2. (_v3 of some drivers fills a longer one.)
struct ProcessInfo {
  unsigned int pid;
  unsigned long long used_bytes;  // kNotAvailable: unknown
  unsigned int gpu_instance;
  unsigned int compute_instance;
};
inline constexpr unsigned long long kNotAvailable = ~0ull;

enum Clock : int { kClockSm = 1, kClockMemory = 2 };
enum Sensor : int { kSensorGpu = 0 };
enum MemoryError : int { kCorrected = 0, kUncorrected = 1 };
enum EccCounter : int { kVolatile = 0 };  // since the driver was loaded

// Reasons for lowered clocks.
enum ClockEventReason : unsigned long long {
  kReasonIdle = 0x1,
  kReasonApplicationClocks = 0x2,
  kReasonSoftwarePowerCap = 0x4,
  kReasonHardwareSlowdown = 0x8,
  kReasonSyncBoost = 0x10,
  kReasonSoftwareThermal = 0x20,
  kReasonHardwareThermal = 0x40,
  kReasonHardwarePowerBrake = 0x80,
  kReasonDisplayClocks = 0x100,
};

enum ValueType : int {
  kDouble = 0,
  kUnsignedInt = 1,
  kUnsignedLong = 2,
  kUnsignedLongLong = 3,
  kSignedLongLong = 4,
  kSignedInt = 5,
  kUnsignedShort = 6,
};

union Value {
  double as_double;
  int as_signed_int;
  unsigned int as_unsigned_int;
  unsigned long as_unsigned_long;
  unsigned long long as_unsigned_long_long;
  long long as_signed_long_long;
  unsigned short as_unsigned_short;
};

struct FieldValue {
  unsigned int field;
  unsigned int scope;
  long long timestamp_us;
  long long latency_us;
  int value_type;
  Result result;
  Value value;
};

enum Field : unsigned int {
  kFieldPowerCapNs = 74,
  kFieldPcieSentBytes = 197,
  kFieldPcieReceivedBytes = 198,
};

// Time with lowered clocks, ns. The numbers moved: drivers of version 575 (CUDA 12.9) have them at the place of other
// drivers' settings of power smoothing.
struct SlowdownFields {
  unsigned int software_thermal, hardware_thermal, power_brake;  // 0: the driver has none
};
constexpr SlowdownFields SlowdownFieldsOf(int driver_major) {
  if (driver_major >= 580) return {269, 270, 271};
  if (driver_major >= 575) return {251, 252, 253};
  return {0, 0, 0};
}

inline constexpr unsigned long long kEventXid = 0x8;

struct EventData {
  Device device;
  unsigned long long type;
  unsigned long long data;  // the XID
  unsigned int gpu_instance;
  unsigned int compute_instance;
};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_ABI_H_
