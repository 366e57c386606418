// SPDX-License-Identifier: Apache-2.0
//
// The seam to CUPTI's PM sampling: its functions, found at run time. Tests pass a library of their own.
#ifndef PITOT_LIB_COLLECT_COUNTERS_API_H_
#define PITOT_LIB_COLLECT_COUNTERS_API_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collect/counters/abi.h"
#include "collect/counters/host_config.h"
#include "pitot/status.h"

namespace pitot::counters {

struct Api : HostApi {
  Result (*get_availability)(AvailabilityParams*);
  Result (*enable)(EnableParams*);
  Result (*set_config)(SetConfigParams*);
  Result (*get_data_size)(DataSizeParams*);
  Result (*initialize_data)(DataInitializeParams*);
  Result (*start)(SamplerParams*);
  Result (*stop)(SamplerParams*);
  Result (*disable)(SamplerParams*);
  Result (*decode)(DecodeParams*);
  Result (*get_data_info)(DataInfoParams*);
  Result (*get_sample_info)(SampleInfoParams*);
};

// Finds CUPTI and fills `api`: `path` if it is not empty, otherwise the copy in this process, otherwise the one for its
// CUDA. Nothing is unloaded again. kNotFound: there is none; kUnavailable: it cannot sample, with the reason.
Status LoadCupti(const std::string& path, Api* api);

struct Gpu {
  uint32_t ordinal;  // CUDA's
  std::string name;
  std::string id = {};  // the same in all processes: "GPU-5c0f..."; empty: unknown
};
// The GPUs that this process uses: those with its primary context. The driver is asked only if it is loaded; nothing is
// initialised. Contexts that a host makes itself are not seen. Cost: some us.
std::vector<Gpu> FindGpus();
// Loads the driver and makes the primary context of each GPU, for a process without work of its own. Takes memory of
// each GPU until the process ends.
Status UseAllGpus();

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_API_H_
