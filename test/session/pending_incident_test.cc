// SPDX-License-Identifier: Apache-2.0
//
// Which firings begin an incident, which join it, and when it is due.
#include "session/pending_incident.h"

#include <catch2/catch.hpp>
#include <string>

#include "session/calibrate.h"
#include "session/parts.h"

namespace {

using pitot::session::IncidentBudget;
using pitot::session::PendingIncident;
using session_test::kMs;
using session_test::kSecond;
using Answer = PendingIncident::Answer;

struct Rig {
  Rig() { pitot::session::CalibrateTicks(true); }  // one tick is one ns
  Answer Take(const char* cause, int64_t now_ns) {
    return pending.Take(session_test::QueuedFiring(cause, static_cast<uint64_t>(now_ns)), now_ns,
                        pitot::session::IncidentBudget::Reserve::kNone);
  }
  static pitot::Options MakeOptions() {
    pitot::Options options;
    options.pre_window_ms = 1000;
    options.post_window_ms = 100;
    options.max_incidents_per_cause_and_hour = 1;
    return options;
  }
  pitot::Options options = MakeOptions();
  PendingIncident pending{&options};
};

}  // namespace

TEST_CASE("a firing begins an incident, which then is due at the end of its post window", "[pending]") {
  Rig rig;
  rig.pending.SetStart(static_cast<uint64_t>(2 * kSecond));
  CHECK(rig.pending.get() == nullptr);
  CHECK_FALSE(rig.pending.IsPending());

  CHECK(rig.Take("slow", 10 * kSecond) == Answer::kBegan);
  CHECK(rig.pending.IsPending());
  REQUIRE(rig.pending.get() != nullptr);
  CHECK(rig.pending.get()->number == 1);
  CHECK(rig.pending.get()->cause == "slow");
  CHECK(rig.pending.get()->due_ns == 10 * kSecond + 100 * kMs);
  CHECK(rig.pending.get()->window_begin_ticks == static_cast<uint64_t>(9 * kSecond));

  CHECK(rig.pending.Release() != nullptr);
  CHECK_FALSE(rig.pending.IsPending());
  CHECK(rig.pending.get() == nullptr);
}

TEST_CASE("a window does not reach back to before the recorder's start", "[pending]") {
  Rig rig;
  rig.pending.SetStart(static_cast<uint64_t>(2 * kSecond));
  REQUIRE(rig.Take("slow", 2 * kSecond + 5 * kMs) == Answer::kBegan);

  CHECK(rig.pending.get()->window_begin_ticks == static_cast<uint64_t>(2 * kSecond));
}

TEST_CASE("each cause that joins has its post window once, and a minute is the most", "[pending]") {
  Rig rig;
  const int64_t begin_ns = 10 * kSecond;
  REQUIRE(rig.Take("slow", begin_ns) == Answer::kBegan);
  CHECK(rig.Take("slow", begin_ns + 50 * kMs) == Answer::kJoined);
  CHECK(rig.pending.get()->due_ns == begin_ns + 100 * kMs);
  CHECK(rig.Take("failed", begin_ns + 60 * kMs) == Answer::kJoined);
  CHECK(rig.pending.get()->due_ns == begin_ns + 160 * kMs);

  rig.options.post_window_ms = 60'000;
  CHECK(rig.Take("stalled", begin_ns + 70 * kMs) == Answer::kJoined);
  CHECK(rig.pending.get()->due_ns == begin_ns + 60 * kSecond);
  CHECK(rig.pending.get()->firings.size() == 4);
}

TEST_CASE("firings beyond those listed are counted", "[pending]") {
  Rig rig;
  for (size_t i = 0; i < PendingIncident::kMostFirings + 3; ++i) rig.Take("slow", kSecond);

  CHECK(rig.pending.get()->firings.size() == PendingIncident::kMostFirings);
  CHECK(rig.pending.get()->firings_unlisted == 3);
}

TEST_CASE("a cause without budget begins no incident, but joins one", "[pending]") {
  Rig rig;
  CHECK(rig.pending.HasPlace("slow", kSecond, IncidentBudget::Reserve::kNone));
  REQUIRE(rig.Take("slow", kSecond) == Answer::kBegan);
  CHECK(rig.pending.HasPlace("slow", kSecond, IncidentBudget::Reserve::kNone));
  CHECK(rig.Take("slow", kSecond) == Answer::kJoined);
  rig.pending.Release();

  CHECK_FALSE(rig.pending.HasPlace("slow", 2 * kSecond, IncidentBudget::Reserve::kNone));
  CHECK(rig.Take("slow", 2 * kSecond) == Answer::kRefused);
  CHECK(rig.Take("slow", 3 * kSecond) == Answer::kSuppressed);  // refused, as before
  CHECK(rig.Take("failed", 3 * kSecond) == Answer::kBegan);
  CHECK(rig.pending.get()->number == 2);
  CHECK(rig.Take("slow", 3 * kSecond) == Answer::kJoined);
}

TEST_CASE("a firing that may only join begins nothing", "[pending]") {
  Rig rig;
  auto firing = session_test::QueuedFiring("slow");
  firing.joins_only = true;

  CHECK(rig.pending.Take(firing, kSecond, IncidentBudget::Reserve::kNone) == Answer::kSuppressed);
  CHECK(rig.pending.get() == nullptr);
}

TEST_CASE("firings that neither began nor joined an incident of their cause are counted by its next one", "[pending]") {
  Rig rig;
  rig.options.max_incidents_per_cause_and_hour = 3600;
  PendingIncident pending{&rig.options};
  const auto take = [&](const char* cause, bool joins_only, uint32_t more_like_it) {
    auto firing = session_test::QueuedFiring(cause, static_cast<uint64_t>(kSecond));
    firing.joins_only = joins_only;
    firing.more_like_it = more_like_it;
    return pending.Take(firing, kSecond, IncidentBudget::Reserve::kNone);
  };

  REQUIRE(take("slow", true, 4) == Answer::kSuppressed);  // the incident had just gone
  REQUIRE(take("failed", false, 0) == Answer::kBegan);
  REQUIRE(take("slow", true, 20) == Answer::kJoined);
  CHECK(pending.get()->more_like_it == 0);
  pending.Release();

  REQUIRE(take("slow", false, 100) == Answer::kBegan);
  CHECK(pending.get()->more_like_it == 125);
}
