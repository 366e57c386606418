// SPDX-License-Identifier: Apache-2.0
//
// What a range or a mark is recorded as: a name, a domain, and what its payload says.
#ifndef PITOT_LIB_COLLECT_NVTX_EVENT_H_
#define PITOT_LIB_COLLECT_NVTX_EVENT_H_

#include <cstdint>

#include "collect/nvtx/abi.h"
#include "collect/nvtx/names.h"
#include "pitot/trace.h"
#include "trace/rings.h"

namespace pitot::nvtx {

enum Kind { kRange, kMark, kKinds };
enum Says { kNothing, kSaysUint, kSaysInt, kSaysDouble, kSaysCollective, kAllSay };

// By kind and what is said.
extern const Site kSites[kKinds][kAllSay];

struct Event {
  uint8_t domain = kNoDomain;
  Says says = kNothing;
  uint64_t words[trace::kMaxOpenArgs] = {};  // name, domain, what it says
};

Event EventOf(uint8_t domain, Name name) noexcept;
// What lies beyond the size that the emitter knew is as if it were zero.
Event EventOf(uint8_t domain, const abi::Attributes* given) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_EVENT_H_
