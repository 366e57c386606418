// SPDX-License-Identifier: Apache-2.0
//
// Which LibTorch this was built against, and which one is in the process.
#ifndef PITOT_LIB_COLLECT_TORCH_VERSION_H_
#define PITOT_LIB_COLLECT_TORCH_VERSION_H_

#include <string>
#include <string_view>

#include "pitot/status.h"

namespace pitot::libtorch {

// "2.11.0" of what at::show_config returns; "" where it does not say.
std::string VersionIn(std::string_view configuration);

// Ok if both have the same major and minor number: within these LibTorch's classes are laid out alike. Errors:
// kUnavailable, also where the version in the process is not known.
Status CheckVersion(std::string_view built_against, std::string_view in_process);

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_VERSION_H_
