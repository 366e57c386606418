// SPDX-License-Identifier: Apache-2.0
//
// Emits NVTX without NVIDIA's headers: looks for the tool as their code does, at its first call and never again.
#include <dlfcn.h>

#include <cstdlib>

#include "collect/nvtx/emitter.h"

namespace {

namespace abi = pitot::nvtx::abi;

struct Globals {  // begins like the one in NVIDIA's code, with the slot of MarkEx right after the tables
  unsigned state;
  abi::Callbacks callbacks;
  abi::VersionInfo version_info;
  abi::Slot slots[abi::kModules * 16];
  abi::Slot* tables[abi::kModules][17];
};
extern Globals g_globals;

abi::Slot* SlotOf(uint32_t module, uint32_t slot) { return &g_globals.slots[(module - 1) * 16 + slot - 1]; }

int GetModuleTable(uint32_t module, abi::SlotTable* table, unsigned* size) {
  if (module == 0 || module >= abi::kModules) return 0;
  for (unsigned slot = 1; slot < abi::kModuleSizes[module]; ++slot)
    g_globals.tables[module][slot] = SlotOf(module, slot);
  *table = g_globals.tables[module];
  *size = abi::kModuleSizes[module];
  return 1;
}
void SetToolVersion(uint32_t) {}
const void* GetTable(uint32_t id) {
  if (id == abi::kCallbacks) return &g_globals.callbacks;
  return id == abi::kVersionInfo ? &g_globals.version_info : nullptr;
}

Globals g_globals = {
    0, {sizeof(abi::Callbacks), GetModuleTable}, {sizeof(abi::VersionInfo), abi::kVersion, 0, SetToolVersion}, {}, {}};

intptr_t g_payload_slots[63];

void* Find(const char* name) {
  const char* const path = std::getenv(abi::kVariable);
  void* const tool = path != nullptr ? dlopen(path, RTLD_LAZY) : nullptr;
  return tool != nullptr ? dlsym(tool, name) : nullptr;
}

void Initialize() {
  if (g_globals.state != 0) return;
  g_globals.state = 1;
  if (void* const enter = Find(abi::kEntryPoint)) reinterpret_cast<abi::EntryPoint>(enter)(GetTable);
  if (void* const enter = Find("InitializeInjectionNvtxExtension")) {
    abi::Segment segment = {0, 63, g_payload_slots};
    abi::ExtensionModule module = {3, sizeof module, abi::kPayloadModule, 0x104, 1, &segment, nullptr, nullptr};
    reinterpret_cast<int (*)(abi::ExtensionModule*)>(enter)(&module);
  }
  g_globals.state = 2;
}

template <uint32_t kModule, uint32_t kSlot, class Result, class... Args> Result Call(Args... args) {
  Initialize();
  const abi::Slot slot = *SlotOf(kModule, kSlot);
  if (slot == nullptr) return Result();
  return reinterpret_cast<Result (*)(Args...)>(slot)(args...);
}
template <uint32_t kSlot, class Result, class... Args> Result CallPayload(Args... args) {
  Initialize();
  if (g_payload_slots[kSlot] == 0) return Result();
  return reinterpret_cast<Result (*)(Args...)>(g_payload_slots[kSlot])(args...);
}

bool LeavesOthersNull() {
  for (uint32_t module = 1; module < abi::kModules; ++module) {
    for (uint32_t slot = 1; slot < abi::kModuleSizes[module]; ++slot) {
      const bool is_used =
          module == abi::kCore ? slot <= abi::kRangePop
          : module == abi::kCore2
              ? slot <= abi::kDomainRangePop || (slot >= abi::kDomainRegisterStringA && slot <= abi::kDomainCreateW)
              : false;
      if ((*SlotOf(module, slot) != nullptr) != is_used) return false;
    }
  }
  return true;
}

using abi::Attributes;
using abi::kCore;
using abi::kCore2;
using abi::PayloadData;

constexpr Emitter kEmitter = {
    Call<kCore, abi::kMarkA, void, const char*>,
    Call<kCore, abi::kMarkEx, void, const Attributes*>,
    Call<kCore, abi::kRangePushA, int, const char*>,
    Call<kCore, abi::kRangePushW, int, const wchar_t*>,
    Call<kCore, abi::kRangePushEx, int, const Attributes*>,
    Call<kCore, abi::kRangePop, int>,
    Call<kCore, abi::kRangeStartA, uint64_t, const char*>,
    Call<kCore, abi::kRangeEnd, void, uint64_t>,
    Call<kCore2, abi::kDomainCreateA, void*, const char*>,
    Call<kCore2, abi::kDomainRegisterStringA, void*, void*, const char*>,
    Call<kCore2, abi::kDomainMarkEx, void, void*, const Attributes*>,
    Call<kCore2, abi::kDomainRangePushEx, int, void*, const Attributes*>,
    Call<kCore2, abi::kDomainRangePop, int, void*>,
    Call<kCore2, abi::kDomainRangeStartEx, uint64_t, void*, const Attributes*>,
    Call<kCore2, abi::kDomainRangeEnd, void, void*, uint64_t>,
    LeavesOthersNull,
    CallPayload<abi::kRangePushPayload, int, void*, const PayloadData*, size_t>,
    CallPayload<abi::kRangePopPayload, int, void*, const PayloadData*, size_t>,
    CallPayload<abi::kDomainIsEnabled, uint8_t, void*>,
};

}  // namespace

const Emitter* GetEmitter() { return &kEmitter; }
