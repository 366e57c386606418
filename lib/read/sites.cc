// SPDX-License-Identifier: Apache-2.0
#include "read/sites.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "read/texts.h"

namespace pitot::read {
namespace {

constexpr size_t kMostArgs = 16;

bool IsUnsigned(std::string_view text, uint64_t* value) {
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && at == end;
}

ArgType TypeOf(const ChromeValue& arg) {
  if (arg.whole) return ArgType::kInt;
  const std::string_view text = arg.text;
  if (arg.is_text || text.empty()) return ArgType::kString;
  if (text == "true" || text == "false") return ArgType::kBool;
  const std::string_view size = text.substr(text[0] == '-');
  if (size == "nan" || size == "inf") return ArgType::kDouble;
  if (size.empty() || size[0] < '0' || size[0] > '9') return ArgType::kString;
  if (text.find_first_of(".eE") == std::string_view::npos && arg.Number()) return ArgType::kInt;
  uint64_t value;
  return IsUnsigned(text, &value) ? ArgType::kUint : ArgType::kDouble;
}

}  // namespace

// Files are full of the same few names: a comparison is cheaper than a key.
uint32_t Sites::Of(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args) {
  const size_t hash = std::hash<std::string_view>()(name) + static_cast<size_t>(kind) * 31 + args.size();
  uint32_t& recent = recent_[hash % kRecent];
  if (recent == model::kNone || !IsSame(recent, kind, name, args)) recent = Find(kind, name, args);
  return recent;
}

bool Sites::IsSame(uint32_t row, SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args) const {
  const model::SiteRow& site = trace_.sites[row];
  const size_t count = site.arg_names.size();
  if (site.kind != kind || trace_.strings[site.name] != name || count != std::min(args.size(), kMostArgs)) return false;
  for (size_t i = 0; i < count; ++i) {
    if (trace_.strings[site.arg_names[i]] != args[i].key || site.arg_types[i] != TypeOf(args[i])) return false;
  }
  return true;
}

uint32_t Sites::Find(SiteKind kind, std::string_view name, const std::vector<ChromeValue>& args) {
  const size_t count = std::min(args.size(), kMostArgs);
  key_ = name.substr(0, kMostTextBytes);
  key_ += '\0';
  key_ += static_cast<char>(kind);
  for (size_t i = 0; i < count; ++i) {
    key_ += static_cast<char>(TypeOf(args[i]));
    key_.append(args[i].key) += '\0';
  }
  const auto [found, is_new] = rows_.try_emplace(key_, static_cast<uint32_t>(trace_.sites.size()));
  if (!is_new) return found->second;
  model::SiteRow row;
  row.kind = kind;
  row.name = Intern(name, &trace_);
  for (size_t i = 0; i < count; ++i) {
    row.arg_names.push_back(Intern(args[i].key, &trace_));
    row.arg_types.push_back(TypeOf(args[i]));
  }
  trace_.sites.push_back(std::move(row));
  return found->second;
}

std::string_view Sites::AnyOf(ArgType type) {
  if (type == ArgType::kBool) return "true";
  if (type == ArgType::kInt) return "0";
  return type == ArgType::kUint ? "18446744073709551615" : "0.5";
}

uint32_t Sites::AddValues(uint32_t site, const std::vector<ChromeValue>& args) {
  const std::vector<ArgType>& types = trace_.sites[site].arg_types;
  if (types.empty()) return model::kNone;
  const auto first = static_cast<uint32_t>(trace_.arg_values.size());
  for (size_t i = 0; i < types.size(); ++i) trace_.arg_values.push_back(i < args.size() ? Value(types[i], args[i]) : 0);
  return first;
}

model::ArgValue Sites::Value(ArgType type, const ChromeValue& arg) {
  switch (type) {
    case ArgType::kBool:
      return arg.text == "true";
    case ArgType::kInt:
      return static_cast<uint64_t>(arg.Number().value_or(0));
    case ArgType::kUint: {
      uint64_t value = 0;
      IsUnsigned(arg.text, &value);
      return value;
    }
    case ArgType::kDouble: {
      const double number = strtod(std::string(arg.text).c_str(), nullptr);
      uint64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      return bits;
    }
    default:
      return Intern(arg.text, &trace_);
  }
}

}  // namespace pitot::read
