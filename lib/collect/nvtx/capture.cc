// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/capture.h"

#include <dlfcn.h>

#include <initializer_list>
#include <iterator>
#include <string_view>

#include "base/memory_order.h"
#include "collect/nvtx/event.h"
#include "collect/nvtx/names.h"
#include "collect/nvtx/started.h"
#include "trace/manual.h"

namespace pitot::nvtx {
namespace {

using abi::Attributes;
using abi::PayloadData;

using base::kAcquire;
using base::kRelaxed;
using base::kRelease;

constinit Counts g_counts;
constinit std::atomic<bool> g_was_begun{false};
// The recorder with captured events; 0: none. A forked child has its parent's number here, and may have a recorder of
// its own without capture.
constinit std::atomic<uint32_t> g_captures_for{0};

uint32_t RecorderNow() noexcept { return trace::RecorderOf(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED)); }

bool IsCapturing() noexcept {
  const uint32_t recorder = RecorderNow();
  return recorder != 0 && recorder == g_captures_for.load(kRelaxed);
}

// ---- The slots.

void Mark(const Event& event) noexcept { trace::RecordEvent(&kSites[kMark][event.says], 0, event.words); }

void Push(const Event& event) noexcept { trace::BeginScopeOf(event.domain, &kSites[kRange][event.says], event.words); }

void Pop(uint8_t domain) noexcept {
  if (!trace::EndScopeOf(domain)) Count(&g_counts.pops_without_push);
}

// The number of a domain if its events are recorded now, otherwise 0.
uint8_t Recorded(const void* handle) noexcept {
  const uint8_t domain = IsCapturing() ? DomainOf(handle) : 0;
  return domain != 0 && !IsPitots(domain) ? domain : 0;
}

void DomainMarkEx(void* handle, const Attributes* attributes) noexcept {
  if (const uint8_t domain = Recorded(handle)) Mark(EventOf(domain, attributes));
}
uint64_t DomainRangeStartEx(void* handle, const Attributes* attributes) noexcept {
  const uint8_t domain = Recorded(handle);
  return domain != 0 ? Start(EventOf(domain, attributes)) : 0;
}
void DomainRangeEnd(void* handle, uint64_t id) noexcept {
  if (Recorded(handle) != 0) End(id);
}
int DomainRangePushEx(void* handle, const Attributes* attributes) noexcept {
  if (const uint8_t domain = Recorded(handle)) Push(EventOf(domain, attributes));
  return abi::kNoTracking;
}
int DomainRangePop(void* handle) noexcept {
  if (const uint8_t domain = Recorded(handle)) Pop(domain);
  return abi::kNoTracking;
}

// The same without a domain.
void MarkEx(const Attributes* attributes) noexcept { DomainMarkEx(nullptr, attributes); }
uint64_t RangeStartEx(const Attributes* attributes) noexcept { return DomainRangeStartEx(nullptr, attributes); }
void RangeEnd(uint64_t id) noexcept { DomainRangeEnd(nullptr, id); }
int RangePushEx(const Attributes* attributes) noexcept { return DomainRangePushEx(nullptr, attributes); }
int RangePop() noexcept { return DomainRangePop(nullptr); }

// The same without a domain, and with a text instead of attributes.
template <class Char> void MarkText(const Char* text) noexcept {
  if (IsCapturing()) Mark(EventOf(kNoDomain, NameOf(text)));
}
template <class Char> uint64_t RangeStartText(const Char* text) noexcept {
  return IsCapturing() ? Start(EventOf(kNoDomain, NameOf(text))) : 0;
}
template <class Char> int RangePushText(const Char* text) noexcept {
  if (IsCapturing()) Push(EventOf(kNoDomain, NameOf(text)));
  return abi::kNoTracking;
}

// Handles last for the life of the process: they are given out even while nothing is recorded.
template <class Char> void* DomainRegisterString(void*, const Char* text) noexcept { return HandleOf(NameOf(text)); }
template <class Char> void* DomainCreate(const Char* name) noexcept { return HandleOf(AddDomain(NameOf(name))); }

// An event with a payload instead of attributes. Its name is only in its schema, and Pitot does not read that.
Event EventOfPayload(uint8_t domain, const PayloadData* data, size_t count) noexcept {
  Attributes attributes = {};
  attributes.size = sizeof attributes;
  attributes.payload_type = abi::kPayloadExtension;
  attributes.payload_count = count != 0 ? 1 : 0;
  attributes.payload = reinterpret_cast<uintptr_t>(data);
  return EventOf(domain, &attributes);
}
void MarkPayload(void* handle, const PayloadData* data, size_t count) noexcept {
  if (const uint8_t domain = Recorded(handle)) Mark(EventOfPayload(domain, data, count));
}
int RangePushPayload(void* handle, const PayloadData* data, size_t count) noexcept {
  if (const uint8_t domain = Recorded(handle)) Push(EventOfPayload(domain, data, count));
  return abi::kNoTracking;
}
int RangePopPayload(void* handle, const PayloadData*, size_t) noexcept { return DomainRangePop(handle); }
uint64_t RangeStartPayload(void* handle, const PayloadData* data, size_t count) noexcept {
  const uint8_t domain = Recorded(handle);
  return domain != 0 ? Start(EventOfPayload(domain, data, count)) : 0;
}
void RangeEndPayload(void* handle, uint64_t id, const PayloadData*, size_t) noexcept { DomainRangeEnd(handle, id); }
uint8_t DomainIsEnabled(void* handle) noexcept { return IsCapturing() && !IsPitots(DomainOf(handle)) ? 1 : 0; }

struct Function {
  uint32_t slot;
  abi::Slot function;
};
template <class F> Function Into(uint32_t slot, F* function) noexcept {
  return {slot, reinterpret_cast<abi::Slot>(function)};
}

// Fills these slots. The others stay null, the cheapest for their callers.
bool Fill(const abi::Callbacks& callbacks, abi::Module module, std::initializer_list<Function> functions) noexcept {
  abi::SlotTable table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Function& function : functions) {
    if (function.slot < size && table[function.slot] != nullptr) *table[function.slot] = function.function;
  }
  return true;
}

