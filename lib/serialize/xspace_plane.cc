// SPDX-License-Identifier: Apache-2.0
#include "serialize/xspace_plane.h"

#include <algorithm>
#include <vector>

namespace pitot::serialize {

namespace {

// Picoseconds, up to 106 days.
uint64_t Picoseconds(int64_t ns) { return static_cast<uint64_t>(std::min(ns, INT64_MAX / 1000)) * 1000; }

}  // namespace

XSpacePlane::XSpacePlane(int64_t id, std::string_view name, int64_t base_ns) : base_ns_(base_ns) {
  plane_.Int(xspace::plane::kId, id);
  plane_.String(xspace::plane::kName, name);
}

void XSpacePlane::BeginLine(int64_t id, std::string_view name, int64_t begin_ns) {
  line_begin_ns_ = begin_ns;
  line_ = plane_.Open(xspace::plane::kLine);
  plane_.Int(xspace::line::kId, id);
  plane_.String(xspace::line::kName, name);
  plane_.Int(xspace::line::kBegin, base_ns_ + begin_ns);
}

void XSpacePlane::BeginEvent(std::string_view name, int64_t begin_ns, int64_t duration_ns) {
  const uint64_t id = IdOf(name, &event_names_);
  event_ = plane_.Open(xspace::line::kEvent);
  plane_.Varint(xspace::event::kName, id);
  plane_.Varint(xspace::event::kOffset, Picoseconds(begin_ns - line_begin_ns_));
  plane_.Varint(xspace::event::kDuration, Picoseconds(duration_ns));
}

void XSpacePlane::Stat(std::string_view name, uint64_t value) {
  const size_t opened = plane_.Open(xspace::event::kStat);
  plane_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  plane_.Varint(xspace::stat::kUint, value);
  plane_.Close(opened);
}

void XSpacePlane::Stat(std::string_view name, double value) {
  const size_t opened = plane_.Open(xspace::event::kStat);
  plane_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  plane_.Double(xspace::stat::kDouble, value);
  plane_.Close(opened);
}

void XSpacePlane::Stat(std::string_view name, std::string_view text) {
  const size_t opened = plane_.Open(xspace::event::kStat);
  plane_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  plane_.Varint(xspace::stat::kReference, IdOf(text, &stat_names_));
  plane_.Close(opened);
}

void XSpacePlane::PlaneStat(std::string_view name, uint64_t value) {
  const size_t opened = plane_.Open(xspace::plane::kStat);
  plane_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  plane_.Varint(xspace::stat::kUint, value);
  plane_.Close(opened);
}

void XSpacePlane::PlaneStat(std::string_view name, std::string_view text) {
  const size_t opened = plane_.Open(xspace::plane::kStat);
  plane_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  plane_.String(xspace::stat::kText, text);
  plane_.Close(opened);
}

uint64_t XSpacePlane::IdOf(std::string_view name, Names* names) {
  return names->try_emplace(std::string(name), names->size() + 1).first->second;
}

void XSpacePlane::AddNames(uint32_t field, const Names& names) {
  std::vector<std::string_view> by_id(names.size());
  for (const auto& [name, id] : names) by_id[id - 1] = name;
  for (size_t i = 0; i < by_id.size(); ++i) {
    const size_t entry = plane_.Open(field);
    plane_.Varint(xspace::entry::kKey, i + 1);
    const size_t value = plane_.Open(xspace::entry::kValue);
    plane_.Varint(xspace::metadata::kId, i + 1);
    plane_.String(xspace::metadata::kName, by_id[i]);
    plane_.Close(value);
    plane_.Close(entry);
  }
}

bool XSpacePlane::Write(ByteSink* sink) {
  AddNames(xspace::plane::kEventName, event_names_);
  AddNames(xspace::plane::kStatName, stat_names_);
  WireBuffer head;
  head.RawVarint(xspace::kPlane << 3 | 2);
  head.RawVarint(plane_.size());
  return sink->Write(head.data(), head.size()) && sink->Write(plane_.data(), plane_.size());
}

}  // namespace pitot::serialize
