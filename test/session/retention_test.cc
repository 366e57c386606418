// SPDX-License-Identifier: Apache-2.0
//
// What stays of many incidents.
#include "session/retention.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace {

using pitot::session::ParseIncidentName;
using pitot::session::Retain;
using pitot::session::StoredIncident;

constexpr int64_t kStart = 1'795'226'399;

StoredIncident Stored(const std::string& name, const std::string& cause, int64_t at_s,
                      const std::string& signature = "", int64_t excess_ns = 0, uint64_t bytes = 100) {
  return {name, cause, signature, excess_ns, kStart + at_s, bytes};
}

std::vector<std::string> NamesOf(const std::vector<StoredIncident>& stored) {
  std::vector<std::string> names;
  for (const StoredIncident& it : stored) names.push_back(it.name);
  return names;
}

bool Has(const std::vector<StoredIncident>& stored, const std::string& name) {
  return std::any_of(stored.begin(), stored.end(), [&](const StoredIncident& it) { return it.name == name; });
}

}  // namespace

TEST_CASE("an incident's name says its time and its cause", "[retention]") {
  StoredIncident it;
  REQUIRE(ParseIncidentName("20261121T015959Z-0007-latency-classify", &it));
  CHECK(it.at_s == kStart);
  CHECK(it.cause == "latency-classify");
  CHECK(it.name == "20261121T015959Z-0007-latency-classify");
  for (const char* name :
       {"20261121T015959Z-12345-x", "20261121T015959Z-0007-x.2", "20261121T015959Z-0007-x.partial.3"}) {
    REQUIRE(ParseIncidentName(name, &it));
    CHECK(it.cause == "x");
  }
  REQUIRE(ParseIncidentName("20261121T015959Z-0007", &it));
  CHECK(it.cause == "");
  for (const char* other : {"", "20261121", "20261121T-not-one", "README", "20261121T01595xZ-0007-x"})
    CHECK_FALSE(ParseIncidentName(other, &it));
}

TEST_CASE("a storm of one cause does not evict the first incident of another", "[retention]") {
  std::vector<StoredIncident> stored{Stored("stall", "stall", 0)};
  for (int i = 1; i <= 200; ++i) {
    const std::string name = "storm" + std::to_string(i);
    stored.push_back(Stored(name, "latency", i, "other " + std::to_string(i)));
    Retain(8, 1 << 30, name, &stored);
    REQUIRE(Has(stored, "stall"));
    REQUIRE(Has(stored, name));
    REQUIRE(stored.size() <= 8);
  }
  CHECK(Has(stored, "storm1"));  // how it began
}

TEST_CASE("what stays of a cause reaches back to its first and is dense at its end", "[retention]") {
  std::vector<StoredIncident> stored;
  for (int i = 0; i < 1000; ++i) {
    const std::string name = std::to_string(i);
    stored.push_back(Stored(name, "latency", i, name));
    Retain(16, 1 << 30, name, &stored);
  }
  REQUIRE(stored.size() == 16);
  CHECK(stored.front().name == "0");
  CHECK(stored.back().name == "999");
  // Ages from the end grow by a factor, and not by a step.
  const auto younger_than = [&](int64_t seconds) {
    return std::count_if(stored.begin(), stored.end(),
                         [&](const StoredIncident& it) { return kStart + 999 - it.at_s < seconds; });
  };
  CHECK(younger_than(10) >= 2);
  CHECK(younger_than(100) - younger_than(10) >= 2);
  CHECK(younger_than(1000) - younger_than(100) >= 2);
}

TEST_CASE("a signature's repeats go first, then its newest, then its worst", "[retention]") {
  std::vector<StoredIncident> stored{Stored("first", "x", 0, "a", 10), Stored("worst", "x", 1, "a", 90),
                                     Stored("repeat", "x", 2, "a", 50), Stored("newest", "x", 3, "a", 20),
                                     Stored("kept", "y", 4, "b", 1)};
  CHECK(Retain(4, 1 << 30, "kept", &stored) == std::vector<std::string>{"repeat"});
  CHECK(Retain(2, 1 << 30, "kept", &stored) == std::vector<std::string>{"newest", "worst"});
  CHECK(NamesOf(stored) == std::vector<std::string>{"first", "kept"});
}

TEST_CASE("an incident that may still wait for its verdict outlives repeats", "[retention]") {
  std::vector<StoredIncident> stored{Stored("first", "x", 0, "a", 90), Stored("waiting", "x", 1),
                                     Stored("repeat", "x", 2, "a", 20), Stored("newest", "x", 3, "a", 30),
                                     Stored("kept", "y", 4, "b", 1)};
  CHECK(Retain(4, 1 << 30, "kept", &stored) == std::vector<std::string>{"repeat"});
  CHECK(Retain(3, 1 << 30, "kept", &stored) == std::vector<std::string>{"waiting"});
}

TEST_CASE("one of two that are as bad as each other counts as a repeat", "[retention]") {
  std::vector<StoredIncident> stored{Stored("first", "x", 0, "a", 90), Stored("same", "x", 1, "a", 90),
                                     Stored("newest", "x", 2, "a", 20), Stored("kept", "y", 3, "b", 1)};
  CHECK(Retain(3, 1 << 30, "kept", &stored) == std::vector<std::string>{"same"});
}

TEST_CASE("a directory with far too many incidents is emptied in several goes", "[retention]") {
  std::vector<StoredIncident> stored;
  for (int i = 0; i < 5000; ++i) stored.push_back(Stored(std::to_string(i), "latency", i, i % 2 == 0 ? "a" : "b", i));
  CHECK(Retain(8, 1 << 30, "4999", &stored).size() == 64);
  CHECK(stored.size() == 5000 - 64);
}

TEST_CASE("too many bytes cost the cause with most bytes", "[retention]") {
  std::vector<StoredIncident> stored{Stored("small1", "small", 0, "a"), Stored("small2", "small", 1, "b"),
                                     Stored("small3", "small", 2, "c"), Stored("large1", "large", 3, "d", 0, 5000),
                                     Stored("large2", "large", 4, "e", 0, 5000)};
  CHECK(Retain(100, 6000, "small3", &stored) == std::vector<std::string>{"large2"});
}

TEST_CASE("the newest stays, whatever its size and whatever the clock says", "[retention]") {
  std::vector<StoredIncident> stored{Stored("later", "x", 100, "a"), Stored("newest", "x", 0, "a", 0, 1 << 20)};
  CHECK(Retain(100, 1, "newest", &stored) == std::vector<std::string>{"later"});
  CHECK(NamesOf(stored) == std::vector<std::string>{"newest"});
  std::vector<StoredIncident> unnamed{Stored("a", "x", 100), Stored("b", "x", 0)};
  CHECK(Retain(1, 1, "", &unnamed) == std::vector<std::string>{"b"});
  std::vector<StoredIncident> none;
  CHECK(Retain(1, 1, "", &none).empty());
}
