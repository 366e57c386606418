// SPDX-License-Identifier: Apache-2.0
//
// Numbers as bytes: how the data of `pitot view` travels in its page.
#ifndef PITOT_LIB_CLI_VIEW_PACKED_H_
#define PITOT_LIB_CLI_VIEW_PACKED_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace pitot::cli::view {

// A column: 7 bits of a number in each byte, the lowest first; the highest bit says that more follow.
class Packed {
 public:
  void Add(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  // Numbers near 0 are short, whatever their sign.
  void AddSigned(int64_t value) { Add(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  // 8 bytes, the lowest first.
  void AddRaw(uint64_t value) {
    for (int i = 0; i < 8; ++i, value >>= 8) bytes_ += static_cast<char>(value);
  }
  size_t size() const { return bytes_.size(); }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace pitot::cli::view

#endif  // PITOT_LIB_CLI_VIEW_PACKED_H_
