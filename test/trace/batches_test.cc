// SPDX-License-Identifier: Apache-2.0
//
// Batches, asynchronous scopes and waits.
#include <atomic>
#include <catch2/catch.hpp>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_server.h"
#include "fakes/wait_until.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "trace/names.h"
#include "trace/requests.h"

namespace {

using fakes::EventsNamed;
using fakes::kStartNs;
using fakes::Text;
using fakes::VirtualServer;
using pitot::Batch;
using pitot::Outcome;
using pitot::Request;
using pitot::Token;
using pitot::model::kNone;
using pitot::model::kOpen;
using pitot::trace::Activity;
using pitot::trace::CountActivity;

}  // namespace

TEST_CASE("the host is active while a request or batch is open, wherever they end, and has been if one began",
          "[batch]") {
  Batch survivor;
  {
    VirtualServer server;
    const Activity before = CountActivity();
    CHECK(before.open == 0);
    Request request = Request::Begin("/a");
    CHECK(CountActivity().open == 1);
    CHECK(CountActivity().begun != before.begun);
    Batch first = Batch::Begin("executor"), second = Batch::Begin("executor");
    CHECK(CountActivity().open == 3);
    request.Finish(Outcome::kOk);
    server.threads.Become(1);
    second.Finish();
    CHECK(CountActivity().open == 1);
    survivor = std::move(first);
    CHECK(CountActivity().open == 1);
  }
  survivor.Finish();  // after the recorder's end
  CHECK(CountActivity().open == 0);

  VirtualServer server;
  Request request = Request::Begin("/a");
  Token foreign = request.token();
  foreign.process ^= 0x1234;
  const Activity before = CountActivity();
  { const pitot::Adopt adopt(foreign); }
  CHECK(CountActivity().begun != before.begun);  // another process's request
}

TEST_CASE("a batch has its members, its times, its close reason and its submission", "[batch]") {
  VirtualServer server;
  Request a = Request::Begin("/a"), b = Request::Begin("/b");
  const Token token_a = a.Enqueue("images");
  server.clock.Advance(5);
  const Token token_b = b.Enqueue("images");
  server.clock.Advance(10);
  server.threads.Become(1);
  Batch batch = Batch::Begin("resnet50");
  const uint64_t id = batch.id();
  server.clock.Advance(1);
  batch.Join(token_a);
  server.clock.Advance(1);
  batch.Join(token_b);
  batch.Close(pitot::BatchClose::kFull);
  {
    PITOT_SCOPE("forward");
    server.clock.Advance(100);
  }
  batch.Submitted();
  batch.Leave(token_a);
  server.clock.Advance(50);
  batch.Finish();
  PITOT_INSTANT("after");

  const auto trace = server.Trace();

  REQUIRE(trace.batches.size() == 1);
  const auto& row = trace.batches[0];
  CHECK(row.id == id);
  CHECK(Text(trace, row.executor) == "resnet50");
  CHECK(row.thread == 1);
  CHECK(row.begin_ns == kStartNs + 15);
  CHECK(row.duration_ns == 152);
  CHECK(row.submitted_ns == 102);
  CHECK(row.close == static_cast<uint8_t>(pitot::BatchClose::kFull));
  REQUIRE(row.member_count == 2);
  CHECK(trace.requests[trace.members[0].request].id == a.id());
  CHECK(trace.members[0].join_ns == kStartNs + 16);
  CHECK(trace.members[0].leave_ns == kStartNs + 117);
  CHECK(trace.requests[trace.members[1].request].id == b.id());
  CHECK(trace.members[1].leave_ns == 0);
  REQUIRE(trace.handoffs.size() == 2);
  CHECK(trace.handoffs[0].enqueue_ns == kStartNs);
  CHECK(trace.handoffs[0].take_ns == kStartNs + 16);
  CHECK(trace.handoffs[0].batch == 0);
  CHECK(trace.handoffs[0].from_thread == 0);
  CHECK(trace.handoffs[0].to_thread == 1);
  CHECK(trace.handoffs[1].enqueue_ns == kStartNs + 5);
  CHECK(EventsNamed(trace, "forward")[0].batch_id == id);
  CHECK(EventsNamed(trace, "after")[0].batch_id == 0);
  CHECK(batch.id() == 0);
}

