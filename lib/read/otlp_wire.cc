// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "base/wire_reader.h"
#include "read/other_protobufs.h"
#include "read/otlp_decoders.h"
#include "serialize/otlp_span.h"

namespace pitot::read {
namespace {

namespace otlp = serialize::otlp;

// A message, field by field. Numbers are in `value`, everything else in `bytes`.
class Fields {
 public:
  explicit Fields(std::string_view message) : reader_(message) {}
  uint64_t number = 0, value = 0;
  std::string_view bytes;
  bool is_bytes = false;

  bool Next() {
    base::WireField field;
    if (!reader_.Next(&field)) return false;
    number = field.number;
    is_bytes = field.type == base::WireType::kBytes;
    value = is_bytes ? 0 : field.value;
    bytes = field.bytes;
    return true;
  }
  bool is_good() const { return !reader_.is_damaged(); }

 private:
  base::WireReader reader_;
};

// Ids are bytes, the most significant first. One of another size is none.
uint64_t BigEndian(std::string_view bytes) {
  uint64_t value = 0;
  for (const char c : bytes.substr(0, 8)) value = value << 8 | static_cast<uint8_t>(c);
  return bytes.size() == 8 ? value : 0;
}
void TakeTraceId(std::string_view bytes, OtlpSpanId* id) {
  if (bytes.size() != 16) return;
  id->high = BigEndian(bytes.substr(0, 8));
  id->low = BigEndian(bytes.substr(8));
}

bool DecodeAttribute(std::string_view message, OtlpAttributes* attributes) {
  using Kind = OtlpAttribute::Kind;
  constexpr uint32_t kBool = 2;  // AnyValue
  OtlpAttribute attribute;
  Fields pair(message);
  while (pair.Next()) {
    if (pair.number == otlp::attribute::kKey) attribute.key = pair.bytes;
    if (pair.number != otlp::attribute::kValue) continue;
    Fields any(pair.bytes);
    while (any.Next()) {
      attribute.integer = static_cast<int64_t>(any.value);
      if (any.number == otlp::value::kText && any.is_bytes) attribute.kind = Kind::kText, attribute.text = any.bytes;
      if (any.number == kBool) attribute.kind = Kind::kBool;
      if (any.number == otlp::value::kInt) attribute.kind = Kind::kInt;
      if (any.number == otlp::value::kDouble) {
        attribute.kind = Kind::kDouble;
        memcpy(&attribute.real, &any.value, sizeof attribute.real);
      }
    }
    if (!any.is_good()) return false;
  }
  attributes->push_back(attribute);
  return pair.is_good();
}

bool DecodeEvent(std::string_view message, OtlpSpan* span) {
  OtlpEvent& event = span->events.emplace_back();
  Fields fields(message);
  while (fields.Next()) {
    if (fields.number == otlp::event::kTime) event.at_ns = fields.value;
    if (fields.number == otlp::event::kName) event.name = fields.bytes;
    if (fields.number == otlp::event::kAttribute && !DecodeAttribute(fields.bytes, &event.attributes)) return false;
  }
  return fields.is_good();
}

bool DecodeLink(std::string_view message, OtlpSpan* span) {
  OtlpSpanId& link = span->links.emplace_back();
  Fields fields(message);
  while (fields.Next()) {
    if (fields.number == otlp::link::kTraceId) TakeTraceId(fields.bytes, &link);
    if (fields.number == otlp::link::kSpanId) link.span = BigEndian(fields.bytes);
  }
  return fields.is_good();
}

bool DecodeStatus(std::string_view message, OtlpSpan* span) {
  Fields fields(message);
  while (fields.Next()) {
    if (fields.number == otlp::status::kMessage) span->message = fields.bytes;
    if (fields.number == otlp::status::kCode) span->status = static_cast<int64_t>(fields.value);
  }
  return fields.is_good();
}

bool DecodeSpan(std::string_view message, OtlpSpan* span) {
  namespace at = otlp::span;
  Fields fields(message);
  bool is_good = true;
  while (is_good && fields.Next()) {
    switch (fields.number) {
      case at::kTraceId:
        TakeTraceId(fields.bytes, &span->id);
        break;
      case at::kSpanId:
        span->id.span = BigEndian(fields.bytes);
        break;
      case at::kParentId:
        span->parent = BigEndian(fields.bytes);
        break;
      case at::kName:
        span->name = fields.bytes;
        break;
      case at::kKind:
        span->kind = static_cast<int64_t>(fields.value);
        break;
      case at::kBegin:
        span->begin_ns = fields.value;
        break;
      case at::kEnd:
        span->end_ns = fields.value;
        break;
      case at::kAttribute:
        is_good = DecodeAttribute(fields.bytes, &span->attributes);
        break;
      case at::kEvent:
        is_good = DecodeEvent(fields.bytes, span);
        break;
      case at::kLink:
        is_good = DecodeLink(fields.bytes, span);
        break;
      case at::kStatus:
        is_good = DecodeStatus(fields.bytes, span);
        break;
      default:
        break;
    }
  }
  return is_good && fields.is_good();
}

void DecodeScope(std::string_view message, OtlpTarget* target) {
  std::string_view library;
  for (Fields scope(message); scope.Next();) {
    if (scope.number != otlp::scope_spans::kScope) continue;
    for (Fields fields(scope.bytes); fields.Next();)
      if (fields.number == otlp::scope::kName) library = fields.bytes;
  }
  target->TakeLibrary(library);
  Fields scope(message);
  while (scope.Next()) {
    if (scope.number != otlp::scope_spans::kSpan) continue;
    OtlpSpan span;
    DecodeSpan(scope.bytes, &span) ? target->TakeSpan(span) : target->TakeBad();
  }
  if (!scope.is_good()) target->TakeBad();
}

void DecodeGroup(std::string_view message, OtlpTarget* target) {
  OtlpAttributes resource;
  for (Fields group(message); group.Next();) {
    if (group.number != otlp::resource_spans::kResource) continue;
    for (Fields fields(group.bytes); fields.Next();)
      if (fields.number == otlp::resource::kAttribute) DecodeAttribute(fields.bytes, &resource);
  }
  target->TakeResource(resource);
  Fields group(message);
  while (group.Next()) {
    if (group.number == otlp::resource_spans::kScopeSpans) DecodeScope(group.bytes, target);
  }
  if (!group.is_good()) target->TakeBad();
}

bool ReadAll(ByteSource* source, char* out, size_t size) {
  size_t have = 0;
  for (size_t got = 1; got != 0 && have < size; have += got) got = source->Read(out + have, size - have);
  return have == size;
}

// What follows a tag of bytes: their begin, as far as it is there.
std::string_view Inside(std::string_view bytes, char tag) {
  if (bytes.empty() || bytes.front() != tag) return {};
  bytes.remove_prefix(1);
  for (int i = 0; i < 5 && !bytes.empty(); ++i) {
    const bool is_last = (bytes.front() & 0x80) == 0;
    bytes.remove_prefix(1);
    if (is_last) return bytes;
  }
  return {};
}
// Without the message that begins here, if it has this tag.
std::string_view Behind(std::string_view bytes, char tag) {
  const std::string_view inside = Inside(bytes, tag);
  if (inside.empty()) return bytes;
  uint64_t size = 0;
  for (uint32_t i = 1, shift = 0; shift < 35; ++i, shift += 7) {
    size |= static_cast<uint64_t>(bytes[i] & 127) << shift;
    if ((bytes[i] & 0x80) == 0) break;
  }
  return inside.substr(std::min<size_t>(size, inside.size()));
}

}  // namespace

std::string ReadOtlpWire(ByteSource* source, OtlpTarget* target) {
  constexpr char kTag = otlp::kResourceSpans << 3 | 2;
  std::vector<char> group;
  for (char byte; source->Read(&byte, 1) == 1;) {
    if (byte != kTag) return "what follows is not a group of spans";
    uint64_t size = 0;
    bool is_whole = false;
    for (uint32_t shift = 0; shift < 35 && !is_whole; shift += 7) {
      if (source->Read(&byte, 1) != 1) return "it ends within a group of spans";
      size |= static_cast<uint64_t>(byte & 127) << shift;
      is_whole = (byte & 0x80) == 0;
    }
    if (!is_whole || size > kMostOtlpBytes) return "a group of spans has more than 64 MiB";
    group.resize(size);
    const bool is_there = ReadAll(source, group.data(), size);
    if (is_there) DecodeGroup({group.data(), size}, target);
    if (!is_there) return "it ends within a group of spans";
  }
  return "";
}

// By the ids of the first span: 16 and 8 bytes.
bool IsOtlpWire(std::string_view head) {
  constexpr char kFirst = 1 << 3 | 2, kSecond = 2 << 3 | 2;
  const std::string_view group = Inside(head, kFirst);
  const std::string_view scope = Inside(Behind(group, kFirst), kSecond);
  const std::string_view span = Inside(Behind(scope, kFirst), kSecond);
  return OtherProtobuf(head).empty() && span.size() > 19 && span[0] == kFirst && span[1] == 16 && span[18] == kSecond &&
         span[19] == 8;
}

}  // namespace pitot::read
