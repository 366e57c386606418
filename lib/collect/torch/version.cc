// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/version.h"

#include "base/message.h"

namespace pitot::libtorch {
namespace {

// "2.11" for "2.11.0+cu130"; "" if it is not a version.
std::string_view MajorMinor(std::string_view version) {
  const size_t first = version.find('.');
  if (first == std::string_view::npos || first == 0) return {};
  const size_t end = version.find_first_not_of("0123456789", first + 1);
  if (version.find_first_not_of("0123456789") != first || end == first + 1) return {};
  return version.substr(0, end);
}

}  // namespace

std::string VersionIn(std::string_view configuration) {
  constexpr std::string_view kKey = "TORCH_VERSION=";
  const size_t key = configuration.find(kKey);
  if (key == std::string_view::npos) return {};
  const std::string_view rest = configuration.substr(key + kKey.size());
  return std::string(rest.substr(0, rest.find_first_of(", \n")));
}

Status CheckVersion(std::string_view built_against, std::string_view in_process) {
  const std::string_view built = MajorMinor(built_against), there = MajorMinor(in_process);
  if (!built.empty() && built == there) return {};
  const std::string built_text(built_against), text(in_process.empty() ? "unknown" : in_process);
  return base::Error(
      StatusCode::kUnavailable,
      "the LibTorch in the process is %s, pitot::torch was built against %s: build it against the former", text.c_str(),
      built_text.c_str());
}

}  // namespace pitot::libtorch
