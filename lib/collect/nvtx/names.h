// SPDX-License-Identifier: Apache-2.0
//
// Others' names: texts, registered strings and domains. Texts may be freed or overwritten after the call, so they are
// known by their contents, in the process's table of names.
#ifndef PITOT_LIB_COLLECT_NVTX_NAMES_H_
#define PITOT_LIB_COLLECT_NVTX_NAMES_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "collect/nvtx/capture.h"
#include "pitot/trace.h"

namespace pitot::nvtx {

inline void Count(std::atomic<uint64_t>* count) noexcept { count->fetch_add(1, std::memory_order_relaxed); }

// The name of a text, without the numbers appended by PyTorch's emit_nvtx. No text is "(unnamed)"; wide text becomes
// UTF-8.
Name NameOf(std::string_view text) noexcept;
Name NameOf(const char* text) noexcept;
Name NameOf(const wchar_t* text) noexcept;

// A registered string's handle is the number of a name, with a mark where no address has one.
void* HandleOf(Name name) noexcept;
Name NameOfHandle(const void* handle) noexcept;

// A domain's number is also the owner of its ranges: they are a stack of their own on each thread.
enum DomainNumber : uint8_t { kNoDomain = 1, kOtherDomain = 2, kFirstDomain = 3 };
// Names the domains for none and for those beyond, and finds the names of the two treated apart.
void NameDomains() noexcept;
uint8_t AddDomain(Name name) noexcept;
void* HandleOf(uint8_t domain) noexcept;
uint8_t DomainOf(const void* handle) noexcept;
Name NameOfDomain(uint8_t domain) noexcept;
bool IsPitots(uint8_t domain) noexcept;
bool IsNccls(uint8_t domain) noexcept;

}  // namespace pitot::nvtx

#endif  // PITOT_LIB_COLLECT_NVTX_NAMES_H_
