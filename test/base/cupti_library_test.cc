// SPDX-License-Identifier: Apache-2.0
#include "base/cupti_library.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

using pitot::base::CuptiCandidates;

namespace {

// The versions in the order of their first candidate.
std::string OrderOf(const std::vector<std::string>& candidates) {
  std::string order;
  for (const std::string& candidate : candidates) {
    const std::string version = candidate.substr(candidate.rfind(".so.") + 4);
    if (order.find(version) == std::string::npos) order += (order.empty() ? "" : " ") + version;
  }
  return order;
}

}  // namespace

TEST_CASE("with a static CUDA the CUPTI of the driver's CUDA comes first, and a newer one last", "[cupti_library]") {
  CHECK(OrderOf(CuptiCandidates({}, 12)) == "12 11.8 13");
  CHECK(OrderOf(CuptiCandidates({}, 13)) == "13 12 11.8");
  CHECK(OrderOf(CuptiCandidates({}, 0)) == "13 12 11.8");
}

TEST_CASE("a loaded CUDA runtime decides the CUPTI's version and adds its own folders", "[cupti_library]") {
  const std::vector<std::string> found = CuptiCandidates({"/site/nvidia/cuda_runtime/lib/libcudart.so.12"}, 13);
  CHECK(OrderOf(found) == "12");
  CHECK(std::find(found.begin(), found.end(), "/site/nvidia/cuda_runtime/lib/../../cuda_cupti/lib/libcupti.so.12") !=
        found.end());
}
