// SPDX-License-Identifier: Apache-2.0
//
// JSON as text, indented by two spaces. The caller keeps the order right: a key before each value of an object.
#ifndef PITOT_LIB_BASE_JSON_H_
#define PITOT_LIB_BASE_JSON_H_

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace pitot::base {

class Json {
 public:
  Json& Begin(char bracket) {  // '{' or '['
    Place();
    text_ += bracket;
    ends_ += bracket == '{' ? '}' : ']';
    is_first_ = true;
    return *this;
  }
  Json& End() {
    const char end = ends_.back();
    ends_.pop_back();
    if (!is_first_) Line();
    text_ += end;
    is_first_ = false;
    return *this;
  }
  Json& Key(std::string_view key) {
    Place();
    Quote(key);
    text_ += ": ";
    has_key_ = true;
    return *this;
  }
  // UTF-8, like all strings of a trace.
  Json& Text(std::string_view value) {
    Place();
    Quote(value);
    return *this;
  }
  Json& Int(int64_t value) { return Raw(std::to_string(value)); }
  Json& Bool(bool value) { return Raw(value ? "true" : "false"); }
  Json& Null() { return Raw("null"); }
  Json& Real(double value) {
    char digits[32];
    if (!std::isfinite(value)) return Null();
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    return Raw(std::string_view(digits, static_cast<size_t>(end - digits)));
  }
  const std::string& text() const { return text_; }

 private:
  Json& Raw(std::string_view value) {
    Place();
    text_ += value;
    return *this;
  }
  // Writes the separator before a key or a value.
  void Place() {
    if (has_key_) {
      has_key_ = false;
      return;
    }
    if (!is_first_) text_ += ',';
    if (!ends_.empty()) Line();
    is_first_ = false;
  }
  void Line() {
    text_ += '\n';
    text_.append(2 * ends_.size(), ' ');
  }
  void Quote(std::string_view value) {
    text_ += '"';
    for (const char c : value) {
      char escaped[8];
      if (c == '"' || c == '\\') {
        text_ += '\\', text_ += c;
      } else if (static_cast<unsigned char>(c) < 0x20) {
        std::snprintf(escaped, sizeof escaped, "\\u%04x", static_cast<unsigned>(c));
        text_ += escaped;
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_, ends_;  // brackets still to be closed, the innermost last
  bool is_first_ = true, has_key_ = false;
};

}  // namespace pitot::base

#endif  // PITOT_LIB_BASE_JSON_H_
