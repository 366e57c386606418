// SPDX-License-Identifier: Apache-2.0
//
// Texts of files, made fit for a trace.
#ifndef PITOT_LIB_READ_TEXTS_H_
#define PITOT_LIB_READ_TEXTS_H_

#include <algorithm>
#include <string>
#include <string_view>

#include "pitot/model/trace.h"

namespace pitot::read {

constexpr size_t kMostTextBytes = 64 << 10;  // of a name or an argument

// The table replaces what is not UTF-8.
inline model::StringId Intern(std::string_view text, model::Trace* trace) {
  return trace->strings.Add(text.substr(0, kMostTextBytes));
}

// Adds an attribute of a file, unless the trace has it. The first 100 are kept, with the first 1000 bytes each.
inline void AddAttribute(std::string_view key, std::string_view value, model::Trace* trace) {
  constexpr size_t kMost = 100, kMostBytes = 1000;
  if (trace->attributes.size() >= kMost) return;
  const model::Attribute added = {Intern(key.substr(0, kMostBytes), trace), Intern(value.substr(0, kMostBytes), trace)};
  const bool is_known = std::any_of(trace->attributes.begin(), trace->attributes.end(), [&](const auto& known) {
    return known.key == added.key && known.value == added.value;
  });
  if (!is_known) trace->attributes.push_back(added);
}

// Its ASCII letters in lower case.
inline std::string Lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_TEXTS_H_
