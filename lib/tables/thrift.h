// SPDX-License-Identifier: Apache-2.0
//
// Writes Thrift's compact protocol by appending: the part that Parquet's headers need.
#ifndef PITOT_LIB_TABLES_THRIFT_H_
#define PITOT_LIB_TABLES_THRIFT_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "serialize/wire.h"

namespace pitot::tables {

class Thrift {
 public:
  static constexpr uint8_t kI32 = 5, kI64 = 6, kBinary = 8, kList = 9, kStruct = 12;

  explicit Thrift(serialize::WireBuffer* out) : out_(*out) {}

  void I32(int field, int64_t value) {
    Field(field, kI32);
    out_.RawZigZag(value);
  }
  void I64(int field, int64_t value) {
    Field(field, kI64);
    out_.RawZigZag(value);
  }
  void Bool(int field, bool value) { Field(field, value ? 1 : 2); }
  void Binary(int field, std::string_view bytes) {
    Field(field, kBinary);
    RawBinary(bytes);
  }

  // A struct in a field. End ends it, and the outermost one.
  void Begin(int field) {
    Field(field, kStruct);
    BeginElement();
  }
  void End() {
    Byte(0);
    last_.pop_back();
  }
  void Empty(int field) {
    Begin(field);
    End();
  }

  // A list in a field; its elements follow.
  void List(int field, uint8_t type, size_t size) {
    Field(field, kList);
    Byte(static_cast<uint8_t>(size < 15 ? size << 4 | type : 0xf0 | type));
    if (size >= 15) out_.RawVarint(size);
  }
  void BeginElement() { last_.push_back(0); }
  void RawI32(int64_t value) { out_.RawZigZag(value); }
  void RawBinary(std::string_view bytes) {
    out_.RawVarint(bytes.size());
    out_.RawBytes(bytes.data(), bytes.size());
  }

 private:
  void Byte(uint8_t byte) { out_.RawBytes(&byte, 1); }
  // Fields are in order, and less than 16 apart.
  void Field(int field, uint8_t type) {
    Byte(static_cast<uint8_t>((field - last_.back()) << 4 | type));
    last_.back() = field;
  }

  serialize::WireBuffer& out_;
  std::vector<int> last_ = {0};  // the last field of each open struct
};

}  // namespace pitot::tables

#endif  // PITOT_LIB_TABLES_THRIFT_H_
