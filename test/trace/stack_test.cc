// SPDX-License-Identifier: Apache-2.0
//
// Which threads to look at while a request is late, and records of their stacks.
#include "pitot/stack.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>
#include <thread>
#include <vector>

#include "fakes/recording.h"
#include "fakes/trace_text.h"
#include "fakes/virtual_server.h"
#include "pitot/request.h"
#include "trace/lateness.h"
#include "trace/system_call.h"

using fakes::EventsNamed;
using fakes::VirtualServer;
using pitot::FindLateThreads;
using pitot::Outcome;
using pitot::Request;
using pitot::StackSample;
using pitot::trace::UsualLatency;

namespace {

constexpr uint64_t kMs = 1'000'000;

uint32_t CountLate() { return FindLateThreads(nullptr, 0); }

// Watches late requests while it lives.
struct Watching {
  Watching() { pitot::WatchLateRequests(true); }
  ~Watching() { pitot::WatchLateRequests(false); }
};

// The fake's threads have the id of the only real one, the caller: others are looked for from another thread.
std::vector<int64_t> FindFromElsewhere(uint32_t most) {
  std::vector<int64_t> tids(most);
  uint32_t found = 0;
  std::thread([&] { found = FindLateThreads(tids.data(), most); }).join();
  tids.resize(std::min(found, most));
  return tids;
}
uint32_t CountFromElsewhere() {
  uint32_t found = 0;
  std::thread([&] { found = CountLate(); }).join();
  return found;
}

}  // namespace

TEST_CASE("no thread is looked at while no request is late", "[stack]") {
  VirtualServer server;
  CHECK(CountFromElsewhere() == 0);
  Request request = Request::Begin("/a");
  request.SetDeadline(10 * kMs);
  CHECK(CountFromElsewhere() == 0);
  server.clock.Advance(10 * kMs);
  CHECK(CountFromElsewhere() == 1);
  request.Finish(Outcome::kOk);
  CHECK(CountFromElsewhere() == 0);
}

TEST_CASE("a request is late at 1.5 times what most of its route take", "[stack]") {
  VirtualServer server;
  const Watching watching;
  for (uint32_t i = 0; i < UsualLatency::kWarmUp; ++i) {
    Request like = Request::Begin("/a");
    server.clock.Advance(10 * kMs);
    like.Finish(Outcome::kOk);
  }
  Request request = Request::Begin("/a"), other = Request::Begin("/b");
  server.clock.Advance(14 * kMs);
  CHECK(CountFromElsewhere() == 0);
  server.clock.Advance(2 * kMs);
  CHECK(CountFromElsewhere() == 1);
  request.Finish(Outcome::kOk);
  CHECK(CountFromElsewhere() == 0);  // nothing is known of the other's route yet
  server.clock.Advance(984 * kMs);
  CHECK(CountFromElsewhere() == 1);
}

TEST_CASE("a request is late while its next token takes 1.5 times what most of its route take", "[stack]") {
  VirtualServer server;
  const Watching watching;
  Request request = Request::Begin("/a");
  const auto emit_after = [&](uint64_t ms) {
    server.clock.Advance(ms * kMs);
    request.Emit();
  };
  emit_after(90);  // the first token may take longer
  for (uint32_t i = 0; i < UsualLatency::kWarmUp; ++i) emit_after(20);
  server.clock.Advance(29 * kMs);
  CHECK(CountFromElsewhere() == 0);
  server.clock.Advance(2 * kMs);
  CHECK(CountFromElsewhere() == 1);
  request.Emit();
  CHECK(CountFromElsewhere() == 0);
  request.Finish(Outcome::kOk);
}

TEST_CASE("a token is not late before 10 ms, nor before gaps are known", "[stack]") {
  VirtualServer server;
  const Watching watching;
  Request request = Request::Begin("/a"), other = Request::Begin("/b");
  other.Emit();
  for (uint32_t i = 0; i <= UsualLatency::kWarmUp; ++i) {
    request.Emit();
    server.clock.Advance(kMs);
  }
  server.clock.Advance(8 * kMs);
  CHECK(CountFromElsewhere() == 0);
  server.clock.Advance(2 * kMs);
  CHECK(CountFromElsewhere() == 1);
  request.Finish(Outcome::kOk);
  CHECK(CountFromElsewhere() == 0);
  other.Finish(Outcome::kOk);
}

