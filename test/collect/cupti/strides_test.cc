// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/strides.h"

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "collect/cupti/api.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/fake_records.h"

namespace {

namespace cupti = pitot::cupti;

cupti::Strides g_strides;

// Steps like the libraries: by the kind found there, to the next whole record.
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

TEST_CASE("the probe finds the length of a library's records", "[cupti]") {
  cupti::Api api{};
  api.activity_get_next_record = NextRecord;
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    g_strides = generation.Strides();
    CHECK(cupti::ProbeStrides(api) == g_strides);
  }
}

TEST_CASE("a kind with records shorter than the part read of them is not used, nor one unknown to the library",
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

namespace {

// tools/check names its libraries: "path path path".
std::vector<cupti::Api> RealLibraries() {
  std::vector<cupti::Api> libraries;
  const char* const named = std::getenv("PITOT_TEST_CUPTI_LIBRARIES");
  std::istringstream paths(named != nullptr ? named : "");
  for (std::string path; paths >> path;) {
    dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // next to the one before; LoadCupti would refuse that otherwise
    const pitot::Status status = cupti::LoadCupti(path, &libraries.emplace_back());
    INFO(path << ": " << status.message());
    REQUIRE(status.ok());
  }
  if (libraries.empty()) WARN("not run: PITOT_TEST_CUPTI_LIBRARIES names no library");
  return libraries;
}

fakes::Generation GenerationOf(const cupti::Api& api) {
  for (const auto& generation : {fakes::kCupti11, fakes::kCupti12, fakes::kCupti13}) {
    if (generation.version == api.version) return generation;
  }
  FAIL("no generation is known of version " << api.version);
  return {};
}

struct PlainClock final : cupti::Clock {
  cupti::Conversion ToMonotonic(uint64_t cupti_ns, cupti::Stamper, int64_t* monotonic_ns) const override {
    *monotonic_ns = static_cast<int64_t>(cupti_ns);
    return cupti::Conversion::kByRealtime;
  }
};

}  // namespace

TEST_CASE("a real CUPTI's records have the measured length", "[cupti][real]") {
  for (const cupti::Api& api : RealLibraries()) {
    INFO(api.path);
    CHECK(cupti::ProbeStrides(api) == GenerationOf(api).Strides());
  }
}

TEST_CASE("a real CUPTI steps over kinds that are not kept, and all other records of its generation are read",
          "[cupti][real]") {
  constexpr uint32_t kContext = 9;  // CUPTI_ACTIVITY_KIND_CONTEXT
  for (const cupti::Api& api : RealLibraries()) {
    INFO(api.path);
    const fakes::Generation generation = GenerationOf(api);
    std::vector<uint64_t> many(128, uint64_t{kContext} << 32 | kContext);  // whatever the length, another follows
    auto* const first = reinterpret_cast<uint8_t*>(many.data());
    uint8_t* second = first;
    REQUIRE(api.activity_get_next_record(first, 1024, &second) == cupti::kSuccess);
    const auto length = static_cast<uint32_t>(second - first);
    fakes::FakeBuffer buffer(generation);
    buffer.Kernel("before", 100, 300, 41)
        .Unknown(kContext, length)
        .Memcpy(1, 1, 3, 4096, 310, 390, 42)
        .Kernel("after", 400, 500, 43);
    cupti::Tables tables(8 << 20);
    const PlainClock clock;
    cupti::Decoder decoder(&api, cupti::ProbeStrides(api), &clock, &tables, nullptr);

    std::vector<cupti::GpuRecord> records;
    decoder.Decode(buffer.bytes().data(), buffer.bytes().size(), &records);

    REQUIRE(records.size() == 3);
    CHECK(tables.names.names()[records[0].name] == "before");
    CHECK(records[1].value == 4096);
    CHECK(tables.names.names()[records[2].name] == "after");
    CHECK(decoder.counts().unknown == 1);
    CHECK(decoder.counts().unreadable_bytes == 0);
  }
}

TEST_CASE("the launches known by number have their names in a real CUPTI", "[cupti][real]") {
  for (const cupti::Api& api : RealLibraries()) {
    INFO(api.path);
    cupti::Api without = api;
    without.get_callback_name = nullptr;
    cupti::ApiCalls ours, theirs;
    ours.Find(without);
    theirs.Find(api);
    uint32_t named = 0;
    for (const cupti::ApiCalls::Id& id : ours.ids()) {
      const char* name = nullptr;
      if (api.get_callback_name(id.domain, id.callback_id, &name) != cupti::kSuccess || name == nullptr) continue;
      INFO(id.domain << " " << id.callback_id << " " << name);
      CHECK(ours.NameOf(id.domain, id.callback_id).index == theirs.NameOf(id.domain, id.callback_id).index);
      ++named;
    }
    CHECK(named >= 14);  // an old one does not have all
  }
}
