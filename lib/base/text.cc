// SPDX-License-Identifier: Apache-2.0
#include "base/text.h"

#include <cstring>

namespace pitot::base {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";  // U+FFFD

// The size of a UTF-8 character by its first byte, which is not ASCII; 0 if none begins so.
uint32_t SizeByFirst(uint32_t first) {
  if (first < 0xc2) return 0;
  if (first < 0xe0) return 2;
  if (first < 0xf0) return 3;
  return first < 0xf5 ? 4 : 0;
}

// Whether the code needs this size and is a character's. Surrogates are not characters.
bool Needs(uint32_t size, uint32_t code) {
  if (size == 3) return code >= 0x800 && (code < 0xd800 || code >= 0xe000);
  return size != 4 || (code >= 0x10000 && code <= 0x10ffff);
}

// A text with such a character shows something other than it says, or breaks lines (Unicode Technical Report 36).
bool IsControl(uint32_t code) {
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || code == 0x61c || code == 0x200e || code == 0x200f ||
         (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069) || code == 0xfeff;
}

}  // namespace

// A control character of several bytes is replaced byte by byte.
uint32_t SaneCharacter(std::string_view text) {
  const auto byte = [&](uint32_t i) -> uint32_t { return static_cast<uint8_t>(text[i]); };
  const uint32_t first = byte(0);
  if (first < 0x80) return IsControl(first) ? 0 : 1;
  const uint32_t size = SizeByFirst(first);
  if (size == 0 || size > text.size()) return 0;
  uint32_t code = first & (0xff >> (size + 1));
  for (uint32_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  return Needs(size, code) && !IsControl(code) ? size : 0;
}

bool IsSaneText(std::string_view text) {
  while (!text.empty()) {
    const uint32_t size = SaneCharacter(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

std::string SanitizeText(std::string_view text) {
  std::string sane;
  sane.reserve(text.size());
  while (!text.empty()) {
    const uint32_t size = SaneCharacter(text);
    sane.append(size != 0 ? text.substr(0, size) : std::string_view(kReplacement));
    text.remove_prefix(size != 0 ? size : 1);
  }
  return sane;
}

namespace {

// The result of strerror_r, in its two forms.
[[maybe_unused]] const char* Said(int, const char* buffer) { return buffer; }
[[maybe_unused]] const char* Said(const char* text, const char*) { return text; }

}  // namespace

std::string SystemText(int error) {
  char buffer[128] = "";
  return Said(strerror_r(error, buffer, sizeof buffer), buffer);
}

std::string SignalText(int number) {
  const char* const name = sigabbrev_np(number);
  return name != nullptr ? "SIG" + std::string(name) : "signal " + std::to_string(number);
}

}  // namespace pitot::base
