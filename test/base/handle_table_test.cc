// SPDX-License-Identifier: Apache-2.0
#include "base/handle_table.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

namespace pitot::base {
namespace {

const void* Handle(uint64_t number) { return reinterpret_cast<const void*>(number << 8); }  // NOLINT

}  // namespace

TEST_CASE("a handle's value is found by its tag alone, and the newest counts", "[handles]") {
  HandleTable<64> table;
  uint64_t value = 0;
  CHECK_FALSE(table.Find(1, Handle(7), &value));
  CHECK_FALSE(table.Find(0, nullptr, &value));  // as an empty place has
  table.Set(1, Handle(7), 70);
  table.Set(1, Handle(7), 71);
  REQUIRE(table.Find(1, Handle(7), &value));
  CHECK(value == 71);
  CHECK_FALSE(table.Find(2, Handle(7), &value));
  CHECK_FALSE(table.Find(1, Handle(8), &value));
}

TEST_CASE("a full table knows the newest of the handles that share a place, and takes none for another", "[handles]") {
  HandleTable<64> table;
  uint32_t known = 0;
  for (uint64_t handle = 1; handle <= 1'000; ++handle) table.Set(1, Handle(handle), handle);
  for (uint64_t handle = 1; handle <= 1'000; ++handle) {
    uint64_t value = 0;
    if (!table.Find(1, Handle(handle), &value)) continue;
    ++known;
    REQUIRE(value == handle);
  }
  CHECK(known > 32);
  CHECK(known <= 64);
}

TEST_CASE("a handle of several tags, such as the default stream of each context, has places of its own", "[handles]") {
  HandleTable<256> table;
  uint32_t known = 0;
  uint64_t value = 0;
  for (uint64_t tag = 0; tag < 16; ++tag) table.Set(tag, nullptr, tag + 1);
  for (uint64_t tag = 0; tag < 16; ++tag) known += table.Find(tag, nullptr, &value) ? 1 : 0;
  CHECK(known > 8);
}

TEST_CASE("threads that write the same places never see another handle's value", "[handles]") {
  HandleTable<4> table;
  std::atomic<uint32_t> wrong{0};
  std::vector<std::thread> threads;
  for (uint64_t first = 0; first < 3; ++first) {
    threads.emplace_back([&, first] {
      for (uint64_t i = 0; i < 20'000; ++i) {
        const uint64_t own = 1 + first + i % 8 * 3, other = 1 + (own + i) % 24;
        uint64_t value = 0;
        table.Set(1, Handle(own), own);
        if (table.Find(1, Handle(other), &value) && value != other) wrong.fetch_add(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong.load() == 0);
}

}  // namespace pitot::base
