// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's driver says of the process and its devices, if it is loaded. Pitot never loads or initialises it.
#ifndef PITOT_LIB_COLLECT_CUPTI_DRIVER_H_
#define PITOT_LIB_COLLECT_CUPTI_DRIVER_H_

#include <cstdint>
#include <string>

namespace pitot::cupti {

// The process has a context on some device.
bool IsCudaInUse() noexcept;

struct DeviceFacts {
  std::string name;  // "GPU 0" where the driver does not say
  uint32_t multiprocessors = 0, threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0,
           registers_per_multiprocessor = 0, shared_bytes_per_multiprocessor = 0;  // 0: unknown
};
// Cost: some us. Throws bad_alloc.
DeviceFacts DescribeDevice(uint32_t ordinal);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_DRIVER_H_
