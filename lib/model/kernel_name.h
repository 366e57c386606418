// SPDX-License-Identifier: Apache-2.0
//
// Readable names of kernels and other GPU activities.
#ifndef PITOT_LIB_SERIALIZE_KERNEL_NAME_H_
#define PITOT_LIB_SERIALIZE_KERNEL_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

struct KernelName {
  std::string full;   // "void at::native::reduce_kernel<512, 1, float>(float*)"; as compiled if that is not a C++ name
  std::string brief;  // "at::native::reduce_kernel": without return type, template arguments and parameters
};
KernelName ReadKernelName(std::string_view compiled);

// The name of a copy, a set or a whole graph: "memcpy HtoD, pageable to device", "graph 5".
std::string ActivityName(const model::Trace& trace, uint32_t gpu_row);

// The brief name of a kernel from its full C++ name.
std::string BriefName(std::string_view full);

// Cuts a brief name to `most` columns for a line of text. Cuts in the middle, because instantiations begin alike and
// versions end alike; Python's "<built-in method linear of type object>" at its end. All output uses it, so that a
// search finds a name in the output of each command.
inline constexpr size_t kShortName = 36;
std::string ShortName(std::string_view brief, size_t most = kShortName);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_KERNEL_NAME_H_
