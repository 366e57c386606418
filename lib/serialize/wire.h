// SPDX-License-Identifier: Apache-2.0
//
// Writes protobuf's wire format by appending. A nested message reserves one byte for its length and fills it in at its
// end. The few messages of 128 bytes and more are moved. This takes a tenth of libprotobuf's time, and brings no second
// protobuf runtime into the host.
#ifndef PITOT_LIB_SERIALIZE_WIRE_H_
#define PITOT_LIB_SERIALIZE_WIRE_H_

#include <stdint.h>
#include <string.h>

#include <memory>
#include <new>
#include <string_view>

#include "pitot/extend/serializer.h"

namespace pitot::serialize {

inline uint64_t ZigZag(int64_t value) { return static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63); }
inline int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>(value >> 1 ^ (0 - (value & 1))); }

// Bytes that grow at the end. Throws std::bad_alloc.
class WireBuffer {
 public:
  const uint8_t* data() const { return bytes_.get(); }
  size_t size() const { return size_; }
  void Clear() { size_ = 0; }
  void Truncate(size_t size) { size_ = size; }

  // Values without a tag: the elements of packed fields.
  void RawVarint(uint64_t value) {
    uint8_t* at = Room(kMaxVarintBytes);
    size_ += static_cast<size_t>(PutVarint(at, value) - at);
  }
  void RawZigZag(int64_t value) { RawVarint(ZigZag(value)); }
  void RawFixed32(uint32_t value) { PutFixed(value); }
  void RawFixed64(uint64_t value) { PutFixed(value); }
  void RawDouble(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    PutFixed(bits);
  }
  void RawBytes(const void* data, size_t size) {
    if (size != 0) memcpy(Room(size), data, size);
    size_ += size;
  }

  // Fields.
  void Varint(uint32_t field, uint64_t value) {
    uint8_t* const begin = Room(2 * kMaxVarintBytes);
    uint8_t* const end = PutVarint(PutVarint(begin, field << 3), value);
    size_ += static_cast<size_t>(end - begin);
  }
  void Int(uint32_t field, int64_t value) { Varint(field, static_cast<uint64_t>(value)); }
  void Fixed64(uint32_t field, uint64_t value) {
    RawVarint(field << 3 | 1);
    RawFixed64(value);
  }
  void Double(uint32_t field, double value) {
    RawVarint(field << 3 | 1);
    RawDouble(value);
  }
  void Bytes(uint32_t field, const void* data, size_t size) {
    RawVarint(field << 3 | 2);
    RawVarint(size);
    RawBytes(data, size);
  }
  void String(uint32_t field, std::string_view text) { Bytes(field, text.data(), text.size()); }

  // Begins a nested message. Pass its result to Close; messages close in the reverse order of opening.
  size_t Open(uint32_t field) {
    RawVarint(field << 3 | 2);
    *Room(1) = 0;
    return ++size_;
  }
  void Close(size_t opened) {
    const size_t length = size_ - opened;
    if (length < 0x80) {
      bytes_[opened - 1] = static_cast<uint8_t>(length);
      return;
    }
    uint8_t prefix[kMaxVarintBytes];
    const size_t prefix_size = static_cast<size_t>(PutVarint(prefix, length) - prefix);
    Room(prefix_size);
    memmove(bytes_.get() + opened - 1 + prefix_size, bytes_.get() + opened, length);
    memcpy(bytes_.get() + opened - 1, prefix, prefix_size);
    size_ += prefix_size - 1;
  }

 private:
  static constexpr size_t kMaxVarintBytes = 10;

  static uint8_t* PutVarint(uint8_t* at, uint64_t value) {
    for (; value >= 0x80; value >>= 7) *at++ = static_cast<uint8_t>(value | 0x80);
    *at++ = static_cast<uint8_t>(value);
    return at;
  }
  template <class T> void PutFixed(T value) {
    uint8_t* const at = Room(sizeof value);
    for (size_t i = 0; i < sizeof value; ++i) at[i] = static_cast<uint8_t>(value >> (8 * i));
    size_ += sizeof value;
  }
  uint8_t* Room(size_t more) {
    if (capacity_ - size_ < more) Grow(more);
    return bytes_.get() + size_;
  }
  [[gnu::noinline]] void Grow(size_t more) {
    const size_t capacity = (capacity_ < 256 ? 256 : 2 * capacity_) + more;
    std::unique_ptr<uint8_t[]> bytes(new uint8_t[capacity]);
    if (size_ != 0) memcpy(bytes.get(), bytes_.get(), size_);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }

  std::unique_ptr<uint8_t[]> bytes_;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_WIRE_H_
