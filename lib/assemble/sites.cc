// SPDX-License-Identifier: Apache-2.0
#include "assemble/sites.h"

#include <utility>

namespace pitot::assemble {
namespace {

// Keys of the index outside the range of addresses.
constexpr uint64_t kHasFewerArgs = uint64_t{1} << 63;  // with the number of arguments from bit 56 on
constexpr uint64_t kWasUnloaded = uint64_t{1} << 55;

std::string_view Trim(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

bool IsWord(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '\'';
}

// The word right before `at`: a literal's prefix (u8, LR), or a number with digits separated by a quote (0xff'ff).
std::string_view WordBefore(std::string_view text, size_t at) {
  size_t begin = at;
  while (begin > 0 && IsWord(text[begin - 1])) --begin;
  return text.substr(begin, at - begin);
}

// The end of the string or character literal that begins at `at`.
size_t SkipLiteral(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view prefix = WordBefore(text, at);
  if (quote == '"' && !prefix.empty() && prefix.back() == 'R') {
    const size_t open = text.find('(', at);
    if (open == std::string_view::npos) return text.size();
    const std::string close = ")" + std::string(text.substr(at + 1, open - at - 1)) + "\"";
    const size_t end = text.find(close, open);
    return end == std::string_view::npos ? text.size() : end + close.size() - 1;
  }
  for (++at; at < text.size() && text[at] != quote; ++at) {
    if (text[at] == '\\') ++at;
  }
  return at;
}

model::SiteRow MakeRow(const snapshot::SiteText& text, model::StringTable* strings) {
  model::SiteRow row;
  row.kind = text.kind;
  row.name = strings->Add(text.name);
  row.file = strings->Add(text.file);
  row.function = strings->Add(text.function);
  row.line = text.line;
  row.unloaded = text.unloaded;
  row.name_is_first_arg = (text.flags & kNameIsFirstArg) != 0;
  const std::vector<std::string_view> names = SplitArgText(text.arg_text);
  for (uint8_t i = 0; i < text.arg_count; ++i) {
    row.arg_types.push_back(static_cast<ArgType>(text.arg_types >> (4 * i) & 7));
    row.arg_names.push_back(strings->Add(i < names.size() ? names[i] : "value"));
  }
  return row;
}

}  // namespace

namespace {

bool IsOpening(char c) { return c == '(' || c == '[' || c == '{'; }
bool IsClosing(char c) { return c == ')' || c == ']' || c == '}'; }

}  // namespace

std::vector<std::string_view> SplitArgText(std::string_view text) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const std::string_view before = c == '\'' ? WordBefore(text, i) : std::string_view();
    const bool separates_digits = !before.empty() && before[0] >= '0' && before[0] <= '9';
    if ((c == '"' || c == '\'') && !separates_digits) {
      i = SkipLiteral(text, i);
    } else if (IsOpening(c)) {
      ++depth;
    } else if (IsClosing(c)) {
      --depth;
    } else if (c == ',' && depth == 0) {
      parts.push_back(Trim(text.substr(begin, i - begin)));
      begin = i + 1;
    }
  }
  parts.push_back(Trim(text.substr(begin)));
  parts.erase(parts.begin());
  return parts;
}

const KnownSite& Sites::At(uint64_t address, uint64_t ticks) {
  const KnownSite& present = Present(address);
  return ticks >= present.since_ticks ? present : Unloaded(address);
}

const KnownSite& Sites::Present(uint64_t address) {
  if (address == last_address_ && !sites_.empty()) return sites_[last_];
  const auto [at, is_new] = index_.try_emplace(address, static_cast<uint32_t>(sites_.size()));
  last_address_ = address;
  last_ = at->second;
  if (!is_new) return sites_[last_];
  KnownSite site = Add(texts_.Site(address));
  site.since_ticks = LoadedSince(address);
  sites_.push_back(site);
  return sites_.back();
}

const KnownSite& Sites::Unloaded(uint64_t address) {
  const auto [at, is_new] = index_.try_emplace(address | kWasUnloaded, static_cast<uint32_t>(sites_.size()));
  if (is_new) sites_.push_back(Add(snapshot::UnloadedSite()));
  return sites_[at->second];
}

KnownSite Sites::Add(const snapshot::SiteText& text) {
  KnownSite site;
  site.kind = text.kind;
  site.arg_count = text.arg_count;
  site.unloaded = text.unloaded;
  if (text.kind == SiteKind::kInternal) {
    site.record = static_cast<trace::Record>(text.flags);
  } else {
    site.row = static_cast<uint32_t>(trace_->sites.size());
    trace_->sites.push_back(MakeRow(text, &trace_->strings));
    for (uint8_t i = 0; i < text.arg_count; ++i) site.arg_types[i] = trace_->sites.back().arg_types[i];
  }
  return site;
}

uint64_t Sites::LoadedSince(uint64_t address) {
  if (modules_ == nullptr) return 0;
  modules_->Look(slow_clock_);
  return modules_->LoadedSince(address);
}

const KnownSite& Sites::WithArgs(uint64_t address, uint64_t ticks, uint8_t count) {
  KnownSite site = At(address, ticks);
  const uint64_t key = address | uint64_t{count} << 56 | kHasFewerArgs;
  const auto [at, is_new] = index_.try_emplace(key, static_cast<uint32_t>(sites_.size()));
  if (is_new) {
    model::SiteRow row = trace_->sites[site.row];
    row.arg_types.resize(count);
    row.arg_names.resize(count);
    site.arg_count = count;
    site.row = static_cast<uint32_t>(trace_->sites.size());
    trace_->sites.push_back(std::move(row));
    sites_.push_back(site);
  }
  return sites_[at->second];
}

model::StringId Sites::Literal(uint64_t address, uint64_t ticks) {
  constexpr char kUnloaded[] = "(unloaded)";
  const auto [at, is_new] = literals_.try_emplace(address);
  KnownLiteral& literal = at->second;
  if (is_new) {
    std::string text;
    if (address != 0 && !texts_.Literal(address, &text)) text = kUnloaded;
    literal = {trace_->strings.Add(text), LoadedSince(address)};
  }
  return ticks >= literal.since_ticks ? literal.text : trace_->strings.Add(kUnloaded);
}

}  // namespace pitot::assemble
