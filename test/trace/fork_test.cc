// SPDX-License-Identifier: Apache-2.0
//
// Forks: the child records nothing until it starts a recorder of its own, and nothing in it deadlocks.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/loader_lock.h"
#include "base/patient_thread.h"
#include "fakes/child.h"
#include "fakes/log.h"
#include "fakes/scale.h"
#include "fakes/serializers.h"
#include "fakes/temp_directory.h"
#include "fakes/wait_until.h"
#include "pitot/phase.h"
#include "pitot/pitot.h"
#include "trace/names.h"
#include "trace/process.h"
#include "trace/rings.h"

namespace {

using pitot::Outcome;
using pitot::Recorder;
using pitot::Request;
using pitot::StatusCode;

pitot::Options SmallOptions() {
  pitot::Options options;
  options.memory_budget_bytes = 8 << 20;
  options.max_ring_bytes = 1 << 16;
  options.max_open_requests = 256;
  options.post_window_ms = 0;
  return options;
}

// The only incident in the directory; "" if there is not exactly one.
std::string OnlyIncident(const std::string& directory) {
  const auto names = fakes::NamesIn(directory);
  return names.size() == 1 ? directory + "/" + names[0] : "";
}

// Uses everything that records.
void RecordEverything(int i) {
  PITOT_SCOPE("scope", i);
  PITOT_PHASES(phases);
  PITOT_PHASE(phases, "phase");
  PITOT_INSTANT("instant", "text");
  PITOT_COUNTER("counter", i);
  Request request = Request::Begin("/r");
  request.SetLabel("key", "value");
  request.Stage("stage");
  const pitot::Token token = request.Enqueue("queue");
  const pitot::Adopt adopt(token);
  pitot::Batch batch = pitot::Batch::Begin("executor");
  batch.Join(token);
  auto async = PITOT_ASYNC_SCOPE("async", token);
  PITOT_WAIT(pitot::WaitKind::kIo, "io", pitot::ThisOwner());
  pitot::Emit(token);
  request.Finish(Outcome::kOk);
}

// g++'s ThreadSanitizer cannot start threads in the child of a process with several.
bool CanStartInChild() {
  if (fakes::kThreadSanitizer) WARN("ThreadSanitizer forbids threads in such a child: not tested");
  return !fakes::kThreadSanitizer;
}

}  // namespace

TEST_CASE("the child of a fork records nothing and its parent's recorder is not running there", "[fork]") {
  Recorder recorder = Recorder::Start(SmallOptions());
  REQUIRE(recorder.status().ok());
  RecordEverything(1);
  Request open = Request::Begin("/open");
  const pitot::Token token = open.Enqueue("queue");
  pitot::Batch batch = pitot::Batch::Begin("executor");
  auto async = PITOT_ASYNC_SCOPE("async", token);
  std::optional<pitot::Adopt> adopt(std::in_place, token);
  PITOT_SCOPE("open in the parent");

  const int result = fakes::InChild([&] {
    if (pitot::detail::g_gate != 0) return 1;
    RecordEverything(2);
    if (Request::Begin("/r").id() != 0) return 2;
    if (recorder.status().code() != StatusCode::kNotRunning) return 3;
    if (recorder.Trigger("reason").code() != StatusCode::kNotRunning) return 4;
    if (recorder.Flush(10'000).code() != StatusCode::kNotRunning) return 5;
    if (recorder.Add(pitot::MakeFailureTrigger({})).code() != StatusCode::kNotRunning) return 6;
    if (recorder.SetHooks({}).code() != StatusCode::kNotRunning) return 7;
    if (recorder.Stats().events_recorded != 0) return 8;
    if (pitot::IsLate(token) || pitot::Now().ticks != 0) return 9;
    open.Finish(Outcome::kOk);
    batch.Finish();
    async.End();
    adopt.reset();
    if (pitot::trace::CountRings().live != 0 || pitot::trace::CountRings().events != 0) return 10;
    recorder.Stop();
    return 0;
  });

  CHECK(result == 0);
  CHECK(recorder.status().ok());
  CHECK(recorder.Stats().requests_open == 1);
}

// The child of a fork that runs none of the C library's handlers.
template <class Body> pid_t StartRawChild(Body body) {
  const pid_t pid = static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr));
  if (pid != 0) return pid;
  alarm(60);
  _exit(body());
}

