// SPDX-License-Identifier: Apache-2.0
//
// Functions of CUDA looked up by name: with dlsym, and from there with cuGetProcAddress. So do libraries with CUDA's
// runtime inside, and callers of the driver alone. They get our wrappers.
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_LOOK_UPS_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_LOOK_UPS_H_

#include <cstdint>
#include <string_view>

#include "collect/cuda_calls/function.h"

namespace pitot::cuda_calls {

inline constexpr std::string_view kDlsym = "dlsym";

// dlsym and its wrappers. They never change an answer for RTLD_NEXT: it depends on the caller. Where this is not x86-64
// there are none.
Function DlsymFunction();

// The wrapper of a function that is an original; otherwise the function itself. Threads: any.
void* WrapperOf(void* function) noexcept;

// How many answers led to wrappers.
uint64_t LookUps() noexcept;

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_LOOK_UPS_H_
