// SPDX-License-Identifier: Apache-2.0
//
// Scopes begun and ended by two calls.
#include "pitot/manual.h"

#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_server.h"
#include "trace/manual.h"

namespace {

using fakes::EventsNamed;
using fakes::kStartNs;
using fakes::VirtualServer;
using pitot::BeginScope;
using pitot::EndScope;
using pitot::model::kOpen;

constexpr pitot::Site kSite{
    pitot::kSiteMagic, pitot::SiteKind::kScope, 0, 0, __LINE__, 0, "of a site", __FILE__, "test", "\"of a site\""};

constexpr pitot::Site kRange{pitot::kSiteMagic,
                             pitot::SiteKind::kScope,
                             2,
                             0,
                             __LINE__,
                             pitot::detail::ArgList<uint64_t, uint64_t>::Types(),
                             "range",
                             __FILE__,
                             "test",
                             "\"range\", which, bytes"};

void BeginRange(uint8_t owner, uint64_t which) {
  const uint64_t words[] = {which, which * 100};
  pitot::trace::BeginScopeOf(owner, &kRange, words);
}

// The first argument of a scope named at run time is its name.
struct Named {
  std::string name;
  int64_t begin_ns, duration_ns;
  bool operator==(const Named&) const = default;
};
std::vector<Named> NamedScopes(const pitot::model::Trace& trace) {
  std::vector<Named> scopes;
  for (const auto& event : fakes::Events(trace)) {
    if (event.args.size() == 1 && event.args[0].first == "name")
      scopes.push_back({event.args[0].second, event.begin_ns, event.duration_ns});
  }
  return scopes;
}

}  // namespace

TEST_CASE("a scope of two calls lasts from one to the other and has its name", "[manual]") {
  VirtualServer server;
  BeginScope(pitot::Intern("aten::conv2d"));
  server.clock.Advance(10);
  BeginScope(&kSite);
  server.clock.Advance(20);
  EndScope();
  server.clock.Advance(30);
  EndScope();

  const auto trace = server.Trace();

  CHECK(NamedScopes(trace) == std::vector<Named>{{"aten::conv2d", kStartNs, 60}});
  REQUIRE(EventsNamed(trace, "of a site").size() == 1);
  CHECK(EventsNamed(trace, "of a site")[0].begin_ns == kStartNs + 10);
  CHECK(EventsNamed(trace, "of a site")[0].duration_ns == 20);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("scopes of two calls nest with those of blocks and are shown while they are open", "[manual]") {
  VirtualServer server;
  PITOT_SCOPE("around");
  server.clock.Advance(1);
  BeginScope(&kSite);
  {
    PITOT_SCOPE("inside");
    server.clock.Advance(1);
    const auto trace = server.Trace();
    REQUIRE(EventsNamed(trace, "of a site").size() == 1);
    CHECK(EventsNamed(trace, "of a site")[0].duration_ns == kOpen);
    CHECK(EventsNamed(trace, "inside").size() == 1);
  }
  EndScope();

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "of a site")[0].duration_ns == 1);
  CHECK(EventsNamed(trace, "inside")[0].duration_ns == 1);
  CHECK(pitot::trace::CountRings().misnested == 0);
  CHECK(server.threads.ring(0)->depth == 1);
}

TEST_CASE("a scope of two calls that ends before an enclosed one is recorded and counted", "[manual]") {
  VirtualServer server;
  BeginScope(&kSite);
  {
    PITOT_SCOPE("enclosed");
    server.clock.Advance(5);
    EndScope();
    server.clock.Advance(5);
  }

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "of a site")[0].duration_ns == 5);
  CHECK(EventsNamed(trace, "enclosed")[0].duration_ns == 10);
  CHECK(pitot::trace::CountRings().misnested == 1);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("an open scope of two calls shows no arguments, whatever its site has", "[manual]") {
  using List = pitot::detail::ArgList<uint64_t, uint64_t>;
  static constexpr pitot::Site kSiteOfTwo{
      pitot::kSiteMagic, pitot::SiteKind::kScope, List::kCount, 0, __LINE__, List::Types(), "of two", __FILE__, "test",
      "\"of two\", a, b"};
  VirtualServer server;
  BeginScope(&kSiteOfTwo);
  const auto open = EventsNamed(server.Trace(), "of two");
  server.clock.Advance(5);
  EndScope();
  const auto ended = EventsNamed(server.Trace(), "of two");

  REQUIRE(open.size() == 1);
  CHECK(open[0].duration_ns == kOpen);
  CHECK(open[0].args.empty());
  REQUIRE(ended.size() == 1);
  CHECK(ended[0].duration_ns == 5);
}

