// SPDX-License-Identifier: Apache-2.0
//
// Names of kernels for people.
#ifndef PITOT_LIB_MODEL_KERNEL_NAME_H_
#define PITOT_LIB_MODEL_KERNEL_NAME_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::model {

struct KernelName {
  std::string full;   // "void at::native::reduce_kernel<512, 1, float>(float*)"; as compiled if that is no C++ name
  std::string brief;  // "at::native::reduce_kernel": without return type, template arguments and parameters
};
KernelName ReadKernelName(std::string_view compiled);

// What a copy, a set or a whole graph is called: "memcpy HtoD, pageable to device", "graph 5".
std::string ActivityName(const Trace& trace, uint32_t gpu_row);

// The brief name of one in C++'s notation.
std::string BriefName(std::string_view full);

// How a kernel, or what else has a name of hundreds of letters, is called in a line of text, by whatever prints it: its
// brief name, and of that what fits in `most` columns, cut in the middle, because instantiations begin alike and
// versions end alike. The same name is cut the same everywhere, so that a search finds it in each command's output.
inline constexpr size_t kShortName = 36;
std::string ShortName(std::string_view brief, size_t most = kShortName);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_KERNEL_NAME_H_
