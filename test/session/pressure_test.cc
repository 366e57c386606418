// SPDX-License-Identifier: Apache-2.0
//
// A recorder under pressure: storms of triggers, a CPU full of other work, snapshots of rings that fill meanwhile.
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/scale.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "session/host.h"

namespace {

using pitot::Outcome;
using pitot::Request;
using session_test::Host;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t mapped = 0, resident = 0;
  statm >> mapped >> resident;
  return resident * 4096;
}

// Since /proc/self/clear_refs made it forget.
uint64_t MostResidentBytes() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoull(line.substr(6)) * 1024;
  }
  return 0;
}

// Computes for this much CPU time of its thread.
void BurnCpu(int64_t ns) {
  const auto spent_ns = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec * 1'000'000'000 + t.tv_nsec;
  };
  const int64_t until_ns = spent_ns() + ns;
  while (spent_ns() < until_ns) {}
}

// Threads that run `body` until the end of the block.
class Threads {
 public:
  Threads(int count, auto body) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this, body] {
        while (!over_.load(std::memory_order_relaxed)) body();
      });
    }
  }
  ~Threads() {
    over_ = true;
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> over_{false};
  std::vector<std::thread> threads_;
};

// Fires on everything, without a cool-down.
struct EagerTrigger final : pitot::Trigger {
  void OnFinish(const pitot::RequestView& request, pitot::FiringSink& sink) noexcept override {
    pitot::Firing firing;
    firing.request = request.id;
    firing.cause = "storm";
    firing.detail = "every request is slow";
    (void)sink.Fire(firing);
  }
};

}  // namespace

TEST_CASE("a storm of triggers on eight threads leaves few incidents, bounded memory and a working recorder",
          "[pressure]") {
  Host host;
  host.options.max_incidents_per_cause_and_hour = 5;
  host.options.post_window_ms = 10;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.SetHooks({}).ok());
  REQUIRE(host.recorder.Add(std::make_unique<EagerTrigger>()).ok());
  // Not all traces are kept: that would be this test's own memory.
  REQUIRE(
      host.recorder.Add(fakes::MakeCallSerializer("keep", [](const auto&, auto&) { return pitot::Status(); })).ok());
  uint64_t resident = 0;
  {
    const Threads storm(8, [] {
      PITOT_SCOPE("handle");
      Request request = Request::Begin("/slow");
      request.Stage("work");
      request.Finish(Outcome::kOk);
    });
    std::this_thread::sleep_for(milliseconds(500));
    resident = ResidentBytes();
    std::this_thread::sleep_for(milliseconds(1000));
  }
  REQUIRE(host.Flush());
  const pitot::Stats stats = host.recorder.Stats();

  CHECK(stats.triggers_fired > 1000);
  CHECK(stats.incidents_written >= 1);
  CHECK(stats.incidents_written <= 6);  // one more may have been earned meanwhile
  CHECK(stats.incidents_suppressed > 0);
  CHECK(stats.requests_open == 0);
  if (!fakes::kThreadSanitizer && !fakes::kAddressSanitizer)
    CHECK(ResidentBytes() <= resident + host.options.memory_budget_bytes + (16 << 20));
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.recorder.Stats().incidents_written == stats.incidents_written + 1);
}

namespace {

// A server's possible fillings of its rings. Each records at least so many bytes.
struct Filling {
  const char* name;
  void (*record)(uint64_t bytes);
};

// The fewest bytes an event, and the most segments.
void RecordScopes(uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += 48) {
    PITOT_SCOPE("outer");
    PITOT_SCOPE("middle");
    PITOT_SCOPE("inner");
  }
}

// Adopts requests begun by other processes.
void AdoptForeign(uint64_t bytes) {
  static std::atomic<uint64_t> serial{0};
  for (uint64_t done = 0; done < bytes; done += 64) {
    pitot::Token token;
    token.request = uint64_t{1} << 63 | ++serial;
    token.process = 0x7fffffff;
    const pitot::Adopt adopt(token);
  }
}

