// SPDX-License-Identifier: Apache-2.0
#include "model/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "base/columns.h"

namespace pitot::model {
namespace {

constexpr std::string_view kAnonymous = "(anonymous namespace)", kOperatorWord = "operator";

constexpr size_t kMostBytes = 16 << 10;   // of a full name
constexpr size_t kMostWritten = 1 << 20;  // by the demangler, before a name is refused

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsIdentifier(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$';
}

// The end of the brackets that begin at `at`. Other kinds of brackets may be nested in them; "->" is not a bracket.
size_t SkipBrackets(std::string_view text, size_t at) {
  size_t depth = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '<' || c == '(' || c == '{' || c == '[') {
      ++depth;
    } else if ((c == '>' && text[at - 1] != '-') || c == ')' || c == '}' || c == ']') {
      if (--depth == 0) return at + 1;
    }
  }
  return at;
}

struct Reference {
  size_t at, size;
};

// Finds "S_", "T0_", "S1A_" in a compiled name: references to another part of it. Also matches letters of identifiers.
std::vector<Reference> References(std::string_view compiled) {
  std::vector<Reference> references;
  for (size_t at = 0; at < compiled.size(); ++at) {
    if (compiled[at] != 'S' && compiled[at] != 'T') continue;
    size_t end = at + 1;
    while (end < compiled.size() && (IsDigit(compiled[end]) || (compiled[end] >= 'A' && compiled[end] <= 'Z'))) ++end;
    if (end == compiled.size() || compiled[end] != '_') continue;
    references.push_back({at, end + 1 - at});
    at = end;
  }
  return references;
}

// Replaces a reference with an identifier of the same length, made of a letter that does not occur in names.
constexpr char kNextLetter = '\1', kLaterLetter = '\2';
void HideReference(const Reference& reference, char letter, std::string* compiled) {
  if (reference.size > 10) return;  // too large a number for the demangler
  compiled->replace(reference.at, reference.size, reference.size, letter);
  (*compiled)[reference.at] = static_cast<char>('0' + reference.size - 1);
}

// The demangled name; empty if the demangler refuses.
std::string Written(const std::string& compiled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> text(abi::__cxa_demangle(compiled.c_str(), nullptr, nullptr, &status),
                                                    std::free);
  return status == 0 && text != nullptr ? text.get() : "";
}

// Demangles a name within kMostWritten. References in a compiled name may nest: a few hundred letters can expand to
// gigabytes, and a dump may come from anyone. So all references are hidden and then restored one by one. The text of a
// restored reference is at most as long as the text so far, or as the name's letters when expanded. It appears as often
// as its stand-in did. Empty if the demangler refuses the name, if the text may be too long, or if a reference does not
// appear in the text.
std::string FullName(std::string_view compiled) {
  const std::vector<Reference> references = References(compiled);
  std::string hidden(compiled);
  for (const Reference& reference : references) HideReference(reference, kLaterLetter, &hidden);
  std::string written;
  for (const Reference& next : references) {
    HideReference(next, kNextLetter, &hidden);
    written = Written(hidden);
    const auto letters = static_cast<size_t>(std::count(written.begin(), written.end(), kNextLetter));
    const size_t times = letters / (next.size - 1);
    // An abbreviation expands to at most this many letters ("std::basic_iostream<char, ...>").
    constexpr size_t kMostOfLetter = 80;
    if (times == 0 || (times + 1) * std::max(written.size(), compiled.size() * kMostOfLetter) > kMostWritten) return {};
    hidden.replace(next.at, next.size, compiled.substr(next.at, next.size));
  }
  return Written(hidden);
}

// The scopes and the name at the front of a compiled name. For names that the demangler refuses, such as the longest.
std::string NameInFront(std::string_view compiled) {
  if (compiled.substr(0, 2) != "_Z") return {};
  compiled.remove_prefix(2);
  const bool is_nested = !compiled.empty() && compiled[0] == 'N';
  if (is_nested) compiled.remove_prefix(1);
  std::string name;
  while (!compiled.empty() && IsDigit(compiled[0]) && (is_nested || name.empty())) {
    size_t size = 0;
    while (!compiled.empty() && IsDigit(compiled[0]) && size <= compiled.size()) {
      size = size * 10 + static_cast<size_t>(compiled[0] - '0');
      compiled.remove_prefix(1);
    }
    if (size == 0 || size > compiled.size()) return {};
    const std::string_view part = compiled.substr(0, size);
    compiled.remove_prefix(size);
    if (part.substr(0, 11) != "_GLOBAL__N_") name.append(name.empty() ? "" : "::").append(part);
  }
  return name;
}

}  // namespace

