// SPDX-License-Identifier: Apache-2.0
//
// Reads protobuf's wire format, field by field: from memory here, from a source in wire_stream.h.
#ifndef PITOT_LIB_BASE_WIRE_READER_H_
#define PITOT_LIB_BASE_WIRE_READER_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace pitot::base {

enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct WireField {
  uint32_t number = 0;
  WireType type = WireType::kVarint;
  uint64_t value = 0;      // of kBytes: their number
  std::string_view bytes;  // of kBytes

  bool Is(uint32_t of, WireType with) const { return number == of && type == with; }
  int64_t Int() const { return static_cast<int64_t>(value); }
  double Double() const {
    double number_of;
    std::memcpy(&number_of, &value, sizeof number_of);
    return number_of;
  }
};

// A varint and the byte after it; null if it does not end before `end`, or is longer than 10 bytes.
struct Varint {
  const char* next;
  uint64_t value;
};
inline Varint ReadVarint(const char* at, const char* end) {
  uint64_t value = 0;
  for (unsigned shift = 0; at != end && shift < 70; shift += 7) {
    const auto bits = static_cast<unsigned char>(*at++);
    if (shift < 64) value |= uint64_t{bits & 0x7fu} << shift;
    if (bits < 0x80) return {at, value};
  }
  return {nullptr, 0};
}

// Reads a varint and moves `at` behind it. False if there is none.
inline bool TakeVarint(const char** at, const char* end, uint64_t* value) {
  const Varint varint = ReadVarint(*at, end);
  if (varint.next == nullptr) return false;
  *at = varint.next;
  *value = varint.value;
  return true;
}

// The number and type of a tag. False for field 0 and for the types of groups.
inline bool SplitTag(uint64_t tag, WireField* field) {
  const uint64_t type = tag & 7;
  if (tag >> 3 == 0 || tag > UINT32_MAX || (type > 2 && type != 5)) return false;
  field->number = static_cast<uint32_t>(tag >> 3);
  field->type = static_cast<WireType>(type);
  return true;
}

// A message in memory.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : at_(message.data()), end_(message.data() + message.size()) {}

  // False at the end of the message, or where it is damaged.
  bool Next(WireField* field) {
    if (at_ == end_) return false;
    const Varint tag = ReadVarint(at_, end_);
    if (tag.next == nullptr || !SplitTag(tag.value, field)) return Fail();
    if (field->type == WireType::kFixed64) return TakeFixed(tag.next, 8, field);
    if (field->type == WireType::kFixed32) return TakeFixed(tag.next, 4, field);
    const Varint varint = ReadVarint(tag.next, end_);
    if (varint.next == nullptr) return Fail();
    field->value = varint.value;
    at_ = varint.next;
    if (field->type == WireType::kVarint) return true;
    if (varint.value > static_cast<size_t>(end_ - at_)) return Fail();
    field->bytes = {at_, static_cast<size_t>(varint.value)};
    at_ += varint.value;
    return true;
  }
  bool is_damaged() const { return is_damaged_; }

 private:
  bool TakeFixed(const char* at, size_t size, WireField* field) {
    if (static_cast<size_t>(end_ - at) < size) return Fail();
    field->value = 0;
    for (size_t i = 0; i < size; ++i) field->value |= uint64_t{static_cast<unsigned char>(at[i])} << (8 * i);
    at_ = at + size;
    return true;
  }
  bool Fail() {
    is_damaged_ = true;
    at_ = end_;
    return false;
  }

  const char *at_, *end_;
  bool is_damaged_ = false;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_WIRE_READER_H_
