// SPDX-License-Identifier: Apache-2.0
#include "serialize/xspace_plane.h"

#include <algorithm>

namespace pitot::serialize {

namespace {

// Picoseconds, up to 106 days.
uint64_t Picoseconds(int64_t ns) { return static_cast<uint64_t>(std::min(ns, INT64_MAX / 1000)) * 1000; }

}  // namespace

XSpacePlane::XSpacePlane(int64_t id, std::string_view name, int64_t base_ns) : base_ns_(base_ns) {
  head_.Int(xspace::plane::kId, id);
  head_.String(xspace::plane::kName, name);
}

void XSpacePlane::BeginLine(int64_t id, std::string_view name, int64_t begin_ns) {
  line_begin_ns_ = begin_ns;
  if (sink_ == nullptr) {
    line_bytes_.push_back(0);
  } else {
    buffer_.RawVarint(xspace::plane::kLine << 3 | 2);
    buffer_.RawVarint(line_bytes_[line_++]);
  }
  buffer_.Int(xspace::line::kId, id);
  buffer_.String(xspace::line::kName, name);
  buffer_.Varint(xspace::line::kBegin, static_cast<uint64_t>(base_ns_) + static_cast<uint64_t>(begin_ns));
}

void XSpacePlane::EndLine() { Flush(); }

void XSpacePlane::BeginEvent(std::string_view name, int64_t begin_ns, int64_t duration_ns) {
  const uint64_t id = IdOf(name, &event_names_);
  event_ = buffer_.Open(xspace::line::kEvent);
  buffer_.Varint(xspace::event::kName, id);
  buffer_.Varint(xspace::event::kOffset, Picoseconds(begin_ns - line_begin_ns_));
  buffer_.Varint(xspace::event::kDuration, Picoseconds(duration_ns));
}

void XSpacePlane::EndEvent() {
  buffer_.Close(event_);
  if (buffer_.size() >= kFlushBytes) Flush();
}

void XSpacePlane::Stat(std::string_view name, uint64_t value) {
  const size_t opened = buffer_.Open(xspace::event::kStat);
  buffer_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  buffer_.Varint(xspace::stat::kUint, value);
  buffer_.Close(opened);
}

void XSpacePlane::Stat(std::string_view name, std::string_view text) {
  const size_t opened = buffer_.Open(xspace::event::kStat);
  buffer_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  buffer_.Varint(xspace::stat::kReference, IdOf(text, &stat_names_));
  buffer_.Close(opened);
}

void XSpacePlane::PlaneStat(std::string_view name, uint64_t value) {
  const size_t opened = head_.Open(xspace::plane::kStat);
  head_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  head_.Varint(xspace::stat::kUint, value);
  head_.Close(opened);
}

void XSpacePlane::PlaneStat(std::string_view name, std::string_view text) {
  const size_t opened = head_.Open(xspace::plane::kStat);
  head_.Varint(xspace::stat::kName, IdOf(name, &stat_names_));
  head_.String(xspace::stat::kText, text);
  head_.Close(opened);
}

uint64_t XSpacePlane::IdOf(std::string_view name, Names* names) {
  return names->try_emplace(std::string(name), names->size() + 1).first->second;
}

void XSpacePlane::AddNames(uint32_t field, const Names& names) {
  std::vector<std::string_view> by_id(names.size());
  for (const auto& [name, id] : names) by_id[id - 1] = name;
  for (size_t i = 0; i < by_id.size(); ++i) {
    const size_t entry = head_.Open(field);
    head_.Varint(xspace::entry::kKey, i + 1);
    const size_t value = head_.Open(xspace::entry::kValue);
    head_.Varint(xspace::metadata::kId, i + 1);
    head_.String(xspace::metadata::kName, by_id[i]);
    head_.Close(value);
    head_.Close(entry);
  }
}

void XSpacePlane::Flush() {
  if (sink_ != nullptr) {
    ok_ = ok_ && sink_->Write(buffer_.data(), buffer_.size());
  } else {
    line_bytes_.back() += buffer_.size();
  }
  buffer_.Clear();
}

void XSpacePlane::WriteHead(ByteSink* sink) {
  AddNames(xspace::plane::kEventName, event_names_);
  AddNames(xspace::plane::kStatName, stat_names_);
  uint64_t bytes = head_.size();
  for (const uint64_t of_line : line_bytes_) {
    WireBuffer length;
    length.RawVarint(xspace::plane::kLine << 3 | 2);
    length.RawVarint(of_line);
    bytes += length.size() + of_line;
  }
  sink_ = sink;
  buffer_.RawVarint(xspace::kPlane << 3 | 2);
  buffer_.RawVarint(bytes);
  buffer_.RawBytes(head_.data(), head_.size());
}

bool XSpacePlane::WriteRest() {
  Flush();  // the head, if there are no lines
  return ok_;
}

}  // namespace pitot::serialize
