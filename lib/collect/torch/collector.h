// SPDX-License-Identifier: Apache-2.0
//
// The collector's questions to LibTorch.
#ifndef PITOT_LIB_COLLECT_TORCH_COLLECTOR_H_
#define PITOT_LIB_COLLECT_TORCH_COLLECTOR_H_

#include <string>

namespace pitot::libtorch {

struct Sources {
  std::string (*configuration)();  // of the LibTorch in the process; names its version
  // Like WatchCpu and WatchCuda (collect/torch/memory.h).
  std::string (*watch_cpu)();
  std::string (*watch_cuda)();
};
Sources GetSources() noexcept;
// For tests, while no collector runs.
void SetSourcesForTesting(const Sources& sources) noexcept;

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_COLLECTOR_H_
