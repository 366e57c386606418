// SPDX-License-Identifier: Apache-2.0
//
// The name of an overhead that both collectors and readers of traces know.
#ifndef PITOT_LIB_BASE_OVERHEAD_NAME_H_
#define PITOT_LIB_BASE_OVERHEAD_NAME_H_

namespace pitot::base {

// A run of pitot::ProfileKernels. Launches take longer meanwhile.
inline constexpr char kProfilingKernels[] = "profiling kernels";

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_OVERHEAD_NAME_H_
