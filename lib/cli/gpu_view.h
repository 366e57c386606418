// SPDX-License-Identifier: Apache-2.0
//
// What NVML tells of the GPUs at this moment: whether they work, or wait for a process that hangs.
#ifndef PITOT_LIB_CLI_GPU_VIEW_H_
#define PITOT_LIB_CLI_GPU_VIEW_H_

#include <cstdint>
#include <memory>
#include <string>

#include "pitot/extend/serializer.h"

namespace pitot::cli {

// A text of a line for each GPU, with the memory of process `pid`; "": there is no NVML here. NVML is asked in a child
// of this process, for 2 s: a hanging GPU may keep it. `library`: NVML's file; "": the system's.
std::string GpuView(const std::string& library, int64_t pid);

// A file `gpus.txt` with it.
std::unique_ptr<Serializer> MakeGpusFile(std::string view);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_GPU_VIEW_H_
