// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/history.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

namespace {

using pitot::cupti::GpuRecord;
using pitot::cupti::History;
using pitot::cupti::kNoDevice;
using pitot::cupti::Loss;

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

TEST_CASE("an incident has the records that ended in its window, of every device", "[cupti]") {
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

TEST_CASE("the newest records survive, and the number of lost ones in a window is reported", "[cupti]") {
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

TEST_CASE("records without room in an incident are one loss, not one for each chunk", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 0, kChunks * History::kChunkRecords);
  History::Pinned pinned;
  history->Pin(0, &pinned);
  REQUIRE(pinned.losses().size() == 1);
  CHECK(pinned.losses()[0].records == kChunks / 4 * History::kChunkRecords);
}

TEST_CASE("a busy device does not take the history of a quiet one", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 1, 5, 50);
  Fill(history.get(), 0, 0, 100 * History::kChunkRecords);
  History::Pinned pinned;
  history->Pin(0, &pinned);
  CHECK(Seen(pinned).begins[1].size() == 50);
}

TEST_CASE("records pinned by an incident stay while others come, and are free afterwards", "[cupti]") {
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

TEST_CASE("new records are lost and counted while incidents hold all memory", "[cupti]") {
  const auto history = Make();
  Fill(history.get(), 0, 0, kChunks * History::kChunkRecords);
  History::Pinned first, second;
  history->Pin(0, &first);
  Fill(history.get(), 0, 1'000'000, 4 * History::kChunkRecords);
  history->Pin(1'000'000, &second);
  // Three quarters are the most: the rest is left for new records.
  Fill(history.get(), 0, 2'000'000, 20 * History::kChunkRecords);
  second.Release();
  history->Pin(2'000'000, &second);
  uint64_t missing = 0;
  for (const auto& loss : second.losses()) missing += loss.records;
  CHECK(missing + Seen(second).begins[0].size() >= 20 * History::kChunkRecords);
}

TEST_CASE("given-back memory is missing for the history's life, the oldest first, and reported", "[cupti]") {
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
  // An incident's part stays.
  while (history->GiveBackChunk()) {}
  CHECK(Seen(pinned).begins[0].size() == (kChunks - given) * 3 / 4 * History::kChunkRecords);
}

TEST_CASE("similar losses are one, others stay apart, and a window has its own", "[cupti]") {
  const auto history = Make();
  history->AddLoss({10'000 - 2'000'000'000, 10'000 - 2'000'000'000, kNoDevice, "c", 1});  // long before: another loss
  for (int64_t i = 0; i < 10; ++i) history->AddLoss({10'000 + i, 10'001 + i, kNoDevice, "c", 1});
  history->AddLoss({10'003, 10'004, kNoDevice, "d", 0});
  History::Pinned pinned;
  history->Pin(0, &pinned);
  REQUIRE(pinned.losses().size() == 2);
  CHECK(pinned.losses()[0].records == 10);
  CHECK(std::string(pinned.losses()[0].reason) == "c");
  CHECK(pinned.losses()[1].records == 0);
  history->Pin(10'005, &pinned);
  REQUIRE(pinned.losses().size() == 1);
  CHECK(pinned.losses()[0].begin_ns == 10'005);
}

TEST_CASE("losses alternating between devices and reasons are forgotten neither in time nor in number", "[cupti]") {
  const auto history = Make();
  constexpr int64_t kLosses = 10'000;
  const int64_t apart_ns = GENERATE(10, 2'000'000'000);
  for (int64_t i = 0; i < kLosses; ++i) {
    const int64_t begin_ns = i * apart_ns;
    history->AddLoss({begin_ns, begin_ns + 5, static_cast<uint32_t>(i % 2), i % 3 == 0 ? "a" : "b", 7});
  }

  History::Pinned pinned;
  history->Pin(0, &pinned);

  uint64_t missing = 0;
  for (const Loss& loss : pinned.losses()) missing += loss.records;
  CHECK(missing == kLosses * 7);
  CHECK(pinned.losses().size() <= 4 * 128);
  int64_t uncovered = 0;
  for (int64_t i = 0; i < kLosses; ++i) {
    uncovered += std::none_of(pinned.losses().begin(), pinned.losses().end(), [&](const Loss& loss) {
      return loss.device == i % 2 && loss.begin_ns <= i * apart_ns && loss.end_ns >= i * apart_ns + 5;
    });
  }
  CHECK(uncovered == 0);
}

TEST_CASE("two devices overwriting in turn each have their kept and their missing records", "[cupti]") {
  const auto history = Make();
  constexpr int kRounds = 600;
  for (int64_t round = 0; round < kRounds; ++round) {
    for (const uint32_t device : {0u, 1u})
      Fill(history.get(), device, (round * 2 + device) * 1'000'000, History::kChunkRecords);
  }

  History::Pinned pinned;
  history->Pin(0, &pinned);

  const Seen seen(pinned);
  for (const uint32_t device : {0u, 1u}) {
    uint64_t missing = 0;
    int64_t missing_until_ns = 0;
    for (const Loss& loss : pinned.losses()) {
      if (loss.device != device) continue;
      missing += loss.records;
      CHECK(loss.begin_ns <= std::max(missing_until_ns, int64_t{device} * 1'000'000) + 2'000'000);
      missing_until_ns = std::max(missing_until_ns, loss.end_ns);
    }
    CHECK(missing + seen.begins[device].size() == kRounds * History::kChunkRecords);
    CHECK(missing_until_ns >= *seen.begins[device].begin() - 2'000'000);
  }
}

TEST_CASE("the number of losses over a long time is unknown for a short window", "[cupti]") {
  const auto history = Make();
  for (int64_t i = 0; i < 10'000; ++i)
    history->AddLoss({i * 90'000'000, (i + 1) * 90'000'000, 0, "overwritten", 1'000'000});
  const int64_t end_ns = 10'000 * int64_t{90'000'000};

  History::Pinned pinned;
  history->Pin(end_ns - 500'000'000'000, &pinned);
  REQUIRE_FALSE(pinned.losses().empty());
  CHECK(pinned.losses().front().records == 0);
  CHECK(pinned.losses().front().begin_ns == end_ns - 500'000'000'000);

  // In a window with the newest losses it is known, to a tenth of a second.
  history->Pin(end_ns - 9'000'000'000, &pinned);
  uint64_t missing = 0;
  for (const Loss& loss : pinned.losses()) missing += loss.records;
  CHECK(missing >= 100'000'000);
  CHECK(missing <= 103'000'000);
}