TEST_CASE("an end without a beginning does nothing", "[manual]") {
  VirtualServer server;
  EndScope();
  {
    PITOT_SCOPE("of a block");
    EndScope();
    server.clock.Advance(5);
  }
  BeginScope(&kSite);
  EndScope();
  EndScope();

  CHECK(fakes::Events(server.Trace()).size() == 2);
  CHECK(EventsNamed(server.Trace(), "of a block")[0].duration_ns == 5);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("each thread ends its own", "[manual]") {
  VirtualServer server;
  BeginScope(&kSite);
  server.threads.Become(1);
  EndScope();
  CHECK(EventsNamed(server.Trace(), "of a site")[0].duration_ns == kOpen);
  server.threads.Become(0);
  server.clock.Advance(5);
  EndScope();

  CHECK(EventsNamed(server.Trace(), "of a site")[0].duration_ns == 5);
}

TEST_CASE("scopes too deep are not recorded but counted, and every end finds its beginning", "[manual]") {
  VirtualServer server;
  constexpr int kDeep = pitot::detail::kMaxOpen + 10;
  for (int i = 0; i < kDeep; ++i) {
    BeginScope(pitot::Intern(std::to_string(i).c_str()));
    server.clock.Advance(1);
  }
  for (int i = 0; i < kDeep; ++i) {
    EndScope();
    server.clock.Advance(1);
  }

  const auto scopes = NamedScopes(server.Trace());

  REQUIRE(scopes.size() == pitot::detail::kMaxOpen);
  for (int i = 0; i < static_cast<int>(scopes.size()); ++i)
    CHECK(scopes[static_cast<size_t>(i)] == Named{std::to_string(i), kStartNs + i, 2 * (kDeep - i) - 1});
  CHECK(pitot::trace::CountRings().begins_refused == 10);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("a scope of two calls begun before a recorder or under a former one is not ended by the next", "[manual]") {
  std::vector<fakes::EventText> events;
  std::thread([&] {
    BeginScope(&kSite);
    auto recording = std::make_unique<fakes::Recording>();
    EndScope();
    BeginScope(&kSite);
    BeginScope(&kSite);
    recording = nullptr;
    EndScope();
    recording = std::make_unique<fakes::Recording>();
    EndScope();
    BeginScope(pitot::Intern("new"));
    EndScope();
    events = fakes::Events(recording->Trace());
  }).join();

  REQUIRE(events.size() == 1);
  REQUIRE(events[0].args.size() == 1);
  CHECK(events[0].args[0].second == "new");
}

TEST_CASE("a range has its arguments while it is open and after its end", "[manual]") {
  VirtualServer server;
  BeginRange(1, 7);
  server.clock.Advance(5);
  const auto open = EventsNamed(server.Trace(), "range");
  const bool has_ended = pitot::trace::EndScopeOf(1);
  const auto ended = EventsNamed(server.Trace(), "range");

  CHECK(has_ended);
  for (const auto& events : {open, ended}) {
    REQUIRE(events.size() == 1);
    REQUIRE(events[0].args.size() == 2);
    CHECK(events[0].args[0] == std::pair<std::string, std::string>{"which", "7"});
    CHECK(events[0].args[1] == std::pair<std::string, std::string>{"bytes", "700"});
  }
  CHECK(open[0].duration_ns == kOpen);
  CHECK(ended[0].duration_ns == 5);
}

TEST_CASE("each owner ends its own ranges, in any order with others'", "[manual]") {
  VirtualServer server;
  BeginRange(1, 1);
  server.clock.Advance(1);
  BeginScope(&kSite);
  server.clock.Advance(1);
  BeginRange(2, 2);
  server.clock.Advance(8);
  CHECK(pitot::trace::EndScopeOf(1));
  CHECK_FALSE(pitot::trace::EndScopeOf(1));
  server.clock.Advance(10);
  CHECK(pitot::trace::EndScopeOf(2));
  server.clock.Advance(10);
  EndScope();
  EndScope();

  const auto trace = server.Trace();

  const auto ranges = EventsNamed(trace, "range");
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].duration_ns == 10);
  CHECK(ranges[1].duration_ns == 18);
  CHECK(EventsNamed(trace, "of a site")[0].duration_ns == 29);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("a range nobody ended ends with the host's scope around it, and is counted", "[manual]") {
  VirtualServer server;
  const uint64_t before = pitot::trace::RangesCut();
  for (int i = 0; i < 100; ++i) {
    PITOT_SCOPE("request");
    BeginRange(1, 1);
    BeginRange(2, 2);
    server.clock.Advance(1);
  }
  PITOT_SCOPE("open now");

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "range").size() == 200);
  CHECK(EventsNamed(trace, "request").size() == 100);
  CHECK(EventsNamed(trace, "open now").size() == 1);
  CHECK(pitot::trace::RangesCut() - before == 200);
  CHECK(pitot::trace::CountRings().misnested == 0);
  CHECK(server.threads.ring(0)->depth == 1);
}

TEST_CASE("ranges never ended leave the host's scopes their room, and are counted", "[manual]") {
  VirtualServer server;
  const uint64_t before = pitot::trace::RangesCut();
  for (int i = 0; i < 100; ++i) {
    BeginRange(1, 1);
    server.clock.Advance(1);
  }
  BeginScope(&kSite);
  const auto trace = server.Trace();
  EndScope();

  CHECK(EventsNamed(trace, "range").size() == 100);
  CHECK(pitot::trace::RangesCut() - before == 100 - pitot::trace::kMaxRanges);
  CHECK(EventsNamed(trace, "of a site").size() == 1);
  CHECK(pitot::trace::CountRings().begins_refused == 0);
}

