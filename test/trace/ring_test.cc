// SPDX-License-Identifier: Apache-2.0
//
// Events of the macros in a ring, read back through a snapshot and a trace.
#include <catch2/catch.hpp>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_clock.h"
#include "fakes/virtual_server.h"
#include "pitot/phase.h"
#include "pitot/trace.h"

namespace {

using fakes::Events;
using fakes::EventsNamed;
using fakes::EventText;
using fakes::kStartNs;
using fakes::Recording;
using fakes::VirtualClock;
using fakes::VirtualServer;
using fakes::VirtualThreads;
using Args = std::vector<std::pair<std::string, std::string>>;
using pitot::model::kOpen;

std::string TextArg(std::string_view text) {
  VirtualServer server;
  { PITOT_SCOPE("text", text); }

  const auto trace = server.Trace();

  const auto events = EventsNamed(trace, "text");
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].args.size() == 1);
  CHECK(events[0].args[0].first == "text");
  return events[0].args[0].second;
}

enum class Colour : uint8_t { kRed = 3 };

}  // namespace

TEST_CASE("a scope is recorded with its name, begin and duration", "[ring]") {
  VirtualServer server;
  {
    PITOT_SCOPE("decode");
    server.clock.Advance(250);
  }

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 1);
  CHECK(events[0] == EventText{"decode", "thread 0", kStartNs, 250, 0, 0, {}});
}

TEST_CASE("leaves, named scopes and functions are recorded like scopes", "[ring]") {
  VirtualServer server;
  const pitot::Name name = pitot::Intern("made at run time");
  const auto function = [&] {
    PITOT_FUNCTION();
    server.clock.Advance(3);
  };
  {
    PITOT_LEAF("hash", 7);
    server.clock.Advance(1);
  }
  {
    PITOT_SCOPE_NAMED(name, 8u);
    server.clock.Advance(2);
  }
  function();

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 3);
  CHECK(events[0] == EventText{"hash", "thread 0", kStartNs, 1, 0, 0, {{"7", "7"}}});
  CHECK(events[1].name == "made at run time");
  CHECK(events[1].args == Args{{"name", "made at run time"}, {"8u", "8"}});
  CHECK(events[2].name == "operator()");
  CHECK(events[2].duration_ns == 3);
}

TEST_CASE("phases follow each other without gaps and the last ends with the block", "[ring]") {
  VirtualServer server;
  {
    PITOT_PHASES(stages);
    PITOT_PHASE(stages, "decode");
    server.clock.Advance(10);
    PITOT_PHASE(stages, "resize");
    server.clock.Advance(20);
    PITOT_PHASE(stages, "send");
    server.clock.Advance(30);
  }

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 3);
  CHECK(events[0] == EventText{"decode", "thread 0", kStartNs, 10, 0, 0, {}});
  CHECK(events[1] == EventText{"resize", "thread 0", kStartNs + 10, 20, 0, 0, {}});
  CHECK(events[2] == EventText{"send", "thread 0", kStartNs + 30, 30, 0, 0, {}});
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("phases can be ended and begun again", "[ring]") {
  VirtualServer server;
  PITOT_PHASES(stages);
  PITOT_PHASES_END(stages);
  PITOT_PHASE(stages, "first");
  server.clock.Advance(10);
  PITOT_PHASES_END(stages);
  PITOT_PHASES_END(stages);
  server.clock.Advance(5);
  PITOT_PHASE(stages, "second");
  server.clock.Advance(20);
  PITOT_PHASES_END(stages);

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 2);
  CHECK(events[0].duration_ns == 10);
  CHECK(events[1].begin_ns == kStartNs + 15);
}

TEST_CASE("a phase begun inside a scope still open ends when the phases go on outside it", "[ring]") {
  VirtualServer server;
  {
    PITOT_PHASES(stages);
    {
      PITOT_SCOPE("inside");
      PITOT_PHASE(stages, "first");
      server.clock.Advance(10);
    }
    PITOT_PHASE(stages, "second");
    server.clock.Advance(20);
  }

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "inside").size() == 1);
  REQUIRE(EventsNamed(trace, "first").size() == 1);
  CHECK(EventsNamed(trace, "first")[0].duration_ns == 10);
  REQUIRE(EventsNamed(trace, "second").size() == 1);
  CHECK(EventsNamed(trace, "second")[0].duration_ns == 20);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("instants and counters have a moment and no duration", "[ring]") {
  VirtualServer server;
  PITOT_INSTANT("cache miss", 1, 2);
  server.clock.Advance(5);
  PITOT_COUNTER("queue depth", 17);

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 2);
  CHECK(events[0] == EventText{"cache miss", "thread 0", kStartNs, 0, 0, 0, {{"1", "1"}, {"2", "2"}}});
  CHECK(events[1].begin_ns == kStartNs + 5);
  REQUIRE(events[1].args.size() == 1);
  CHECK(events[1].args[0].second == "17");
}

