// SPDX-License-Identifier: Apache-2.0
//
// Collectors in a recorder: started, asked for each incident, stopped.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/columns.h"
#include "fakes/serializers.h"
#include "fakes/trace_text.h"
#include "fakes/wait_until.h"
#include "pitot/extend/call.h"
#include "pitot/extend/collector.h"
#include "session/host.h"

namespace {

using fakes::Attribute;
using pitot::BitOf;
using pitot::Depth;
using pitot::Status;
using pitot::StatusCode;
using session_test::Host;

// Outlives the collector.
struct Seen {
  std::atomic<int> started{0}, stopped{0}, kept{0}, asked{0};
  std::atomic<pitot::KeepFor> kept_for{pitot::KeepFor::kSample};
  std::atomic<int64_t> kept_from_ns{0}, launched_ns{0};
  std::atomic<int> paused{0}, resumed{0};
  std::atomic<uint64_t> held_bytes{0};
  std::atomic<uint32_t> depths{BitOf(Depth::kGraphs) | BitOf(Depth::kKernels)};
  mutable std::atomic<int> asked_depths{0};
  std::atomic<Depth> depth{Depth::kAuto}, expected{Depth::kOps}, expected_at_depth{Depth::kOps};
  std::atomic<bool> is_armed{false}, was_armed_at_kernels{false};
  std::atomic<int> telling{0}, told_at_once{0}, stopped_while_told{0}, told_after_stop{0};
  fakes::Gate gate;  // for calls at kKernels, if is_gated
  bool is_gated = false, has_lasting_cost = false;
  const char* not_recorded = nullptr;
};

struct FakeCollector final : pitot::Collector {
  explicit FakeCollector(Seen* to) : seen(to) {}
  const char* Name() const noexcept override { return "fake"; }
  void ExpectDepth(Depth depth) noexcept override { seen->expected = depth; }
  void Arm(bool is_armed) noexcept override { seen->is_armed = is_armed; }
  Status Start() noexcept override {
    ++seen->started;
    return start;
  }
  void Stop() noexcept override {
    ++seen->stopped;
    seen->stopped_while_told += seen->telling != 0;
  }
  Status Stopped() const noexcept override { return seen->stopped == 1 ? stopped : Status(); }
  uint32_t Depths() const noexcept override {
    ++seen->asked_depths;
    return seen->depths;
  }
  void SetDepth(Depth depth) noexcept override {
    if (++seen->telling > 1) ++seen->told_at_once;
    seen->told_after_stop += seen->stopped != 0;
    if (depth == Depth::kKernels && seen->is_gated) seen->gate.Pass();
    if (depth == Depth::kKernels) seen->was_armed_at_kernels = seen->is_armed.load();
    seen->depth = depth, seen->expected_at_depth = seen->expected.load();
    --seen->telling;
  }
  Status Pause() noexcept override {
    seen->told_after_stop += seen->stopped != 0;
    seen->told_at_once += seen->telling != 0;
    return ++seen->paused, Status();
  }
  Status Resume() noexcept override {
    ++seen->resumed;
    return Status(StatusCode::kUnavailable, "somebody else has it");
  }
  uint64_t HeldBytes() const noexcept override { return seen->held_bytes; }
  void Keep(int64_t begin_ns, pitot::KeepFor what) noexcept override {
    ++seen->kept;
    seen->kept_for = what;
    seen->kept_from_ns = begin_ns;
  }
  void AddTo(pitot::TraceBuilder& trace) override {
    ++seen->asked;
    const uint32_t stream = trace.AddStream(trace.AddDevice({0, trace.AddText("GPU")}), 1, 7);
    pitot::GpuActivity kernel;
    kernel.kind = pitot::GpuKind::kKernel;
    kernel.stream = stream;
    const int64_t launched_ns = seen->launched_ns;
    kernel.begin_ns = launched_ns != 0 ? launched_ns : seen->kept_from_ns + 10;
    kernel.duration_ns = 5;
    kernel.correlation = 41;
    trace.Add(kernel);
    if (seen->not_recorded != nullptr) trace.AddAttribute("fake.not_recorded", seen->not_recorded);
    if (seen->has_lasting_cost) trace.AddAttribute("fake.lasting_cost", "some");
    if (throws) throw std::runtime_error("the driver is gone");
    if (throws_number) throw 42;
  }

