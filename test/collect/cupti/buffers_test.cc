// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/buffers.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "fakes/scale.h"

namespace {

using pitot::cupti::BufferPool;
using pitot::cupti::IndexQueue;

constexpr int64_t kSecond = 1'000'000'000;

bool IsZero(const uint8_t* buffer, uint32_t bytes) {
  return std::all_of(buffer, buffer + bytes, [](uint8_t byte) { return byte == 0; });
}

uint32_t ResidentPages(uint8_t* memory, uint32_t pages) {
  std::vector<uint8_t> resident(pages);
  REQUIRE(mincore(memory, pages * 4096ul, resident.data()) == 0);
  return static_cast<uint32_t>(std::count_if(resident.begin(), resident.end(), [](uint8_t page) { return page & 1; }));
}

}  // namespace

TEST_CASE("all memory is taken when touched, and keeps its contents", "[cupti]") {
  const auto pool = BufferPool::Make(64, 65536);
  uint8_t* const first = pool->Take();
  CHECK(ResidentPages(first, 1024) == 0);
  first[1] = 7;

  pool->Touch();

  CHECK(ResidentPages(first, 1024) == 1024);
  CHECK(first[1] == 7);
}

TEST_CASE("a buffer is unread from its being taken until it is read, unless it is of a former era", "[cupti]") {
  const auto pool = BufferPool::Make(2, 4096);
  CHECK(pool->OldestUnreadNs() == INT64_MAX);
  const int64_t before_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  uint8_t* const first = pool->Take();
  const int64_t first_ns = pool->OldestUnreadNs();
  CHECK(first_ns >= before_ns);
  CHECK(first_ns <= pitot::base::ClockNs(CLOCK_MONOTONIC));
  uint8_t* const second = pool->Take();
  CHECK(pool->OldestUnreadNs() == first_ns);

  pool->Complete(first, 1);
  CHECK(pool->OldestUnreadNs() == first_ns);
  pool->Drain([&](const uint8_t*, uint64_t) { CHECK(pool->OldestUnreadNs() == first_ns); });
  CHECK(pool->OldestUnreadNs() >= first_ns);
  CHECK(pool->OldestUnreadNs() != INT64_MAX);
  pool->BeginEra();
  CHECK(pool->OldestUnreadNs() == INT64_MAX);
  pool->Complete(second, 1);
  CHECK(pool->OldestUnreadNs() != INT64_MAX);
  pool->Drain([](const uint8_t*, uint64_t) {});
  CHECK(pool->OldestUnreadNs() == INT64_MAX);

  REQUIRE(pool->Take() != nullptr);
  pool->BeginEra();
  REQUIRE(pool->WriteOff(0) == 1);
  CHECK(pool->OldestUnreadNs() == INT64_MAX);
}

TEST_CASE("buffers come zeroed, are read in the order of completion, and come again zeroed", "[cupti]") {
  const auto made = BufferPool::Make(2, 4096);
  BufferPool& pool = *made;
  uint8_t* const first = pool.Take();
  uint8_t* const second = pool.Take();
  REQUIRE(first != nullptr);
  REQUIRE(second != nullptr);
  CHECK(IsZero(first, 4096));
  std::memset(first, 1, 100);
  std::memset(second, 2, 4096);
  CHECK(pool.Complete(second, 4096));
  CHECK(pool.Complete(first, 100));

  std::vector<uint8_t> seen;
  pool.Drain([&](const uint8_t* buffer, uint64_t valid) {
    CHECK(valid == (buffer == first ? 100 : 4096));
    seen.push_back(buffer[0]);
  });

  CHECK(seen == std::vector<uint8_t>{2, 1});
  for (int i = 0; i < 2; ++i) CHECK(IsZero(pool.Take(), 4096));
  pool.Drain([](const uint8_t*, uint64_t) { FAIL("nothing was completed"); });
}