TEST_CASE("values of one counter at one moment keep their order", "[ring]") {
  VirtualServer server;
  PITOT_COUNTER("depth", 1);
  PITOT_COUNTER("depth", 2);
  PITOT_COUNTER("depth", 3);

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 3);
  CHECK(events[0].args[0].second == "1");
  CHECK(events[1].args[0].second == "2");
  CHECK(events[2].args[0].second == "3");
}

TEST_CASE("every type of argument arrives unchanged", "[ring]") {
  VirtualServer server;
  const pitot::Name name = pitot::Intern("an interned name");
  const std::string text = "some text";
  const char* const c_text = "a C string";
  const int64_t least = std::numeric_limits<int64_t>::min();
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  const int8_t small = -5;
  const bool yes = true;
  const float half = 0.5f;
  const double third = -1.25e100;
  const Colour colour = Colour::kRed;
  { PITOT_SCOPE("one", least, most, small, yes, half, third, colour); }
  { PITOT_SCOPE("two", text, c_text, "literal array", PITOT_LITERAL("by address"), name, 'c', 1ull); }

  const auto trace = server.Trace();

  REQUIRE(EventsNamed(trace, "one").size() == 1);
  CHECK(EventsNamed(trace, "one")[0].args == Args{{"least", "-9223372036854775808"},
                                                  {"most", "18446744073709551615"},
                                                  {"small", "-5"},
                                                  {"yes", "true"},
                                                  {"half", "0.5"},
                                                  {"third", "-1.25e+100"},
                                                  {"colour", "3"}});
  REQUIRE(EventsNamed(trace, "two").size() == 1);
  const Args two = EventsNamed(trace, "two")[0].args;
  REQUIRE(two.size() == 7);
  CHECK(two[0] == std::pair<std::string, std::string>{"text", "some text"});
  CHECK(two[1] == std::pair<std::string, std::string>{"c_text", "a C string"});
  CHECK(two[2].second == "literal array");
  CHECK(two[3].second == "by address");
  CHECK(two[4] == std::pair<std::string, std::string>{"name", "an interned name"});
  CHECK(two[5].second == "99");
  CHECK(two[6].second == "1");
}

TEST_CASE("strings of every length arrive whole up to 48 bytes and cut beyond", "[ring]") {
  const std::string alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01234567";
  for (size_t size = 0; size <= 60; ++size) {
    INFO("size " << size);
    CHECK(TextArg(alphabet.substr(0, size)) == alphabet.substr(0, std::min<size_t>(size, 48)));
  }
}

TEST_CASE("a string of 1 MiB, an invalid one and one with control characters are harmless", "[ring]") {
  CHECK(TextArg(std::string(1 << 20, 'x')) == std::string(48, 'x'));
  CHECK(TextArg("bad \xff\xfe end") == "bad \xef\xbf\xbd\xef\xbf\xbd end");
  CHECK(TextArg(std::string_view("a\0b\nc", 5)) ==
        "a\xef\xbf\xbd"
        "b\xef\xbf\xbd"
        "c");
  // A character cut in the middle.
  CHECK(TextArg(std::string(47, 'x') + "\xc3\xa4") == std::string(47, 'x') + "\xef\xbf\xbd");
}

TEST_CASE("a null string is an empty one", "[ring]") {
  VirtualServer server;
  const char* const nothing = nullptr;
  const std::string_view empty;
  { PITOT_SCOPE("null", nothing, empty, 5); }

  const auto events = EventsNamed(server.Trace(), "null");

  REQUIRE(events.size() == 1);
  CHECK(events[0].args == Args{{"nothing", ""}, {"empty", ""}, {"5", "5"}});
}