  Seen* const seen;
  Status start, stopped;
  bool throws = false, throws_number = false;
};

}  // namespace

TEST_CASE("what fails while a collector stops is logged", "[collector]") {
  Seen fails, works;
  Host host;
  REQUIRE(host.Start());
  for (Seen* seen : {&fails, &works}) {
    auto collector = std::make_unique<FakeCollector>(seen);
    if (seen == &fails) collector->stopped = Status(StatusCode::kInternal, "fake: 2 calls failed");
    REQUIRE(host.recorder.Add(std::move(collector)).ok());
  }
  CHECK_FALSE(host.log.Has(pitot::LogLevel::kWarning, "fake"));

  host.recorder.Stop();

  CHECK(host.log.Has(pitot::LogLevel::kWarning, "fake: 2 calls failed"));
  CHECK(works.stopped == 1);
}

TEST_CASE("a collector is started, asked for each incident's window, and stopped", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  CHECK(seen.started == 1);
  pitot::EndCall(pitot::BeginCall(),
                 {.collector = pitot::Intern("fake"), .api = pitot::Intern("cudaLaunchKernel"), .correlation = 41});
  seen.launched_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  for (int i = 1; i <= 2; ++i) {
    REQUIRE(host.TriggerAndFlush());

    CHECK(seen.kept == i);
    CHECK(seen.kept_for == pitot::KeepFor::kIncident);
    CHECK(seen.asked == i);
    const pitot::model::Trace trace = host.traces().back();
    CHECK(seen.kept_from_ns == trace.window_begin_ns);
    REQUIRE(trace.gpu.size() == 1);
    REQUIRE(trace.gpu.call[0] == 0);
    CHECK(trace.strings[trace.calls.name[0]] == "cudaLaunchKernel");
  }
  CHECK(seen.stopped == 0);
  host.recorder.Stop();
  CHECK(seen.stopped == 1);
  host.recorder.Stop();
  CHECK(seen.stopped == 1);
}

namespace {

// Says in each trace what it was last asked to keep.
struct KeepTeller final : pitot::Collector {
  explicit KeepTeller(std::atomic<int>* samples) : kept_samples(*samples) {}
  const char* Name() const noexcept override { return "keep teller"; }
  Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor what) noexcept override {
    kept_for = what;
    kept_samples += what == pitot::KeepFor::kSample;
  }
  void AddTo(pitot::TraceBuilder& trace) override {
    trace.AddAttribute("kept_for", kept_for == pitot::KeepFor::kSample ? "a sample" : "an incident");
  }
  std::atomic<int>& kept_samples;
  std::atomic<pitot::KeepFor> kept_for{pitot::KeepFor::kSample};
};

// Learns at a great expense from the first sample, so that the worker waits for its share before the second.
struct DearLearner final : pitot::Judge {
  explicit DearLearner(std::vector<std::string>* to) : learned(*to) {}
  const char* Name() const noexcept override { return "dear learner"; }
  pitot::JudgeNeeds Needs() const noexcept override {
    return {.budget_ms = 600'000, .sample_every_ms = 1, .sample_window_ms = 1000, .sample_permille = 1000};
  }
  Status Decide(pitot::Hearing&) override { return {}; }
  Status Learn(pitot::Hearing& hearing) override {
    learned.push_back(Attribute(hearing.trace(), "kept_for"));
    const int64_t end_ns = pitot::base::ClockNs(CLOCK_THREAD_CPUTIME_ID) + 50'000'000;
    while (learned.size() == 1 && pitot::base::ClockNs(CLOCK_THREAD_CPUTIME_ID) < end_ns) {}
    return {};
  }
  std::vector<std::string>& learned;  // from
};

}  // namespace