TEST_CASE("the usual latency is that of 95 in 100", "[stack]") {
  UsualLatency usual;
  CHECK(usual.LateNs() == 1'000 * kMs);
  for (uint32_t i = 0; i < 20'000; ++i) usual.Teach(((i * 7919) % 100 + 1) * kMs);
  CHECK(usual.LateNs() > 130 * kMs);
  CHECK(usual.LateNs() < 150 * kMs);
}

TEST_CASE("threads of late requests come first, then those in batches, then others at work", "[stack]") {
  VirtualServer server;
  // Each runs on a real thread of its own, so that each has an id.
  struct Played {
    int64_t tid;
  } idle{}, scoped{}, batched{}, late{};
  std::atomic<int> ready{0};
  std::atomic<bool> is_over{false};
  const auto play = [&](Played* who, auto&& begin) {
    return std::thread([&, who, begin] {
      who->tid = gettid();
      begin([&] {
        ++ready;
        while (!is_over) std::this_thread::yield();
      });
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(play(&idle, [](auto stay) {
    PITOT_INSTANT("an event");
    stay();
  }));
  threads.push_back(play(&scoped, [](auto stay) {
    PITOT_SCOPE("at work");
    stay();
  }));
  threads.push_back(play(&batched, [](auto stay) {
    pitot::Batch in = pitot::Batch::Begin("model");
    stay();
  }));
  threads.push_back(play(&late, [](auto stay) {
    Request request = Request::Begin("/a");
    request.SetDeadline(1);
    stay();
    request.Finish(Outcome::kOk);
  }));
  while (ready < 4) std::this_thread::yield();
  server.clock.Advance(kMs);

  CHECK(FindFromElsewhere(4) == std::vector<int64_t>{late.tid, batched.tid, scoped.tid});
  CHECK(FindFromElsewhere(1) == std::vector<int64_t>{late.tid});
  CHECK(CountFromElsewhere() == 3);

  is_over = true;
  for (std::thread& thread : threads) thread.join();
}

TEST_CASE("a stack is a moment of the thread that read it", "[stack]") {
  VirtualServer server;
  StackSample sample;
  sample.tid = 77;
  sample.call = pitot::Intern("recv");
  sample.own = 1;
  sample.missed = 3;
  const char* const frames[] = {"read (ssl.py:9)", "fetch (app.py:88)", "serve (app.py:5)"};
  for (int i = 0; i < 3; ++i) sample.frames[i] = pitot::Intern(frames[i]);
  RecordStack(sample);

  const auto stacks = EventsNamed(server.Trace(), "stack");

  REQUIRE(stacks.size() == 1);
  const std::vector<std::pair<std::string, std::string>> args = {
      {"tid", "77"},        {"own", "1"},          {"missed", "3"},          {"call", "recv"},
      {"frame", frames[0]}, {"caller", frames[1]}, {"its_caller", frames[2]}};
  CHECK(stacks[0].args == args);
}

TEST_CASE("a stack that was read a while ago stands at its own moment, in order with others", "[stack]") {
  VirtualServer server;
  server.clock.Advance(1'000 * kMs);
  const int64_t now_ns = fakes::kStartNs + 1'000 * static_cast<int64_t>(kMs);
  for (const int64_t age_ms : {0, 30, 10, 500, -5}) {
    StackSample sample;
    sample.tid = age_ms;
    sample.is_native = sample.is_on_cpu = true;
    sample.own = 0;
    sample.age_ns = age_ms * static_cast<int64_t>(kMs);
    for (pitot::Name* name : {&sample.call, &sample.frames[0], &sample.frames[1], &sample.frames[2]})
      *name = pitot::Intern("");
    RecordStack(sample);
  }

  const auto stacks = EventsNamed(server.Trace(), "stack");

  REQUIRE(stacks.size() == 5);
  const std::pair<const char*, int64_t> expected[] = {{"500", 200}, {"30", 30}, {"10", 10}, {"0", 0}, {"-5", 0}};
  for (size_t i = 0; i < 5; ++i) {
    CHECK(stacks[i].args[0].second == expected[i].first);
    CHECK(stacks[i].begin_ns == now_ns - expected[i].second * static_cast<int64_t>(kMs));
    CHECK(stacks[i].duration_ns == 0);
    CHECK(stacks[i].args[1].second == std::to_string(0x300));
  }
}

TEST_CASE("a thread that runs, or has ended, is in no system call", "[stack]") {
  CHECK(pitot::SystemCallOf(gettid()).index == pitot::Intern("read").index);  // it reads its own state
  CHECK(pitot::SystemCallOf(1 << 30).index == pitot::Intern("").index);
  std::atomic<int64_t> tid{0};
  std::atomic<bool> is_over{false};
  std::thread spinner([&] {
    tid = gettid();
    while (!is_over) {}
  });
  while (tid == 0) std::this_thread::yield();
  CHECK(pitot::SystemCallOf(tid).index == pitot::Intern("").index);
  is_over = true;
  spinner.join();
}

TEST_CASE("the file of a system call is read as it is, or not at all", "[stack]") {
  pitot::trace::SystemCall call;
  const auto parse = [&](const char* text) { return pitot::trace::ParseSystemCall(text, &call); };
  REQUIRE(parse("45 0x3 0x7f35 0x1 0x0 0x0 0x0 0x7f358c5d1a10 0x7f358cd28974\n"));
  CHECK(call.number == 45);
  CHECK(call.stack == 0x7f358c5d1a10);
  CHECK(call.instruction == 0x7f358cd28974);
  CHECK(!call.is_timed_futex);
  REQUIRE(parse("202 0x1 0x80 0x2 0x0 0x0 0x0 0x10 0x20"));
  CHECK(!call.is_timed_futex);
  REQUIRE(parse("202 0x1 0x189 0x0 0x7f00 0x0 0xffffffff 0x10 0x20"));
  CHECK(call.is_timed_futex);
  REQUIRE(parse("-1 0x10 0x20\n"));
  CHECK(call.number == pitot::trace::SystemCall::kNone);
  CHECK(call.stack == 0x10);
  for (const char* text : {"running\n", "", "45\n", "45 0x3 0x7f35\n", "-1 0x10\n", "-1 0x1 0x2 0x3"})
    CHECK(!parse(text));
  CHECK(pitot::trace::SystemCallName(100'000).index == pitot::Intern("system call 100000").index);
}
