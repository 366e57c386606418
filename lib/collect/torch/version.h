// SPDX-License-Identifier: Apache-2.0
//
// The LibTorch versions at build time and in the process.
#ifndef PITOT_LIB_COLLECT_TORCH_VERSION_H_
#define PITOT_LIB_COLLECT_TORCH_VERSION_H_

#include <string>
#include <string_view>

#include "pitot/status.h"

namespace pitot::libtorch {

// "2.11.0" from the text of at::show_config; "" if it has none.
std::string VersionIn(std::string_view configuration);

// Ok if both have the same major and minor number: LibTorch's classes then have the same layout. Errors: kUnavailable,
// also if the version in the process is unknown.
Status CheckVersion(std::string_view built_against, std::string_view in_process);

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_VERSION_H_