TEST_CASE("a sample that waits for the worker's share gets nothing that collectors kept for an incident",
          "[collector]") {
  std::atomic<int> kept_samples{0};
  std::vector<std::string> learned;
  Host host;
  host.options.worker_cpu_percent = 10;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<KeepTeller>(&kept_samples)).ok());
  REQUIRE(host.recorder.Add(std::make_unique<DearLearner>(&learned)).ok());
  REQUIRE(fakes::WaitUntil([&] {
    PITOT_INSTANT("something to sample");
    return kept_samples >= 2;
  }));
  REQUIRE(host.recorder.Trigger("meanwhile").ok());
  REQUIRE(fakes::WaitUntil([&] { return !host.told().empty(); }));
  host.recorder.Stop(60'000);

  REQUIRE(learned.size() >= 2);
  CHECK(learned[0] == "a sample");
  CHECK(std::count(learned.begin(), learned.end(), "an incident") == 0);
  REQUIRE(host.traces().size() == 1);
  CHECK(Attribute(host.traces()[0], "kept_for") == "an incident");
}

TEST_CASE("a refused second collector of a kind leaves the running first one without a reason", "[collector]") {
  Seen seen, seen_second;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  auto second = std::make_unique<FakeCollector>(&seen_second);
  second->start = Status(StatusCode::kAlreadyRunning, "there is one");

  CHECK(host.recorder.Add(std::move(second)).code() == StatusCode::kAlreadyRunning);

  REQUIRE(host.TriggerAndFlush());
  CHECK(Attribute(host.traces()[0], "collector.fake") == "");
  CHECK(seen.asked == 1);
}

TEST_CASE("a collector that cannot start is refused in its own words, and not asked", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  auto collector = std::make_unique<FakeCollector>(&seen);
  collector->start = Status(StatusCode::kUnavailable, "there is no libcupti");

  const Status status = host.recorder.Add(std::move(collector));

  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(std::string(status.message()) == "there is no libcupti");
  CHECK(host.log.Has(pitot::LogLevel::kError, "there is no libcupti"));
  REQUIRE(host.TriggerAndFlush());
  CHECK(seen.kept + seen.asked == 0);
  CHECK(Attribute(host.traces()[0], "collector.fake") == "refused: there is no libcupti");
  host.recorder.Stop();
  CHECK(seen.stopped == 0);
  CHECK(host.recorder.Add(std::unique_ptr<pitot::Collector>()).code() == StatusCode::kNotRunning);
}

TEST_CASE("a throwing collector costs its own part of an incident, and this is reported there", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  auto throwing = std::make_unique<FakeCollector>(&seen);
  throwing->throws = true;
  REQUIRE(host.recorder.Add(std::move(throwing)).ok());
  throwing = std::make_unique<FakeCollector>(&seen);
  throwing->throws_number = true;
  REQUIRE(host.recorder.Add(std::move(throwing)).ok());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  REQUIRE(host.TriggerAndFlush());

  REQUIRE(host.traces().size() == 1);
  const pitot::model::Trace trace = host.traces()[0];
  CHECK(trace.gpu.size() == 3);
  std::vector<std::string> said;
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == "collector.fake") said.emplace_back(trace.strings[attribute.value]);
  }
  CHECK(said == std::vector<std::string>{"the driver is gone", "threw something"});
}

TEST_CASE("bytes held by collectors add up in Stats", "[collector]") {
  Seen first, second;
  Host host;
  REQUIRE(host.Start());
  CHECK(host.recorder.Stats().collector_bytes == 0);
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&first)).ok());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&second)).ok());
  first.held_bytes = 1000;
  second.held_bytes = 24;
  CHECK(host.recorder.Stats().collector_bytes == 1024);
}

namespace {

size_t Count(const fakes::Log& log, const std::string& part) {
  const std::vector<fakes::LogLine> lines = log.lines();
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [&](const fakes::LogLine& line) {
    return line.text.find(part) != std::string::npos;
  }));
}

}  // namespace