TEST_CASE("the buffer completed first makes room when all are full, but there is none when CUPTI has all", "[cupti]") {
  const auto made = BufferPool::Make(2, 4096);
  BufferPool& pool = *made;
  uint8_t* const first = pool.Take();
  uint8_t* const second = pool.Take();
  CHECK(pool.Take() == nullptr);
  first[10] = second[10] = 1;
  pool.Complete(first, 64);
  pool.Complete(second, 64);

  uint8_t* const again = pool.Take();

  CHECK(again == first);
  CHECK(IsZero(again, 4096));
  CHECK(pool.counts().requested == 4);
  CHECK(pool.counts().completed == 2);
  CHECK(pool.counts().overwritten == 1);
  CHECK(pool.counts().refused == 1);
  int read = 0;
  pool.Drain([&](const uint8_t* buffer, uint64_t) { read += buffer == second; });
  CHECK(read == 1);
}

TEST_CASE("a buffer of somebody else, or one CUPTI does not have, is not taken", "[cupti]") {
  const auto made = BufferPool::Make(2, 4096);
  BufferPool& pool = *made;
  uint8_t foreign[4096];
  uint8_t* const ours = pool.Take();
  CHECK(!pool.Complete(foreign, 10));
  CHECK(!pool.Complete(ours + 8, 10));
  CHECK(!pool.Complete(nullptr, 10));
  CHECK(pool.Complete(ours, uint64_t{1} << 40));
  CHECK(!pool.Complete(ours, 10));
  CHECK(pool.counts().foreign == 4);
  pool.Drain([](const uint8_t*, uint64_t valid) { CHECK(valid == 4096); });
}

TEST_CASE("buffers taken by another are written off and never used again; those with CUPTI stay out", "[cupti]") {
  const auto pool = BufferPool::Make(3, 4096);
  REQUIRE(pool != nullptr);
  uint8_t* const swallowed = pool->Take();
  swallowed[4095] = 1;
  uint8_t* const late = pool->Take();
  pool->BeginEra();
  uint8_t* const held = pool->Take();
  CHECK(pool->Complete(late, 8));
  CHECK(pool->counts().out() == 2);
  CHECK(pool->WriteOff(kSecond) == 1);
  CHECK(pool->WriteOff(kSecond) == 0);
  CHECK(pool->counts().out() == 1);
  CHECK(pool->counts().written_off == 1);
  // CUPTI may still write to it, and complete it; nobody reads this.
  CHECK_FALSE(pool->Complete(swallowed, 8));
  uint8_t* const other = pool->Take();
  REQUIRE(other != nullptr);
  CHECK(other != swallowed);
  CHECK(IsZero(other, 4096));
  CHECK_FALSE(pool->Complete(swallowed, 8));
  CHECK(pool->Complete(other, 8));
  CHECK(pool->Complete(held, 8));
  CHECK_FALSE(pool->Complete(other, 8));
}

TEST_CASE("a buffer written off while it comes back does not complete its replacement", "[cupti]") {
  const auto pool = BufferPool::Make(1, 4096);
  REQUIRE(pool != nullptr);
  uint8_t* const swallowed = pool->Take();
  const BufferPool::Found coming_back = pool->Find(swallowed);
  pool->BeginEra();
  REQUIRE(pool->WriteOff(kSecond) == 1);
  uint8_t* const other = pool->Take();
  REQUIRE(other != nullptr);

  CHECK_FALSE(pool->Complete(coming_back, 8));

  CHECK(pool->counts().foreign == 1);
  CHECK(pool->counts().out() == 1);
  pool->Drain([](const uint8_t*, uint64_t) { FAIL("nothing was completed"); });
  CHECK(pool->Complete(other, 8));
}

TEST_CASE("a buffer that came back and went out again is given up in its own era alone", "[cupti]") {
  const auto pool = BufferPool::Make(1, 4096);
  REQUIRE(pool != nullptr);
  const BufferPool::Found before = pool->Find(pool->Take());
  pool->BeginEra();
  REQUIRE(pool->Complete(before, 8));
  pool->Drain([](const uint8_t*, uint64_t) {});
  uint8_t* const again = pool->Take();

  CHECK(pool->WriteOff(kSecond) == 0);
  CHECK_FALSE(pool->Complete(before, 8));
  CHECK(pool->Complete(again, 8));
}

