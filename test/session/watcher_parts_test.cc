// SPDX-License-Identifier: Apache-2.0
//
// The watcher's memory: names of sites, and how far back rings reach.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "session/depth_history.h"
#include "session/firing_inbox.h"
#include "session/ring_ages.h"
#include "session/ring_growth.h"
#include "session/ring_watch.h"
#include "session/site_names.h"
#include "session/watch_pace.h"

namespace {

using pitot::session::DepthChange;
using pitot::session::DepthHistory;
using pitot::session::FiringInbox;
using pitot::session::LongestSleepNs;
using pitot::session::QueuedFiring;
using pitot::session::RingAges;
using pitot::session::RingAt;
using pitot::session::RingWatch;
using pitot::session::SiteNames;
using pitot::session::WatchState;
using pitot::session::WordsNeeded;

constexpr int64_t kSecond = 1'000'000'000;

DepthChange Change(int64_t at_ns, pitot::Depth depth, const char* why) {
  DepthChange change{at_ns, depth, ""};
  std::snprintf(change.why, sizeof change.why, "%s", why);
  return change;
}

pitot::Firing Begins() {
  pitot::Firing firing;
  firing.cause = "begins";
  return firing;
}
pitot::Firing Joins() {
  pitot::Firing firing = Begins();
  firing.joins_only = true;
  return firing;
}

int reads = 0;
pitot::snapshot::SiteText CountedRead(uint64_t address) {
  ++reads;
  pitot::snapshot::SiteText text;
  text.name = "site " + std::to_string(address);
  text.kind = address % 2 == 0 ? pitot::SiteKind::kScope : pitot::SiteKind::kWait;
  return text;
}

// A ring of 1,000 words, noted each second; `words(i)` are written in second `i`. Ends after `seconds`.
uint64_t AgeAfter(uint64_t seconds, auto words) {
  RingAges ages;
  RingAt ring{7, 0, 0, 0, 1000};
  for (uint64_t i = 0; i < seconds; ++i) {
    ages.Note({ring}, i * kSecond);
    ring.head += words(i);
  }
  return ages.Age(ring, seconds * kSecond);
}

}  // namespace

TEST_CASE("firings that begin incidents are taken first, the oldest first, then joining ones", "[watcher]") {
  FiringInbox inbox;
  inbox.Reserve();
  QueuedFiring next;
  CHECK_FALSE(inbox.IsBeginningDue());
  REQUIRE(inbox.Push(Joins(), 1, 0));
  REQUIRE(inbox.Push(Begins(), 3, 0));
  REQUIRE(inbox.Push(Begins(), 2, 0));
  CHECK(inbox.IsBeginningDue());
  CHECK(inbox.Collect() == 0);
  CHECK_FALSE(inbox.IsEmpty());

  for (const uint64_t at : {2, 3, 1}) {
    REQUIRE(inbox.Next(at == 1, &next));
    CHECK(next.at_ticks == at);
    inbox.Taken(next);
  }
  CHECK_FALSE(inbox.Next(true, &next));
  CHECK(inbox.IsEmpty());
  CHECK_FALSE(inbox.IsBeginningDue());
}

TEST_CASE("any number of firings joining one on its way does not keep that out", "[watcher]") {
  FiringInbox inbox;
  inbox.Reserve();
  QueuedFiring next;
  // As if the first one's thread had lost the CPU: the firing is due, and not there.
  REQUIRE(inbox.Push(Begins(), 1, 0));
  CHECK(inbox.Collect() == 0);
  REQUIRE(inbox.Next(false, &next));
  uint64_t dropped = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    REQUIRE(inbox.Push(Joins(), 10 + i, 0));
    dropped += inbox.Collect();
    CHECK_FALSE(inbox.Next(false, &next));
  }
  CHECK(dropped == 300 - FiringInbox::kMost);
  REQUIRE(inbox.Push(Begins(), 1000, 0));
  CHECK(inbox.Collect() == 0);

  REQUIRE(inbox.Next(false, &next));
  CHECK(next.at_ticks == 1000);
  CHECK_FALSE(inbox.Next(false, &next));
  REQUIRE(inbox.Next(true, &next));
  CHECK(next.at_ticks == 10);
}