TEST_CASE("the bytes of collectors are in the budget, and what is too much for it is logged once", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  const pitot::MemorySplit before = host.recorder.Stats().memory;
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  seen.held_bytes = 1 << 20;
  const pitot::MemorySplit split = host.recorder.Stats().memory;
  CHECK(split.collectors == 1 << 20);
  CHECK(split.snapshot_reserve < before.snapshot_reserve);
  CHECK(session_test::SumOf(split) == host.options.memory_budget_bytes);
  REQUIRE(host.TriggerAndFlush());
  CHECK(Count(host.log, "collectors hold") == 0);

  seen.held_bytes = 64 << 20;
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(host.TriggerAndFlush());

  CHECK(session_test::SumOf(host.recorder.Stats().memory) == host.options.memory_budget_bytes);
  CHECK(Count(host.log, "collectors hold 64.0 MiB") == 1);
}

TEST_CASE("no collector is added to a stopped recorder", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  host.recorder.Stop();
  CHECK(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).code() == StatusCode::kNotRunning);
  CHECK(seen.started == 0);
}

namespace {

// A host with a collector and a free depth.
struct GovernedHost : Host {
  GovernedHost() {
    REQUIRE(Start());
    REQUIRE(recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  }
  bool Becomes(Depth depth) const {
    return fakes::WaitUntil([&] { return seen.depth == depth; });
  }
  Seen seen;
};

}  // namespace

TEST_CASE("a collector records at the host's fixed depth from its first moment on", "[collector][depth]") {
  Seen seen;
  Host host;
  host.options.depth = Depth::kGraphs;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  CHECK(seen.depth == Depth::kGraphs);
  REQUIRE(host.recorder.SetDepth(Depth::kKernels).ok());
  CHECK(seen.depth == Depth::kKernels);
  CHECK(host.recorder.Stats().depth.depth == Depth::kKernels);
  CHECK(std::string(host.recorder.Stats().depth.state).empty());
  CHECK(host.recorder.SetDepth(static_cast<Depth>(7)).code() == StatusCode::kInvalidArgument);
  REQUIRE(host.TriggerAndFlush());
  CHECK(Attribute(host.traces()[0], "depth") == "kernels, fixed by the host");
  CHECK(Attribute(host.traces()[0], "overhead.mean").find("not measured: the depth is fixed") == 0);
  host.recorder.Stop();
  CHECK(host.recorder.SetDepth(Depth::kScopes).code() == StatusCode::kNotRunning);
}

TEST_CASE("collectors are told a depth fixed by the host as it is, and not asked for theirs", "[collector][depth]") {
  Seen seen, of_ops;
  of_ops.depths = BitOf(Depth::kOps);
  Host host;
  host.options.depth = Depth::kKernels;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&of_ops)).ok());
  CHECK(seen.depth == Depth::kKernels);
  CHECK(of_ops.depth == Depth::kKernels);

  REQUIRE(host.recorder.SetDepth(Depth::kOps).ok());

  CHECK(seen.depth == Depth::kOps);
  CHECK(of_ops.depth == Depth::kOps);
  REQUIRE(session_test::Rounds(&host).Pass());
  CHECK(seen.asked_depths + of_ops.asked_depths == 0);
}

