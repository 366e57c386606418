// SPDX-License-Identifier: Apache-2.0
//
// NVTX out: the tool that the environment names is told of scopes, as if Pitot were a library that emits.
#ifndef PITOT_LIB_COLLECT_NVTX_MIRROR_H_
#define PITOT_LIB_COLLECT_NVTX_MIRROR_H_

#include "pitot/status.h"

namespace pitot::nvtx {

// Loads the tool in the file at `path`, once: another path later is refused. It stays loaded. Mirrors scopes to it from
// then on.
Status BeginMirror(const char* path) noexcept;
void EndMirror() noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_MIRROR_H_
