// SPDX-License-Identifier: Apache-2.0
//
// Built where LibTorch has no CUDA, or its allocator does not tell what it does (before 2.6).
#include <ATen/Context.h>

#include "collect/torch/memory.h"

namespace pitot::libtorch {

std::string WatchCuda() { return at::hasCUDA() ? "pitot::torch was built without CUDA" : ""; }

}  // namespace pitot::libtorch