TEST_CASE("seven strings of full length fit into one record", "[ring]") {
  VirtualServer server;
  const std::string a(60, 'a'), b(60, 'b'), c(60, 'c'), d(60, 'd'), e(60, 'e'), f(60, 'f'), g(60, 'g');
  {
    PITOT_SCOPE("long", a, b, c, d, e, f, g);
    server.clock.Advance(uint64_t{1} << 30);
  }
  PITOT_INSTANT("after");

  const auto trace = server.Trace();

  const auto events = EventsNamed(trace, "long");
  REQUIRE(events.size() == 1);
  REQUIRE(events[0].args.size() == 7);
  CHECK(events[0].args[0].second == std::string(48, 'a'));
  CHECK(events[0].args[6].second == std::string(48, 'g'));
  CHECK(EventsNamed(trace, "after").size() == 1);
}

TEST_CASE("seven integers are read back although their number does not fit the header", "[ring]") {
  VirtualServer server;
  { PITOT_SCOPE("seven", 1, 2, 3, 4, 5, 6, 7); }
  { PITOT_SCOPE("six", 1, 2, 3, 4, 5, 6); }

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "seven")[0].args.size() == 7);
  CHECK(EventsNamed(trace, "seven")[0].args[6].second == "7");
  CHECK(EventsNamed(trace, "six")[0].args[5].second == "6");
}

TEST_CASE("durations around and far beyond 24 bits are exact", "[ring]") {
  for (const uint64_t duration : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 24) - 1, uint64_t{1} << 24,
                                  (uint64_t{1} << 24) + 1, uint64_t{1} << 39, (uint64_t{1} << 40) + 123}) {
    INFO("duration " << duration);
    VirtualServer server;
    {
      PITOT_SCOPE("long", duration);
      server.clock.Advance(duration);
    }
    PITOT_INSTANT("after");

    const auto trace = server.Trace();

    REQUIRE(EventsNamed(trace, "long").size() == 1);
    CHECK(EventsNamed(trace, "long")[0].begin_ns == kStartNs);
    CHECK(EventsNamed(trace, "long")[0].duration_ns == static_cast<int64_t>(duration));
    CHECK(EventsNamed(trace, "after")[0].begin_ns == kStartNs + static_cast<int64_t>(duration));
  }
}

TEST_CASE("events before and after the turn of the stored time stamp are told apart", "[ring]") {
  for (const int bits : {40, 52}) {
    INFO("a stamp of " << bits << " bits");
    VirtualClock clock((uint64_t{1} << bits) - 100);
    Recording recording;
    VirtualThreads threads;
    threads.Become(0);
    PITOT_INSTANT("before");
    {
      PITOT_SCOPE("across");
      clock.Advance(200);
    }
    PITOT_INSTANT("after");
    clock.Advance(1000);

    const auto trace = recording.Trace();

    const int64_t turn = int64_t{1} << bits;
    CHECK(EventsNamed(trace, "before")[0].begin_ns == turn - 100);
    CHECK(EventsNamed(trace, "across")[0].begin_ns == turn - 100);
    CHECK(EventsNamed(trace, "across")[0].duration_ns == 200);
    CHECK(EventsNamed(trace, "after")[0].begin_ns == turn + 100);
  }
}

TEST_CASE("an event recorded many turns of 40 bits ago keeps its time", "[ring]") {
  VirtualServer server;
  PITOT_INSTANT("long ago");
  server.clock.Advance(uint64_t{7} << 40);
  PITOT_INSTANT("now");

  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "long ago")[0].begin_ns == kStartNs);
  CHECK(EventsNamed(trace, "now")[0].begin_ns == kStartNs + (int64_t{7} << 40));
}

TEST_CASE("an event up to a whole turn of the stored time stamp old keeps its time", "[ring]") {
  constexpr uint64_t kTurn = uint64_t{1} << 52;
  for (const uint64_t begin : {uint64_t{3} << 50, kTurn - 1, kTurn, kTurn + 5}) {
    for (const uint64_t age : {kTurn / 2 - 1, kTurn / 2, kTurn / 2 + 1, kTurn * 3 / 4, kTurn - (uint64_t{2} << 30)}) {
      INFO("recorded at " << begin << ", " << age << " ago");
      VirtualClock clock(begin);
      Recording recording;
      VirtualThreads threads;
      threads.Become(0);
      PITOT_INSTANT("long ago");
      clock.Advance(age);

      CHECK(EventsNamed(recording.Trace(), "long ago")[0].begin_ns == static_cast<int64_t>(begin));
      CHECK(EventsNamed(recording.Trace(begin + age - 1000), "long ago").empty());
    }
  }
}

