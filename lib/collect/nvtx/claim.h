// SPDX-License-Identifier: Apache-2.0
//
// Who gets NVTX's events: the tool that a variable of the environment names. Pitot takes that place where it is free.
#ifndef PITOT_LIB_COLLECT_NVTX_CLAIM_H_
#define PITOT_LIB_COLLECT_NVTX_CLAIM_H_

#include <string>
#include <vector>

#include "pitot/status.h"

struct dl_phdr_info;

namespace pitot::nvtx {

enum class Claim {
  kFree,      // nobody's, or inherited from a process that has Pitot where this one has none
  kOurs,      // libraries find this copy of Pitot
  kAnothers,  // a tool's, to be left alone
};

// Whose it is at present. Loads nothing. Errors: std::bad_alloc.
Claim WhoseClaim();
// Makes a free one ours. The error says what is in the way.
Status TakeClaim() noexcept;

// The loaded objects that have called NVTX and did not find Pitot, "libnccl.so.2, libcudnn.so.9": they look for a tool
// once. Reads the writable data of all objects, some ms where large libraries are loaded.
std::string MissedObjects();
// Whether one of them has: what of its file is in its writable segments says so. `chunk` is room to read into.
bool HasMissed(const dl_phdr_info& object, std::vector<unsigned char>* chunk);

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_CLAIM_H_
