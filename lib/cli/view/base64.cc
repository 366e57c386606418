// SPDX-License-Identifier: Apache-2.0
#include "cli/view/base64.h"

#include <algorithm>

namespace pitot::cli::view {

std::string Base64(std::string_view bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t i = 0; i < bytes.size(); i += 3) {
    const size_t left = std::min<size_t>(3, bytes.size() - i);
    uint32_t group = 0;
    for (size_t k = 0; k < 3; ++k) group = group << 8 | (k < left ? static_cast<unsigned char>(bytes[i + k]) : 0);
    for (size_t k = 0; k < 4; ++k) out += k <= left ? kDigits[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

bool Base64Sink::Write(const void* data, uint64_t size) noexcept try {
  rest_.append(static_cast<const char*>(data), size);
  const size_t whole = rest_.size() / 3 * 3;
  const std::string text = Base64(std::string_view(rest_).substr(0, whole));
  rest_.erase(0, whole);
  return text_.Write(text.data(), text.size());
} catch (...) {  // no memory
  return false;
}

bool Base64Sink::Finish() {
  const std::string text = Base64(rest_);
  return text_.Write(text.data(), text.size());
}

}  // namespace pitot::cli::view