void HandOver(uint64_t bytes) {
  Request request = Request::Begin("/handed");
  for (uint64_t done = 0; done < bytes; done += 32) (void)request.Enqueue("queue");
  request.Finish(Outcome::kOk);
}

void RecordTokens(uint64_t bytes) {
  Request request = Request::Begin("/tokens");
  for (uint64_t done = 0; done < bytes; done += 32) request.Emit();
  request.Finish(Outcome::kOk);
}

void RecordBatches(uint64_t bytes) {
  Request request = Request::Begin("/batches");
  const pitot::Token token = request.Enqueue("queue");
  for (uint64_t done = 0; done < bytes; done += 192) {
    pitot::Batch batch = pitot::Batch::Begin("executor");
    batch.Join(token);
  }
  request.Finish(Outcome::kOk);
}

void RecordAsyncs(uint64_t bytes) {
  Request request = Request::Begin("/asyncs");
  for (uint64_t done = 0; done < bytes; done += 64) const auto part = PITOT_ASYNC_SCOPE("part", request.token());
  request.Finish(Outcome::kOk);
}

void RecordArguments(uint64_t bytes) {
  static std::atomic<uint64_t> serial{0};
  for (uint64_t done = 0; done < bytes; done += 64)
    PITOT_INSTANT("text", std::to_string(++serial) + std::string(30, 't'));
}

void SetDetails(Request* request) {
  for (const char* key : {"a", "b", "c", "d"}) request->SetLabel(key, "value"), request->SetSize(key, 1);
  for (int stage = 0; stage < Request::kMaxStages; ++stage) request->Stage("stage");
}

void FinishRequests(uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += 400) {
    Request request = Request::Begin("/finished");
    SetDetails(&request);
    request.Finish(Outcome::kOk);
  }
}

// Like an ordinary server.
void Serve(uint64_t bytes) {
  for (uint64_t done = 0; done < bytes; done += 500) {
    Request request = Request::Begin("/served");
    request.Stage("queue");
    const pitot::Token token = request.Enqueue("queue");
    {
      pitot::Batch batch = pitot::Batch::Begin("executor");
      batch.Join(token);
      RecordScopes(96);
    }
    request.Finish(Outcome::kOk);
  }
}

// Opens as many as allowed, with all their details.
std::vector<Request> OpenAll(uint32_t count) {
  std::vector<Request> open;
  for (uint32_t i = 0; i < count; ++i) {
    open.push_back(Request::Begin("/open"));
    SetDetails(&open.back());
  }
  return open;
}

