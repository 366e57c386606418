// SPDX-License-Identifier: Apache-2.0
#include "serialize/otlp_span.h"

namespace pitot::serialize {

void OtlpSpans::Library(std::string_view name, std::string_view version) {
  library_.String(otlp::scope::kName, name);
  library_.String(otlp::scope::kVersion, version);
}

void OtlpSpans::Begin(const OtlpId& id, uint64_t parent, std::string_view name, uint32_t kind, int64_t begin_ns,
                      int64_t end_ns) {
  if (spans_.size() >= kFlushBytes) Flush(false);
  span_ = spans_.Open(otlp::scope_spans::kSpan);
  Id(otlp::span::kTraceId, id.high, id.low, &spans_);
  Id(otlp::span::kSpanId, id.span, &spans_);
  if (parent != 0) Id(otlp::span::kParentId, parent, &spans_);
  spans_.String(otlp::span::kName, name);
  spans_.Varint(otlp::span::kKind, kind);
  spans_.Fixed64(otlp::span::kBegin, Unix(begin_ns));
  spans_.Fixed64(otlp::span::kEnd, Unix(end_ns));
}

void OtlpSpans::Link(const OtlpId& to) {
  const size_t opened = spans_.Open(otlp::span::kLink);
  Id(otlp::link::kTraceId, to.high, to.low, &spans_);
  Id(otlp::link::kSpanId, to.span, &spans_);
  spans_.Close(opened);
}

void OtlpSpans::Failed(std::string_view message) {
  const size_t opened = spans_.Open(otlp::span::kStatus);
  if (!message.empty()) spans_.String(otlp::status::kMessage, message);
  spans_.Varint(otlp::status::kCode, otlp::status::kError);
  spans_.Close(opened);
}

void OtlpSpans::BeginEvent(std::string_view name, int64_t at_ns) {
  event_ = spans_.Open(otlp::span::kEvent);
  spans_.Fixed64(otlp::event::kTime, Unix(at_ns));
  spans_.String(otlp::event::kName, name);
}

void OtlpSpans::End() { spans_.Close(span_); }

void OtlpSpans::Flush(bool is_last) {
  if (spans_.size() == 0) return;
  WireBuffer group;
  const size_t opened = group.Open(otlp::kResourceSpans);
  const size_t resource = group.Open(otlp::resource_spans::kResource);
  group.RawBytes(resource_.data(), resource_.size());
  if (!is_last) AttributeInt(otlp::resource::kAttribute, "pitot.more_follows", 1, &group);  // otherwise it was cut off
  group.Close(resource);
  const size_t of_scope = group.Open(otlp::resource_spans::kScopeSpans);
  group.Bytes(otlp::scope_spans::kScope, library_.data(), library_.size());
  group.RawBytes(spans_.data(), spans_.size());
  group.Close(of_scope);
  group.Close(opened);
  ok_ = ok_ && sink_.Write(group.data(), group.size());
  spans_.Clear();
}

template <class Write> void OtlpSpans::Pair(uint32_t field, std::string_view key, const Write& write, WireBuffer* out) {
  const size_t opened = out->Open(field);
  out->String(otlp::attribute::kKey, key);
  const size_t value = out->Open(otlp::attribute::kValue);
  write();
  out->Close(value);
  out->Close(opened);
}
void OtlpSpans::Attribute(uint32_t field, std::string_view key, std::string_view text, WireBuffer* out) {
  Pair(
      field, key, [&] { out->String(otlp::value::kText, text); }, out);
}
void OtlpSpans::AttributeInt(uint32_t field, std::string_view key, int64_t value, WireBuffer* out) {
  Pair(
      field, key, [&] { out->Int(otlp::value::kInt, value); }, out);
}
void OtlpSpans::AttributeDouble(uint32_t field, std::string_view key, double value, WireBuffer* out) {
  Pair(
      field, key, [&] { out->Double(otlp::value::kDouble, value); }, out);
}

// Ids are bytes, the most significant first.
void OtlpSpans::Id(uint32_t field, uint64_t high, uint64_t low, WireBuffer* out) {
  const uint64_t words[] = {__builtin_bswap64(high), __builtin_bswap64(low)};
  out->Bytes(field, words, sizeof words);
}
void OtlpSpans::Id(uint32_t field, uint64_t id, WireBuffer* out) {
  const uint64_t word = __builtin_bswap64(id);
  out->Bytes(field, &word, sizeof word);
}

}  // namespace pitot::serialize
