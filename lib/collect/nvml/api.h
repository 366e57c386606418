// SPDX-License-Identifier: Apache-2.0
//
// The seam to NVML: its functions, found at run time. Tests pass a library of their own.
#ifndef PITOT_LIB_COLLECT_NVML_API_H_
#define PITOT_LIB_COLLECT_NVML_API_H_

#include <string>

#include "collect/nvml/abi.h"
#include "pitot/status.h"

namespace pitot::nvml {

// NVML's functions. The first four are always there. The others are null if the driver is older than they are; callers
// check.
struct Api {
  Result (*init)();
  Result (*shutdown)();
  Result (*get_count)(unsigned int* count);
  Result (*get_handle)(unsigned int index, Device* device);

  Result (*get_driver_version)(char* text, unsigned int bytes);
  Result (*get_name)(Device device, char* text, unsigned int bytes);
  Result (*get_uuid)(Device device, char* text, unsigned int bytes);
  Result (*get_pci_info)(Device device, PciInfo* info);
  Result (*get_utilization)(Device device, Utilization* utilization);
  Result (*get_memory)(Device device, Memory* memory);
  Result (*get_processes)(Device device, unsigned int* count, ProcessInfo* processes);
  Result (*get_clock)(Device device, int clock, unsigned int* mhz);
  Result (*get_power)(Device device, unsigned int* milliwatts);
  Result (*get_temperature)(Device device, int sensor, unsigned int* celsius);
  Result (*get_clock_event_reasons)(Device device, unsigned long long* reasons);
  Result (*get_fields)(Device device, int count, FieldValue* values);
  Result (*get_ecc_errors)(Device device, int error, int counter, unsigned long long* count);

  Result (*event_set_create)(EventSet* set);
  Result (*event_set_free)(EventSet set);
  Result (*event_set_wait)(EventSet set, EventData* data, unsigned int timeout_ms);
  Result (*register_events)(Device device, unsigned long long types, EventSet set);

  Result (*gpm_query_support)(Device device, GpmSupport* support);
  Result (*gpm_sample_alloc)(GpmSample* sample);
  Result (*gpm_sample_free)(GpmSample sample);
  Result (*gpm_sample_get)(Device device, GpmSample sample);
  Result (*gpm_metrics_get)(GpmMetricsGet* metrics);
};

// Opens `path`, or libnvidia-ml.so.1 if it is empty, and fills `api`. Never unloads it: drivers do not promise to
// survive that. kNotFound: there is no such library; kUnavailable: it cannot be used, with the reason.
Status LoadNvml(const std::string& path, Api* api);

// The result's name: "NO_PERMISSION", or "error 1234".
std::string ResultName(Result result);

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_API_H_