TEST_CASE("a scope recorded only if slow is recorded only if slow", "[ring]") {
  VirtualServer server;
  for (const uint64_t duration : {uint64_t{999}, uint64_t{1000}, uint64_t{1001}}) {
    PITOT_SCOPE_IF_SLOWER("lock", 1000, duration);
    server.clock.Advance(duration);
  }

  const auto events = EventsNamed(server.Trace(), "lock");

  REQUIRE(events.size() == 2);
  CHECK(events[0].duration_ns == 1000);
  CHECK(events[0].args == Args{{"1000", "1000"}, {"duration", "1000"}});
  CHECK(events[1].duration_ns == 1001);
  CHECK(server.threads.ring(0)->depth == 0);
}

TEST_CASE("scopes are visible while they are open, but a leaf is not", "[ring]") {
  VirtualServer server;
  PITOT_SCOPE("outer");
  server.clock.Advance(10);
  PITOT_LEAF("leaf");
  PITOT_SCOPE("inner", 42);
  server.clock.Advance(10);
  PITOT_PHASES(phases);
  PITOT_PHASE(phases, "phase");
  server.clock.Advance(5);
  PITOT_SCOPE_IF_SLOWER("slow", 1'000'000'000);

  const auto trace = server.Trace();

  const auto events = Events(trace);
  REQUIRE(events.size() == 4);
  CHECK(events[0] == EventText{"outer", "thread 0", kStartNs, kOpen, 0, 0, {}});
  CHECK(events[1] == EventText{"inner", "thread 0", kStartNs + 10, kOpen, 0, 0, {}});
  CHECK(events[2] == EventText{"phase", "thread 0", kStartNs + 20, kOpen, 0, 0, {}});
  CHECK(events[3] == EventText{"slow", "thread 0", kStartNs + 25, kOpen, 0, 0, {}});
}

TEST_CASE("a scope named at run time is shown by its name while it is open", "[ring]") {
  VirtualServer server;
  const pitot::Name name = pitot::Intern("made at run time");
  {
    PITOT_SCOPE_NAMED(name, 8u);
    const auto events = Events(server.Trace());
    REQUIRE(events.size() == 1);
    CHECK(events[0].name == "made at run time");
    CHECK(events[0].args == Args{{"name", "made at run time"}, {"8u", "8"}});
    CHECK(events[0].duration_ns == kOpen);
  }
  // At the same depth and moment: not its arguments.
  PITOT_SCOPE("after", 1u, 2u);
  const auto events = fakes::EventsNamed(server.Trace(), "after");
  REQUIRE(events.size() == 1);
  CHECK(events[0] == EventText{"after", "thread 0", kStartNs, kOpen, 0, 0, {}});
}

TEST_CASE("an open scope named at run time shows its name and its first arguments", "[ring]") {
  VirtualServer server;
  const pitot::Name wide = pitot::Intern("wide"), longer = pitot::Intern("long");
  PITOT_SCOPE_NAMED(wide, 1, 2, 3, 4);
  server.clock.Advance(1);
  PITOT_SCOPE_NAMED(longer, 1, "a string that does not fit into the words that are left");

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 2);
  CHECK(events[0] ==
        EventText{"wide", "thread 0", kStartNs, kOpen, 0, 0, {{"wide", "wide"}, {"1", "1"}, {"2", "2"}, {"3", "3"}}});
  CHECK(events[1] == EventText{"long", "thread 0", kStartNs + 1, kOpen, 0, 0, {{"longer", "long"}, {"1", "1"}}});
}

TEST_CASE("open scopes begun at one moment keep their nesting", "[ring]") {
  VirtualServer server;
  PITOT_SCOPE("outer");
  PITOT_SCOPE("middle");
  PITOT_SCOPE("inner");

  const auto events = Events(server.Trace());

  REQUIRE(events.size() == 3);
  CHECK(events[0].name == "outer");
  CHECK(events[1].name == "middle");
  CHECK(events[2].name == "inner");
}

