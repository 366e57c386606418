// SPDX-License-Identifier: Apache-2.0
//
// Writes JSON by appending; whole buffers go to the sink. The caller puts the parts in their order, and a comma comes
// by itself before a key or an element that is not the first.
#ifndef PITOT_LIB_SERIALIZE_JSON_WRITER_H_
#define PITOT_LIB_SERIALIZE_JSON_WRITER_H_

#include <stdint.h>

#include <charconv>
#include <string>
#include <string_view>

#include "pitot/extend/serializer.h"

namespace pitot::serialize {

class JsonWriter {
 public:
  explicit JsonWriter(ByteSink* sink) : sink_(*sink) { text_.reserve(kFlushBytes + (4 << 10)); }

  bool ok() const { return ok_; }
  void Flush() {
    ok_ = ok_ && (text_.empty() || sink_.Write(text_.data(), text_.size()));
    text_.clear();
  }

  void Open(char bracket) {
    Separate();
    text_.push_back(bracket);
    is_first_ = true;
  }
  void Close(char bracket) {
    text_.push_back(bracket);
    is_first_ = false;
    if (text_.size() >= kFlushBytes) Flush();
  }
  void NewLine() {
    Separate();
    text_.push_back('\n');
    is_first_ = true;
  }
  void Key(std::string_view key) {
    Text(key);
    text_.push_back(':');
    is_first_ = true;
  }

  // Values: elements, or after a key.
  void Number(int64_t value) { Digits(value); }
  void Number(uint64_t value) { Digits(value); }
  void Number(uint32_t value) { Digits(value); }
  // What is not finite is a text, because JSON has no such number.
  void Number(double value) {
    if (value - value == 0) return Digits(value);
    Text(value != value ? "NaN" : value > 0 ? "Infinity" : "-Infinity");
  }
  void Bool(bool value) { Raw(value ? "true" : "false"); }
  // Microseconds with all nanoseconds.
  void Micros(int64_t ns) {
    Separate();
    const int64_t part = ns % 1000;
    Append(ns / 1000);
    const char decimals[] = {'.', static_cast<char>('0' + part / 100), static_cast<char>('0' + part / 10 % 10),
                             static_cast<char>('0' + part % 10)};
    text_.append(decimals, sizeof decimals);
    is_first_ = false;
  }
  // Valid UTF-8 without control characters, as in the trace's table of strings.
  void Text(std::string_view text) {
    Separate();
    text_.push_back('"');
    for (size_t at; (at = text.find_first_of("\"\\")) != std::string_view::npos; text.remove_prefix(at + 1)) {
      text_.append(text, 0, at).push_back('\\');
      text_.push_back(text[at]);
    }
    text_.append(text).push_back('"');
    is_first_ = false;
  }
  // A value that is JSON already.
  void Raw(std::string_view json) {
    Separate();
    text_.append(json);
    is_first_ = false;
  }

 private:
  static constexpr size_t kFlushBytes = 256 << 10;

  void Separate() {
    if (!is_first_) text_.push_back(',');
  }
  template <class Value> void Digits(Value value) {
    Separate();
    Append(value);
    is_first_ = false;
  }
  template <class Value> void Append(Value value) {
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
  }

  ByteSink& sink_;
  bool ok_ = true;
  bool is_first_ = true;
  std::string text_;
};

}  // namespace pitot::serialize

#endif  // PITOT_LIB_SERIALIZE_JSON_WRITER_H_
