// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/trace.h"

#include <algorithm>
#include <functional>

#include "base/text.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

constexpr size_t kStringBlockBytes = 16 << 10;
constexpr size_t kLeastSlots = 16;

}  // namespace

StringTable::StringTable() { Add({}); }

StringTable::StringTable(const StringTable& other) { *this = other; }

StringTable& StringTable::operator=(const StringTable& other) {
  if (this == &other) return *this;
  views_.clear();
  blocks_.clear();
  slots_.clear();
  for (const std::string_view text : other.views_) Add(text);
  return *this;
}

size_t StringTable::SlotOf(std::string_view text) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = std::hash<std::string_view>()(text) & mask;
  while (slots_[slot] != kNone && views_[slots_[slot]] != text) slot = (slot + 1) & mask;
  return slot;
}

void StringTable::Grow() {
  slots_.assign(std::max(kLeastSlots, 2 * slots_.size()), kNone);
  for (StringId id = 0; id < size(); ++id) slots_[SlotOf(views_[id])] = id;
}

StringId StringTable::Add(std::string_view text) {
  if (2 * views_.size() >= slots_.size()) Grow();
  const size_t slot = SlotOf(text);
  if (slots_[slot] != kNone) return slots_[slot];
  if (!base::IsSaneText(text)) return Add(base::SanitizeText(text));
  if (blocks_.empty() || blocks_.back().capacity() - blocks_.back().size() < text.size()) {
    const size_t doubled = size_t{256} << std::min<size_t>(blocks_.size(), 16);
    blocks_.emplace_back().reserve(std::max(std::min(kStringBlockBytes, doubled), text.size()));
  }
  // Never grows beyond its capacity: views stay valid.
  std::vector<char>& block = blocks_.back();
  const size_t at = block.size();
  block.insert(block.end(), text.begin(), text.end());
  const StringId id = size();
  views_.emplace_back(block.data() + at, text.size());
  slots_[slot] = id;
  return id;
}

const char* LossReasonName(LossReason reason) {
  switch (reason) {
    case LossReason::kOverwritten:
      return "overwritten";
    case LossReason::kCopying:
      return "overwritten in copy";
    case LossReason::kReserve:
      return "no room";
    case LossReason::kUnreadable:
      return "unreadable";
    case LossReason::kDepth:
      return "too deep";
    case LossReason::kClosedElsewhere:
      return "closed elsewhere";
    case LossReason::kRecycled:
      return "ring reused";
    case LossReason::kDamaged:
      return "dump damaged";
    case LossReason::kOpenRequests:
      return "no room (requests)";
    case LossReason::kRefused:
      return "no ring";
    case LossReason::kTooDeepToBegin:
      return "too deep to begin";
  }
  return "unknown";
}

const char* GpuKindName(GpuKind kind) {
  switch (kind) {
    case GpuKind::kKernel:
      return "kernel";
    case GpuKind::kMemcpy:
      return "memcpy";
    case GpuKind::kMemset:
      return "memset";
    case GpuKind::kGraph:
      return "graph";
    case GpuKind::kSpan:
      return "span";
  }
  return "unknown";
}

std::string_view Trace::AttributeOf(std::string_view key) const {
  for (const model::Attribute& attribute : attributes) {
    if (strings[attribute.key] == key) return strings[attribute.value];
  }
  return {};
}

}  // namespace model
PITOT_NAMESPACE_END
