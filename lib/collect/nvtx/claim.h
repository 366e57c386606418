// SPDX-License-Identifier: Apache-2.0
//
// The owner of NVTX's events: the tool named by a variable of the environment. Pitot takes this place if it is free.
#ifndef PITOT_LIB_COLLECT_NVTX_CLAIM_H_
#define PITOT_LIB_COLLECT_NVTX_CLAIM_H_

#include <string>
#include <vector>

#include "pitot/status.h"

struct dl_phdr_info;

namespace pitot::nvtx {

enum class Claim {
  kFree,      // nobody's, or inherited from a process with Pitot where this one has none
  kOurs,      // libraries find this copy of Pitot
  kAnothers,  // another tool's, to be left alone
};

// The present owner. Loads nothing. Errors: std::bad_alloc.
Claim WhoseClaim();
// Takes a free claim. The error names the obstacle.
Status TakeClaim() noexcept;

// The loaded objects that called NVTX and did not find Pitot, "libnccl.so.2, libcudnn.so.9": they look for a tool only
// once. Reads the writable data of all objects: some ms with large libraries.
std::string MissedObjects();
// Whether this object did, according to the part of its writable segments that is in its file. `chunk` is room to read
// into.
bool HasMissed(const dl_phdr_info& object, std::vector<unsigned char>* chunk);

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_CLAIM_H_
