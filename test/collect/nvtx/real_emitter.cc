// SPDX-License-Identifier: Apache-2.0
//
// Emits NVTX with NVIDIA's headers, as other libraries do.
#include <nvtx3/nvToolsExt.h>

#include "collect/nvtx/emitter.h"
#if __has_include(<nvtx3/nvToolsExtPayload.h>)
#include <nvtx3/nvToolsExtPayload.h>
#endif

namespace {

using pitot::nvtx::abi::Attributes;
using pitot::nvtx::abi::PayloadData;

const nvtxEventAttributes_t* Real(const Attributes* attributes) {
  return reinterpret_cast<const nvtxEventAttributes_t*>(attributes);
}
nvtxDomainHandle_t Real(void* domain) { return static_cast<nvtxDomainHandle_t>(domain); }

const Emitter kEmitter = {
    nvtxMarkA,
    [](const Attributes* attributes) { nvtxMarkEx(Real(attributes)); },
    nvtxRangePushA,
    nvtxRangePushW,
    [](const Attributes* attributes) { return nvtxRangePushEx(Real(attributes)); },
    nvtxRangePop,
    nvtxRangeStartA,
    nvtxRangeEnd,
    [](const char* name) -> void* { return nvtxDomainCreateA(name); },
    [](void* domain, const char* text) -> void* { return nvtxDomainRegisterStringA(Real(domain), text); },
    [](void* domain, const Attributes* attributes) { nvtxDomainMarkEx(Real(domain), Real(attributes)); },
    [](void* domain, const Attributes* attributes) { return nvtxDomainRangePushEx(Real(domain), Real(attributes)); },
    [](void* domain) { return nvtxDomainRangePop(Real(domain)); },
    [](void* domain, const Attributes* attributes) -> uint64_t {
      return nvtxDomainRangeStartEx(Real(domain), Real(attributes));
    },
    [](void* domain, uint64_t id) { nvtxDomainRangeEnd(Real(domain), id); },
    [] { return true; },
#if defined(NVTX3EXT_CBID_nvtxDomainIsEnabled)
    [](void* domain, const PayloadData* data, size_t count) {
      return nvtxRangePushPayload(Real(domain), reinterpret_cast<const nvtxPayloadData_t*>(data), count);
    },
    [](void* domain, const PayloadData* data, size_t count) {
      return nvtxRangePopPayload(Real(domain), reinterpret_cast<const nvtxPayloadData_t*>(data), count);
    },
    [](void* domain) { return nvtxDomainIsEnabled(Real(domain)); },
#endif
};

}  // namespace

const Emitter* GetEmitter() { return &kEmitter; }
