// SPDX-License-Identifier: Apache-2.0
//
// JSON that is not UTF-8, or has control characters in its texts, made readable.
#ifndef PITOT_LIB_READ_REPAIRED_H_
#define PITOT_LIB_READ_REPAIRED_H_

#include <string>
#include <string_view>

#include "base/text.h"

namespace pitot::read {

// Control characters become spaces: JSON allows them only between its parts. Invalid bytes become U+FFFD.
inline std::string Repaired(std::string_view json) {
  std::string text(json);
  for (char& c : text) c = static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return base::SanitizeText(text);
}

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_REPAIRED_H_