TEST_CASE("written-off memory is used again after its quarantine, and bounded until then", "[cupti]") {
  const auto pool = BufferPool::Make(2, 4096);
  REQUIRE(pool != nullptr);
  std::set<uint8_t*> seen;
  for (uint32_t i = 0; i < 2 * BufferPool::kMostPlaces; ++i) {
    uint8_t* const buffer = pool->Take();
    REQUIRE(buffer != nullptr);
    CHECK(seen.insert(buffer).second);
    buffer[0] = 1;
    pool->BeginEra();
    CHECK(pool->WriteOff(kSecond) == 1);
  }
  REQUIRE(pool->Take() != nullptr);
  pool->BeginEra();
  CHECK(pool->WriteOff(kSecond) == 0);
  CHECK(pool->counts().unplaced == 1);
  CHECK(pool->place_bytes() == 2 * BufferPool::kMostPlaces * 4096);
  CHECK(pool->WriteOff(kSecond + BufferPool::kQuarantineNs - 1) == 0);
  CHECK(pool->WriteOff(kSecond + BufferPool::kQuarantineNs) == 1);
  CHECK(pool->counts().unplaced == 0);
  CHECK(pool->place_bytes() == 2 * BufferPool::kMostPlaces * 4096);
  REQUIRE(pool->Take() != nullptr);
  uint8_t* const again = pool->Take();
  REQUIRE(again != nullptr);
  CHECK(seen.count(again) == 1);
  CHECK(IsZero(again, 4096));
}

TEST_CASE("memory in place of another slot's comes back after its quarantine like any other", "[cupti]") {
  const auto pool = BufferPool::Make(2, 4096);
  REQUIRE(pool != nullptr);
  // All possible other memory is in use, and each slot then gets the other's first memory.
  for (uint32_t i = 0; i < 2 * BufferPool::kMostPlaces; ++i) {
    REQUIRE(pool->Take() != nullptr);
    pool->BeginEra();
    REQUIRE(pool->WriteOff(kSecond) == 1);
  }
  for (int i = 0; i < 8; ++i) {
    uint8_t* const buffers[] = {pool->Take(), pool->Take()};
    REQUIRE((buffers[0] != nullptr && buffers[1] != nullptr));
    INFO(i);
    CHECK(pool->Complete(buffers[1 - i % 2], 8));  // and the other does not
    pool->BeginEra();
    CHECK(pool->WriteOff(kSecond + (i + 1) * BufferPool::kQuarantineNs) == 1);
    pool->Drain([](const uint8_t*, uint64_t) {});
  }
  CHECK(pool->counts().foreign == 0);
}

TEST_CASE("a throwing reader has its buffer freed all the same", "[cupti]") {
  const auto made = BufferPool::Make(1, 4096);
  BufferPool& pool = *made;
  pool.Complete(pool.Take(), 8);
  CHECK_THROWS(pool.Drain([](const uint8_t*, uint64_t) { throw 1; }));
  CHECK(pool.Take() != nullptr);
}

TEST_CASE("threads that take and complete next to a reader never share a buffer, and lose none", "[cupti]") {
  const auto made = BufferPool::Make(16, 4096);
  BufferPool& pool = *made;
  const int rounds = fakes::kThreadSanitizer ? 2000 : 50000;
  std::atomic<uint64_t> written{0}, refused{0}, read{0}, mixed{0};
  std::atomic<int> running{4};
  std::vector<std::thread> writers;
  for (uint8_t id = 1; id <= 4; ++id) {
    writers.emplace_back([&, id] {
      for (int i = 0; i < rounds; ++i) {
        uint8_t* const buffer = pool.Take();
        if (buffer == nullptr) {
          ++refused;
          continue;
        }
        mixed += !IsZero(buffer, 64);
        std::memset(buffer, id, 64);
        std::this_thread::yield();
        mixed += !std::all_of(buffer, buffer + 64, [id](uint8_t byte) { return byte == id; });
        pool.Complete(buffer, 64);
        ++written;
      }
      --running;
    });
  }
  const auto drain = [&] {
    pool.Drain([&](const uint8_t* buffer, uint64_t) {
      mixed += !std::all_of(buffer, buffer + 64, [&](uint8_t byte) { return byte == buffer[0] && byte != 0; });
      ++read;
    });
  };
  while (running > 0) drain();
  for (auto& writer : writers) writer.join();
  drain();

  CHECK(mixed == 0);
  CHECK(refused == pool.counts().refused);
  CHECK(read + pool.counts().overwritten == written);
  std::set<uint8_t*> all;
  for (int i = 0; i < 16; ++i) all.insert(pool.Take());
  CHECK(all.size() == 16);
  CHECK(all.count(nullptr) == 0);
}
