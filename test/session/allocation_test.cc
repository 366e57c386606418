// SPDX-License-Identifier: Apache-2.0
//
// Failing allocations: of Start, of an incident, of a thread's first event. Its own operator new fails at the n-th
// call.
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "fakes/scale.h"
#include "fakes/serializers.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/extend/collector.h"
#include "pitot/extend/judge.h"
#include "pitot/pitot.h"
#include "session/host.h"
#include "trace/rings.h"

namespace {

// Whose allocations fail: all threads', the writer of dumps', or those of all threads but the one that asks.
enum class Whose { kAll, kWriters, kOthers };

// Fails from the n-th allocation on, for `failures` of them. Only those of the threads in question count.
std::atomic<int64_t> g_until_failure{-1};
std::atomic<int64_t> g_failures{0};
std::atomic<Whose> g_whose{Whose::kAll};
std::atomic<pthread_t> g_caller{};
std::atomic<uint64_t> g_failed{0};

bool IsWriter() {
  char name[16] = "";
  return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && std::strcmp(name, "pitot-write") == 0;
}

bool Fails() {
  if (g_until_failure.load(std::memory_order_relaxed) < 0) return false;
  const Whose whose = g_whose.load(std::memory_order_relaxed);
  if (whose == Whose::kOthers && pthread_equal(g_caller.load(), pthread_self()) != 0) return false;
  if (whose == Whose::kWriters && !IsWriter()) return false;
  if (g_until_failure.fetch_sub(1) > 0) return false;
  g_until_failure.store(0);
  if (g_failures.fetch_sub(1) <= 0) {
    g_until_failure.store(-1);
    return false;
  }
  ++g_failed;
  return true;
}

void FailFrom(int64_t n, int64_t failures, Whose whose) {
  g_caller = pthread_self();
  g_failed = 0;
  g_whose = whose;
  g_failures = failures;
  g_until_failure = n;
}
uint64_t StopFailing() {
  g_until_failure = -1;
  return g_failed;
}

void* Allocate(std::size_t size, std::size_t alignment) {
  if (Fails()) return nullptr;
  if (alignment <= alignof(std::max_align_t)) return std::malloc(size != 0 ? size : 1);
  return std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

}  // namespace

void* operator new(std::size_t size) {
  if (void* p = Allocate(size, 1)) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  if (void* p = Allocate(size, static_cast<std::size_t>(alignment))) return p;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void* operator new(std::size_t size, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size, 1); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete[](void* p, const std::nothrow_t&) noexcept { std::free(p); }

namespace {

using pitot::Recorder;
using pitot::StatusCode;
using session_test::SmallOptions;

TEST_CASE("Start works or reports short memory, whichever of its allocations fails, and the next start works",
          "[allocation]") {
  const fakes::TempDirectory directory;
  pitot::Options options = SmallOptions();
  options.incident_directory = directory.path().c_str();
  int refused = 0, n = 0;
  for (bool reached = true; reached && n < 500; ++n) {
    FailFrom(n, 1, Whose::kAll);
    Recorder recorder = Recorder::Start(options);
    reached = StopFailing() != 0;
    const pitot::Status status = recorder.status();
    INFO("allocation " << n << ": " << status.message());
    if (!status.ok()) {
      ++refused;
      CHECK(status.code() == StatusCode::kResourceExhausted);
      PITOT_INSTANT("not recorded");
      CHECK(pitot::Now().ticks == 0);
    } else {
      PITOT_INSTANT("recorded");
      pitot::Request::Begin("/r").Finish(pitot::Outcome::kOk);
    }
    recorder.Stop();
    CHECK(Recorder::Start(options).status().ok());
  }

  INFO(n << " allocations, " << refused << " refused");
  CHECK(n > 5);
  CHECK(n < 500);
  CHECK(refused > 3);
}

TEST_CASE("Start reports it when every allocation fails", "[allocation]") {
  FailFrom(0, 1 << 30, Whose::kAll);
  Recorder recorder = Recorder::Start(SmallOptions());
  const bool failed = StopFailing() != 0;

  CHECK(failed);
  CHECK(recorder.status().code() == StatusCode::kResourceExhausted);
}

// Reports something longer than strings hold without an allocation, and copies the trace.
class AllocatingJudge final : public pitot::Judge {
 public:
  const char* Name() const noexcept override { return "allocating"; }
  pitot::JudgeNeeds Needs() const noexcept override { return {.budget_ms = 600'000}; }
  pitot::Status Decide(pitot::Hearing& hearing) override {
    const pitot::model::Trace copy = hearing.trace();
    hearing.OpenReport(std::string(1000, 'x').c_str());
    return copy.threads.empty() ? pitot::Status(pitot::StatusCode::kNotFound, "nothing") : pitot::Status();
  }
};

TEST_CASE("an incident is written or fails alone, whichever of its allocations fails, and is counted and logged",
          "[allocation]") {
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<AllocatingJudge>()).ok());
  pitot::Request open = pitot::Request::Begin("/open");
  for (int i = 0; i < 20; ++i) {
    PITOT_SCOPE("scope", i, "text");
    pitot::Request request = pitot::Request::Begin("/r");
    request.SetLabel("key", "value");
    request.Finish(pitot::Outcome::kOk);
  }
  uint64_t failed = 0;
  int n = 0;
  bool reached = true;
  // The first ones one by one, then in larger steps: a trace takes thousands.
  for (; reached && n < 20'000; n += n < fakes::Scaled(200) ? 1 : n / 8) {
    const pitot::Stats before = host.recorder.Stats();
    const size_t told_before = host.told().size();
    // Armed before, because the worker may be done before this thread runs again.
    FailFrom(n, 3, Whose::kOthers);
    REQUIRE(host.recorder.Trigger("memory is short").ok());
    const pitot::Status flushed = host.recorder.Flush(60'000);
    reached = StopFailing() != 0;
    INFO("allocation " << n);
    REQUIRE(flushed.ok());
    const pitot::Stats after = host.recorder.Stats();
    const uint64_t ended = after.incidents_written + after.incidents_failed;
    // An incident that failed before it was copied is only logged.
    CHECK(ended == before.incidents_written + before.incidents_failed + 1);
    CHECK(host.told().size() <= told_before + 2);
    failed += after.incidents_failed - before.incidents_failed;
    for (const auto& name : host.incidents()) {
      if (name[0] == '.') FAIL("a half incident is left");
    }
  }
  REQUIRE(host.recorder.Trigger("memory is back").ok());
  REQUIRE(host.Flush());

  INFO(n << " allocations, " << failed << " incidents failed");
  CHECK(failed > 10);
  CHECK(host.log.Has(pitot::LogLevel::kError, ""));  // in as many words as memory allowed
  CHECK(!fakes::NamesIn(host.directory / host.incidents().back()).empty());
}

// Has one allocation of the writer fail after the first sample's Keep: among its first few is the room of the queue to
// the worker.
struct SampleKeeper final : pitot::Collector {
  explicit SampleKeeper(int allocation) : n(allocation) {}
  const char* Name() const noexcept override { return "sample keeper"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor what) noexcept override {
    if (what == pitot::KeepFor::kSample && std::exchange(is_first, false)) FailFrom(n, 1, Whose::kWriters);
  }
  void AddTo(pitot::TraceBuilder&) override {}
  const int n;
  bool is_first = true;
};

// Learns from samples, as often as asked.
struct Learner final : pitot::Judge {
  explicit Learner(uint32_t every_ms) : sample_every_ms(every_ms) {}
  const char* Name() const noexcept override { return "learner"; }
  pitot::JudgeNeeds Needs() const noexcept override {
    return {
        .budget_ms = 600'000, .sample_every_ms = sample_every_ms, .sample_window_ms = 1000, .sample_permille = 1000};
  }
  pitot::Status Decide(pitot::Hearing&) override { return {}; }
  const uint32_t sample_every_ms;  // 0: never
};

TEST_CASE("a sample without memory on its way to the worker is counted, and the writer stays at normal priority",
          "[allocation]") {
  uint64_t failed = 0;
  for (int n = 0; n < 10; ++n) {
    std::atomic<int> dumps{0}, idle{0};
    session_test::Host host;
    REQUIRE(host.Start());
    REQUIRE(host.recorder
                .Add(fakes::MakeCallSerializer("dump.pitot",
                                               [&](const auto&, const auto&) {
                                                 ++dumps;
                                                 idle += sched_getscheduler(0) == SCHED_IDLE;
                                                 return pitot::Status();
                                               }))
                .ok());
    REQUIRE(host.recorder.Add(std::make_unique<SampleKeeper>(n)).ok());
    REQUIRE(host.recorder.Add(std::make_unique<Learner>(1)).ok());
    CHECK(fakes::WaitUntil([&] {
      PITOT_INSTANT("something to sample");
      return host.recorder.Stats().samples_learned != 0;
    }));
    StopFailing();
    REQUIRE(host.TriggerAndFlush());
    failed += host.recorder.Stats().samples_failed;
    CHECK(dumps == 1);
    CHECK(idle == 0);
  }
  CHECK(failed > 0);
}

TEST_CASE("an incident without a dump and without memory on its way to the worker is told, and then its verdict",
          "[allocation]") {
  int dropped = 0;
  for (int n = 0; n < 30; ++n) {
    session_test::Host host;
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Add(std::make_unique<Learner>(0)).ok());
    REQUIRE(host.recorder
                .Add(fakes::MakeCallSerializer("dump.pitot",
                                               [&](const auto&, const auto&) {
                                                 FailFrom(n, 1, Whose::kWriters);
                                                 return pitot::Status(StatusCode::kInternal, "no luck");
                                               }))
                .ok());
    REQUIRE(host.recorder.Trigger("no memory").ok());
    const bool flushed = host.Flush();
    StopFailing();
    REQUIRE(flushed);
    const auto told = host.told();
    REQUIRE(!told.empty());
    if (!session_test::Contains(told.back().message, "no memory to complete the incident")) continue;
    ++dropped;
    REQUIRE(told.size() == 2);
    CHECK(told[0].hook == "incident");
    CHECK(told[0].code == StatusCode::kInternal);
    CHECK(told[1].hook == "verdict");
    CHECK(host.recorder.Stats().incidents_failed == 1);
    CHECK(host.recorder.Stats().verdicts_failed == 1);
  }
  CHECK(dropped > 0);
}

TEST_CASE("threads record and requests are served while every allocation fails", "[allocation]") {
  session_test::Host host;
  REQUIRE(host.Start());
  uint64_t served = 0;
  const pitot::trace::RingCounts before = pitot::trace::CountRings();
  std::atomic<bool> go{false}, done{false};
  std::thread thread([&] {
    while (!go) {}
    for (int i = 0; i < 10; ++i) {
      PITOT_SCOPE("without memory", i, "text");
      pitot::Request request = pitot::Request::Begin("/without memory");
      request.SetId("without memory");
      request.SetLabel("without", "memory");
      request.Stage("without memory");
      served += request.id() != 0;
      request.Finish(pitot::Outcome::kFailed, "without memory");
    }
    done = true;
  });
  FailFrom(0, 1 << 30, Whose::kAll);
  go = true;
  while (!done) {}
  StopFailing();
  thread.join();

  CHECK(served == 10);
  CHECK(pitot::trace::CountRings().events > before.events);
  CHECK(host.recorder.Stats().requests_finished == 10);
}

TEST_CASE("an error keeps its code if there is no memory for its message", "[allocation]") {
  FailFrom(0, 1 << 30, Whose::kAll);
  const pitot::Status status(StatusCode::kIoError, "a message");
  const pitot::Status copy = status;
  StopFailing();

  CHECK(copy.code() == StatusCode::kIoError);
  CHECK(!std::string(copy.message()).empty());
  CHECK(std::string(copy.message()) != "a message");
}

}  // namespace
