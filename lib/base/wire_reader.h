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

// Reads a varint and moves `at` behind it. False if it does not end before `end`, or is longer than 10 bytes.
inline bool TakeVarint(const char** at, const char* end, uint64_t* value) {
  uint64_t result = 0;
  const char* byte = *at;
  for (unsigned shift = 0; byte != end && shift < 70; shift += 7) {
    const auto bits = static_cast<unsigned char>(*byte++);
    if (shift < 64) result |= uint64_t{bits & 0x7fu} << shift;
    if (bits < 0x80) {
      *at = byte;
      *value = result;
      return true;
    }
  }
  return false;
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
    uint64_t tag = 0;
    if (at_ == end_) return false;
    if (!TakeVarint(&at_, end_, &tag) || !SplitTag(tag, field)) return Fail();
    switch (field->type) {
      case WireType::kVarint:
        return TakeVarint(&at_, end_, &field->value) || Fail();
      case WireType::kFixed64:
        return TakeFixed(8, field);
      case WireType::kFixed32:
        return TakeFixed(4, field);
      case WireType::kBytes:
        if (!TakeVarint(&at_, end_, &field->value) || field->value > static_cast<size_t>(end_ - at_)) return Fail();
        field->bytes = {at_, static_cast<size_t>(field->value)};
        at_ += field->value;
        return true;
    }
    return Fail();
  }
  bool is_damaged() const { return is_damaged_; }

 private:
  bool TakeFixed(size_t size, WireField* field) {
    if (static_cast<size_t>(end_ - at_) < size) return Fail();
    field->value = 0;
    for (size_t i = 0; i < size; ++i) field->value |= uint64_t{static_cast<unsigned char>(at_[i])} << (8 * i);
    at_ += size;
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