TEST_CASE("a full ring overwrites the oldest events and reports it", "[ring]") {
  VirtualServer server({.max_ring_bytes = 4096, .min_ring_bytes = 4096});
  constexpr int kEvents = 10'000;
  for (int i = 0; i < kEvents; ++i) {
    PITOT_INSTANT("tick", i);
    server.clock.Advance(10);
  }

  const auto trace = server.Trace();

  const auto events = EventsNamed(trace, "tick");
  // 512 words of 3 each, less the room for one record in the making.
  REQUIRE(events.size() == (512 - 64) / 3);
  for (size_t i = 0; i < events.size(); ++i)
    CHECK(events[i].args[0].second == std::to_string(kEvents - static_cast<int>(events.size()) + static_cast<int>(i)));
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == pitot::model::LossReason::kOverwritten);
  CHECK(trace.losses[0].thread == 0);
  CHECK(trace.losses[0].begin_ns == kStartNs);
  CHECK(trace.losses[0].end_ns == events[0].begin_ns);
  CHECK(trace.losses[0].events == kEvents - events.size());
  CHECK(trace.threads[0].history_begin_ns == events[0].begin_ns);
}

TEST_CASE("a ring full before the window loses nothing of it", "[ring]") {
  VirtualServer server({.max_ring_bytes = 4096, .min_ring_bytes = 4096});
  for (int i = 0; i < 1000; ++i) PITOT_INSTANT("before");
  server.clock.Advance(1000);
  const uint64_t window_begin = server.recording.Now();
  for (int i = 0; i < 20; ++i) {
    PITOT_INSTANT("inside");
    server.clock.Advance(10);
  }

  const auto trace = server.Trace(window_begin);

  CHECK(EventsNamed(trace, "before").empty());
  CHECK(EventsNamed(trace, "inside").size() == 20);
  CHECK(trace.losses.empty());
  CHECK(trace.window_begin_ns == static_cast<int64_t>(window_begin));
  CHECK(trace.threads[0].history_begin_ns == trace.window_begin_ns);
}

TEST_CASE("the window has everything that ended in it, and nothing that ended before", "[ring]") {
  VirtualServer server;
  PITOT_INSTANT("before");
  {
    PITOT_SCOPE("reaches in");
    server.clock.Advance(100);
  }
  const uint64_t window_begin = server.recording.Now() - 50;
  server.clock.Advance(100);
  PITOT_INSTANT("inside");

  const auto trace = server.Trace(window_begin);

  CHECK(EventsNamed(trace, "before").empty());
  REQUIRE(EventsNamed(trace, "reaches in").size() == 1);
  CHECK(EventsNamed(trace, "reaches in")[0].begin_ns == kStartNs);
  CHECK(EventsNamed(trace, "inside").size() == 1);
}

TEST_CASE("an empty ring and an unwritten one give an empty trace", "[ring]") {
  VirtualServer server;

  const auto trace = server.Trace();

  CHECK(trace.events.size() == 0);
  REQUIRE(trace.threads.size() == 1);
  CHECK(trace.losses.empty());
}

TEST_CASE("scopes deeper than 62 are recorded but not shown while open", "[ring]") {
  VirtualServer server;
  const auto nest = [&](auto&& self, int depth) -> pitot::model::Trace {
    PITOT_SCOPE("level", depth);
    server.clock.Advance(1);
    if (depth < 100) return self(self, depth + 1);
    return server.Trace();
  };

  const auto inside = nest(nest, 1);
  const auto after = server.Trace();

  CHECK(EventsNamed(inside, "level").size() == 62);
  REQUIRE(inside.losses.size() == 1);
  CHECK(inside.losses[0].reason == pitot::model::LossReason::kDepth);
  CHECK(EventsNamed(after, "level").size() == 100);
  CHECK(after.losses.empty());
  CHECK(server.threads.ring(0)->depth == 0);
  CHECK(pitot::trace::CountRings().misnested == 0);
}

TEST_CASE("a closed scope without arguments takes 16 bytes, and 8 more for each argument", "[ring]") {
  VirtualServer server;
  const pitot::trace::ThreadRing* ring = server.threads.ring(0);

  const uint64_t empty = ring->head;
  { PITOT_SCOPE("none"); }
  const uint64_t none = ring->head;
  { PITOT_SCOPE("three", 1, 2.0, true); }
  const uint64_t three = ring->head;

  CHECK((none - empty) * 8 == 16);
  CHECK((three - none) * 8 == 16 + 24);
}

TEST_CASE("nothing is recorded while the gate is closed", "[ring]") {
  { PITOT_SCOPE("before", 1); }
  PITOT_INSTANT("before");
  VirtualServer server;
  PITOT_INSTANT("inside");

  const auto trace = server.Trace();

  CHECK(Events(trace).size() == 1);
}

