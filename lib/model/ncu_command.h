// SPDX-License-Identifier: Apache-2.0
//
// The command line of Nsight Compute that measures a kernel of a trace.
#ifndef PITOT_LIB_MODEL_NCU_COMMAND_H_
#define PITOT_LIB_MODEL_NCU_COMMAND_H_

#include <string>

#include "pitot/model/trace.h"

namespace pitot::model {

// The kernel with the most GPU time, as compiled; 0: there are no kernels.
StringId LongestKernel(const Trace& trace);

// Measures the roofline and the occupancy of a kernel by its name as compiled, or as PyTorch's profiler writes it. It
// skips ten batches' launches of the kernel (half of those in the trace, if they are fewer), and measures those of one
// batch, ten at most. Clocks and caches stay as they are in service. The name is quoted for a shell.
std::string NcuCommand(const Trace& trace, StringId kernel);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_NCU_COMMAND_H_
