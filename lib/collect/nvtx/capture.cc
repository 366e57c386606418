// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/capture.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <string_view>

#include "trace/manual.h"
#include "trace/names.h"
#include "trace/rings.h"

namespace pitot::nvtx {
namespace {

using abi::Attributes;
using abi::PayloadData;
using trace::kMaxNameBytes;

constexpr auto kRelaxed = std::memory_order_relaxed, kAcquire = std::memory_order_acquire,
               kRelease = std::memory_order_release;

constinit Counts g_counts;
constinit std::atomic<bool> g_was_begun{false};
constinit std::atomic<bool> g_is_capturing{false};

void Count(std::atomic<uint64_t>* count) noexcept { count->fetch_add(1, kRelaxed); }

bool IsCapturing() noexcept {
  return g_is_capturing.load(kRelaxed) && __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) != 0;
}

// ---- Names. Texts may be freed, or written anew, after the call: they are known by what they say.

constinit std::atomic<uint32_t> g_names{0};

Name NameOf(std::string_view text) noexcept {
  text = text.substr(0, kMaxNameBytes);
  if (const Name known = trace::FindName(text); known.index != 0) return known;
  // Two threads with the same new text count it twice: there is room for a few less.
  if (g_names.load(kRelaxed) < kMaxNames) {
    g_names.fetch_add(1, kRelaxed);
    return trace::InternText(text);
  }
  Count(&g_counts.names_folded);
  return Name{0};
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

// A registered string is the number of a name, with a mark where no address has one.
constexpr uint64_t kStringMark = 0x4e56545800000000;

void* HandleOf(Name name) noexcept { return reinterpret_cast<void*>(kStringMark | name.index); }

Name NameOfHandle(const void* handle) noexcept {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if ((value & ~uint64_t{0xffffffff}) == kStringMark) return Name{static_cast<uint32_t>(value)};
  Count(&g_counts.unknown_handles);
  return NameOf("(unknown)");
}

// ---- Domains. A domain's number is also the owner of its ranges: they are a stack of their own on each thread.

enum DomainNumber : uint8_t { kNoDomain = 1, kOtherDomain = 2, kFirstDomain = 3 };

constexpr uint32_t kNever = UINT32_MAX;  // no name's number

struct Domain {
  std::atomic<uint32_t> name{0};  // 0: free. They fill in order
};
constinit Domain g_domains[kMaxDomains];
constinit std::atomic<uint32_t> g_pitot_name{kNever}, g_nccl_name{kNever};

uint8_t AddDomain(Name name) noexcept {
  for (uint32_t i = kFirstDomain; name.index != 0 && i < kMaxDomains; ++i) {
    uint32_t there = g_domains[i].name.load(kAcquire);
    if (there == 0 && g_domains[i].name.compare_exchange_strong(there, name.index, std::memory_order_acq_rel))
      there = name.index;
    if (there == name.index) return static_cast<uint8_t>(i);
  }
  Count(&g_counts.domains_folded);
  return kOtherDomain;
}

uint8_t DomainOf(const void* handle) noexcept {
  if (handle == nullptr) return kNoDomain;
  const auto offset = reinterpret_cast<uintptr_t>(handle) - reinterpret_cast<uintptr_t>(g_domains);
  if (offset % sizeof(Domain) == 0 && offset < sizeof g_domains &&
      g_domains[offset / sizeof(Domain)].name.load(kRelaxed))
    return static_cast<uint8_t>(offset / sizeof(Domain));
  Count(&g_counts.unknown_handles);
  return kOtherDomain;
}

Name NameOfDomain(uint8_t domain) noexcept { return Name{g_domains[domain].name.load(kRelaxed)}; }

bool IsPitots(uint8_t domain) noexcept { return NameOfDomain(domain).index == g_pitot_name.load(kRelaxed); }

void NameDomains() noexcept {
  g_domains[kNoDomain].name.store(trace::InternText("(none)").index, kRelaxed);
  g_domains[kOtherDomain].name.store(trace::InternText("(other)").index, kRelaxed);
  // Where the table of names is full they have none.
  const auto store = [](std::atomic<uint32_t>* to, const char* text) {
    const uint32_t index = trace::InternText(text).index;
    to->store(index != 0 ? index : kNever, kRelaxed);
  };
  store(&g_pitot_name, "pitot");
  store(&g_nccl_name, "NCCL");
}

// ---- Events: what a range or mark is recorded as.

enum Kind { kRange, kMark, kKinds };
enum Says { kNothing, kSaysUint, kSaysInt, kSaysDouble, kSaysCollective, kAllSay };

template <class... Args> constexpr Site MakeSite(SiteKind kind, const char* text) {
  using List = detail::ArgList<Name, Name, Args...>;
  return {kSiteMagic, kind, List::kCount, kNameIsFirstArg, 0, List::Types(), "", "NVTX", "", text};
}
constexpr Site kSites[kKinds][kAllSay] = {
    {MakeSite<>(SiteKind::kScope, "\"\", name, domain"),
     MakeSite<uint64_t>(SiteKind::kScope, "\"\", name, domain, payload"),
     MakeSite<int64_t>(SiteKind::kScope, "\"\", name, domain, payload"),
     MakeSite<double>(SiteKind::kScope, "\"\", name, domain, payload"),
     MakeSite<detail::Literal, uint64_t>(SiteKind::kScope, "\"\", name, domain, collective, bytes")},
    {MakeSite<>(SiteKind::kInstant, "\"\", name, domain"),
     MakeSite<uint64_t>(SiteKind::kInstant, "\"\", name, domain, payload"),
     MakeSite<int64_t>(SiteKind::kInstant, "\"\", name, domain, payload"),
     MakeSite<double>(SiteKind::kInstant, "\"\", name, domain, payload"),
     MakeSite<detail::Literal, uint64_t>(SiteKind::kInstant, "\"\", name, domain, collective, bytes")}};
constexpr Site kEndedElsewhere =
    MakeSite<uint64_t, uint64_t>(SiteKind::kInstant, "\"\", name, domain, lasted_ns, begin_thread");

struct Event {
  uint8_t domain = kNoDomain;
  Says says = kNothing;
  uint64_t words[trace::kMaxOpenArgs] = {};  // name, domain, what it says
};

Event EventOf(uint8_t domain, Name name) noexcept {
  Event event;
  event.domain = domain;
  event.words[0] = name.index;
  event.words[1] = NameOfDomain(domain).index;
  return event;
}

// NCCL's payloads begin with the communicator and the bytes; before 2.26 with the bytes. What follows (an operation, a
// rank) fills 8 bytes, so the size tells them apart.
struct Collective {
  const char* name;
  bool has_more;
};
Collective CollectiveOf(uint64_t schema) noexcept {
  switch (schema - abi::kFirstStaticSchema) {
    case 4:
      return {"AllGather", false};
    case 5:
      return {"AllReduce", true};
    case 6:
      return {"Broadcast", true};
    case 7:
      return {"ReduceScatter", true};
    case 8:
      return {"Reduce", true};
    case 9:
      return {"Send", true};
    case 10:
      return {"Recv", true};
    case 16:
      return {"AlltoAll", false};
    case 17:
      return {"Gather", true};
    case 18:
      return {"Scatter", true};
    default:
      return {nullptr, false};
  }
}

void AddCollective(const PayloadData* data, Event* event) noexcept {
  const bool is_nccls = event->words[1] == g_nccl_name.load(kRelaxed);
  const Collective of = is_nccls && data != nullptr ? CollectiveOf(data->schema) : Collective{};
  const size_t whole = of.has_more ? 24 : 16;
  if (of.name == nullptr || data->data == nullptr || (data->size != whole && data->size != whole - 8))
    return Count(&g_counts.payloads_unknown);
  event->says = kSaysCollective;
  event->words[2] = reinterpret_cast<uintptr_t>(of.name);
  std::memcpy(&event->words[3], static_cast<const char*>(data->data) + (data->size == whole ? 8 : 0), 8);
}

void AddPayload(const Attributes& attributes, Event* event) noexcept {
  const auto say = [&](Says says, auto value) {
    std::memcpy(&value, &attributes.payload, sizeof value);
    detail::Store(&event->words[2], value);
    event->says = says;
  };
  switch (attributes.payload_type) {
    case abi::kNoPayload:
      return;
    case abi::kUint64:
      return say(kSaysUint, uint64_t{});
    case abi::kInt64:
      return say(kSaysInt, int64_t{});
    case abi::kDouble:
      return say(kSaysDouble, double{});
    case abi::kUint32:
      return say(kSaysUint, uint32_t{});
    case abi::kInt32:
      return say(kSaysInt, int32_t{});
    case abi::kFloat:
      return say(kSaysDouble, float{});
    case abi::kPayloadExtension:
      return AddCollective(
          attributes.payload_count > 0 ? reinterpret_cast<const PayloadData*>(attributes.payload) : nullptr, event);
    default:
      Count(&g_counts.payloads_unknown);
  }
}

// What lies beyond the size that the emitter knew is as if it were zero.
Event EventOf(uint8_t domain, const Attributes* given) noexcept {
  Attributes attributes = {};
  const size_t known = given != nullptr ? std::min<size_t>(given->size, sizeof attributes) : 0;
  constexpr size_t kUpToPayload = offsetof(Attributes, message_type);
  if (known < kUpToPayload) {
    Count(&g_counts.bad_attributes);
    return EventOf(domain, NameOf("(unnamed)"));
  }
  std::memcpy(&attributes, given, known == sizeof attributes ? known : kUpToPayload);
  Name name{0};
  switch (attributes.message_type) {
    case abi::kAscii:
      name = NameOf(static_cast<const char*>(attributes.message));
      break;
    case abi::kWide:
      name = NameOf(static_cast<const wchar_t*>(attributes.message));
      break;
    case abi::kRegistered:
      name = NameOfHandle(attributes.message);
      break;
    default:
      name = NameOf("(unnamed)");
  }
  Event event = EventOf(domain, name);
  AddPayload(attributes, &event);
  return event;
}

void Mark(const Event& event) noexcept { trace::RecordEvent(&kSites[kMark][event.says], 0, event.words); }

void Push(const Event& event) noexcept { trace::BeginScopeOf(event.domain, &kSites[kRange][event.says], event.words); }

void Pop(uint8_t domain) noexcept {
  if (!trace::EndScopeOf(domain)) Count(&g_counts.pops_without_push);
}

// ---- Ranges that any thread may end.

struct Started {
  std::atomic<uint64_t> id{0};  // 0: free; kBusy: being written or read
  // Whoever reads them without taking the place looks at the id again afterwards: a release each, and an acquire.
  std::atomic<uint64_t> begin_ticks{0}, words[trace::kMaxOpenArgs] = {};
  std::atomic<int64_t> tid{0};
  std::atomic<uint32_t> gate{0}, says{0};
};
constexpr uint64_t kBusy = 1;
constexpr uint32_t kPlaces = kMaxRangesUnderWay;
constexpr uint32_t kLooks = 16;  // for a free place
constinit Started g_started[kPlaces];
constinit std::atomic<uint64_t> g_next_start{1};

// Recorders have gates of their own; a mirror's bit makes none another.
uint32_t RecorderOf(const detail::Ring& ring) noexcept { return ring.gate >> 1; }

uint64_t Start(const Event& event) noexcept {
  const trace::ThreadRing* const ring = trace::EnterThread();
  if (ring == nullptr) return 0;
  const uint64_t number = g_next_start.fetch_add(1, kRelaxed);
  for (uint64_t look = 0; look < kLooks; ++look) {
    const uint64_t place = (number + look) % kPlaces;
    Started& started = g_started[place];
    uint64_t free = started.id.load(kRelaxed);
    // What a former recorder's host never ended.
    const bool is_stale = free > kBusy && started.gate.load(kRelaxed) != RecorderOf(*ring);
    if ((free != 0 && !is_stale) || !started.id.compare_exchange_strong(free, kBusy, std::memory_order_acq_rel))
      continue;
    for (uint32_t i = 0; i < trace::kMaxOpenArgs; ++i) started.words[i].store(event.words[i], kRelease);
    started.tid.store(ring->tid, kRelease);
    started.gate.store(RecorderOf(*ring), kRelease);
    started.says.store(event.says, kRelease);
    started.begin_ticks.store(detail::Clock(ring->gate), kRelease);
    const uint64_t id = number * kPlaces + place;
    started.id.store(id, kRelease);
    return id;
  }
  Count(&g_counts.starts_refused);
  return 0;
}

// On the thread where it began it is an event that lasted; on another, a moment: that thread did not work so long.
void End(uint64_t id) noexcept {
  const trace::ThreadRing* const ring = trace::EnterThread();
  if (ring == nullptr) return;
  Started& started = g_started[id % kPlaces];
  if (id <= kBusy || !started.id.compare_exchange_strong(id, kBusy, kAcquire))
    return Count(&g_counts.ends_without_start);
  uint64_t words[trace::kMaxOpenArgs];
  for (uint32_t i = 0; i < trace::kMaxOpenArgs; ++i) words[i] = started.words[i].load(kRelaxed);
  const uint64_t begin = started.begin_ticks.load(kRelaxed);
  const int64_t tid = started.tid.load(kRelaxed);
  const uint32_t says = started.says.load(kRelaxed);
  const bool is_ours = started.gate.load(kRelaxed) == RecorderOf(*ring);
  started.id.store(0, kRelease);
  if (!is_ours) return Count(&g_counts.ends_without_start);
  if (tid == ring->tid) return trace::RecordEvent(&kSites[kRange][says], begin, words);
  const double ticks_per_ns =
      static_cast<double>(__atomic_load_n(&detail::g_ticks_per_ns_q32, __ATOMIC_RELAXED)) / 4294967296.0;
  words[2] = static_cast<uint64_t>(static_cast<double>(detail::Clock(ring->gate) - begin) / ticks_per_ns);
  words[3] = static_cast<uint64_t>(tid);
  trace::RecordEvent(&kEndedElsewhere, 0, words);
}

// ---- The slots.

// The number of a domain whose events are recorded now, else 0.
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

// Without a domain.
void MarkEx(const Attributes* attributes) noexcept { DomainMarkEx(nullptr, attributes); }
uint64_t RangeStartEx(const Attributes* attributes) noexcept { return DomainRangeStartEx(nullptr, attributes); }
void RangeEnd(uint64_t id) noexcept { DomainRangeEnd(nullptr, id); }
int RangePushEx(const Attributes* attributes) noexcept { return DomainRangePushEx(nullptr, attributes); }
int RangePop() noexcept { return DomainRangePop(nullptr); }

// Without a domain, and a text instead of attributes.
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

// Handles are kept for life: they are given out also while nothing is recorded.
template <class Char> void* DomainRegisterString(void*, const Char* text) noexcept { return HandleOf(NameOf(text)); }
template <class Char> void* DomainCreate(const Char* name) noexcept { return &g_domains[AddDomain(NameOf(name))]; }

// What the payload extension says instead of attributes has no name but in its schema, which Pitot does not read.
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
uint8_t DomainIsEnabled(void* handle) noexcept { return IsPitots(DomainOf(handle)) ? 0 : 1; }

struct Function {
  uint32_t slot;
  abi::Slot function;
};
template <class F> Function Into(uint32_t slot, F* function) noexcept {
  return {slot, reinterpret_cast<abi::Slot>(function)};
}

// The others stay null, which is what costs their callers least.
bool Fill(const abi::Callbacks& callbacks, abi::Module module, std::initializer_list<Function> functions) noexcept {
  abi::SlotTable table = nullptr;
  unsigned size = 0;
  if (callbacks.get_module_table(module, &table, &size) == 0 || table == nullptr) return false;
  for (const Function& function : functions) {
    if (function.slot < size && table[function.slot] != nullptr) *table[function.slot] = function.function;
  }
  return true;
}

// ---- Who found us.

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
  g_is_capturing.store(true, kRelaxed);
  g_was_begun.store(true, kRelease);
}

void EndCapture() noexcept { g_is_capturing.store(false, kRelaxed); }

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

void FindRangesUnderWay(std::vector<RangeUnderWay>* ranges) noexcept {
  ranges->clear();
  const uint32_t recorder = __atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) >> 1;
  for (const Started& started : g_started) {
    const uint64_t id = started.id.load(kAcquire);
    if (id <= kBusy || started.gate.load(kAcquire) != recorder) continue;
    const auto name = static_cast<uint32_t>(started.words[0].load(kAcquire));
    const auto domain = static_cast<uint32_t>(started.words[1].load(kAcquire));
    const uint64_t begin = started.begin_ticks.load(kAcquire);
    if (started.id.load(kRelaxed) != id) continue;
    ranges->push_back({name, domain, begin});
  }
}

}  // namespace pitot::nvtx

int InitializeInjectionNvtx2(pitot::nvtx::abi::GetExportTable get) { return pitot::nvtx::Attach(get) ? 1 : 0; }

int InitializeInjectionNvtxExtension(pitot::nvtx::abi::ExtensionModule* module) {
  return pitot::nvtx::AttachPayloads(module) ? 1 : 0;
}