// Writes an incident that fills its half of the reserve with this: 0 if it was written in its promised memory.
int WriteFullIncident(const Filling& filling, uint64_t max_ring_bytes) {
  const fakes::TempDirectory directory;
  pitot::Options options = session_test::SmallOptions();
  options.incident_directory = directory.path().c_str();
  options.memory_budget_bytes = 32 << 20;
  options.max_ring_bytes = max_ring_bytes;
  options.max_open_requests = 4096;
  options.pre_window_ms = 60'000;  // long enough to fill it, however slow the machine is
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  const pitot::MemorySplit split = recorder.Stats().memory;
  // Lasts as long as all of it: the report shows what every thread did meanwhile.
  Request request = Request::Begin("/long");
  std::vector<Request> open;
  if (filling.record == nullptr) open = OpenAll(options.max_open_requests - 1);
  const auto record = filling.record != nullptr ? filling.record : RecordScopes;
  // Until the rings hold more than a copy, or new threads only get those of others.
  for (uint64_t used = 0, before = 1; used != before && used < split.snapshot_reserve * 3 / 2;) {
    before = used;
    std::thread(record, split.snapshot_reserve).join();
    used = recorder.Stats().ring_bytes_used;
  }
  request.Finish(Outcome::kOk);
  const uint64_t before = ResidentBytes();
  std::ofstream("/proc/self/clear_refs") << "5";
  if (!recorder.Trigger("large").ok() || !recorder.Flush(60'000).ok()) return 1;
  const uint64_t taken = MostResidentBytes() - before;
  // Full, and no more than promised; the allocator's own pages are not counted.
  if (2 * taken < 3 * split.snapshot_reserve / 2) return 2;
  return taken <= split.snapshot_reserve + split.analysis_arena + (1 << 20) ? 0 : 3;
}

}  // namespace

TEST_CASE("an incident that fills its part of the reserve is written in the arena, whatever fills it", "[pressure]") {
  if (fakes::kThreadSanitizer || fakes::kAddressSanitizer) return;
  constexpr Filling kFillings[] = {{"scopes", RecordScopes},       {"foreign adoptions", AdoptForeign},
                                   {"hand-overs", HandOver},       {"tokens", RecordTokens},
                                   {"batches", RecordBatches},     {"asynchronous scopes", RecordAsyncs},
                                   {"arguments", RecordArguments}, {"finished requests", FinishRequests},
                                   {"what a server does", Serve},  {"open requests", nullptr}};
  for (const uint64_t max_ring_bytes : {1ull << 18, 8ull << 20}) {
    for (const Filling& filling : kFillings) {
      INFO(filling.name << " in rings of " << max_ring_bytes);
      // In a process of its own, with memory used by nothing else.
      CHECK(fakes::InChild([&] { return WriteFullIncident(filling, max_ring_bytes); }) == 0);
    }
  }
}

TEST_CASE("the window is whole though the CPU is full of other work", "[pressure]") {
  Host host;
  host.options.pre_window_ms = 200;
  host.options.max_ring_bytes = 1 << 20;
  REQUIRE(host.Start());
  const unsigned spinners = std::thread::hardware_concurrency() * 2;
  std::atomic<uint64_t> work{0};
  const Threads other(static_cast<int>(spinners), [&work] { work.fetch_add(1, std::memory_order_relaxed); });
  // At most 24 bytes each 50 us and thread: a ring holds two seconds of it.
  const Threads recording(2, [] {
    static thread_local uint64_t serial = 0;
    PITOT_SCOPE("paced", ++serial);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  });
  const auto begin = steady_clock::now();
  while (steady_clock::now() < begin + milliseconds(500)) PITOT_INSTANT("from the start");
  for (int i = 0; i < 2; ++i) {
    REQUIRE(host.TriggerAndFlush());
    REQUIRE(host.traces().size() == static_cast<size_t>(i + 1));
    const pitot::model::Trace trace = host.traces().back();
    CHECK(pitot::model::FindInconsistency(trace) == "");
    for (const auto& loss : trace.losses) {
      INFO(pitot::model::LossReasonName(loss.reason));
      // This thread filled its ring many times over; the paced ones lose nothing.
      if (!fakes::kThreadSanitizer)
        CHECK((loss.thread == pitot::model::kNone || trace.threads[loss.thread].number == 1));
    }
    // Every serial of each paced thread, from the first in the window to the last before its end.
    std::map<uint32_t, std::vector<uint64_t>> serials;
    for (uint32_t event = 0; event < trace.events.size(); ++event) {
      // An open one has no arguments yet.
      if (trace.EventName(event) == "paced" && trace.events.duration_ns[event] != pitot::model::kOpen)
        serials[trace.events.thread[event]].push_back(trace.arg_values[trace.events.args[event]]);
    }
    CHECK(serials.size() == 2);
    for (const auto& [thread, of_thread] : serials) {
      INFO("thread " << thread << ": " << of_thread.size() << " events");
      CHECK(of_thread.back() - of_thread.front() + 1 == of_thread.size());
      CHECK(trace.threads[thread].history_begin_ns <= trace.window_begin_ns);
    }
  }
}

TEST_CASE("incidents while eight threads record flat out are consistent", "[pressure]") {
  Host host;
  host.options.max_ring_bytes = 1 << 16;
  REQUIRE(host.Start());
  const Threads busy(8, [] {
    PITOT_SCOPE("outer", 7, "text");
    Request request = Request::Begin("/busy");
    const pitot::Token token = request.Enqueue("queue");
    {
      pitot::Batch batch = pitot::Batch::Begin("executor");
      batch.Join(token);
      PITOT_SCOPE("forward");
      request.Emit();
    }
    request.Finish(Outcome::kOk);
  });
  REQUIRE(fakes::WaitUntil([&] { return host.recorder.Stats().requests_finished > 100; }));
  // The copying thread may lose its CPU for longer than such small rings hold: nothing is then left, and the loss is
  // reported.
  int whole = 0;
  CHECK(fakes::WaitUntil([&] {
    REQUIRE(host.TriggerAndFlush());
    const auto trace = host.traces().back();
    CHECK(pitot::model::FindInconsistency(trace) == "");
    CHECK((trace.events.size() > 0 || !trace.losses.empty()));
    whole += trace.events.size() > 0 && trace.requests.size() > 0;
    return whole == 2;
  }));
  CHECK(host.recorder.Stats().incidents_failed == 0);
}

TEST_CASE("the worker stays within its share of the CPU", "[pressure]") {
  Host host;
  host.options.worker_cpu_percent = 10;
  REQUIRE(host.Start());
  // Burns 100 ms of CPU between writes, many times.
  std::atomic<int64_t> burnt_ms{0};
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("burns",
                                             [&](const auto&, pitot::ByteSink& sink) {
                                               for (int i = 0; i < 12; ++i) {
                                                 BurnCpu(100'000'000);
                                                 burnt_ms += 100;
                                                 if (!sink.Write("x", 1)) break;
                                               }
                                               return pitot::Status();
                                             }))
              .ok());
  const auto begin = steady_clock::now();
  REQUIRE(host.TriggerAndFlush());
  const auto took_ms = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin).count();

  // 1,200 ms; at 10 % all but the second saved up and the last 100, which nothing follows.
  CHECK(burnt_ms == 1200);
  CHECK(took_ms - burnt_ms >= 700);
}

