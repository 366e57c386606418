// SPDX-License-Identifier: Apache-2.0
//
// The memory of LibTorch's allocators over time, in the black box: the most of each second.
#ifndef PITOT_LIB_COLLECT_TORCH_LAST_MEMORY_H_
#define PITOT_LIB_COLLECT_TORCH_LAST_MEMORY_H_

#include <cstdint>

#include "collect/torch/memory.h"
#include "trace/last_rows.h"

namespace pitot::libtorch {

class LastMemory final : public trace::LastSampler {
 public:
  // Once a second has passed, looks it up in the histories: allocating threads do nothing for it.
  void SampleLast(int64_t now_ns) noexcept override;

 private:
  int64_t begin_ns_ = 0;  // of the present second; 0: there is none yet
  trace::LastCounter allocated_[kMostDevices + 1], reserved_[kMostDevices + 1];  // the CPU's, then the devices'
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_LAST_MEMORY_H_
