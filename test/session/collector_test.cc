// SPDX-License-Identifier: Apache-2.0
//
// Collectors in a recorder: started, asked for each incident, stopped.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "fakes/wait_until.h"
#include "pitot/extend/collector.h"
#include "session/host.h"
#include "trace/calls.h"

namespace {

using pitot::Status;
using pitot::StatusCode;
using session_test::Host;

// Outlives the collector.
struct Seen {
  std::atomic<int> started{0}, stopped{0}, kept{0}, asked{0};
  std::atomic<int64_t> kept_from_ns{0};
  std::atomic<int> paused{0}, resumed{0};
  std::atomic<pitot::Depth> depth{pitot::Depth::kAuto};
};

struct FakeCollector final : pitot::Collector {
  explicit FakeCollector(Seen* to) : seen(to) {}
  const char* Name() const noexcept override { return "fake"; }
  Status Start() noexcept override {
    ++seen->started;
    return start;
  }
  void Stop() noexcept override { ++seen->stopped; }
  pitot::Depth Deepest() const noexcept override { return pitot::Depth::kKernels; }
  void SetDepth(pitot::Depth depth) noexcept override { seen->depth = depth; }
  Status Pause() noexcept override { return ++seen->paused, Status(); }
  Status Resume() noexcept override {
    ++seen->resumed;
    return Status(StatusCode::kUnavailable, "somebody else has it");
  }
  void Keep(int64_t begin_ns) noexcept override {
    ++seen->kept;
    seen->kept_from_ns = begin_ns;
  }
  void AddTo(pitot::TraceBuilder& trace) override {
    ++seen->asked;
    const uint32_t stream = trace.AddStream(trace.AddDevice({0, trace.AddText("GPU")}), 1, 7);
    pitot::GpuActivity kernel;
    kernel.kind = 1;
    kernel.stream = stream;
    kernel.begin_ns = seen->kept_from_ns + 10;
    kernel.duration_ns = 5;
    kernel.correlation = 41;
    trace.Add(kernel);
    if (throws) throw std::runtime_error("the driver is gone");
    if (throws_number) throw 42;
  }

  Seen* const seen;
  Status start;
  bool throws = false, throws_number = false;
};

std::string Attribute(const pitot::model::Trace& trace, const std::string& key) {
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == key) return std::string(trace.strings[attribute.value]);
  }
  return "";
}

}  // namespace

TEST_CASE("a collector is started, asked for each incident's window, and stopped", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).ok());
  CHECK(seen.started == 1);
  pitot::trace::EndCall(pitot::Intern("cudaLaunchKernel"), 41, pitot::trace::BeginCall());
  for (int i = 1; i <= 2; ++i) {
    REQUIRE(host.TriggerAndFlush());

    CHECK(seen.kept == i);
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

TEST_CASE("a second collector of a kind that is refused says nothing of the first, which runs", "[collector]") {
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

TEST_CASE("a collector that throws costs its own part of an incident, and says so there", "[collector]") {
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

TEST_CASE("no collector is added to a recorder that was stopped", "[collector]") {
  Seen seen;
  Host host;
  REQUIRE(host.Start());
  host.recorder.Stop();
  CHECK(host.recorder.Add(std::make_unique<FakeCollector>(&seen)).code() == StatusCode::kNotRunning);
  CHECK(seen.started == 0);
}

namespace {

using pitot::Depth;

// A host with a collector, whose depth is free.
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

TEST_CASE("a collector records as deep as the host fixes, from its first moment on", "[collector][depth]") {
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
  host.recorder.Stop();
  CHECK(host.recorder.SetDepth(Depth::kScopes).code() == StatusCode::kNotRunning);
}

TEST_CASE("a request that becomes late while it is open has all recorded until it has ended", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.route = "/slow", .above_ms = 20})).ok());
  REQUIRE(host.Becomes(Depth::kScopes));
  pitot::Request request = pitot::Request::Begin("/slow");
  CHECK(host.Becomes(Depth::kKernels));
  request.Finish(pitot::Outcome::kCancelled);  // fires nothing
  CHECK(host.Becomes(Depth::kScopes));
  CHECK(host.recorder.Stats().depth.armed_percent > 0);
}

TEST_CASE("a request that stays late does not have all recorded for ever", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.recorder.Add(pitot::MakeLatencyTrigger({.route = "/slow", .above_ms = 20})).ok());
  pitot::Request request = pitot::Request::Begin("/slow");
  CHECK(host.Becomes(Depth::kKernels));
  CHECK(host.Becomes(Depth::kScopes));
  request.Finish(pitot::Outcome::kCancelled);
}

TEST_CASE("a depth that the host fixes is not undone by what was governed before", "[collector][depth]") {
  for (int i = 0; i < 20; ++i) {
    GovernedHost host;
    REQUIRE(host.Becomes(Depth::kScopes));
    REQUIRE(host.recorder.SetDepth(Depth::kKernels).ok());
    REQUIRE(host.TriggerAndFlush());  // the watcher was round meanwhile
    CHECK(host.seen.depth == Depth::kKernels);
    REQUIRE(host.recorder.SetDepth(Depth::kAuto).ok());
    CHECK(host.Becomes(Depth::kScopes));
  }
}

TEST_CASE("a batch that takes in a late request has all recorded", "[collector][depth]") {
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

TEST_CASE("after a trigger has fired all is recorded for a while", "[collector][depth]") {
  GovernedHost host;
  REQUIRE(host.Becomes(Depth::kScopes));
  REQUIRE(host.TriggerAndFlush());
  CHECK(host.Becomes(Depth::kKernels));
  CHECK(host.Becomes(Depth::kScopes));
}

TEST_CASE("an incident says what recording costs, unknown until enough was measured", "[collector][depth]") {
  GovernedHost host;
  for (int i = 0; i < 50; ++i) {
    pitot::Batch batch = pitot::Batch::Begin("executor");
    batch.Finish();
  }
  REQUIRE(host.TriggerAndFlush());
  const pitot::model::Trace trace = host.traces()[0];
  CHECK(Attribute(trace, "overhead.budget") == "1 %");
  CHECK(Attribute(trace, "overhead.mean") != "");
  CHECK(Attribute(trace, "overhead.state") != "");
  CHECK(Attribute(trace, "overhead.kernels").find("on the mean unknown, on the p99 unknown") == 0);
  CHECK(Attribute(trace, "overhead.ops") == "");
  const pitot::DepthStats stats = host.recorder.Stats().depth;
  CHECK_FALSE(stats.mean[2].is_known);
  CHECK(std::string(stats.state) != "");
}

TEST_CASE("CUPTI is handed over and taken back by collectors, whose words the host gets", "[collector]") {
  GovernedHost host;
  CHECK(host.recorder.PauseCupti().ok());
  const Status status = host.recorder.ResumeCupti();
  CHECK(host.seen.paused == 1);
  CHECK(host.seen.resumed == 1);
  CHECK(std::string(status.message()) == "somebody else has it");
  host.recorder.Stop();
  CHECK(host.recorder.PauseCupti().code() == StatusCode::kNotRunning);
}