TEST_CASE("an owner's ranges without an end leave other owners theirs, wherever the host's scopes are", "[manual]") {
  VirtualServer server;
  const uint64_t before = pitot::trace::RangesCut();
  for (int i = 0; i < 40; ++i) BeginRange(1, 1);
  for (int i = 0; i < 5; ++i) {
    BeginRange(2, 2);
    server.clock.Advance(3);
    CHECK(pitot::trace::EndScopeOf(2));
    BeginRange(1, 1);
  }
  {
    PITOT_SCOPE("host's");
    for (int i = 0; i < 40; ++i) {
      BeginRange(2, 2);
      server.clock.Advance(3);
      CHECK(pitot::trace::EndScopeOf(2));
      BeginRange(1, 1);
    }
    PITOT_SCOPE("inner");
    server.clock.Advance(1);
  }
  BeginScope(&kSite);
  server.clock.Advance(1);
  EndScope();
  const auto trace = server.Trace();

  int of_second = 0;
  for (const auto& range : EventsNamed(trace, "range")) {
    if (range.args[0].second != "2") continue;
    ++of_second;
    CHECK(range.duration_ns == 3);
  }
  CHECK(of_second == 45);
  CHECK(EventsNamed(trace, "host's")[0].duration_ns == 121);
  CHECK(EventsNamed(trace, "inner")[0].duration_ns == 1);
  CHECK(EventsNamed(trace, "of a site")[0].duration_ns == 1);
  CHECK(pitot::trace::RangesCut() - before > 0);
  const auto counts = pitot::trace::CountRings();
  CHECK((counts.begins_refused == 0 && counts.misnested == 0));
  CHECK(server.threads.ring(0)->depth <= pitot::trace::kMaxRanges);
}

TEST_CASE("ranges beyond an owner's room are not ended by another's end", "[manual]") {
  VirtualServer server;
  BeginRange(2, 2);
  server.clock.Advance(1);
  for (int i = 0; i < 34; ++i) {
    BeginRange(1, 1);
    server.clock.Advance(1);
  }

  CHECK(pitot::trace::EndScopeOf(2));
  CHECK_FALSE(pitot::trace::EndScopeOf(2));
  int open = 0;
  for (const auto& range : EventsNamed(server.Trace(), "range")) {
    open += range.duration_ns == kOpen;
    if (range.args[0].second == "2") CHECK(range.duration_ns == 35);
  }
  CHECK(open == 31);
}

TEST_CASE("ranges take other owners' gaps if the host's scopes leave no other room", "[manual]") {
  VirtualServer server;
  BeginRange(1, 1);
  for (uint32_t i = 1; i < pitot::detail::kMaxOpen; ++i) BeginScope(&kSite);
  server.clock.Advance(1);
  BeginRange(2, 2);  // in place of the first
  CHECK_FALSE(pitot::trace::EndScopeOf(1));
  CHECK(EventsNamed(server.Trace(), "range").size() == 2);
  CHECK(pitot::trace::EndScopeOf(2));
  BeginRange(3, 3);
  BeginScope(&kSite);  // one too many
  EndScope();
  CHECK(pitot::trace::EndScopeOf(3));
  for (uint32_t i = 1; i < pitot::detail::kMaxOpen; ++i) EndScope();

  CHECK(EventsNamed(server.Trace(), "of a site").size() == pitot::detail::kMaxOpen - 1);
  CHECK(pitot::trace::CountRings().begins_refused == 1);
  CHECK(pitot::trace::CountRings().misnested == 0);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("each owner's refused ranges are its own", "[manual]") {
  VirtualServer server;
  for (uint32_t i = 0; i < pitot::detail::kMaxOpen; ++i) BeginScope(&kSite);
  BeginRange(1, 1);  // no room at all
  EndScope();
  BeginRange(2, 2);
  CHECK(pitot::trace::EndScopeOf(2));
  CHECK(pitot::trace::EndScopeOf(1));
  CHECK_FALSE(pitot::trace::EndScopeOf(1));

  CHECK(EventsNamed(server.Trace(), "range").size() == 1);
}

TEST_CASE("a scope closed out of order next to a gap leaves a stack that heals", "[manual]") {
  VirtualServer server;
  BeginRange(1, 1);
  BeginScope(&kSite);
  {
    PITOT_SCOPE("enclosed");
    CHECK(pitot::trace::EndScopeOf(1));  // a gap
    EndScope();                          // a hole
    BeginRange(2, 2);                    // no room until it is gone
    CHECK(pitot::trace::EndScopeOf(2));
  }
  BeginRange(3, 3);
  CHECK(pitot::trace::EndScopeOf(3));

  CHECK(EventsNamed(server.Trace(), "range").size() == 2);
  CHECK(server.threads.ring(0)->depth == 0);
  const auto counts = pitot::trace::CountRings();
  CHECK((counts.misnested == 1 && counts.begins_refused == 1));
}