namespace {

// A host with a second collector. It records operators only and is told first.
struct HostWithOps : Host {
  HostWithOps() {
    of_ops.depths = BitOf(Depth::kOps);
    REQUIRE(Start());
    REQUIRE(recorder.Add(std::make_unique<FakeCollector>(&of_ops)).ok());
    REQUIRE(recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  }
  // Waits for these depths while everything is recorded.
  bool Become(Depth ops, Depth other) {
    return fakes::WaitUntil([&] {
      recorder.Trigger("all, please");  // refused if too many wait on a busy machine
      return of_ops.depth == ops && seen.depth == other;
    });
  }
  Seen of_ops, seen;
};

}  // namespace

TEST_CASE("each collector is told the deepest depth it offers", "[collector][depth]") {
  HostWithOps host;
  REQUIRE(host.Become(Depth::kOps, Depth::kKernels));
  host.of_ops.depths = 0;
  CHECK(host.Become(Depth::kScopes, Depth::kKernels));
}

TEST_CASE("a collector with a changed offer is told, though the depth stays", "[collector][depth]") {
  HostWithOps host;
  host.seen.depths = 0;
  REQUIRE(host.Become(Depth::kOps, Depth::kScopes));

  host.seen.depths = BitOf(Depth::kGraphs) | BitOf(Depth::kKernels);
  CHECK(host.Become(Depth::kOps, Depth::kKernels));
  host.seen.depths = BitOf(Depth::kGraphs);
  CHECK(host.Become(Depth::kOps, Depth::kGraphs));
  host.seen.depths = 0;
  CHECK(host.Become(Depth::kOps, Depth::kScopes));
}

TEST_CASE("only depths with more records of some collector are tried", "[collector][depth]") {
  HostWithOps host;
  host.seen.depths = 0;
  REQUIRE(host.Become(Depth::kOps, Depth::kScopes));
  REQUIRE(host.TriggerAndFlush());
  const pitot::model::Trace withheld = host.traces().back();
  host.seen.depths = BitOf(Depth::kGraphs) | BitOf(Depth::kKernels);
  REQUIRE(host.Become(Depth::kOps, Depth::kKernels));
  REQUIRE(host.TriggerAndFlush());
  const pitot::model::Trace offered = host.traces().back();

  for (const char* key : {"overhead.graphs", "overhead.kernels"}) {
    CHECK(Attribute(withheld, key) == "");
    CHECK(Attribute(offered, key) != "");
  }
  CHECK(Attribute(withheld, "overhead.ops") != "");
  CHECK(Attribute(offered, "overhead.ops") != "");
}

namespace {

// A host with a collector that hangs in SetDepth(kKernels) until the gate is open.
struct GatedHost : Host {
  GatedHost() { seen.is_gated = true; }
  ~GatedHost() {
    seen.gate.open = true;
    recorder.Stop();
  }
  bool StartAt(Depth depth) {
    options.depth = depth;
    return Start() && recorder.Add(std::make_unique<FakeCollector>(&seen)).ok();
  }
  Seen seen;
};

}  // namespace

TEST_CASE("incidents are written and stats read while a collector hangs in being told", "[collector][depth]") {
  GatedHost host;
  std::thread telling;
  SECTION("by the governor") {
    REQUIRE(host.StartAt(Depth::kAuto));
    REQUIRE(host.TriggerAndFlush());
  }
  SECTION("by the host") {
    REQUIRE(host.StartAt(Depth::kScopes));
    telling = std::thread([&] { (void)host.recorder.SetDepth(Depth::kKernels); });
  }
  const bool is_reached = host.seen.gate.WaitUntilReached();
  const size_t before = host.traces().size();

  const bool is_written = host.TriggerAndFlush();
  const pitot::DepthStats stats = host.recorder.Stats().depth;
  const bool has_left = host.seen.gate.left;

  host.seen.gate.open = true;
  if (telling.joinable()) telling.join();
  CHECK(is_reached);
  CHECK(is_written);
  CHECK(host.traces().size() == before + 1);
  CHECK(stats.depth == Depth::kKernels);
  CHECK_FALSE(has_left);
  CHECK(fakes::WaitUntil([&] { return host.seen.depth == Depth::kKernels; }));
}

TEST_CASE("the depth fixed last is told last, however long a collector takes", "[collector][depth]") {
  GatedHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  std::thread first([&] { (void)host.recorder.SetDepth(Depth::kKernels); });
  const bool is_reached = host.seen.gate.WaitUntilReached();
  std::atomic<bool> is_told{false};
  std::thread second([&] {
    (void)host.recorder.SetDepth(Depth::kGraphs);
    is_told = true;
  });
  const bool is_fixed = fakes::WaitUntil([&] { return host.recorder.Stats().depth.depth == Depth::kGraphs; });
  const bool was_told_early = is_told;

  host.seen.gate.open = true;
  first.join();
  second.join();

  CHECK(is_reached);
  CHECK(is_fixed);
  CHECK_FALSE(was_told_early);
  CHECK(host.seen.depth == Depth::kGraphs);
  CHECK(host.seen.told_at_once == 0);
}

TEST_CASE("a collector that hangs in being told by the host is not stopped at the same time", "[collector][depth]") {
  GatedHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  std::thread telling([&] { (void)host.recorder.SetDepth(Depth::kKernels); });
  const bool is_reached = host.seen.gate.WaitUntilReached();

  host.recorder.Stop();
  const int stopped = host.seen.stopped;
  host.seen.gate.open = true;
  telling.join();

  CHECK(is_reached);
  CHECK(stopped == 0);
  CHECK(host.log.Has(pitot::LogLevel::kWarning, "a collector did not return in time"));
}

TEST_CASE("a collector is told and asked nothing during its Stop or after", "[collector][depth]") {
  for (int i = 0; i < 20; ++i) {
    Seen seen;
    Host host;
    host.options.depth = Depth::kScopes;
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
    std::atomic<int> begun{0};
    std::atomic<bool> is_done{false};
    std::thread telling([&] {
      for (int round = 0; !is_done; ++round) {
        (void)host.recorder.SetDepth(round % 2 == 0 ? Depth::kKernels : Depth::kGraphs);
        if (round == 0) ++begun;
      }
    });
    std::thread asking([&] {
      (void)host.recorder.Pause("fake");
      for (++begun; !is_done;) (void)host.recorder.Pause("fake");
    });
    while (begun != 2) std::this_thread::yield();
    host.recorder.Stop();
    is_done = true;
    telling.join();
    asking.join();

    CHECK(seen.stopped == 1);
    CHECK(seen.stopped_while_told + seen.told_after_stop + seen.told_at_once == 0);
  }
}

TEST_CASE("a collector returning from one depth is told the governor's next", "[collector][depth]") {
  GatedHost host;
  REQUIRE(host.StartAt(Depth::kAuto));
  REQUIRE(host.TriggerAndFlush());
  REQUIRE(host.seen.gate.WaitUntilReached());
  host.seen.depths = 0;
  REQUIRE(session_test::Rounds(&host).Pass());

  host.seen.gate.open = true;

  CHECK(fakes::WaitUntil([&] { return host.seen.gate.left && host.seen.depth == Depth::kScopes; }));
  CHECK(host.seen.told_at_once == 0);
}

TEST_CASE("a request that becomes late while open has everything recorded until it has ended", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.route = "/slow", .above_ms = 20})).ok());
  REQUIRE(host.Becomes(Depth::kScopes));
  pitot::Request request = pitot::Request::Begin("/slow");
  CHECK(host.Becomes(Depth::kKernels));
  request.Finish(pitot::Outcome::kCancelled);  // fires nothing
  CHECK(host.Becomes(Depth::kScopes));
  CHECK(host.recorder.Stats().depth.armed_percent > 0);
}