TEST_CASE("a member has the work it joined with, and the batch its unit", "[batch]") {
  VirtualServer server;
  Request a = Request::Begin("/a"), b = Request::Begin("/b"), c = Request::Begin("/c"), d = Request::Begin("/d");
  Batch batch = Batch::Begin("slots", "tokens");
  const double wrong[] = {0, -1, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()};
  batch.Join(a.token(), 2'578);
  batch.Join(b.token());
  server.clock.Advance(1);
  const Token many[] = {c.Enqueue("prompts"), Token{}, d.token()};
  const double works[] = {0.5, 7, 1};
  batch.JoinMany(many, works, 3);
  for (const double work : wrong) batch.Join(a.token(), work);
  batch.JoinMany(many, nullptr, 1);
  batch.JoinMany(nullptr, works, 3);
  batch.Close(pitot::BatchClose::kStep);
  batch.Submitted();
  batch.Finish();
  Batch::Begin("other").Finish();

  const auto trace = server.Trace();

  REQUIRE(trace.batches.size() == 2);
  CHECK(Text(trace, trace.batches[0].executor) == "slots");
  CHECK(Text(trace, trace.batches[0].work_unit) == "tokens");
  CHECK(trace.batches[0].close == static_cast<uint8_t>(pitot::BatchClose::kStep));
  CHECK(Text(trace, trace.batches[1].executor) == "other");
  CHECK(Text(trace, trace.batches[1].work_unit).empty());
  std::multiset<std::pair<uint64_t, double>> work;
  for (const auto& member : trace.members) {
    work.emplace(trace.requests[member.request].id, member.work);
    CHECK(member.join_ns == kStartNs + (work.size() > 2 ? 1 : 0));
  }
  CHECK(work == std::multiset<std::pair<uint64_t, double>>{{a.id(), 2'578},
                                                           {b.id(), 0},
                                                           {c.id(), 0.5},
                                                           {d.id(), 1},
                                                           {a.id(), 0},
                                                           {a.id(), 0},
                                                           {a.id(), 0},
                                                           {a.id(), 0},
                                                           {c.id(), 0}});
  REQUIRE(trace.handoffs.size() == 1);  // taken once
  CHECK(trace.handoffs[0].take_ns == kStartNs + 1);
  CHECK(trace.handoffs[0].batch == 0);
}

TEST_CASE("an open batch has its unit of work, also before it was submitted", "[batch]") {
  VirtualServer server;
  Batch batch = Batch::Begin("slots", "tokens");
  CHECK(Text(server.Trace(), server.Trace().batches[0].work_unit) == "tokens");
  batch.Submitted();
  CHECK(Text(server.Trace(), server.Trace().batches[0].work_unit) == "tokens");
}

TEST_CASE("members come and go at every step of a continuous batch", "[batch]") {
  VirtualServer server;
  Request a = Request::Begin("/a"), b = Request::Begin("/b");
  std::vector<uint64_t> ids;
  for (int step = 0; step < 3; ++step) {
    Batch batch = Batch::Begin("decode");
    ids.push_back(batch.id());
    batch.Close(pitot::BatchClose::kStep);
    if (step < 2) batch.Join(a.token());
    if (step > 0) batch.Join(b.token());
    server.clock.Advance(10);
    if (step == 1) {
      batch.Leave(a.token());
      server.clock.Advance(1);
      batch.Join(a.token());
      server.clock.Advance(1);
      batch.Leave(a.token());
    }
    server.clock.Advance(10);
  }

  const auto trace = server.Trace();

  REQUIRE(trace.batches.size() == 3);
  CHECK(trace.batches[0].member_count == 1);
  CHECK(trace.batches[1].member_count == 3);
  CHECK(trace.batches[2].member_count == 1);
  for (size_t i = 0; i < 3; ++i) CHECK(trace.batches[i].id == ids[i]);
  std::vector<std::pair<int64_t, int64_t>> stays_of_a;
  for (uint32_t i = 0; i < 3; ++i) {
    const auto& member = trace.members[trace.batches[1].first_member + i];
    if (trace.requests[member.request].id == a.id()) stays_of_a.emplace_back(member.join_ns, member.leave_ns);
  }
  REQUIRE(stays_of_a.size() == 2);
  CHECK(stays_of_a[0].second == stays_of_a[0].first + 10);
  CHECK(stays_of_a[1].second == stays_of_a[1].first + 1);
}

TEST_CASE("a batch that joins and leaves a member at one moment keeps it", "[batch]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  Batch batch = Batch::Begin("x");
  batch.Join(request.token());
  batch.Leave(request.token());
  batch.Finish();

  const auto trace = server.Trace();

  REQUIRE(trace.members.size() == 1);
  CHECK(trace.members[0].leave_ns == trace.members[0].join_ns);
}

TEST_CASE("a dropped batch is finished, a moved one is finished once, and one in the making is open", "[batch]") {
  VirtualServer server;
  {
    Batch dropped = Batch::Begin("dropped");
    server.clock.Advance(7);
  }
  Batch first = Batch::Begin("moved");
  Batch second = std::move(first);
  first.Join(Token{});
  first.Finish();
  server.clock.Advance(3);
  second = Batch::Begin("assigned over");  // finishes "moved"
  server.clock.Advance(3);

  const auto trace = server.Trace();

  REQUIRE(trace.batches.size() == 3);
  CHECK(Text(trace, trace.batches[0].executor) == "dropped");
  CHECK(trace.batches[0].duration_ns == 7);
  CHECK(trace.batches[0].close == 0);
  CHECK(trace.batches[1].duration_ns == 3);
  CHECK(trace.batches[2].duration_ns == kOpen);
}

TEST_CASE("a batch may serve a request with its beginning and its enqueuing thread outside the window", "[batch]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const Token token = request.Enqueue("queue");
  server.clock.Advance(1000);
  server.threads.Become(1);
  const uint64_t window_begin = server.recording.Now();
  Batch batch = Batch::Begin("x");
  batch.Join(token);
  batch.Finish();

  const auto trace = server.Trace(window_begin);

  REQUIRE(trace.members.size() == 1);
  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.handoffs[0].enqueue_ns == kStartNs);
  CHECK(trace.handoffs[0].take_ns == kStartNs + 1000);
  CHECK(trace.requests[trace.members[0].request].begin_ns == kStartNs);
}

TEST_CASE("a batch without a request is a batch, and every close reason has a name", "[batch]") {
  VirtualServer server;
  {
    Batch batch = Batch::Begin(nullptr);
    batch.Leave(Token{});
  }

  CHECK(server.Trace().batches.size() == 1);
  CHECK(std::string(pitot::BatchCloseName(pitot::BatchClose::kUnknown)) == "unknown");
  CHECK(std::string(pitot::BatchCloseName(pitot::BatchClose::kTimeout)) == "timeout");
  CHECK(std::string(pitot::BatchCloseName(static_cast<pitot::BatchClose>(200))) == "unknown");
}

TEST_CASE("a request nobody took is a waiting handoff", "[batch]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  (void)request.Enqueue("one");
  server.clock.Advance(5);
  const Token token = request.Enqueue("two");
  server.clock.Advance(5);
  { const pitot::Adopt adopt(token); }

  const auto trace = server.Trace();

  REQUIRE(trace.handoffs.size() == 2);
  CHECK(Text(trace, trace.handoffs[0].queue) == "one");
  CHECK(trace.handoffs[0].take_ns == 0);
  CHECK(trace.handoffs[0].to_thread == kNone);
  CHECK(Text(trace, trace.handoffs[1].queue) == "two");
  CHECK(trace.handoffs[1].take_ns == kStartNs + 10);
}

TEST_CASE("a token of an ended request joins and adopts nothing", "[batch]") {
  VirtualServer server;
  Request gone = Request::Begin("/gone"), here = Request::Begin("/here");
  const Token stale = gone.Enqueue("images"), fresh = here.Enqueue("images");
  server.clock.Advance(5);
  gone.Finish(Outcome::kCancelled);
  server.clock.Advance(30);
  Batch batch = Batch::Begin("resnet50");
  batch.Join(stale);
  batch.Join(fresh);
  {
    const pitot::Adopt adopt(stale);
    PITOT_INSTANT("for nobody");
  }
  batch.Finish();

  const auto trace = server.Trace();

  REQUIRE(trace.members.size() == 1);
  CHECK(trace.requests[trace.members[0].request].id == here.id());
  REQUIRE(trace.handoffs.size() == 2);
  for (const auto& handoff : trace.handoffs) {
    const bool is_gone = trace.requests[handoff.request].id == stale.request;
    CHECK(handoff.take_ns == (is_gone ? 0 : kStartNs + 35));
  }
  CHECK(EventsNamed(trace, "for nobody")[0].request_id != stale.request);
}

TEST_CASE("a request enqueued once waited once, whoever then adopts and joins it", "[batch]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  const Token token = request.Enqueue("images");
  server.clock.Advance(20);
  { const pitot::Adopt adopt(token); }
  server.clock.Advance(10);
  Batch batch = Batch::Begin("resnet50");
  batch.Join(token);
  { const pitot::Adopt again(token); }

  const auto trace = server.Trace();

  REQUIRE(trace.handoffs.size() == 1);
  CHECK(trace.handoffs[0].take_ns - trace.handoffs[0].enqueue_ns == 20);
  CHECK(trace.members.size() == 1);
}

TEST_CASE("an asynchronous scope belongs to its request and may end on another thread", "[async]") {
  VirtualServer server;
  Request request = Request::Begin("/r");
  auto call = PITOT_ASYNC_SCOPE("embed call", request.token());
  server.clock.Advance(100);
  server.threads.Become(1);
  pitot::AsyncScope moved = std::move(call);
  call.End();
  server.clock.Advance(50);
  moved.End();
  moved.End();
  auto open = PITOT_ASYNC_SCOPE("still open", request.token());
  server.clock.Advance(5);
  { auto dropped = PITOT_ASYNC_SCOPE("dropped", request.token()); }
  auto none = PITOT_ASYNC_SCOPE("of no request", Token{});

  const auto trace = server.Trace();

  REQUIRE(trace.asyncs.size() == 3);
  CHECK(Text(trace, trace.sites[trace.asyncs[0].site].name) == "embed call");
  CHECK(trace.asyncs[0].begin_ns == kStartNs);
  CHECK(trace.asyncs[0].duration_ns == 150);
  CHECK(trace.asyncs[0].begin_thread == 0);
  CHECK(trace.asyncs[0].end_thread == 1);
  CHECK(trace.requests[trace.asyncs[0].request].id == request.id());
  CHECK(trace.asyncs[1].duration_ns == kOpen);
  CHECK(trace.asyncs[1].end_thread == kNone);
  CHECK(trace.asyncs[2].duration_ns == 0);
}

TEST_CASE("a wait has its object, its kind and its holder", "[wait]") {
  VirtualServer server;
  {
    PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
    server.clock.Advance(30);
  }
  const pitot::Owner owner{7, 0x1234};
  {
    PITOT_WAIT(pitot::WaitKind::kFuture, "reply", owner);
    server.clock.Advance(40);
  }
  static constexpr pitot::Site site{pitot::kSiteMagic, pitot::SiteKind::kWait, 0, 0, 1, 0, "by hand", "", "", ""};
  {
    pitot::Wait wait(&site, pitot::WaitKind::kOther, pitot::Intern("r"), {});
    const auto inside = EventsNamed(server.Trace(), "by hand");
    REQUIRE(inside.size() == 1);
    CHECK(inside[0].duration_ns == kOpen);
    wait.SetOwner({3, 9});
  }

  const auto trace = server.Trace();

  const auto waits = EventsNamed(trace, "wait");
  REQUIRE(waits.size() == 2);
  using Args = std::vector<std::pair<std::string, std::string>>;
  CHECK(waits[0].duration_ns == 30);
  CHECK(waits[0].args == Args{{"kind", "4"}, {"resource", "journal"}, {"owner_thread", "0"}, {"owner_request", "0"}});
  CHECK(waits[1].args == Args{{"kind", "5"}, {"resource", "reply"}, {"owner_thread", "7"}, {"owner_request", "4660"}});
  CHECK(std::string(pitot::WaitKindName(pitot::WaitKind::kDevice)) == "device");
  CHECK(std::string(pitot::WaitKindName(static_cast<pitot::WaitKind>(99))) == "other");
}

TEST_CASE("an open wait has its object already", "[wait]") {
  VirtualServer server;
  using Args = std::vector<std::pair<std::string, std::string>>;
  const auto open_args = [&](size_t i) {
    const auto waits = EventsNamed(server.Trace(), "wait");
    return waits.size() > i && waits[i].duration_ns == kOpen ? waits[i].args : Args{};
  };
  server.clock.Advance(10);
  PITOT_WAIT(pitot::WaitKind::kFuture, "reply", (pitot::Owner{7, 0x1234}));
  const Args reply{{"kind", "5"}, {"resource", "reply"}, {"owner_thread", "7"}, {"owner_request", "4660"}};
  CHECK(open_args(0) == reply);
  {
    server.clock.Advance(10);
    PITOT_SCOPE("between");
    server.clock.Advance(10);
    PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
    CHECK(open_args(0) == reply);
    CHECK(open_args(1) == Args{{"kind", "4"}, {"resource", "journal"}, {"owner_thread", "0"}, {"owner_request", "0"}});
  }
  server.clock.Advance(10);
  CHECK(open_args(0) == reply);
}

TEST_CASE("a wait names its resource only while something records it", "[wait]") {
  const auto wait = [] { PITOT_WAIT(pitot::WaitKind::kIo, "a resource that is waited for here only", pitot::Owner{}); };
  const uint32_t names = pitot::trace::CountNames();
  wait();
  CHECK(pitot::trace::CountNames() == names);

  const fakes::Recording recording;
  wait();
  CHECK(pitot::trace::CountNames() == names + 1);
}

TEST_CASE("a contended mutex records its holder and the holder's request", "[wait]") {
  const fakes::Recording recording;
  pitot::Mutex mutex("the lock");
  Request holding = Request::Begin("/holds");
  const uint64_t holder = holding.id();
  const uint32_t holder_thread = pitot::ThisOwner().thread;
  std::atomic<bool> locked{false};
  mutex.lock();
  std::thread waiter([&] {
    pitot::SetThreadName("waiter");
    const std::lock_guard lock(mutex);
    locked = true;
  });
  // It waits once its wait is open.
  const bool waited = fakes::WaitUntil([&] { return EventsNamed(recording.Trace(), "wait").size() == 1; });
  const bool was_locked = locked;
  mutex.unlock();
  waiter.join();

  const auto trace = recording.Trace();

  CHECK(waited);
  CHECK(!was_locked);
  CHECK(pitot::model::FindInconsistency(trace) == "");
  const auto waits = EventsNamed(trace, "wait");
  REQUIRE(waits.size() == 1);
  REQUIRE(waits[0].args.size() == 4);
  CHECK(waits[0].args[0].second == "1");
  CHECK(waits[0].args[1].second == "the lock");
  CHECK(waits[0].args[2].second == std::to_string(holder_thread));
  CHECK(waits[0].args[3].second == std::to_string(holder));
  CHECK(waits[0].duration_ns > 0);
  // And the release, with its thread and time.
  const auto releases = EventsNamed(trace, "release");
  REQUIRE(releases.size() == 1);
  using Args = std::vector<std::pair<std::string, std::string>>;
  CHECK(releases[0].args == Args{{"kind", "1"}, {"resource", "the lock"}});
  CHECK(releases[0].request_id == holder);
  CHECK(waits[0].thread == "waiter");
  CHECK(releases[0].thread != "waiter");
  CHECK(releases[0].begin_ns > waits[0].begin_ns);
  CHECK(releases[0].begin_ns < waits[0].begin_ns + waits[0].duration_ns);
  CHECK(releases[0].duration_ns == 0);
}

TEST_CASE("an uncontended mutex records nothing", "[wait]") {
  const fakes::Recording recording;
  pitot::Mutex mutex("free");
  {
    const std::lock_guard lock(mutex);
    std::thread([&] { (void)mutex.try_lock(); }).join();
  }
  CHECK(mutex.try_lock());
  mutex.unlock();

  CHECK(EventsNamed(recording.Trace(), "wait").empty());
  CHECK(EventsNamed(recording.Trace(), "release").empty());
}

TEST_CASE("a condition variable records each wait and its notifier", "[wait]") {
  const fakes::Recording recording;
  pitot::Mutex mutex("the lock");
  pitot::ConditionVariable ready("ready");
  bool is_ready = false;
  uint32_t notifier = 0;
  std::thread waiter([&] {
    std::unique_lock lock(mutex);
    ready.wait(lock, [&] { return is_ready; });
  });
  const bool waited = fakes::WaitUntil([&] {
    const auto waits = EventsNamed(recording.Trace(), "wait");
    return !waits.empty() && waits.back().duration_ns == kOpen;
  });
  {
    const std::lock_guard lock(mutex);
    is_ready = true;
  }
  notifier = pitot::ThisOwner().thread;
  ready.notify_one();
  waiter.join();

  const auto waits = EventsNamed(recording.Trace(), "wait");

  CHECK(waited);
  REQUIRE(!waits.empty());
  bool found = false;
  for (const auto& wait : waits) {
    found = found || (wait.args[0].second == "2" && wait.args[1].second == "ready" &&
                      wait.args[2].second == std::to_string(notifier));
  }
  CHECK(found);
}

TEST_CASE("a wait with a timeout ends at the timeout and has no notifier", "[wait]") {
  const fakes::Recording recording;
  pitot::Mutex mutex("the lock");
  pitot::ConditionVariable never("never");
  std::unique_lock lock(mutex);

  CHECK(!never.wait_for(lock, 1'000'000));
  lock.unlock(), lock.lock();  // otherwise the waits are one
  CHECK(!never.wait_for(lock, 2'000'000, [] { return false; }));
  CHECK(never.wait_for(lock, 1, [] { return true; }));
  CHECK(lock.owns_lock());

  const auto waits = EventsNamed(recording.Trace(), "wait");
  REQUIRE(waits.size() >= 2);
  for (const auto& wait : waits) CHECK(wait.args[2].second == "0");
}

TEST_CASE("an endless wait is not over at once", "[wait]") {
  pitot::Mutex mutex("mutex");
  pitot::ConditionVariable condition("condition");
  std::atomic<bool> over{false};
  std::thread notifier([&] {
    while (!over.load()) condition.notify_all();
  });
  int asked = 0;
  std::unique_lock lock(mutex);
  CHECK(condition.wait_for(lock, UINT64_MAX, [&] { return ++asked == 2; }));
  over = true;
  notifier.join();
}
