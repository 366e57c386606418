// SPDX-License-Identifier: Apache-2.0
//
// The command line of Nsight Compute that measures a kernel of a trace.
#ifndef PITOT_LIB_MODEL_NCU_COMMAND_H_
#define PITOT_LIB_MODEL_NCU_COMMAND_H_

#include <string>

#include "pitot/model/trace.h"

namespace pitot::model {

// The kernel with the most time on NVIDIA's GPUs, as compiled; 0: there is none.
StringId LongestKernel(const Trace& trace);
// Whether a row of `gpu` is a kernel that Nsight Compute can measure: not one of AMD's GPUs.
bool CanNcuMeasure(const Trace& trace, uint32_t gpu_row);

// Releases the hardware counters that Pitot samples, and measures the roofline and the occupancy of a kernel by its
// name as compiled, or as PyTorch's profiler writes it. A long C++ name stands for all of its instantiations. It skips
// ten batches' launches of the kernel (half of those in the trace, if they are fewer), and measures those of one batch,
// ten at most. Clocks and caches stay as they are in service. The name is quoted for a shell; PROGRAM is to be
// replaced.
std::string NcuCommand(const Trace& trace, StringId kernel);

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_NCU_COMMAND_H_