TEST_CASE("a firing without room in the inbox is counted by one of its cause that waits there", "[watcher]") {
  FiringInbox inbox;
  inbox.Reserve();
  pitot::Firing firing = Joins();
  uint64_t dropped = 0;
  for (size_t i = 0; i < FiringInbox::kMost; ++i) {
    REQUIRE(inbox.Push(firing, i, 0));
    dropped += inbox.Collect();
  }
  REQUIRE(dropped == 0);
  firing.more_like_it = 4;
  REQUIRE(inbox.Push(firing, 1000, 0));
  firing.cause = "other";
  REQUIRE(inbox.Push(firing, 1000, 0));

  CHECK(inbox.Collect() == 2);

  QueuedFiring next;
  uint64_t more_like_it = 0;
  while (inbox.Next(true, &next)) more_like_it += next.more_like_it;
  CHECK(more_like_it == 5);
}

TEST_CASE("at rest the watcher looks once a second, otherwise every tick", "[watcher]") {
  WatchState state{.is_watching = true};
  CHECK(LongestSleepNs(state) == 10'000'000);
  state.is_watching = false;
  CHECK(LongestSleepNs(state) == 50'000'000);
  state.is_at_rest = true;
  CHECK(LongestSleepNs(state) == kSecond);
  state.governor_due_ns = 150'000'000;
  CHECK(LongestSleepNs(state) == 150'000'000);
  state.governor_due_ns = -1;  // a little late already
  CHECK(LongestSleepNs(state) == 10'000'000);
}

