// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/last_work.h"

#include <string>

#include "collect/cupti/memory_names.h"
#include "pitot/extend/collector.h"

namespace pitot::cupti {
namespace {

// None: it is not work.
GpuKind KindOf(Activity activity) {
  switch (activity) {
    case Activity::kKernel:
      return GpuKind::kKernel;
    case Activity::kMemcpy:
      return GpuKind::kMemcpy;
    case Activity::kMemset:
      return GpuKind::kMemset;
    case Activity::kGraph:
      return GpuKind::kGraph;
    default:
      return {};
  }
}

}  // namespace

uint32_t LastWork::TextOf(const GpuRecord& record) {
  if (record.activity == Activity::kGraph) return 0;
  const uint32_t name = record.activity == Activity::kKernel ? record.name : record.detail;
  const auto [text, is_new] = texts_.try_emplace(uint64_t{static_cast<uint8_t>(record.activity)} << 32 | name, 0);
  if (!is_new) return text->second;
  const std::string said = record.activity == Activity::kKernel   ? tables_.names.names()[record.name]
                           : record.activity == Activity::kMemcpy ? CopyName(record.detail)
                                                                  : MemoryName(record.detail);
  return text->second = trace::LastText(said);
}

void LastWork::Add(std::span<const GpuRecord> records) {
  if (!trace::AreLastRowsKept()) return;
  rows_.clear();
  for (const GpuRecord& record : records) {
    const GpuKind kind = KindOf(record.activity);
    if (kind == GpuKind{}) continue;
    const StreamKey& stream = tables_.streams.rows()[record.stream];
    rows_.push_back({record.begin_ns, record.duration_ns, record.value, stream.device, stream.context, stream.stream,
                     record.correlation, TextOf(record), static_cast<uint32_t>(kind)});
  }
  trace::AddLast(rows_);
}

}  // namespace pitot::cupti