TEST_CASE("a scope closed on another thread is counted, not recorded, and harms neither stack", "[ring]") {
  VirtualServer server;
  using Scope = pitot::detail::Scope<pitot::detail::Keep::kOpen, pitot::detail::ArgList<>>;
  static constexpr pitot::Site site{
      pitot::kSiteMagic, pitot::SiteKind::kScope, 0, 0, __LINE__, 0, "migrates", __FILE__, "test", "\"migrates\""};
  auto scope = std::make_unique<Scope>(&site, "");
  server.clock.Advance(10);

  server.threads.Become(1);
  {
    PITOT_SCOPE("own");
    scope.reset();
  }
  const auto trace = server.Trace();

  CHECK(EventsNamed(trace, "own").size() == 1);
  CHECK(pitot::trace::CountRings().closed_elsewhere == 1);
  CHECK(server.threads.ring(1)->depth == 0);
  // It stays on the stack it was opened on, because nobody else may touch that.
  REQUIRE(EventsNamed(trace, "migrates").size() == 1);
  CHECK(EventsNamed(trace, "migrates")[0].duration_ns == kOpen);
  REQUIRE(trace.losses.size() == 1);
  CHECK(trace.losses[0].reason == pitot::model::LossReason::kClosedElsewhere);
  CHECK(trace.losses[0].events == 1);
}

TEST_CASE("a scope outlives the thread and the ring it was opened on", "[ring]") {
  using Scope = pitot::detail::Scope<pitot::detail::Keep::kOpen, pitot::detail::ArgList<>>;
  static constexpr pitot::Site site{
      pitot::kSiteMagic, pitot::SiteKind::kScope, 0, 0, __LINE__, 0, "orphan", __FILE__, "test", "\"orphan\""};
  std::unique_ptr<Scope> scope;
  uint64_t counted = 0;
  {
    Recording recording;
    std::thread([&] { scope = std::make_unique<Scope>(&site, ""); }).join();
  }  // unmaps the ring of the ended thread
  {
    Recording recording;
    PITOT_INSTANT("live");
    scope.reset();
    // A new ring at the old one's address makes this a scope closed out of order.
    counted = pitot::trace::CountRings().closed_elsewhere + pitot::trace::CountRings().misnested;
  }

  CHECK(counted == 1);
}

TEST_CASE("phases ended on another thread are counted, not recorded", "[ring]") {
  VirtualServer server;
  auto phases = std::make_unique<pitot::detail::Phases>();
  PITOT_PHASE(*phases, "moves");

  server.threads.Become(1);
  PITOT_PHASE(*phases, "here");
  PITOT_PHASES_END(*phases);

  const auto trace = server.Trace();
  CHECK(pitot::trace::CountRings().closed_elsewhere == 1);
  CHECK(EventsNamed(trace, "here").size() == 1);
  CHECK(server.threads.ring(1)->depth == 0);
}

TEST_CASE("a scope open across Stop and Start is recorded once and does no harm", "[ring]") {
  VirtualClock clock;
  auto recording = std::make_unique<Recording>();
  {
    PITOT_SCOPE("long lived");
    clock.Advance(10);
    recording.reset();
    clock.Advance(10);
    recording = std::make_unique<Recording>();
    {
      PITOT_SCOPE("new");
      clock.Advance(10);
    }
  }
  { PITOT_SCOPE("newer"); }
  const auto trace = recording->Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(EventsNamed(trace, "new").size() == 1);
  CHECK(EventsNamed(trace, "newer").size() == 1);
  CHECK(EventsNamed(trace, "long lived").size() == 1);
  for (const auto& event : Events(trace)) CHECK(event.duration_ns != kOpen);
}

TEST_CASE("a scope open across a change of the clock does not break the trace", "[ring]") {
  auto recording = std::make_unique<Recording>();  // the cycle counter, if there is one
  auto clock = std::unique_ptr<VirtualClock>();
  {
    PITOT_SCOPE("of two clocks");
    recording.reset();
    clock = std::make_unique<VirtualClock>(5'000'000);
    recording = std::make_unique<Recording>();
    PITOT_INSTANT("new");
    clock->Advance(10);
  }

  const auto trace = recording->Trace();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(EventsNamed(trace, "new").size() == 1);
  recording.reset();
}