TEST_CASE("a request that stays late does not have everything recorded forever", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.route = "/slow", .above_ms = 20})).ok());
  pitot::Request request = pitot::Request::Begin("/slow");
  CHECK(host.Becomes(Depth::kKernels));
  CHECK(host.Becomes(Depth::kScopes));
  request.Finish(pitot::Outcome::kCancelled);
}

TEST_CASE("a collector is told who chooses the depth before Start, and anew with each other chooser",
          "[collector][depth]") {
  Seen seen;
  Host host;
  host.options.depth = Depth::kKernels;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  CHECK(seen.expected == Depth::kKernels);
  for (const Depth depth : {Depth::kAuto, Depth::kScopes, Depth::kAuto, Depth::kKernels}) {
    seen.expected_at_depth = Depth::kOps;
    REQUIRE(host.recorder.SetDepth(depth).ok());
    // Even if the depth itself stays: before the governor's first tick it is kScopes.
    CHECK(seen.expected_at_depth == depth);
  }
}

TEST_CASE("a depth fixed by the host is not undone by the governor's earlier one", "[collector][depth]") {
  for (int i = 0; i < 20; ++i) {
    GovernedHost host;
    REQUIRE(host.Becomes(Depth::kScopes));
    REQUIRE(host.recorder.SetDepth(Depth::kKernels).ok());
    REQUIRE(host.TriggerAndFlush());  // the watcher made a round meanwhile
    CHECK(host.seen.depth == Depth::kKernels);
    REQUIRE(host.recorder.SetDepth(Depth::kAuto).ok());
    CHECK(host.Becomes(Depth::kScopes));
  }
}

