// SPDX-License-Identifier: Apache-2.0
//
// The table of names. The last tests fill it, for the process's life.
#include <atomic>
#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "pitot/trace.h"
#include "trace/names.h"

namespace {
using pitot::Intern;
using pitot::trace::NamesRefused;
using pitot::trace::NameText;
}  // namespace

TEST_CASE("a name is the same each time it is interned, and different from every other", "[names]") {
  const pitot::Name first = Intern("first");
  const pitot::Name second = Intern("second");

  CHECK(first.index != 0);
  CHECK(first.index != second.index);
  CHECK(Intern(std::string("first").c_str()).index == first.index);
  CHECK(NameText(first.index) == "first");
  CHECK(NameText(second.index) == "second");
}

TEST_CASE("null is the empty name, and an invalid index is (other)", "[names]") {
  CHECK(Intern(nullptr).index == Intern("").index);
  CHECK(NameText(Intern("").index) == "");
  CHECK(NameText(0) == "(other)");
  CHECK(NameText(0xffffffff) == "(other)");
  CHECK(NameText(pitot::trace::kMaxNames) == "(other)");
}

TEST_CASE("names are cut at 120 bytes, and names that differ only beyond are one", "[names]") {
  const std::string long_name(119, 'x');

  CHECK(NameText(Intern((long_name + "a").c_str()).index) == long_name + "a");
  CHECK(NameText(Intern((long_name + "ab").c_str()).index) == long_name + "a");
  CHECK(Intern((long_name + "ab").c_str()).index == Intern((long_name + "ac").c_str()).index);
  CHECK(NameText(Intern(std::string(1 << 20, 'y').c_str()).index) == std::string(120, 'y'));
}

TEST_CASE("threads interning the same names at once agree on them", "[names]") {
  constexpr int kThreads = 8, kNames = 500;
  std::vector<std::vector<uint32_t>> indices(kThreads, std::vector<uint32_t>(kNames));
  std::atomic<int> ready{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      ++ready;
      while (ready < kThreads) {}
      for (int i = 0; i < kNames; ++i) {
        const int n = t % 2 == 0 ? i : kNames - 1 - i;
        indices[static_cast<size_t>(t)][static_cast<size_t>(n)] = Intern(("name " + std::to_string(n)).c_str()).index;
      }
    });
  }
  for (auto& thread : threads) thread.join();

  std::set<uint32_t> distinct;
  for (size_t n = 0; n < kNames; ++n) {
    distinct.insert(indices[0][n]);
    for (const auto& of_thread : indices) {
      if (of_thread[n] != indices[0][n]) FAIL("name " << n << " has two indices");
    }
    if (NameText(indices[0][n]) != "name " + std::to_string(n))
      FAIL("name " << n << " reads " << NameText(indices[0][n]));
  }
  CHECK(distinct.size() == kNames);
}

TEST_CASE("long names fill their part of the memory budget and not more", "[names]") {
  const uint64_t refused_before = NamesRefused();
  uint64_t bytes = 0, kept = 0;
  for (int i = 0; i < 8000; ++i) {
    const std::string name = std::to_string(i) + std::string(100, 'z');
    if (Intern(name.c_str()).index != 0) bytes += name.size() + 1, ++kept;
  }

  CHECK(kept > 4000);
  CHECK(bytes <= pitot::trace::kMaxNameTextBytes);
  CHECK(NamesRefused() - refused_before == 8000 - kept);
  CHECK(pitot::trace::MostNameBytes() <= 1 << 20);
}
