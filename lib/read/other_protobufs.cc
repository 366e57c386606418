// SPDX-License-Identifier: Apache-2.0
#include "read/other_protobufs.h"

#include <algorithm>

#include "base/text.h"
#include "base/wire_reader.h"

namespace pitot::read {
namespace {

using base::WireField;
using base::WireReader;
using base::WireType;

// The first field `number` of a message; empty if it has none. The message may be cut off.
std::string_view First(std::string_view message, uint32_t number) {
  WireField field;
  const char* at = message.data();
  const char* const end = at + message.size();
  uint64_t tag = 0;
  while (at != end && base::TakeVarint(&at, end, &tag) && base::SplitTag(tag, &field)) {
    if (field.type == WireType::kVarint) {
      if (!base::TakeVarint(&at, end, &field.value)) return {};
      continue;
    }
    field.value = field.type == WireType::kFixed64 ? 8 : 4;
    if (field.type == WireType::kBytes && !base::TakeVarint(&at, end, &field.value)) return {};
    const std::string_view content(at, std::min<uint64_t>(field.value, static_cast<size_t>(end - at)));
    if (field.Is(number, WireType::kBytes)) return content;
    at += content.size();
  }
  return {};
}

// Whether the message is a file's descriptor: a name before everything else, and its fields' types.
bool IsDescriptor(std::string_view message) {
  WireReader reader(message);
  WireField field;
  if (!reader.Next(&field) || !field.Is(1, WireType::kBytes) || field.bytes.empty()) return false;
  if (!base::IsSaneText(field.bytes)) return false;
  bool has_syntax = field.bytes.ends_with(".proto");
  while (reader.Next(&field)) {
    const bool is_number = field.number == 10 || field.number == 11 || field.number == 14;  // dependencies, edition
    if (field.number > 14 || field.type != (is_number ? WireType::kVarint : WireType::kBytes)) return false;
    has_syntax |= field.number == 12 && field.bytes.starts_with("proto");
  }
  return has_syntax;
}

// The kind of OTLP's records, by the first: groups by resource hold groups by library, which hold records.
std::string_view KindOfRecords(std::string_view bytes) {
  const std::string_view record = First(First(First(bytes, 1), 2), 2);
  WireReader reader(record);
  WireField field;
  bool is_metric = false, is_log = false;
  while (reader.Next(&field)) {
    if (field.Is(1, WireType::kFixed64) || field.Is(11, WireType::kFixed64)) is_log = true;  // its times
    if (field.Is(1, WireType::kBytes)) is_metric = base::IsSaneText(field.bytes);            // its name, or a span's id
    if (field.Is(7, WireType::kFixed64)) return {};                                          // a span's begin
  }
  if (is_log) return "logs";
  return is_metric ? "metrics" : "";
}

}  // namespace

std::string_view OtherProtobuf(std::string_view bytes) {
  if (bytes.empty() || bytes[0] != 0x0a) return {};
  if (IsDescriptor(First(bytes, 1))) return "a set of descriptors by protoc (FileDescriptorSet)";
  const std::string_view kind = KindOfRecords(bytes);
  if (kind == "logs") return "OpenTelemetry's logs (OTLP): export spans";
  if (kind == "metrics") return "OpenTelemetry's metrics (OTLP): export spans";
  return {};
}

}  // namespace pitot::read
