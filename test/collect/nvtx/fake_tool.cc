// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/fake_tool.h"

#include <deque>
#include <mutex>
#include <utility>

#include "collect/nvtx/abi.h"

namespace {

namespace abi = pitot::nvtx::abi;

struct Tool final : FakeTool {
  std::vector<std::string> TakeLog() override {
    const std::lock_guard lock(mutex);
    return std::exchange(log, {});
  }
  void Say(std::string line) {
    const std::lock_guard lock(mutex);
    if (log.size() < 1000) log.push_back(std::move(line));
  }
  std::string* Keep(std::string text) {
    const std::lock_guard lock(mutex);
    return &kept.emplace_back(std::move(text));
  }
  std::mutex mutex;
  std::vector<std::string> log;
  std::deque<std::string> kept;
};
Tool g_tool;

const std::string& TextOf(const void* handle) { return *static_cast<const std::string*>(handle); }

int PushA(const char* text) { return g_tool.Say(std::string("push ") + text), 0; }
int Pop() { return g_tool.Say("pop"), 0; }
void* CreateDomain(const char* name) { return g_tool.Keep(name); }
void* Register(void* domain, const char* text) {
  if (g_tool.on_register != nullptr) g_tool.on_register();
  g_tool.Say("register " + TextOf(domain) + "/" + text);
  return g_tool.has_handles ? g_tool.Keep(text) : nullptr;
}
int DomainPush(void* domain, const abi::Attributes* attributes) {
  const bool is_right = attributes->version == 3 && attributes->size == 48;
  std::string text = "of no known type";
  if (is_right && attributes->message_type == abi::kRegistered) text = TextOf(attributes->message);
  if (is_right && attributes->message_type == abi::kAscii)
    text = static_cast<const char*>(attributes->message) + std::string(", plain");
  g_tool.Say("push " + TextOf(domain) + "/" + text);
  return 0;
}
int DomainPop(void* domain) { return g_tool.Say("pop " + TextOf(domain)), 0; }

template <class F> void Fill(abi::SlotTable table, uint32_t slot, F* function) {
  *table[slot] = reinterpret_cast<abi::Slot>(function);
}

}  // namespace

FakeTool* GetFakeTool() { return &g_tool; }

int InitializeInjectionNvtx2(abi::GetExportTable get) {
  const auto* callbacks = static_cast<const abi::Callbacks*>(get(abi::kCallbacks));
  static_cast<const abi::VersionInfo*>(get(abi::kVersionInfo))->set_tool_version(3);
  abi::SlotTable table = nullptr;
  unsigned size = 0;
  for (uint32_t module = 1; module < abi::kModules; ++module) {
    if (callbacks->get_module_table(module, &table, &size) == 0 || size != abi::kModuleSizes[module]) return 0;
  }
  callbacks->get_module_table(abi::kCore, &table, &size);
  Fill(table, abi::kRangePushA, PushA);
  Fill(table, abi::kRangePop, Pop);
  callbacks->get_module_table(abi::kCore2, &table, &size);
  Fill(table, abi::kDomainCreateA, CreateDomain);
#ifndef FAKE_TOOL_HAS_NO_STRINGS
  Fill(table, abi::kDomainRegisterStringA, Register);
#else
  (void)Register;
#endif
  Fill(table, abi::kDomainRangePushEx, DomainPush);
  Fill(table, abi::kDomainRangePop, DomainPop);
#ifdef FAKE_TOOL_REFUSES
  return 0;
#else
  return 1;
#endif
}
