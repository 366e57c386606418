// SPDX-License-Identifier: Apache-2.0
//
// Built if LibTorch has no CUDA, or its allocator does not report its events (before 2.6).
#include <ATen/Context.h>

#include "collect/torch/memory.h"

namespace pitot::libtorch {

std::string WatchCuda() {
  if (!at::hasCUDA()) return "";
  return "pitot::torch was built against a LibTorch without CUDA or older than 2.6; to record this memory: build it "
         "against the process's LibTorch, 2.6 or later";
}

}  // namespace pitot::libtorch