TEST_CASE("a batch with a late request has everything recorded", "[collector][depth]") {
  GovernedHost host;
  pitot::Request request = pitot::Request::Begin("/slow");
  request.SetDeadline(1);
  REQUIRE(fakes::WaitUntil([&] { return request.IsLate(); }));
  pitot::Batch batch = pitot::Batch::Begin("executor");
  batch.Join(request.token());
  CHECK(host.Becomes(Depth::kKernels));
  batch.Finish();
  request.Finish(pitot::Outcome::kCancelled);
  CHECK(host.Becomes(Depth::kScopes));
}

TEST_CASE("everything is recorded for a while after a trigger has fired", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.Becomes(Depth::kScopes));
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.Becomes(Depth::kKernels));
  CHECK(host.Becomes(Depth::kScopes));
}

TEST_CASE("a collector learns whether it is armed by a firing, before the depth of it", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.Becomes(Depth::kScopes));
  CHECK_FALSE(host.seen.is_armed);
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.Becomes(Depth::kKernels));
  CHECK(host.seen.was_armed_at_kernels);
  CHECK(fakes::WaitUntil([&] { return !host.seen.is_armed; }));
  REQUIRE(host.recorder.SetDepth(Depth::kScopes).ok());  // chosen by the host
  CHECK(host.seen.is_armed);
  REQUIRE(host.recorder.SetDepth(Depth::kAuto).ok());
  CHECK(fakes::WaitUntil([&] { return !host.seen.is_armed; }));
}

TEST_CASE("lasting costs are reported as part of no figure of the recording cost", "[collector][depth]") {
  GovernedHost host;
  for (const bool has_lasting_cost : {false, true}) {
    host.seen.has_lasting_cost = has_lasting_cost;
    REQUIRE(host.TriggerAndFlush());
    const std::string left_out = Attribute(host.traces().back(), "overhead.left_out");
    CHECK(left_out == (has_lasting_cost ? "a cost at every depth, in none of these figures: fake.lasting_cost" : ""));
  }
  CHECK(fakes::ReadFile(host.told().back().directory + "/report.txt").find("overhead.left_out") != std::string::npos);
}

TEST_CASE("an incident has the recording cost, unknown until enough was measured", "[collector][depth]") {
  GovernedHost host;
  for (int i = 0; i < 50; ++i) {
    pitot::Batch batch = pitot::Batch::Begin("executor");
    batch.Finish();
  }
  REQUIRE(host.TriggerAndFlush());
  const pitot::model::Trace trace = host.traces()[0];
  CHECK(Attribute(trace, "overhead.budget") == "1 %");
  CHECK(Attribute(trace, "overhead.mean").find("unknown: ") == 0);
  CHECK(Attribute(trace, "overhead.state") != "");
  CHECK(Attribute(trace, "overhead.kernels")
            .find("on the mean unknown, on the p99 unknown, from 0 rounds with 0 works; ") == 0);
  CHECK(Attribute(trace, "overhead.ops") == "");
  const pitot::DepthStats stats = host.recorder.Stats().depth;
  CHECK_FALSE(stats.mean[2].is_known);
  CHECK(std::string(stats.state) != "");
}

