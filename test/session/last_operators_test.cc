// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's operators and allocations, and NCCL's collectives, are events in rings: so a dead process's black box has
// the last ones, and those that never returned. The sites here are as those of pitot::torch and of NVTX.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "pitot/pitot.h"
#include "session/boxes.h"
#include "session/post_mortem.h"

namespace {

using pitot::Name;
using pitot::SiteKind;
using pitot::model::Trace;

template <class... Args> constexpr pitot::Site MakeSite(SiteKind kind, const char* arguments) {
  using List = pitot::detail::ArgList<Args...>;
  return {pitot::kSiteMagic, kind, List::kCount, pitot::kNameIsFirstArg, 0, List::Types(), "outside",
          "Outside",         "",   arguments};
}
constexpr pitot::Site kOperator = MakeSite<Name>(SiteKind::kOperator, "\"\", name");
constexpr pitot::Site kCollective =
    MakeSite<Name, Name, pitot::detail::Literal, uint64_t>(SiteKind::kScope, "\"\", name, domain, collective, bytes");

template <const pitot::Site& kSite, class... Args> using Open =
    pitot::detail::Scope<pitot::detail::Keep::kNamed, pitot::detail::ArgList<Args...>>;

// The row of the only event with this name; kNone: there is none.
uint32_t Find(const Trace& trace, std::string_view name) {
  for (uint32_t row = 0; row < trace.events.size(); ++row) {
    if (trace.EventName(row) == name) return row;
  }
  return pitot::model::kNone;
}

bool HasValue(const Trace& trace, uint64_t value) {
  return std::find(trace.arg_values.begin(), trace.arg_values.end(), value) != trace.arg_values.end();
}

}  // namespace

TEST_CASE("the last operators, allocations and collectives of a dead process are in its black box, also if they hang",
          "[black_box]") {
  session_test::Boxes boxes;
  session_test::Die(&boxes, [] {
    const Name multiply = pitot::Intern("aten::mm"), add = pitot::Intern("aten::add_");
    const Name reduce = pitot::Intern("ncclAllReduce"), domain = pitot::Intern("NCCL");
    { const Open<kOperator, Name> scope(&kOperator, "", multiply); }
    PITOT_INSTANT("allocate on GPU", uint64_t{123'456'789}, 0, uint64_t{987'654'321});
    const Open<kOperator, Name> outer(&kOperator, "", add);
    const Open<kCollective, Name, Name, pitot::detail::Literal, uint64_t> inner(
        &kCollective, "", reduce, domain, PITOT_LITERAL("AllReduce"), uint64_t{4'096'123});
    kill(getpid(), SIGKILL);
  });
  pitot::session::FoundBox box(pitot::session::BoxesIn(boxes.path).at(0));
  REQUIRE(box.Look() == pitot::session::FoundBox::Life::kDead);
  const Trace trace = pitot::session::TraceOf(&box.reader(), {}, 1 << 20, 64 << 20);
  const uint32_t multiply = Find(trace, "aten::mm"), allocate = Find(trace, "allocate on GPU");
  const uint32_t add = Find(trace, "aten::add_"), reduce = Find(trace, "ncclAllReduce");
  for (const uint32_t row : {multiply, allocate, add, reduce}) REQUIRE(row != pitot::model::kNone);
  CHECK(trace.sites[trace.events.site[multiply]].kind == SiteKind::kOperator);
  CHECK(trace.events.duration_ns[multiply] != pitot::model::kOpen);
  CHECK(trace.events.duration_ns[add] == pitot::model::kOpen);
  CHECK(trace.events.duration_ns[reduce] == pitot::model::kOpen);
  CHECK(HasValue(trace, 123'456'789));
  CHECK(HasValue(trace, 4'096'123));
}
