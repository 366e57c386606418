// SPDX-License-Identifier: Apache-2.0
//
// Names of CUPTI's kinds of memory, and of copies between them.
#ifndef PITOT_LIB_COLLECT_CUPTI_MEMORY_NAMES_H_
#define PITOT_LIB_COLLECT_CUPTI_MEMORY_NAMES_H_

#include <cstdint>
#include <string>

namespace pitot::cupti {

// The name of a CUpti_ActivityMemoryKind.
const char* MemoryName(uint32_t kind);
// "pageable to device" from GpuRecord::detail.
std::string CopyName(uint32_t detail);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_MEMORY_NAMES_H_