TEST_CASE("an incident has its requests' depths while they ran, not while it was copied", "[collector][depth]") {
  Seen seen;
  Host host;
  host.options.depth = Depth::kGraphs;
  host.options.post_window_ms = 1000;  // the depth is changed within it
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 0.000001})).ok());
  pitot::Request request = pitot::Request::Begin("/slow");
  request.Finish(pitot::Outcome::kOk);
  REQUIRE(host.recorder.SetDepth(Depth::kKernels).ok());
  REQUIRE(host.Flush());

  const pitot::model::Trace trace = host.traces()[0];
  REQUIRE(trace.firings.size() == 1);
  const std::string of_request = "depth.of_request." + pitot::base::RequestId(trace.firings[0].request_id);
  CHECK(Attribute(trace, of_request.c_str()) == "graphs (fixed by the host)");
  CHECK(Attribute(trace, "depth.of_window").find("kernels (fixed by the host)") != std::string::npos);
  CHECK(Attribute(trace, "depth") == "kernels, fixed by the host");
}

TEST_CASE("a collector keeps one window at a time, though several incidents are copied before the first is written",
          "[collector]") {
  struct Ordered final : pitot::Collector {
    explicit Ordered(std::string* to) : calls(*to) {}
    const char* Name() const noexcept override { return "ordered"; }
    pitot::Status Start() noexcept override { return {}; }
    void Stop() noexcept override {}
    void Keep(int64_t, pitot::KeepFor) noexcept override { calls += 'k'; }
    void AddTo(pitot::TraceBuilder&) override { calls += 'a'; }
    std::string& calls;
  };
  std::string calls;
  Host host;
  REQUIRE(host.Start());
  const session_test::Rounds rounds(&host);
  REQUIRE(host.recorder.Add(std::make_unique<Ordered>(&calls)).ok());
  const auto gate = std::make_shared<fakes::Gate>();
  REQUIRE(host.recorder
              .Add(fakes::MakeCallSerializer("dump.pitot",
                                             [gate](const auto&, pitot::ByteSink&) {
                                               gate->Pass();
                                               return pitot::Status();
                                             }))
              .ok());
  REQUIRE(host.recorder.Trigger("first").ok());
  REQUIRE(gate->WaitUntilReached());
  for (int i = 0; i < 3; ++i) {
    REQUIRE(host.recorder.Trigger("while it is written").ok());
    REQUIRE(rounds.Pass());
  }
  gate->open = true;
  REQUIRE(host.Flush());

  CHECK(host.incidents().size() == 4);
  CHECK(calls == "kakakaka");
}

TEST_CASE("the named collector hands over and takes back, and the host gets its words", "[collector]") {
  GovernedHost host;
  CHECK(host.recorder.Pause("counters").ok());  // one of Pitot's, not added
  CHECK(host.recorder.Resume("counters").ok());
  CHECK(host.seen.paused == 0);
  CHECK(host.recorder.Pause(nullptr).code() == StatusCode::kInvalidArgument);
  CHECK(host.recorder.Pause("fake").ok());
  const Status status = host.recorder.Resume("fake");
  CHECK(host.seen.paused == 1);
  CHECK(host.seen.resumed == 1);
  CHECK(std::string(status.message()) == "somebody else has it");
  host.recorder.Stop();
  CHECK(host.recorder.Pause("fake").code() == StatusCode::kNotRunning);
}

TEST_CASE("the name of a collector that nobody has is refused", "[collector]") {
  GovernedHost host;
  const Status status = host.recorder.Pause("counter");
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK_THAT(status.message(), Catch::Contains("no collector is named \"counter\""));
  CHECK(host.recorder.Resume("").code() == StatusCode::kNotFound);
}

TEST_CASE("what a collector did not record is told in the host's language, in the trace and in the log",
          "[collector]") {
  for (const bool is_python : {true, false}) {
    Seen seen;
    seen.not_recorded = "set CuptiOptions::lasting_cost_percent = 100";
    const std::string said = is_python ? "set add_cupti's lasting_cost_percent = 100" : seen.not_recorded;
    Host host;
    host.options.language = is_python ? pitot::Language::kPython : pitot::Language::kCpp;
    REQUIRE(host.Start());
    REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
    REQUIRE(host.TriggerAndFlush());

    CHECK(host.traces().back().AttributeOf("fake.not_recorded") == said);
    CHECK(host.log.Has(pitot::LogLevel::kWarning, "fake: not recorded: " + said));
  }
}
