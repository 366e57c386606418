// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/names.h"

#include <cstring>

#include "base/memory_order.h"
#include "trace/names.h"

namespace pitot::nvtx {
namespace {

using trace::kMaxNameBytes;

using base::kAcquire;
using base::kRelaxed;

constinit trace::NameQuota g_quota;

// In the upper half of a handle, where no address has it.
constexpr uint64_t kStringMark = 0x4e56545800000000;

constexpr uint32_t kNever = UINT32_MAX;  // no name's number

struct Domain {
  std::atomic<uint32_t> name{0};  // 0: free; they fill in order
};
constinit Domain g_domains[kMaxDomains];
constinit std::atomic<uint32_t> g_pitot_name{kNever}, g_nccl_name{kNever};

// The name in "aten::mm, seq = 7, op_id = 9, sizes = [[2, 3], [3, 4]]". PyTorch's emit_nvtx pushes such texts
// (getNvtxStr in torch/csrc/profiler/util.cpp, of 1.13 and 2.11). With its numbers each would be a name of its own.
std::string_view WithoutNumbers(std::string_view text) noexcept {
  for (size_t at = text.find(", "); at != text.npos; at = text.find(", ", at + 2)) {
    const std::string_view rest = text.substr(at + 2);
    for (const std::string_view key : {"seq = ", "op_id = ", "sizes = ", "input_op_ids = "}) {
      const char next = rest.size() > key.size() && rest.substr(0, key.size()) == key ? rest[key.size()] : '\0';
      if (next == '[' || (next >= '0' && next <= '9')) return text.substr(0, at);
    }
  }
  return text;
}

}  // namespace

Name NameOf(std::string_view text) noexcept {
  const Name name = g_quota.Intern(WithoutNumbers(text.substr(0, kMaxNameBytes)), kMaxNames);
  if (name.index == 0) Count(&GetCounts().names_folded);
  return name;
}

Name NameOf(const char* text) noexcept {
  return text != nullptr ? NameOf(std::string_view(text, strnlen(text, kMaxNameBytes))) : NameOf("(unnamed)");
}

Name NameOf(const wchar_t* text) noexcept {
  if (text == nullptr) return NameOf("(unnamed)");
  char utf8[kMaxNameBytes];
  size_t size = 0;
  for (; *text != 0; ++text) {
    uint32_t code;
    static_assert(sizeof code == sizeof *text);
    std::memcpy(&code, text, sizeof code);
    if (code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) code = 0xfffd;
    const size_t bytes = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    if (size + bytes > sizeof utf8) break;
    constexpr uint32_t kFirst[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = bytes; i > 1; --i, code >>= 6) utf8[size + i - 1] = static_cast<char>(0x80 | (code & 0x3f));
    utf8[size] = static_cast<char>(kFirst[bytes] | code);
    size += bytes;
  }
  return NameOf(std::string_view(utf8, size));
}

void* HandleOf(Name name) noexcept { return reinterpret_cast<void*>(kStringMark | name.index); }

Name NameOfHandle(const void* handle) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if ((value & ~uint64_t{0xffffffff}) == kStringMark) return Name{static_cast<uint32_t>(value)};
  Count(&GetCounts().unknown_handles);
  return NameOf("(unknown)");
}

uint8_t AddDomain(Name name) noexcept {
  for (uint32_t i = kFirstDomain; name.index != 0 && i < kMaxDomains; ++i) {
    uint32_t there = g_domains[i].name.load(kAcquire);
    if (there == 0 && g_domains[i].name.compare_exchange_strong(there, name.index, std::memory_order_acq_rel))
      there = name.index;
    if (there == name.index) return static_cast<uint8_t>(i);
  }
  Count(&GetCounts().domains_folded);
  return kOtherDomain;
}

void* HandleOf(uint8_t domain) noexcept { return &g_domains[domain]; }

uint8_t DomainOf(const void* handle) noexcept {
  if (handle == nullptr) return kNoDomain;
  const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_domains);
  if (offset % sizeof(Domain) == 0 && offset < sizeof g_domains &&
      g_domains[offset / sizeof(Domain)].name.load(kRelaxed))
    return static_cast<uint8_t>(offset / sizeof(Domain));
  Count(&GetCounts().unknown_handles);
  return kOtherDomain;
}

Name NameOfDomain(uint8_t domain) noexcept { return Name{g_domains[domain].name.load(kRelaxed)}; }

bool IsPitots(uint8_t domain) noexcept { return NameOfDomain(domain).index == g_pitot_name.load(kRelaxed); }
bool IsNccls(uint8_t domain) noexcept { return NameOfDomain(domain).index == g_nccl_name.load(kRelaxed); }

void NameDomains() noexcept {
  g_domains[kNoDomain].name.store(trace::InternText("(none)").index, kRelaxed);
  g_domains[kOtherDomain].name.store(trace::InternText("(other)").index, kRelaxed);
  // If the table of names is full, these two have no number.
  const auto store = [](std::atomic<uint32_t>* to, const char* text) {
    const uint32_t index = trace::InternText(text).index;
    to->store(index != 0 ? index : kNever, kRelaxed);
  };
  store(&g_pitot_name, "pitot");
  store(&g_nccl_name, "NCCL");
}

}  // namespace pitot::nvtx
