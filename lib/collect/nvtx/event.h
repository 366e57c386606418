// SPDX-License-Identifier: Apache-2.0
//
// The record of a range or a mark: a name, a domain, and the value of its payload.
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

// By kind and payload.
extern const Site kSites[kKinds][kAllSay];

struct Event {
  uint8_t domain = kNoDomain;
  Says says = kNothing;
  uint64_t words[trace::kMaxOpenArgs] = {};  // name, domain, payload
};

Event EventOf(uint8_t domain, Name name) noexcept;
// Fields beyond the emitter's size count as zero.
Event EventOf(uint8_t domain, const abi::Attributes* given) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_EVENT_H_
