// SPDX-License-Identifier: Apache-2.0
//
// The handover between the watcher and the worker, and the ends of Flush and Stop.
#include "session/handover.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <thread>

#include "base/semaphore.h"
#include "fakes/wait_until.h"
#include "session/parts.h"

namespace {

using pitot::Status;
using pitot::session::Handover;
using pitot::session::Lifetime;
using session_test::MakeIncident;
using Room = Handover::Room;

struct Rig {
  Lifetime lifetime;
  pitot::base::Semaphore wake_watcher;
  Handover handover{&lifetime, &wake_watcher};
};

const auto kNow = [] { return std::chrono::steady_clock::now(); };

}  // namespace

TEST_CASE("a copied incident holds the reserve until the worker has made its trace", "[handover]") {
  Rig rig;
  CHECK(rig.handover.AwaitRoom(false) == Room::kFree);
  CHECK(rig.handover.IsIdle());
  rig.handover.Give(MakeIncident(7));
  CHECK(rig.handover.AwaitRoom(false) == Room::kInUse);
  CHECK_FALSE(rig.handover.IsIdle());

  const auto taken = rig.handover.Await();
  REQUIRE(taken != nullptr);
  CHECK(taken->number == 7);
  CHECK(rig.handover.AwaitRoom(false) == Room::kInUse);
  rig.handover.FreeReserve();
  CHECK(rig.handover.AwaitRoom(true) == Room::kFree);
  CHECK_FALSE(rig.handover.IsIdle());  // it is being written

  rig.handover.Done();
  CHECK(rig.handover.IsIdle());
}

TEST_CASE("an incident copied meanwhile waits, and can be taken in the middle of other work", "[handover]") {
  Rig rig;
  CHECK(rig.handover.TakeWaiting() == nullptr);
  rig.handover.Give(MakeIncident(1));
  REQUIRE(rig.handover.Await() != nullptr);
  rig.handover.FreeReserve();
  rig.handover.Give(MakeIncident(2));

  const auto waiting = rig.handover.TakeWaiting();
  REQUIRE(waiting != nullptr);
  CHECK(waiting->number == 2);
  CHECK(rig.handover.TakeWaiting() == nullptr);
}

TEST_CASE("the worker gets the last incident, and then ends", "[handover]") {
  Rig rig;
  rig.handover.Give(MakeIncident(1));
  rig.handover.Close();
  CHECK_FALSE(rig.handover.AwaitEnd(kNow()));

  CHECK(rig.handover.Await() != nullptr);
  CHECK_FALSE(rig.handover.AwaitEnd(kNow()));  // it is being written
  rig.handover.Done();
  CHECK(rig.handover.Await() == nullptr);
  CHECK(rig.handover.AwaitEnd(kNow()));
}

TEST_CASE("a waiting worker ends when no more incidents come", "[handover]") {
  Rig rig;
  bool has_ended = false;
  std::thread worker([&] { has_ended = rig.handover.Await() == nullptr; });
  rig.handover.Close();
  worker.join();
  CHECK(has_ended);
}

TEST_CASE("a Flush ends once nothing is pending and nothing is being written", "[handover]") {
  Rig rig;
  rig.handover.Give(MakeIncident(1));
  REQUIRE(rig.handover.Await() != nullptr);
  Status flushed;
  std::thread host([&] { flushed = rig.handover.Flush(600'000); });
  CHECK(fakes::WaitUntil([&] { return rig.handover.FlushesAsked() == 1; }));

  rig.handover.AnswerFlushes(1);  // the incident is still being written
  CHECK(rig.handover.Flush(0).code() == pitot::StatusCode::kUnavailable);
  rig.handover.Done();
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
  rig.handover.Give(MakeIncident(1));
  Room room = Room::kFree;
  std::thread watcher([&] { room = rig.handover.AwaitRoom(true); });
  rig.lifetime.GiveUp();
  rig.handover.NoteGivenUp();
  watcher.join();
  CHECK(room == Room::kGivenUp);
}
