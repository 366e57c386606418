// SPDX-License-Identifier: Apache-2.0
#include "collect/stacks/frames.h"

#include <cxxabi.h>
#include <stdlib.h>

#include <algorithm>
#include <iterator>

namespace pitot::stacks {

namespace {

constexpr size_t kMostBytes = 80;
constexpr std::string_view kOperator = "operator", kAnonymous = "(anonymous namespace)";

constexpr std::string_view kRuntimeModules[] = {"libc.so",   "libc-",    "libpthread", "librt",    "libm.so",
                                                "libstdc++", "libc++",   "libgcc_s",   "ld-linux", "ld-musl",
                                                "libc.musl", "libpitot", "linux-vdso"};
constexpr std::string_view kRuntimeFunctions[] = {"std::", "__gnu_cxx::", "__gthread_", "pthread_", "pitot::"};

template <class List> bool BeginsWithAny(std::string_view text, const List& list) {
  return std::any_of(std::begin(list), std::end(list), [&](std::string_view begin) { return text.starts_with(begin); });
}

}  // namespace

std::string ShortFunction(std::string_view demangled) {
  int depth = 0;  // of template arguments and lambdas
  size_t end = demangled.size();
  for (size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    if (demangled.substr(i).starts_with(kOperator)) {
      i += kOperator.size();
      while (i < demangled.size() && demangled[i] != '(') ++i;
      i = demangled.substr(i).starts_with("()") ? i + 1 : i - 1;
      continue;
    }
    if (demangled.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
      continue;
    }
    if (c == '<' || c == '{') ++depth;
    if (c == '>' || c == '}') --depth;
    if (depth == 0 && (c == '(' || demangled.substr(i).starts_with(" ["))) {
      end = i;
      break;
    }
  }
  std::string text(demangled.substr(0, end));
  if (text.size() > kMostBytes) text = text.substr(0, kMostBytes - 3) + "...";
  return text;
}

std::string Demangled(const std::string& symbol) {
  int status = 0;
  char* const text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string demangled = status == 0 && text != nullptr ? text : symbol;
  free(text);
  return demangled;
}

std::string_view FileOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool IsRuntime(std::string_view module, std::string_view function) {
  return BeginsWithAny(module, kRuntimeModules) || BeginsWithAny(function, kRuntimeFunctions);
}

}  // namespace pitot::stacks