TEST_CASE("at rest a stalled scope is noticed by an eighth of its time late, once it was seen", "[watcher]") {
  WatchState state{.is_watching = true, .watches_scopes = true, .is_at_rest = true};
  CHECK(LongestSleepNs(state) == 400'000'000);  // no scope is open
  for (const int64_t threshold : {50'000'000, 300'000'000, 1'000'000'000}) {
    for (int64_t seen = 0; seen <= threshold; seen += 1'000'000) {
      state.scope_open_ns = seen;
      while (state.scope_open_ns <= threshold) state.scope_open_ns += LongestSleepNs(state);
      REQUIRE(state.scope_open_ns <= threshold + std::max<int64_t>(threshold / 8, 10'000'000));
    }
  }
  state.scope_open_ns = 3600 * kSecond;
  CHECK(LongestSleepNs(state) == 400'000'000);
}

TEST_CASE("a site open for long is read once, not at every look", "[watcher]") {
  reads = 0;
  SiteNames names(CountedRead);
  for (int64_t tick = 0; tick < 100; ++tick) {
    CHECK(names.At(2, tick).name == "site 2");
    CHECK(!names.At(2, tick).is_wait);
    CHECK(names.At(3, tick).is_wait);
  }
  CHECK(reads == 2);

  names.At(2, 60 * kSecond);  // another library may be there by now
  CHECK(reads == 3);
}

TEST_CASE("names of many sites do not pile up", "[watcher]") {
  reads = 0;
  SiteNames names(CountedRead);
  for (uint64_t site = 0; site < 1025; ++site) names.At(site, 0);
  CHECK(reads == 1025);

  names.At(1, 0);

  CHECK(reads == 1026);  // the first was forgotten
}

TEST_CASE("a ring that has not turned is as old as its thread", "[watcher]") {
  RingAges ages;
  const RingAt ring{7, 2 * kSecond, 100, 1100, 1000};

  CHECK(ages.Age(ring, 5 * kSecond) == 3 * kSecond);
}

TEST_CASE("a ring is as old as its oldest word, whatever the rate was before", "[watcher]") {
  // A hundred words a second hold ten seconds, though the first hour was much faster.
  const uint64_t slower = AgeAfter(3700, [](uint64_t i) { return i < 3600 ? 5000u : 100u; });
  CHECK(slower >= 9 * kSecond);
  CHECK(slower <= 11 * kSecond);

  // Two thousand a second hold half a second, though the first hour was idle.
  const uint64_t faster = AgeAfter(3610, [](uint64_t i) { return i < 3600 ? 0u : 2000u; });
  CHECK(faster >= kSecond * 4 / 10);
  CHECK(faster <= kSecond * 6 / 10);
}

TEST_CASE("the age of a slowly turning ring is known to about a sixth", "[watcher]") {
  const uint64_t day = AgeAfter(100'000, [](uint64_t i) { return i % 10 == 0 ? 1u : 0u; });  // 1,000 words in 10,000 s

  CHECK(day >= 10'000 * kSecond * 5 / 6);
  CHECK(day <= 10'000 * kSecond * 7 / 6);
}

TEST_CASE("a pause is part of a ring's history", "[watcher]") {
  // 600 words, a pause of a thousand seconds, 500 words: 500 from before the pause are still there.
  const uint64_t age = AgeAfter(1200, [](uint64_t i) { return i < 6 || i >= 1195 ? 100u : 0u; });

  CHECK(age >= 1194 * kSecond);
  CHECK(age <= 1200 * kSecond);
}

TEST_CASE("destroyed rings are forgotten", "[watcher]") {
  RingAges ages;
  RingAt ring{7, 0, 0, 0, 1000};
  ages.Note({ring}, 9 * kSecond);
  ring.head = 10'000;
  CHECK(ages.Age(ring, 10 * kSecond) == kSecond / 10);
  ages.Note({}, 10 * kSecond);

  CHECK(ages.Age(ring, 10 * kSecond) == kSecond);  // only its thread's first event is known
}

TEST_CASE("a word from before a time is known as late as the ring was noted", "[watcher]") {
  RingAges ages;
  RingAt ring{7, 0, 0, 0, 1000};
  for (uint64_t second = 0; second < 5; ++second, ring.head += 100) ages.Note({ring}, second * kSecond);

  CHECK(ages.WordBefore(7, 3 * kSecond + 1) == 300);
  CHECK(ages.WordBefore(7, 3 * kSecond) == 300);
  CHECK(ages.WordBefore(7, 60 * kSecond) == 400);
  CHECK(ages.WordBefore(8, 60 * kSecond) == 0);
}

TEST_CASE("an incident waits until a ring has lost an eighth of itself, and no longer", "[watcher]") {
  RingWatch watch;
  RingAt full{7, 0, 0, 5000, 800}, idle{8, 0, 0, 5000, 800};
  const int64_t second_ns = 1'000'000'000, ms = 1'000'000;
  watch.Begin({{full, 0, second_ns}, {idle, 0, second_ns}}, 0);
  CHECK_FALSE(watch.IsOver());
  CHECK(watch.look_ns() == ms);

  full.head += 99;
  watch.Look({full, idle}, 60 * ms);
  CHECK(watch.IsOver());  // before it happens: at this pace, it is a matter of less than a millisecond

  watch.Begin({{full, 0, second_ns}, {idle, 0, second_ns}}, 0);
  full.head += 50;
  watch.Look({full, idle}, 10 * ms);
  CHECK_FALSE(watch.IsOver());
  CHECK(watch.look_ns() == 15 * ms);  // half of the time that is left at this pace
  full.head += 50;
  watch.Look({full, idle}, 10 * ms);
  CHECK(watch.IsOver());
}

TEST_CASE("a ring that turns within a few milliseconds has its incident copied at once", "[watcher]") {
  RingWatch watch;
  watch.Begin({{{7, 0, 0, 5000, 800}, 0, 7'000'000}}, 0);

  CHECK(watch.IsOver());
}

TEST_CASE("a watcher that takes a firing late has its incident copied at once", "[watcher]") {
  const int64_t second_ns = 1'000'000'000;
  RingWatch watch;
  watch.Begin({{{7, 0, 0, 5000, 800}, 0, second_ns, 25}}, 0);
  CHECK_FALSE(watch.IsOver());
  watch.Begin({{{7, 0, 0, 5000, 800}, 0, second_ns, 26}}, 0);

  CHECK(watch.IsOver());
}

TEST_CASE("only words that the window would have held are lost", "[watcher]") {
  RingWatch watch;
  RingAt has_room{7, 0, 0, 300, 800}, window_is_short{8, 0, 0, 5000, 800}, comes_later{9, 0, 0, 0, 800};
  watch.Begin({{has_room, 0, 1'000'000}, {window_is_short, 4900, 1'000'000'000}}, 0);
  CHECK_FALSE(watch.IsOver());

  has_room.head += 500 + 99;
  window_is_short.head += 700 + 99;
  comes_later.head = 50'000;
  const int64_t hours_ns = 3'600'000'000'000;  // a slow pace
  watch.Look({has_room, window_is_short, comes_later}, hours_ns);
  CHECK_FALSE(watch.IsOver());
  has_room.head += 1;
  watch.Look({has_room, window_is_short, comes_later}, hours_ns);
  CHECK(watch.IsOver());
}

TEST_CASE("the depth of a time is the one then in force, with its reason, not the last", "[session][depth]") {
  DepthHistory history;
  history.Note(Change(100, pitot::Depth::kScopes, "holding scopes"));
  history.Note(Change(150, pitot::Depth::kScopes, "holding scopes"));
  history.Note(Change(200, pitot::Depth::kKernels, "armed: kernels"));
  history.Note(Change(220, pitot::Depth::kScopes, "holding scopes"));
  history.Note(Change(300, pitot::Depth::kOps, "fixed by the host"));
  const auto of = [&](int64_t begin_ns, int64_t end_ns) {
    return DepthText(history.Since(begin_ns), begin_ns, end_ns);
  };

  CHECK(of(120, 180) == "scopes (holding scopes)");
  CHECK(of(180, 280) == "scopes (holding scopes) 80 %, kernels (armed: kernels) 20 %");
  CHECK(of(310, 400) == "ops (fixed by the host)");
  CHECK(of(50, 90).empty());
  CHECK(of(50, 150) == "scopes (holding scopes)");
}

TEST_CASE("the newest changes of depth are kept, and the four depths with most of a time are named",
          "[session][depth]") {
  DepthHistory history;
  for (int i = 0; i < 600; ++i) history.Note(Change(i, pitot::Depth::kScopes, std::to_string(i % 5).c_str()));

  CHECK(history.Since(INT64_MIN).size() == DepthHistory::kMost);
  CHECK(history.Since(INT64_MIN).front().at_ns == 600 - DepthHistory::kMost);
  CHECK(history.Since(590).size() == 10);
  CHECK(DepthText(history.Since(590), 590, 601) ==
        "scopes (4) 27.3 %, scopes (0) 18.2 %, scopes (1) 18.2 %, scopes (2) 18.2 %");
}

TEST_CASE("a ring needs the power of two that holds the window at its pace, and an eighth more", "[watcher]") {
  const RingAt full{7, 0, 0, 50'000, 1024};  // held: 1,024 words
  CHECK(WordsNeeded(full, kSecond, 5 * kSecond) == 8192);
  CHECK(WordsNeeded(full, kSecond, 7 * kSecond) == 8192);
  CHECK(WordsNeeded(full, kSecond, 8 * kSecond) == 16'384);
  CHECK(WordsNeeded(full, 5 * kSecond, 5 * kSecond) == 2048);
  CHECK(WordsNeeded(full, 6 * kSecond, 5 * kSecond) == 1024);
  CHECK(WordsNeeded(full, 0, 5 * kSecond) >= uint64_t{1} << 40);  // as much as there is
}

TEST_CASE("a ring that is filling up tells its pace once it is a quarter full", "[watcher]") {
  const RingAt half{7, 0, 0, 512, 1024}, young{7, 0, 0, 255, 1024};
  CHECK(WordsNeeded(half, kSecond, 5 * kSecond) == 4096);
  CHECK(WordsNeeded(young, kSecond / 1000, 5 * kSecond) == 1024);  // too little to know its pace
}

TEST_CASE("a ring that has grown is as old as its first word of that size", "[watcher]") {
  RingAges ages;
  RingAt ring{7, 0, 0, 0, 1000};
  for (uint64_t second = 0; second < 5; ++second, ring.head += 500) ages.Note({ring}, second * kSecond);
  ring.capacity = 4000;
  ring.grown_at = 1500;

  CHECK(pitot::session::OldestWord(ring) == 1500);
  CHECK(ages.Age(ring, 5 * kSecond) == 2 * kSecond);
}
