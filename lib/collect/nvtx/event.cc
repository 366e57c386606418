// SPDX-License-Identifier: Apache-2.0
#include "collect/nvtx/event.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "collect/nvtx/site.h"

namespace pitot::nvtx {
namespace {

using abi::Attributes;
using abi::PayloadData;

// NCCL's payloads begin with the communicator and the bytes; before 2.26, with the bytes. The rest (an operation, a
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
  const bool is_nccls = IsNccls(event->domain);
  const Collective of = is_nccls && data != nullptr ? CollectiveOf(data->schema) : Collective{};
  const size_t whole = of.has_more ? 24 : 16;
  if (of.name == nullptr || data->data == nullptr || (data->size != whole && data->size != whole - 8))
    return Count(&GetCounts().payloads_unknown);
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
      Count(&GetCounts().payloads_unknown);
  }
}

}  // namespace

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

Event EventOf(uint8_t domain, Name name) noexcept {
  Event event;
  event.domain = domain;
  event.words[0] = name.index;
  event.words[1] = NameOfDomain(domain).index;
  return event;
}

Event EventOf(uint8_t domain, const Attributes* given) noexcept {
  Attributes attributes = {};
  const size_t known = given != nullptr ? std::min<size_t>(given->size, sizeof attributes) : 0;
  constexpr size_t kUpToPayload = offsetof(Attributes, message_type);
  if (known < kUpToPayload) {
    Count(&GetCounts().bad_attributes);
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

}  // namespace pitot::nvtx