TEST_CASE("the worker pays for a serializer's computing without writes before it goes on", "[pressure]") {
  Host host;
  host.options.worker_cpu_percent = 10;
  REQUIRE(host.Start());
  steady_clock::time_point begin, next;
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("computes",
                                             [&](const auto&, pitot::ByteSink&) {
                                               begin = steady_clock::now();
                                               BurnCpu(1'100'000'000);
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("next",
                                             [&](const auto&, pitot::ByteSink&) {
                                               next = steady_clock::now();
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.TriggerAndFlush());

  // 1,100 ms; at 10 % all but the second saved up.
  CHECK(next - begin >= milliseconds(1'900));
}

TEST_CASE("an incident is on disk in time though the CPU is full of other work, whoever the process runs as",
          "[pressure]") {
  const auto write_one = [] {
    Host host;
    if (!host.Start()) return 1;
    std::atomic<uint64_t> work{0};
    const Threads other(static_cast<int>(std::thread::hardware_concurrency()) * 3,
                        [&work] { work.fetch_add(1, std::memory_order_relaxed); });
    PITOT_INSTANT("event");
    if (!host.recorder.Trigger("busy").ok()) return 2;
    if (!host.recorder.Flush(60'000).ok()) return 3;
    return host.incidents().size() == 1 ? 0 : 4;
  };
  CHECK(write_one() == 0);
  if (fakes::kThreadSanitizer || getuid() != 0) return;
  // A thread of an ordinary user cannot come back from idle priority.
  CHECK(fakes::InChild([&] {
          if (setgid(65534) != 0 || setuid(65534) != 0) return 10;
          return write_one();
        }) == 0);
}