namespace {

// Whether an operator's name begins at `at`.
bool IsOperator(std::string_view full, size_t at) {
  if (full.substr(at, kOperatorWord.size()) != kOperatorWord || (at > 0 && IsIdentifier(full[at - 1]))) return false;
  const size_t end = at + kOperatorWord.size();
  return end == full.size() || !IsIdentifier(full[end]);
}

// The end of the operator's name that begins at `at`. Its brackets are part of it.
size_t SkipOperator(std::string_view full, size_t at) {
  const size_t word_end = at + kOperatorWord.size();
  size_t end = word_end;
  if (full.substr(end, 2) == "()") end += 2;
  while (end < full.size() && full[end] != '(' && !(full[end] == '<' && full[end - 1] != '<' && end > word_end)) ++end;
  return end;
}

size_t SkipAnonymous(std::string_view full, size_t at) {
  at += kAnonymous.size();
  return full.substr(at, 2) == "::" ? at + 2 : at;
}

}  // namespace

std::string BriefName(std::string_view full) {
  std::string brief;
  for (size_t at = 0; at < full.size();) {
    const std::string_view rest = full.substr(at);
    if (rest.substr(0, kAnonymous.size()) == kAnonymous) {
      at = SkipAnonymous(full, at);
    } else if (IsOperator(full, at)) {
      const size_t end = SkipOperator(full, at);
      brief.append(full.substr(at, end - at));
      at = end;
    } else if (rest[0] == '<') {
      at = SkipBrackets(full, at);
    } else if (rest[0] == '{') {
      at = SkipBrackets(full, at);
      brief += rest.substr(0, 7) == "{lambda" ? "{lambda}" : "{}";
    } else if (rest[0] == '(') {
      at = SkipBrackets(full, at);
      if (brief.empty() || brief == "decltype") continue;  // of the return type
      // Parameters end the name, unless a class or lambda inside of the function follows.
      if (full.substr(at, 6) == " const") at += 6;
      if (full.substr(at, 2) != "::") break;
    } else if (rest[0] == ' ') {
      brief.clear();  // it was the return type
      ++at;
    } else {
      brief += rest[0];
      ++at;
    }
  }
  brief.erase(brief.find_last_not_of(' ') + 1);
  return brief.empty() ? std::string(full) : brief;
}

std::string ShortName(std::string_view brief, size_t most) {
  // Python's own functions say first what they are.
  const bool is_builtin = brief.starts_with("<built-in ");
  return is_builtin ? base::Cut(brief, most) : base::CutMiddle(brief, most);
}

std::string ActivityName(const Trace& trace, uint32_t gpu_row) {
  const model::GpuKind kind = trace.gpu.kind[gpu_row];
  const std::string_view name = trace.strings[trace.gpu.name[gpu_row]];
  std::string text = model::GpuKindName(kind);
  if (kind == model::GpuKind::kSpan) return name.empty() ? text : std::string(name);
  if (kind != model::GpuKind::kGraph) return name.empty() ? text : text.append(" ").append(name);
  if (!name.empty()) text = name;
  // Collectors may give all graphs the same name.
  const bool has_number = std::any_of(text.begin(), text.end(), IsDigit);
  if (trace.gpu.graph[gpu_row] != 0 && !has_number) text += " " + std::to_string(trace.gpu.graph[gpu_row]);
  return text;
}

KernelName ReadKernelName(std::string_view compiled) {
  const std::string text(compiled);
  if (text.compare(0, 2, "_Z") != 0) return {text, BriefName(text)};
  if (const std::string full = FullName(compiled); !full.empty())
    return {full.size() <= kMostBytes ? full : text, BriefName(full)};
  const std::string name = NameInFront(compiled);
  return {text, name.empty() ? text : name};
}

}  // namespace pitot::model
