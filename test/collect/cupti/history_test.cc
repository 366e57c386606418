// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/history.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace {

using pitot::cupti::GpuRecord;
using pitot::cupti::History;
using pitot::cupti::kNoDevice;

constexpr uint64_t kChunks = 16;

// `count` records of 1 ns, one every 10 ns from `begin_ns` on.
void Fill(History* history, uint32_t device, int64_t begin_ns, int count) {
  for (int i = 0; i < count; ++i) {
    GpuRecord record{};
    record.begin_ns = begin_ns + i * 10;
    record.duration_ns = 1;
    record.correlation = device;
    history->Add(device, &record, 1);
  }
}

struct Seen {
  std::set<int64_t> begins[2];  // by device
  explicit Seen(const History::Pinned& pinned) {
    pinned.ForEach([this](const GpuRecord& record) { begins[record.correlation].insert(record.begin_ns); });
  }
};

std::unique_ptr<History> Make() { return History::Make(kChunks * History::kChunkBytes); }

}  // namespace

TEST_CASE("an incident sees what ended in its window, of every device", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 1000, 3000);
  Fill(history.get(), 1, 1005, 100);
  History::Pinned pinned;
  history->Pin(1000 + 2000 * 10, &pinned);
  const Seen seen(pinned);
  CHECK(seen.begins[0].size() == 1000);
  CHECK(*seen.begins[0].begin() == 1000 + 2000 * 10);
  CHECK(seen.begins[1].empty());
  CHECK(pinned.losses().empty());
}

TEST_CASE("the newest records survive, and how many of a window are gone is said", "[cupti]") {
  const auto history = Make();
  const int total = 40 * History::kChunkRecords;
  Fill(history.get(), 0, 0, total);
  CHECK(history->records() <= kChunks * History::kChunkRecords);
  History::Pinned pinned;
  history->Pin(0, &pinned);
  const Seen seen(pinned);
  CHECK(*seen.begins[0].rbegin() == (total - 1) * 10);
  uint64_t missing = 0;
  for (const auto& loss : pinned.losses()) missing += loss.records;
  CHECK(missing + seen.begins[0].size() == total);
}

TEST_CASE("a busy device does not take the history of a quiet one", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 1, 5, 50);
  Fill(history.get(), 0, 0, 100 * History::kChunkRecords);
  History::Pinned pinned;
  history->Pin(0, &pinned);
  CHECK(Seen(pinned).begins[1].size() == 50);
}

TEST_CASE("what an incident has pinned stays while records go on, and is free after", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 0, 8 * History::kChunkRecords);
  History::Pinned pinned;
  history->Pin(0, &pinned);
  const size_t before = Seen(pinned).begins[0].size();
  Fill(history.get(), 0, 1'000'000, 100 * History::kChunkRecords);
  const Seen still(pinned);
  CHECK(still.begins[0].size() == before);
  CHECK(*still.begins[0].begin() == 0);
  History::Pinned later;
  history->Pin(1'000'000, &later);
  CHECK(*Seen(later).begins[0].rbegin() == 1'000'000 + (100 * History::kChunkRecords - 1) * 10);
  pinned.Release();
  later.Release();
  Fill(history.get(), 0, 10'000'000, 100 * History::kChunkRecords);
  history->Pin(0, &later);
  CHECK(*Seen(later).begins[0].begin() >= 10'000'000);
}

TEST_CASE("where incidents hold all memory new records are lost and counted", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 0, kChunks * History::kChunkRecords);
  History::Pinned first, second;
  history->Pin(0, &first);
  Fill(history.get(), 0, 1'000'000, 4 * History::kChunkRecords);
  history->Pin(1'000'000, &second);
  // Three quarters are the most: a part is left to go on with.
  Fill(history.get(), 0, 2'000'000, 20 * History::kChunkRecords);
  second.Release();
  history->Pin(2'000'000, &second);
  uint64_t missing = 0;
  for (const auto& loss : second.losses()) missing += loss.records;
  CHECK(missing + Seen(second).begins[0].size() >= 20 * History::kChunkRecords);
}

TEST_CASE("what is given back is missing for good, the oldest first, and said", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 0, kChunks * History::kChunkRecords);
  uint32_t given = 0;
  while (given < kChunks / 2 && history->GiveBackChunk()) ++given;
  REQUIRE(given == kChunks / 2);
  CHECK(history->records() == (kChunks - given) * History::kChunkRecords);
  Fill(history.get(), 0, 1'000'000, 100 * History::kChunkRecords);
  CHECK(history->records() == (kChunks - given) * History::kChunkRecords);

  History::Pinned pinned;
  history->Pin(0, &pinned);
  uint64_t missing = 0;
  for (const auto& loss : pinned.losses()) missing += loss.records;
  CHECK(missing + Seen(pinned).begins[0].size() == (kChunks + 100) * History::kChunkRecords);
  CHECK(Seen(pinned).begins[0].size() <= (kChunks - given) * 3 / 4 * History::kChunkRecords);
  // What an incident holds stays.
  while (history->GiveBackChunk()) {}
  CHECK(Seen(pinned).begins[0].size() == (kChunks - given) * 3 / 4 * History::kChunkRecords);
}

TEST_CASE("losses are kept while they matter, alike ones as one, no more than there is room for", "[cupti]") {
  const auto history = Make();
  for (int64_t i = 0; i < 10'000; ++i) history->AddLoss({i, i + 1, kNoDevice, i % 2 == 0 ? "a" : "b", 1});
  history->AddLoss({10'000 - 2'000'000'000, 10'000 - 2'000'000'000, kNoDevice, "c", 1});  // long before: another
  for (int64_t i = 0; i < 10; ++i) history->AddLoss({10'000 + i, 10'001 + i, kNoDevice, "c", 1});
  History::Pinned pinned;
  history->Pin(0, &pinned);
  CHECK(pinned.losses().size() <= 257);
  CHECK(pinned.losses().back().records == 10);
  CHECK(std::string(pinned.losses().back().reason) == "c");
  history->Pin(10'005, &pinned);
  REQUIRE(pinned.losses().size() == 1);
  CHECK(pinned.losses()[0].begin_ns == 10'005);
}