TEST_CASE("a child made without the C library's handlers leaves its parent's recorder alone", "[fork]") {
  auto recorder = std::make_unique<Recorder>(Recorder::Start(SmallOptions()));
  REQUIRE(recorder->status().ok());

  const pid_t child = StartRawChild([&] {
    HOLDS(recorder->status().code() == StatusCode::kNotRunning);
    HOLDS(recorder->Trigger("reason").code() == StatusCode::kNotRunning);
    HOLDS(recorder->Flush(50'000).code() == StatusCode::kNotRunning);
    recorder->Stop(50'000);  // waits for no thread of the parent
    return 0;
  });
  CHECK(fakes::WaitForChild(child) == 0);
  CHECK(recorder->status().ok());
}

TEST_CASE("a child made without the C library's handlers may claim its process", "[fork]") {
  REQUIRE(pitot::trace::ClaimProcess() == nullptr);  // without threads: one of them could hold malloc's lock
  const uint32_t epoch = pitot::trace::ForkEpoch();

  const pid_t child = StartRawChild([&] {
    HOLDS(pitot::trace::ClaimProcess() == nullptr);
    HOLDS(pitot::trace::ForkEpoch() == epoch + 1);
    HOLDS(pitot::trace::ClaimProcess() != nullptr);  // its own is held
    return 0;
  });
  CHECK(fakes::WaitForChild(child) == 0);
  CHECK(pitot::trace::ClaimProcess() != nullptr);
  pitot::trace::ReleaseProcess();
  CHECK(pitot::trace::ForkEpoch() == epoch);
}

TEST_CASE("a child with a recorder of its own leaves its own incident, and the parent's is unaffected", "[fork]") {
  if (!CanStartInChild()) return;
  const fakes::TempDirectory parents, childs;
  pitot::Options options = SmallOptions();
  options.incident_directory = parents.path().c_str();
  Recorder recorder = Recorder::Start(options);
  REQUIRE(recorder.status().ok());
  REQUIRE(recorder.Add(fakes::MakeEventsSerializer()).ok());
  PITOT_INSTANT("of the parent");

  const int result = fakes::InChild([&] {
    pitot::Options own = SmallOptions();
    own.incident_directory = childs.path().c_str();
    Recorder mine = Recorder::Start(own);
    if (!mine.status().ok()) return 1;
    if (!mine.Add(fakes::MakeEventsSerializer()).ok()) return 2;
    PITOT_INSTANT("of the child");
    RecordEverything(1);
    if (!mine.Trigger("in the child").ok()) return 3;
    if (!mine.Flush(30'000).ok()) return 4;
    if (mine.Stats().incidents_written != 1) return 5;
    if (mine.Stats().requests_finished != 1) return 6;
    if (recorder.status().ok()) return 7;
    mine.Stop();
    return 0;
  });
  PITOT_INSTANT("of the parent afterwards");
  REQUIRE(recorder.Trigger("in the parent").ok());
  REQUIRE(recorder.Flush(30'000).ok());

  CHECK(result == 0);
  const std::string of_child = fakes::ReadFile(OnlyIncident(childs.path()) + "/events.txt");
  CHECK(of_child.substr(0, 1) == "\n");
  CHECK(of_child.find("of the child\n") != std::string::npos);
  CHECK(of_child.find("of the parent") == std::string::npos);
  const std::string of_parent = fakes::ReadFile(OnlyIncident(parents.path()) + "/events.txt");
  CHECK(of_parent.find("of the parent\n") != std::string::npos);
  CHECK(of_parent.find("of the parent afterwards\n") != std::string::npos);
  CHECK(of_parent.find("of the child") == std::string::npos);
}

// Before the test below, whose names may fill the table.
TEST_CASE("the child of a fork begins its names in memory of its own", "[fork]") {
  Recorder recorder = Recorder::Start(SmallOptions());  // from now on forks are told
  REQUIRE(recorder.status().ok());
  // Another thread may have been taking memory, so the state of the rest is unknown.
  const std::string_view last = pitot::trace::NameText(pitot::Intern("last name of the parent").index);

  const int result = fakes::InChild([&] {
    const std::string_view first = pitot::trace::NameText(pitot::Intern("first name of the child").index);
    if (first != "first name of the child" || last != "last name of the parent") return 1;
    return first.data() == last.data() + last.size() + 1 ? 2 : 0;  // a size byte between
  });

  CHECK(result == 0);
}

TEST_CASE("forks while other threads attach, intern, finish and trigger never deadlock", "[fork][stress]") {
  Recorder recorder = Recorder::Start(SmallOptions());
  REQUIRE(recorder.status().ok());
  REQUIRE(recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 0.0001, .cool_down_ms = 1})).ok());
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&over, t] {
      for (int i = 0; !over.load(std::memory_order_relaxed); ++i) {
        std::thread([i] { RecordEverything(i); }).join();
        (void)pitot::Intern(("name " + std::to_string(i * 3 + t)).c_str());
        pitot::SetThreadName("renamed");
      }
    });
  }
  threads.emplace_back([&] {
    while (!over.load(std::memory_order_relaxed)) {
      (void)recorder.Trigger("storm");
      (void)recorder.Stats();
    }
  });
  std::vector<int> results;
  for (int i = 0; i < fakes::Scaled(60); ++i) {
    results.push_back(fakes::InChild([&] {
      // AddressSanitizer's allocator may be locked in the child.
      if (fakes::kAddressSanitizer) return 0;
      RecordEverything(i);
      if (pitot::Intern(("child " + std::to_string(i)).c_str()).index == 0 && pitot::trace::NamesRefused() == 0)
        return 1;
      if (fakes::kThreadSanitizer) return 0;
      Recorder mine = Recorder::Start(SmallOptions());
      if (!mine.status().ok()) return 2;
      RecordEverything(i);
      std::thread([i] { RecordEverything(i); }).join();
      if (mine.Stats().requests_finished != 2) return 3;
      mine.Stop();
      return mine.status().code() == StatusCode::kNotRunning ? 0 : 4;
    }));
  }
  over = true;
  for (auto& thread : threads) thread.join();

  for (const int result : results) CHECK(result == 0);
  CHECK(recorder.status().ok());
}

TEST_CASE("a recorder warns if its process was forked while a thread of Pitot was loading a library", "[fork]") {
  if (!CanStartInChild()) return;
  Recorder recorder = Recorder::Start(SmallOptions());
  REQUIRE(recorder.status().ok());
  constexpr char kWarning[] = "this process was forked while a thread of Pitot was loading a library";
  std::atomic<bool> is_inside{false}, is_over{false};
  pitot::base::PatientThread thread;
  thread.Start([&] {
    const pitot::base::LoaderUse use;
    is_inside = true;
    fakes::WaitUntil([&] { return is_over.load(); });
  });
  REQUIRE(fakes::WaitUntil([&] { return is_inside.load(); }));

  const int result = fakes::InChild([&] {
    fakes::Log log;
    pitot::Options own = SmallOptions();
    log.Listen(&own);
    const Recorder mine = Recorder::Start(own);
    return mine.status().ok() && log.Has(pitot::LogLevel::kWarning, kWarning) ? 0 : 1;
  });
  is_over = true;

  CHECK(result == 0);
  CHECK(thread.End(60'000'000'000));
  const int without = fakes::InChild([&] {
    fakes::Log log;
    pitot::Options own = SmallOptions();
    log.Listen(&own);
    const Recorder mine = Recorder::Start(own);
    return mine.status().ok() && log.lines().empty() ? 0 : 1;
  });
  CHECK(without == 0);
}

TEST_CASE("a child may drop its parent's handle, start anew through it, and fork again", "[fork]") {
  if (!CanStartInChild()) return;
  auto recorder = std::make_unique<Recorder>(Recorder::Start(SmallOptions()));
  REQUIRE(recorder->status().ok());

  const int result = fakes::InChild([&] {
    *recorder = Recorder::Start(SmallOptions());
    if (!recorder->status().ok()) return 1;
    PITOT_INSTANT("child");
    const int grandchild = fakes::InChild([&] {
      if (recorder->status().ok()) return 1;
      recorder.reset();
      const Recorder own = Recorder::Start(SmallOptions());
      RecordEverything(1);
      return own.status().ok() ? 0 : 2;
    });
    if (grandchild != 0) return 10 + grandchild;
    if (!recorder->status().ok()) return 2;
    recorder.reset();
    return 0;
  });

  CHECK(result == 0);
  CHECK(recorder->status().ok());
}

TEST_CASE("workers forked before their server starts a recorder each have their own", "[fork]") {
  if (!CanStartInChild()) return;
  const fakes::TempDirectory directory;
  std::vector<pid_t> workers;
  for (int i = 0; i < 4; ++i) {
    workers.push_back(fakes::StartChild([&] {
      pitot::Options options = SmallOptions();
      options.incident_directory = directory.path().c_str();
      Recorder recorder = Recorder::Start(options);
      if (!recorder.status().ok()) return 1;
      RecordEverything(1);
      if (!recorder.Trigger("shared directory").ok()) return 2;
      return recorder.Flush(30'000).ok() && recorder.Stats().incidents_written == 1 ? 0 : 3;
    }));
  }

  for (const pid_t worker : workers) CHECK(fakes::WaitForChild(worker) == 0);
  // None in another's place, though all were the first of their process, of one cause, in one second.
  CHECK(fakes::NamesIn(directory.path()).size() == 4);
}

TEST_CASE("a thread inside a trigger at a fork does not delay the child's Stop", "[fork]") {
  if (!CanStartInChild()) return;
  struct Gate {
    std::atomic<bool> inside{false}, open{false};
  } gate;
  Recorder recorder = Recorder::Start(SmallOptions());
  REQUIRE(recorder.status().ok());
  REQUIRE(recorder
              .Add(pitot::MakePredicateTrigger({.predicate =
                                                    [](void* context, const pitot::RequestView&) {
                                                      auto* g = static_cast<Gate*>(context);
                                                      g->inside = true;
                                                      fakes::WaitUntil([g] { return g->open.load(); });
                                                      return false;
                                                    },
                                                .context = &gate}))
              .ok());
  std::thread finisher([] { Request::Begin("/r").Finish(Outcome::kOk); });
  REQUIRE(fakes::WaitUntil([&] { return gate.inside.load(); }));

  const int result = fakes::InChild([&] {
    const auto begin = std::chrono::steady_clock::now();
    {
      const Recorder own = Recorder::Start(SmallOptions());
      if (!own.status().ok()) return 1;
      Request::Begin("/r").Finish(Outcome::kOk);
    }
    return std::chrono::steady_clock::now() - begin < std::chrono::milliseconds(900 * fakes::kSlower) ? 0 : 2;
  });
  gate.open = true;
  finisher.join();

  CHECK(result == 0);
}