// ---- The libraries that found us.

struct Attached {
  std::atomic<bool> is_known{false};
  char name[56] = {};
};
constinit Attached g_attached[64];
constinit std::atomic<uint32_t> g_attachments{0};

void Remember(const void* code) noexcept {
  const uint32_t number = g_attachments.fetch_add(1, kRelaxed);
  if (number >= std::size(g_attached)) return;
  Dl_info object = {};
  std::string_view name = dladdr(code, &object) != 0 && object.dli_fname != nullptr ? object.dli_fname : "(unknown)";
  name.remove_prefix(name.rfind('/') + 1);
  Attached& attached = g_attached[number];
  attached.name[name.copy(attached.name, sizeof attached.name - 1)] = '\0';
  attached.is_known.store(true, kRelease);
}

bool Attach(abi::GetExportTable get) noexcept {
  if (!g_was_begun.load(kAcquire) || get == nullptr) return false;
  const auto* const callbacks = static_cast<const abi::Callbacks*>(get(abi::kCallbacks));
  if (callbacks == nullptr || callbacks->struct_size < sizeof *callbacks || callbacks->get_module_table == nullptr)
    return false;
  using namespace abi;  // NOLINT: the names of slots
  if (!Fill(*callbacks, kCore,
            {Into(abi::kMarkEx, MarkEx), Into(kMarkA, MarkText<char>), Into(kMarkW, MarkText<wchar_t>),
             Into(kRangeStartEx, RangeStartEx), Into(kRangeStartA, RangeStartText<char>),
             Into(kRangeStartW, RangeStartText<wchar_t>), Into(kRangeEnd, RangeEnd), Into(kRangePushEx, RangePushEx),
             Into(kRangePushA, RangePushText<char>), Into(kRangePushW, RangePushText<wchar_t>),
             Into(kRangePop, RangePop)}))
    return false;
  Fill(*callbacks, kCore2,
       {Into(kDomainMarkEx, DomainMarkEx), Into(kDomainRangeStartEx, DomainRangeStartEx),
        Into(kDomainRangeEnd, DomainRangeEnd), Into(kDomainRangePushEx, DomainRangePushEx),
        Into(kDomainRangePop, DomainRangePop), Into(kDomainRegisterStringA, DomainRegisterString<char>),
        Into(kDomainRegisterStringW, DomainRegisterString<wchar_t>), Into(kDomainCreateA, DomainCreate<char>),
        Into(kDomainCreateW, DomainCreate<wchar_t>)});
  Remember(reinterpret_cast<const void*>(get));
  return true;
}

bool AttachPayloads(abi::ExtensionModule* module) noexcept {
  if (!g_was_begun.load(kAcquire) || module == nullptr || module->module != abi::kPayloadModule ||
      module->segment_count == 0 || module->segments == nullptr || module->segments[0].slots == nullptr)
    return false;
  for (const Function& function :
       {Into(abi::kMarkPayload, MarkPayload), Into(abi::kRangePushPayload, RangePushPayload),
        Into(abi::kRangePopPayload, RangePopPayload), Into(abi::kRangeStartPayload, RangeStartPayload),
        Into(abi::kRangeEndPayload, RangeEndPayload), Into(abi::kDomainIsEnabled, DomainIsEnabled)}) {
    if (function.slot < module->segments[0].slot_count)
      module->segments[0].slots[function.slot] = reinterpret_cast<intptr_t>(function.function);
  }
  return true;
}

}  // namespace

void Counts::Clear() noexcept {
  for (auto* count : {&names_folded, &domains_folded, &unknown_handles, &bad_attributes, &payloads_unknown,
                      &pops_without_push, &ends_without_start, &starts_refused})
    count->store(0, kRelaxed);
}

Counts& GetCounts() noexcept { return g_counts; }

void BeginCapture() noexcept {
  NameDomains();
  g_counts.Clear();
  g_captures_for.store(RecorderNow(), kRelaxed);
  g_was_begun.store(true, kRelease);
}

void EndCapture() noexcept { g_captures_for.store(0, kRelaxed); }

bool IsOurSlot(const void* slot) noexcept { return slot == reinterpret_cast<const void*>(&MarkEx); }

std::string AttachedObjects() {
  std::string names;
  for (const Attached& attached : g_attached) {
    if (attached.is_known.load(kAcquire)) names.append(names.empty() ? "" : ", ").append(attached.name);
  }
  const uint32_t all = g_attachments.load(kRelaxed);
  if (all > std::size(g_attached)) names += ", and " + std::to_string(all - std::size(g_attached)) + " more";
  return names;
}

}  // namespace pitot::nvtx

int InitializeInjectionNvtx2(pitot::nvtx::abi::GetExportTable get) { return pitot::nvtx::Attach(get) ? 1 : 0; }

int InitializeInjectionNvtxExtension(pitot::nvtx::abi::ExtensionModule* module) {
  return pitot::nvtx::AttachPayloads(module) ? 1 : 0;
}
