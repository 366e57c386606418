// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail while records are kept: each in turn.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "assemble/gpu.h"
#include "collect/cupti/decode.h"
#include "collect/cupti/fake_records.h"
#include "collect/cupti/history.h"
#include "collect/cupti/records.h"
#include "collect/cupti/rig.h"
#include "fakes/failing_allocations.h"

namespace {

using pitot::cupti::GpuRecord;
using pitot::cupti::History;
using pitot::cupti::NameTable;
using pitot::cupti::RowTable;
using pitot::cupti::StreamKey;

// Does `act` while the n-th allocation from now on fails. False: it has fewer.
template <class Act> bool FailsAt(int n, Act act) {
  fakes::t_until_failure = n;
  try {
    act();
  } catch (const std::bad_alloc&) {
    return true;
  }
  fakes::t_until_failure = -1;
  return false;
}

}  // namespace

TEST_CASE("a row without memory has no number, and gets one when there is memory", "[cupti]") {
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    RowTable<StreamKey> table({~0u, ~0u, ~0u}, 4096);
    for (uint32_t i = 1; i < 256; ++i) table.Of({0, 1, i});  // the next one takes a block
    const StreamKey row{1, 2, 3}, other{4, 5, 6};

    fails = FailsAt(failures, [&] { table.Of(row); });

    for (const StreamKey& it : {other, row}) {
      const uint32_t at = table.Of(it);
      REQUIRE(at < table.rows().size());
      CHECK(table.rows()[at] == it);
    }
  }
  CHECK(failures >= 2);
}

TEST_CASE("a name without memory has no number and no bytes, and gets them when there is memory", "[cupti]") {
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    NameTable names(1 << 20);
    const std::string name = "a name that is longer than a string holds by itself " + std::to_string(failures);
    for (uint32_t i = 1; i < 256; ++i) names.Of(std::to_string(i).c_str()), names.Forget();
    const uint64_t before = names.bytes();

    fails = FailsAt(failures, [&] { names.Of(name.c_str()); });

    if (names.names().size() == 256) CHECK(names.bytes() == before);
    names.Forget();
    const uint32_t at = names.Of(name.c_str());
    REQUIRE(at < names.names().size());
    CHECK(names.names()[at] == name);
  }
  CHECK(failures >= 3);
}

TEST_CASE("memory owned by records is freed although there was no memory to read them", "[cupti]") {
  constexpr size_t kBlock = 4 << 20;  // more than everything else left by a try
  const auto allocated = [] {
    const auto info = mallinfo2();
    return info.uordblks + info.hblkhd;  // 0 under a sanitizer; that sees leaks itself
  };
  const struct : pitot::cupti::Clock {
    pitot::cupti::Conversion ToMonotonic(uint64_t ns, pitot::cupti::Stamper, int64_t* monotonic_ns) const override {
      return *monotonic_ns = static_cast<int64_t>(ns), pitot::cupti::Conversion::kByRealtime;
    }
  } clock;
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    pitot::cupti::Tables tables(8 << 20);
    pitot::cupti::Decoder decoder(nullptr, fakes::kCupti13.Strides(), &clock, &tables, nullptr);
    fakes::FakeBuffer buffer(fakes::kCupti13);
    const size_t before = allocated();
    buffer.Overhead(6u << 16, 1, 2, kBlock).Kernel("gemm", 1, 2, 1).Overhead(6u << 16, 2, 3, kBlock);
    std::vector<GpuRecord> records;

    fails = FailsAt(failures, [&] { decoder.Decode(buffer.bytes().data(), buffer.bytes().size(), &records); });

    CHECK(allocated() < before + kBlock);
  }
  CHECK(failures >= 3);
}

TEST_CASE("records without memory take none of the history's for its life", "[cupti]") {
  constexpr uint32_t kChunks = 16;
  int failures = 0;
  for (bool fails = true; fails; failures += fails) {
    const auto history = History::Make(kChunks * History::kChunkBytes);
    int64_t added = 0;
    const auto fill = [&](uint32_t chunks) {
      for (const int64_t until = added + int64_t{chunks} * History::kChunkRecords; added < until; ++added) {
        GpuRecord record{};
        record.begin_ns = added * 10, record.duration_ns = 1;
        history->Add(0, &record, 1);
      }
    };

    fails = FailsAt(failures, [&] { fill(400); });
    fill(3 * kChunks);

    CHECK(history->records() > (kChunks - 1) * History::kChunkRecords);
    History::Pinned pinned;
    history->Pin(0, &pinned);
    uint64_t there = 0, missing = 0;
    pinned.ForEach([&](const GpuRecord&) { ++there; });
    for (const auto& loss : pinned.losses()) missing += loss.records;
    CHECK(there + missing == static_cast<uint64_t>(added));
  }
  CHECK(failures >= 3);
}

TEST_CASE("an incident without memory to keep records reports all of them missing", "[cupti]") {
  fakes::GpuHost host;
  REQUIRE(host.StartAt(pitot::Depth::kKernels));
  host.cuda.Run({});
  host.Round();
  int lost = 0, n = 0;
  for (bool fails = true; fails; ++n) {
    const int64_t begin_ns = pitot::base::ClockNs(CLOCK_MONOTONIC) - 1'000'000'000;

    fakes::t_until_failure = n;
    host.collector->Keep(begin_ns, pitot::KeepFor::kIncident);
    fails = fakes::t_until_failure < 0;
    fakes::t_until_failure = -1;

    pitot::model::Trace trace;
    pitot::assemble::GpuTables tables(&trace, {}, {});
    host.collector->AddTo(tables);
    tables.Finish();
    if (trace.gpu.size() == 1 && trace.gpu_losses.empty()) continue;  // it needed no memory here
    ++lost;
    REQUIRE(fakes::HasLoss(trace, "no memory"));
    CHECK(trace.gpu_losses[0].begin_ns == begin_ns);
    CHECK(trace.gpu_losses[0].end_ns >= begin_ns + 1'000'000'000);
  }
  CHECK(lost >= 1);
  CHECK(lost < n);
}
