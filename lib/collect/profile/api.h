// SPDX-License-Identifier: Apache-2.0
//
// The seams to CUPTI's range profiler and to CUDA's driver: their functions, found at run time. Tests pass their own.
#ifndef PITOT_LIB_COLLECT_PROFILE_API_H_
#define PITOT_LIB_COLLECT_PROFILE_API_H_

#include <string>

#include "collect/counters/host_config.h"
#include "collect/profile/abi.h"
#include "pitot/status.h"

namespace pitot::profile {

struct Api : counters::HostApi {
  Result (*get_availability)(ContextAvailabilityParams*);
  Result (*enable)(RangeEnableParams*);
  Result (*disable)(RangeParams*);
  Result (*get_data_size)(RangeDataSizeParams*);
  Result (*initialize_data)(RangeDataInitializeParams*);
  Result (*set_config)(RangeConfigParams*);
  Result (*start)(RangeParams*);
  Result (*stop)(RangeStopParams*);
  Result (*decode)(RangeDecodeParams*);
  Result (*get_data_info)(RangeDataInfoParams*);
};

// CUDA's driver. Results are CUresult.
struct Driver {
  int (*get_version)(int* version);  // of its CUDA: 12040 for 12.4
  int (*get_device)(int* device, int ordinal);
  int (*device_attribute)(int* value, int attribute, int device);
  int (*primary_state)(int device, unsigned int* flags, int* is_active);
  int (*primary_retain)(void** context, int device);
  int (*primary_release)(int device);
  int (*push)(void* context);
  int (*pop)(void** context);
  int (*get_current)(void** context);
  int (*is_capturing)(void* stream, int* status);
  int (*function_name)(const char** name, void* function);
  int (*function_attribute)(int* value, int attribute, void* function);
  int (*most_blocks)(int* blocks, void* function, int threads, size_t shared_bytes);  // on an SM
  // For a CUkernel. Both may be null.
  int (*kernel_name)(const char** name, void* kernel);
  int (*kernel_function)(void** function, void* kernel);
  // The function of a symbol of CUDA's runtime; `launch` is a function of that runtime. Pitot's own.
  int (*symbol_function)(void* launch, void** function, const void* symbol);
};

// Finds CUPTI as the counter collector does, and fills `api`. Nothing is unloaded again.
Status LoadCupti(const std::string& path, int driver_major, Api* api);
// Fills `driver` if CUDA's driver is loaded. kNotFound: it is not; kUnavailable: it is too old.
Status FindDriver(Driver* driver);

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_API_H_
