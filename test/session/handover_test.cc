// SPDX-License-Identifier: Apache-2.0
//
// The handover between the watcher and the writer, and the ends of Flush and Stop.
#include "session/handover.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/semaphore.h"
#include "fakes/wait_until.h"
#include "session/parts.h"

namespace {

using pitot::Status;
using pitot::session::Handover;
using pitot::session::Lifetime;
using pitot::snapshot::Reserve;
using session_test::MakeIncident;

constexpr ptrdiff_t kWords = 6400;

struct Rig {
  Rig() { handover.Begin({words.data(), words.data() + words.size()}); }
  // Copies an incident that fills all of its room.
  void Give(uint64_t number) {
    auto incident = MakeIncident(number);
    incident->filled.high = handover.AwaitRoom(false);
    handover.Give(std::move(incident));
  }
  ptrdiff_t Room() {
    const Reserve room = handover.AwaitRoom(false);
    return room.last - room.first;
  }
  std::vector<uint64_t> words = std::vector<uint64_t>(kWords);
  Lifetime lifetime;
  pitot::base::Semaphore wake_watcher;
  Handover handover{&lifetime, &wake_watcher};
};

const auto kNow = [] { return std::chrono::steady_clock::now(); };

}  // namespace

TEST_CASE("copies together keep to a limit, and those made before it keep their room", "[handover]") {
  Rig rig;
  rig.Give(1);  // has the first half
  rig.handover.Limit(kWords / 4 * 8);
  CHECK(rig.Room() == 0);
  const auto first = rig.handover.Await();
  REQUIRE(first != nullptr);
  rig.handover.FreeRoom(first->filled);
  CHECK(rig.Room() == kWords / 8);
  rig.handover.Limit(2 * kWords * 8);  // there is no more
  CHECK(rig.Room() == kWords / 2);
}

TEST_CASE("a copy gets half of the free room, so that there is room for a next one", "[handover]") {
  Rig rig;
  CHECK(rig.Room() == kWords / 2);
  CHECK(rig.handover.IsIdle());
  rig.Give(1);
  CHECK(rig.Room() == kWords / 4);
  rig.Give(2);
  CHECK(rig.Room() == kWords / 8);
  CHECK_FALSE(rig.handover.IsIdle());

  const auto first = rig.handover.Await();
  REQUIRE(first != nullptr);
  CHECK(first->number == 1);
  rig.handover.FreeRoom(first->filled);
  CHECK(rig.Room() == kWords / 4);  // half of the larger gap
  const auto second = rig.handover.Await();
  CHECK(second->number == 2);
  rig.handover.FreeRoom(second->filled);
  CHECK(rig.Room() == kWords / 2);
  CHECK_FALSE(rig.handover.IsIdle());  // both are being finished
  rig.handover.Finish();
  rig.handover.Finish();
  CHECK(rig.handover.IsIdle());
}

TEST_CASE("what a copy leaves of its room is free", "[handover]") {
  Rig rig;
  const Reserve room = rig.handover.AwaitRoom(false);
  auto incident = MakeIncident(1);
  incident->filled = {{room.first, room.first + 10}, {room.last - 200, room.last}};
  rig.handover.Give(std::move(incident));

  CHECK(rig.Room() == kWords / 4);  // behind it
  const Reserve next = rig.handover.AwaitRoom(false);
  CHECK(next.first >= room.last);
  auto fills = MakeIncident(2);
  fills->filled.high = {room.last, rig.words.data() + kWords};
  rig.handover.Give(std::move(fills));
  CHECK(rig.Room() == (room.last - room.first - 210) / 2);  // between its parts
  auto begins_there = MakeIncident(3);
  const Reserve between = rig.handover.AwaitRoom(false);
  begins_there->filled.low = {between.first, between.first + 1};
  rig.handover.Give(std::move(begins_there));
  rig.handover.FreeRoom({{between.first, between.first}, {room.last, rig.words.data() + kWords}});
  CHECK(rig.Room() == kWords / 4);
  CHECK(rig.handover.AwaitRoom(false).first == room.last);
  rig.handover.FreeRoom({{room.first, room.first + 10}, {room.last - 200, room.last}});
  CHECK(rig.handover.AwaitRoom(false).first == between.first + 1);  // the third one's part is still in use
}

TEST_CASE("a storm of copies ends at the last part that is worth having", "[handover]") {
  Rig rig;
  uint64_t copies = 0;
  while (rig.Room() != 0) rig.Give(++copies);

  CHECK(copies == 6);
  CHECK(rig.handover.TakeWaiting()->number == 1);
  rig.lifetime.GiveUp();
  CHECK(rig.handover.AwaitRoom(true).first == nullptr);
}

TEST_CASE("the writer gets the last incident, and then ends", "[handover]") {
  Rig rig;
  rig.Give(1);
  rig.handover.Close();
  CHECK_FALSE(rig.handover.AwaitEnd(kNow()));

  CHECK(rig.handover.Await() != nullptr);
  CHECK_FALSE(rig.handover.AwaitEnd(kNow()));  // it is being written
  rig.handover.Finish();
  CHECK(rig.handover.Await() == nullptr);
  CHECK(rig.handover.AwaitEnd(kNow()));
}

TEST_CASE("a waiting writer ends when no more incidents come", "[handover]") {
  Rig rig;
  bool has_ended = false;
  std::thread writer([&] { has_ended = rig.handover.Await() == nullptr; });
  rig.handover.Close();
  writer.join();
  CHECK(has_ended);
}

TEST_CASE("a Flush ends once nothing is pending and nothing is being written", "[handover]") {
  Rig rig;
  rig.Give(1);
  REQUIRE(rig.handover.Await() != nullptr);
  Status flushed;
  std::thread host([&] { flushed = rig.handover.Flush(600'000); });
  CHECK(fakes::WaitUntil([&] { return rig.handover.FlushesAsked() == 1; }));

  rig.handover.AnswerFlushes(1);  // the incident is still being written
  CHECK(rig.handover.Flush(0).code() == pitot::StatusCode::kUnavailable);
  rig.handover.Finish();
  rig.handover.AnswerFlushes(1);
  host.join();
  CHECK(flushed.ok());
}

TEST_CASE("a Flush has only an answer from after its beginning", "[handover]") {
  Rig rig;
  const uint64_t asked_before = rig.handover.FlushesAsked();
  std::thread host([&] { CHECK(rig.handover.Flush(600'000).code() == pitot::StatusCode::kUnavailable); });
  CHECK(fakes::WaitUntil([&] { return rig.handover.FlushesAsked() == 1; }));
  rig.handover.AnswerFlushes(asked_before);
  rig.handover.BeginStop();
  host.join();
  CHECK(rig.handover.IsStopping());
}

TEST_CASE("a watcher waiting for room goes on when the recorder gives up", "[handover]") {
  Rig rig;
  while (rig.Room() != 0) rig.Give(1);
  Reserve room;
  std::thread watcher([&] { room = rig.handover.AwaitRoom(true); });
  rig.lifetime.GiveUp();
  rig.handover.NoteGivenUp();
  watcher.join();
  CHECK(room.first == room.last);
}
