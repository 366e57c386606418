// SPDX-License-Identifier: Apache-2.0
#include "read/python_text.h"

#include <cstddef>

namespace pitot::read {
namespace {

constexpr auto kNowhere = std::string_view::npos;

bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// Behind the text in quotes that begins here. kNowhere: it has no end.
size_t EndOfText(std::string_view text, size_t at) {
  const char quote = text[at++];
  for (; at < text.size(); ++at) {
    if (text[at] == '\\') {
      ++at;
    } else if (text[at] == quote) {
      return at + 1;
    }
  }
  return kNowhere;
}

// An apostrophe in a word begins no text, but b'...' does.
bool BeginsText(std::string_view text, size_t at) {
  if (text[at] != '\'' && text[at] != '"') return false;
  if (at == 0 || !IsWord(text[at - 1])) return true;
  return text[at - 1] == 'b' && (at == 1 || !IsWord(text[at - 2]));
}

// Where the first `end` outside of texts and brackets is, or the end. kNowhere: within a text or bracket.
size_t EndOfValue(std::string_view text, size_t at, std::string_view ends) {
  size_t depth = 0;
  while (at < text.size()) {
    if (BeginsText(text, at)) {
      at = EndOfText(text, at);
      if (at == kNowhere) return kNowhere;
      continue;
    }
    const char c = text[at];
    if (depth == 0 && ends.find(c) != kNowhere) return at;
    depth += c == '(' || c == '[' || c == '{';
    depth -= depth != 0 && (c == ')' || c == ']' || c == '}');
    ++at;
  }
  return depth == 0 ? at : kNowhere;
}

}  // namespace

bool PythonFields::Next() {
  while (rest_.starts_with(' ') || rest_.starts_with(',')) rest_.remove_prefix(1);
  if (rest_.empty() || is_cut_) return false;
  const size_t key_end = rest_[0] == '\'' ? EndOfText(rest_, 0) : rest_.find(between_);
  if (key_end == kNowhere || !rest_.substr(key_end).starts_with(between_)) return is_cut_ = true, false;
  key_ = rest_.substr(0, key_end);
  if (rest_[0] == '\'') key_ = Unquoted(key_);
  const size_t begin = key_end + between_.size(), end = EndOfValue(rest_, begin, ",");
  if (end == kNowhere) return is_cut_ = true, false;
  value_ = rest_.substr(begin, end - begin);
  rest_.remove_prefix(end);
  return true;
}

std::string_view WithinBrackets(std::string_view value) {
  const size_t begin = value.find_first_of("([{'\"");
  if (begin == kNowhere || value[begin] == '\'' || value[begin] == '"') return {};
  const size_t end = EndOfValue(value, begin + 1, ")]}");
  return end == kNowhere ? std::string_view() : value.substr(begin + 1, end - begin - 1);
}

std::string_view Unquoted(std::string_view value) {
  const bool is_text = value.size() >= 2 && (value[0] == '\'' || value[0] == '"') && value.back() == value[0];
  return is_text ? value.substr(1, value.size() - 2) : std::string_view();
}

std::vector<std::string_view> TextsOf(std::string_view value) {
  std::vector<std::string_view> texts;
  if (!value.starts_with('[')) {
    if (const std::string_view text = Unquoted(value); !text.empty()) texts.push_back(text);
    return texts;
  }
  std::string_view rest = WithinBrackets(value);
  while (!rest.empty()) {
    const size_t end = EndOfValue(rest, 0, ",");
    if (end == kNowhere) break;
    if (const std::string_view text = Unquoted(rest.substr(0, end)); !text.empty()) texts.push_back(text);
    rest.remove_prefix(end);
    while (rest.starts_with(' ') || rest.starts_with(',')) rest.remove_prefix(1);
  }
  return texts;
}

}  // namespace pitot::read
