// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/strides.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "collect/cupti/fake_records.h"

namespace {

namespace cupti = pitot::cupti;

cupti::Strides g_strides;

// Steps as the libraries do: by the kind that stands there, to the next record that is whole.
cupti::Result NextRecord(uint8_t* buffer, size_t valid, uint8_t** record) {
  const auto length = [&](const uint8_t* at) {
    const auto kind = cupti::Field<uint32_t>(at, 0);
    return kind < g_strides.size() ? g_strides[kind] : 0;
  };
  uint8_t* next = buffer;
  if (*record != nullptr) {
    if (length(*record) == 0) return cupti::kInvalidKind;
    next = *record + length(*record);
  }
  if (length(next) == 0) return cupti::kInvalidKind;
  if (next + length(next) > buffer + valid) return cupti::kMaxLimitReached;
  *record = next;
  return cupti::kSuccess;
}

}  // namespace

TEST_CASE("the probe finds how long a library's records are", "[cupti]") {
  cupti::Api api{};
  api.activity_get_next_record = NextRecord;
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    g_strides = generation.Strides();
    CHECK(cupti::ProbeStrides(api) == g_strides);
  }
}

TEST_CASE("a kind whose records are shorter than what is read of them is not used, nor one the library does not know",
          "[cupti]") {
  cupti::Api api{};
  api.activity_get_next_record = NextRecord;
  g_strides = fakes::kCupti13.Strides();
  g_strides[cupti::kConcurrentKernel] = 144;
  g_strides[cupti::kGraphTrace] = 0;

  const cupti::Strides found = cupti::ProbeStrides(api);

  CHECK(found[cupti::kConcurrentKernel] == 0);
  CHECK(found[cupti::kGraphTrace] == 0);
  CHECK(found[cupti::kMemcpy] == 96);
}

TEST_CASE("the records of a real CUPTI are as long as was measured", "[cupti][real]") {
  // tools/check names those it has: "path path path".
  const char* const named = std::getenv("PITOT_TEST_CUPTI_LIBRARIES");
  std::string paths = named != nullptr ? named : "";
  if (paths.empty()) {
    WARN("not run: PITOT_TEST_CUPTI_LIBRARIES names no library");
    return;
  }
  paths += ' ';
  for (size_t at = 0, end; (end = paths.find(' ', at)) != std::string::npos; at = end + 1) {
    const std::string path = paths.substr(at, end - at);
    if (path.empty()) continue;
    INFO(path);
    cupti::Api api;
    const pitot::Status status = cupti::LoadCupti(path, &api);
    INFO(status.message());
    REQUIRE(status.ok());
    const cupti::Strides found = cupti::ProbeStrides(api);
    bool is_known = false;
    for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
      if (generation.version != api.version) continue;
      is_known = true;
      CHECK(found == generation.Strides());
    }
    INFO(api.version);
    CHECK(is_known);
  }
}
