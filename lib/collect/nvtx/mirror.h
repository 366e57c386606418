// SPDX-License-Identifier: Apache-2.0
//
// NVTX out: tells the tool named in the environment about scopes, as if Pitot were an emitting library.
#ifndef PITOT_LIB_COLLECT_NVTX_MIRROR_H_
#define PITOT_LIB_COLLECT_NVTX_MIRROR_H_

#include "pitot/status.h"

namespace pitot::nvtx {

// Loads the tool in the file at `path`, once, and mirrors scopes to it from then on. The tool stays loaded; a later
// call with another path is refused.
Status BeginMirror(const char* path) noexcept;
void EndMirror() noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_MIRROR_H_
