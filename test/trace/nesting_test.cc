// SPDX-License-Identifier: Apache-2.0
//
// Scopes closed out of order: a model of the open stack, and random programs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <random>
#include <vector>

#include "fakes/recording.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "pitot/trace.h"

namespace {

using fakes::EventsNamed;

using ArgOne = pitot::detail::ArgList<uint64_t>;
using Scope = pitot::detail::Scope<pitot::detail::Keep::kOpen, ArgOne>;
constexpr pitot::Site kSite{pitot::kSiteMagic, pitot::SiteKind::kScope, 1, 0, 1, ArgOne::Types(), "scope", "", "",
                            "\"scope\", id"};

struct Open {
  std::unique_ptr<Scope> scope;
  uint64_t begin_ns;
};

struct Program {
  fakes::VirtualClock clock;
  fakes::Recording recording{{.max_ring_bytes = 64 << 10}};
  fakes::VirtualThreads threads;
  std::vector<Open> open;
  uint64_t next_id = 0;
  uint64_t closed = 0;

  Program() { threads.Become(0); }
  void OpenOne() {
    clock.Advance(1);
    open.push_back({std::make_unique<Scope>(&kSite, "", next_id++), clock.now_ns()});
  }
  void Close(size_t at) {
    clock.Advance(1);
    open.erase(open.begin() + static_cast<ptrdiff_t>(at));
    ++closed;
  }
  std::vector<uint64_t> Shown() {
    std::vector<uint64_t> begins;
    for (const auto& scope : threads.ring(0)->open) {
      if (scope.begin != 0) begins.push_back(scope.begin);
    }
    return begins;
  }
};

}  // namespace

TEST_CASE("a scope closed before an enclosed one is recorded and counted", "[nesting]") {
  Program program;
  program.OpenOne();
  program.OpenOne();

  program.Close(0);

  CHECK(program.Shown() == std::vector<uint64_t>{program.open[0].begin_ns});
  CHECK(pitot::trace::CountRings().misnested == 1);
  program.Close(0);
  CHECK(program.Shown().empty());
  CHECK(program.threads.ring(0)->depth == 0);
  CHECK(pitot::trace::CountRings().misnested == 1);
  CHECK(EventsNamed(program.recording.Trace(), "scope").size() == 2);
}

TEST_CASE("scopes nest and show as before once a hole in the open stack is gone", "[nesting]") {
  Program program;
  for (int i = 0; i < 4; ++i) program.OpenOne();
  program.Close(1);
  program.OpenOne();  // not shown while there is a hole
  while (!program.open.empty()) program.Close(program.open.size() - 1);

  CHECK(program.threads.ring(0)->depth == 0);
  program.OpenOne();
  program.OpenOne();
  CHECK(program.Shown() == std::vector<uint64_t>{program.open[0].begin_ns, program.open[1].begin_ns});
  program.Close(1);
  program.Close(0);
  CHECK(program.threads.ring(0)->depth == 0);
}

TEST_CASE("random orders of closing never corrupt the open stack", "[nesting]") {
  for (uint32_t seed = 1; seed <= static_cast<uint32_t>(fakes::Scaled(400)); ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    Program program;
    const size_t most_open = seed % 7 == 0 ? 80 : 1 + seed % 12;
    const uint32_t wildness = seed % 5;  // 0: always in order
    bool had_hole = false;
    for (int step = 0; step < 300; ++step) {
      if (program.open.empty() || (random() % 2 == 0 && program.open.size() < most_open)) {
        program.OpenOne();
      } else {
        const size_t top = program.open.size() - 1;
        const size_t at = random() % 8 < wildness ? random() % program.open.size() : top;
        had_hole = had_hole || at != top;
        program.Close(at);
      }
      // Every shown scope is open; and all open ones are shown as long as nothing was closed out of order.
      std::vector<uint64_t> expected;
      for (const Open& open : program.open) expected.push_back(open.begin_ns);
      const std::vector<uint64_t> shown = program.Shown();
      for (const uint64_t begin : shown) REQUIRE(std::count(expected.begin(), expected.end(), begin) == 1);
      if (!had_hole) {
        expected.resize(std::min<size_t>(expected.size(), pitot::detail::kMaxOpen));
        REQUIRE(shown == expected);
      }
      if (program.open.empty()) {
        REQUIRE(program.threads.ring(0)->depth == 0);
        had_hole = false;
      }
    }
    while (!program.open.empty())
      program.Close(wildness == 0 ? program.open.size() - 1 : random() % program.open.size());
    REQUIRE(program.threads.ring(0)->depth == 0);
    REQUIRE(program.Shown().empty());
    const auto trace = program.recording.Trace();
    REQUIRE(EventsNamed(trace, "scope").size() == program.closed);
    REQUIRE(pitot::model::FindInconsistency(trace) == "");
    if (wildness == 0) REQUIRE(pitot::trace::CountRings().misnested == 0);
  }
}
