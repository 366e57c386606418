// SPDX-License-Identifier: Apache-2.0
//
// Walks over values as Python prints them: "GenerateReqInput(rid='a', text=None)", "{'id': 'a', 'meta': {...}}". Texts
// in quotes are passed over whole, so that nothing within them is taken for a value.
#ifndef PITOT_LIB_READ_PYTHON_TEXT_H_
#define PITOT_LIB_READ_PYTHON_TEXT_H_

#include <string_view>
#include <vector>

namespace pitot::read {

class PythonFields {
 public:
  // `text` is "key=value, key=value" or, with `between` ": ", "'key': value, 'key': value".
  PythonFields(std::string_view text, std::string_view between) : rest_(text), between_(between) {}

  // Goes to the next field. False at the end, and if there is none.
  bool Next();
  std::string_view key() const { return key_; }      // without quotes
  std::string_view value() const { return value_; }  // as printed
  // Whether a text or bracket had no end.
  bool is_cut() const { return is_cut_; }

 private:
  std::string_view rest_, between_, key_, value_;
  bool is_cut_ = false;
};

// What is between the brackets of "NAME(...)", "{...}" or "[...]", or of one of these with more behind it. "": no
// bracket.
std::string_view WithinBrackets(std::string_view value);
// A text without its quotes; "" for another value. Escapes stay as printed.
std::string_view Unquoted(std::string_view value);
// The texts of a list; or a text by itself.
std::vector<std::string_view> TextsOf(std::string_view value);

}  // namespace pitot::read

#endif  // PITOT_LIB_READ_PYTHON_TEXT_H_
