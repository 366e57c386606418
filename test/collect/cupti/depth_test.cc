// SPDX-License-Identifier: Apache-2.0
//
// The records at each depth, and whether they are allowed.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "collect/cupti/rig.h"

namespace {

namespace base = pitot::base;
namespace cupti = pitot::cupti;
namespace model = pitot::model;
using cupti::KinetoState;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::CountSaid;
using fakes::Find;
using fakes::g_kineto;
using fakes::GpuHost;
using model::kNone;
using pitot::Depth;

uint64_t MissedCalls(GpuHost& host) {
  return std::strtoull(Attribute(host.Incident(), "cupti.calls_missed").c_str(), nullptr, 10);
}

}  // namespace

TEST_CASE("nothing is recorded at the depth of scopes, and the trace has the depths and their times", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  host.cuda.Run({.name = "unseen"});
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "seen"});
  host.collector->SetDepth(Depth::kScopes);
  host.cuda.Run({.name = "unseen"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "unseen") == 0);
  CHECK(CountNamed(trace, "seen") == 1);
  REQUIRE(trace.depths.size() >= 3);
  const size_t last = trace.depths.size() - 1;
  CHECK(trace.depths[last].depth == Depth::kScopes);
  CHECK(trace.depths[last - 1].depth == Depth::kKernels);
  CHECK(trace.depths[last - 1].end_ns == trace.depths[last].begin_ns);
  CHECK(host.cuda.callbacks_enabled() == fakes::kQuietCallbacks);
}

TEST_CASE("CUPTI records everything while armed by a trigger, and nothing afterwards", "[cupti]") {
  for (const KinetoState kineto : {KinetoState::kAbsent, KinetoState::kIdle}) {
    GpuHost host;
    g_kineto = kineto;
    host.options.depth = Depth::kAuto;
    host.cupti_options.lasting_cost_percent = 100;
    REQUIRE(host.Start());
    REQUIRE(host.Add().ok());
    host.cuda.Run({.name = "first"});
    const size_t quiet = kineto == KinetoState::kAbsent ? fakes::kQuietCallbacks : 0;
    REQUIRE(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == quiet; }));
    REQUIRE(host.recorder.Trigger("slow").ok());
    CHECK(fakes::WaitUntil([&] { return host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
    CHECK(fakes::WaitUntil([&] { return !host.cuda.IsEnabled(cupti::kConcurrentKernel); }));
    CHECK(fakes::WaitUntil([&] { return host.cuda.callbacks_enabled() == quiet; }));
    for (const uint32_t kind : {cupti::kMemcpy, cupti::kMemset, cupti::kMemcpyPeer, cupti::kOverhead, cupti::kJit})
      CHECK_FALSE(host.cuda.IsEnabled(kind));
  }
}

TEST_CASE("no kernel is recorded at the automatic depth while the lasting cost is too high, and incidents say so",
          "[cupti]") {
  for (const KinetoState kineto : {KinetoState::kAbsent, KinetoState::kUnused}) {
    const bool has_callbacks = kineto == KinetoState::kAbsent;
    GpuHost host;
    g_kineto = kineto;
    host.cupti_options.lasting_cost_percent = 0.01;  // too high, however slow the machine is
    host.environment.look_ns = host.environment.between_looks_ns = 1;
    REQUIRE(host.StartAt(Depth::kScopes));
    CHECK(host.collector->Depths() == 0);
    const auto forecast = [&] { return Attribute(host.Incident(), "cupti.lasting_cost_forecast"); };
    // A governed host is asked for its depths again and again.
    const auto is_said = [&](std::string_view what) {
      host.collector->Depths();
      return forecast().find(what) != std::string::npos;
    };
    REQUIRE(fakes::WaitUntil([&] { return is_said("not known yet: no kernels at the automatic depth"); }));
    std::atomic<bool> is_done{false};
    std::thread worker([&] {
      while (!is_done) host.cuda.Run({}), host.collector->Depths();
    });
    const bool is_known = fakes::WaitUntil([&] { return is_said("% forecast, above"); });
    is_done = true;
    worker.join();
    REQUIRE(is_known);
    CHECK(host.collector->Depths() == 0);
    const std::string why = Attribute(host.Incident(), "cupti.not_recorded");
    CHECK_THAT(why, Catch::Contains(
                        "% for the life of the process (forecast), above CuptiOptions::lasting_cost_percent = 0.01") &&
                        Catch::EndsWith("; to record kernels: set that to 100, or fix the depth"));
    CHECK(CountSaid(host, "above CuptiOptions::lasting_cost_percent") == 1);
    CHECK(host.Incident().gpu.size() == 0);
    CHECK(host.Incident().calls.size() == 0);  // they were only looked at
    CHECK_FALSE(host.cuda.IsEnabled(cupti::kConcurrentKernel));
    // A depth fixed by the host is recorded without a question, and its cost is then there.
    host.collector->SetDepth(Depth::kKernels);
    const uint32_t correlation = host.cuda.Run({.name = "wanted"});
    const model::Trace trace = host.Incident();
    CHECK(CountNamed(trace, "wanted") == 1);
    CHECK(trace.calls.size() >= 1);
    CHECK(correlation != 0);
    CHECK_THAT(Attribute(trace, "cupti.lasting_cost"), Catch::Contains("the cost lasts for the life of the process"));
    CHECK(Attribute(trace, "cupti.lasting_cost_forecast").empty());
    CHECK(Attribute(trace, "cupti.not_recorded").empty());
    host.collector->SetDepth(Depth::kScopes);
    CHECK(host.collector->Depths() == fakes::kDepths);
    // Nobody looks any more.
    CHECK(fakes::WaitUntil(
        [&] { return host.cuda.callbacks_enabled() == (has_callbacks ? fakes::kQuietCallbacks : 0); }));
    CHECK(host.cuda.broken_rules().empty());
  }
}

TEST_CASE("kernels are recorded at the automatic depth if launches are few", "[cupti]") {
  GpuHost host;
  host.cupti_options.lasting_cost_percent = 20;
  host.environment.look_ns = host.environment.between_looks_ns = 1;  // a look lasts one round
  host.environment.surroundings.long_idle_ns = int64_t{1} << 60;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(host.collector->Depths() == 0);
  const auto spin = [](int64_t ns) {
    for (const int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + ns; base::ClockNs(CLOCK_MONOTONIC) < until_ns;) {}
  };
  // One launch in 0.2 ms would cost 0.7 %.
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({});
    spin(200'000);
    return host.collector->Depths() == fakes::kDepths;
  }));
  const std::string forecast = Attribute(host.Incident(), "cupti.lasting_cost_forecast");
  CHECK(forecast.find("% forecast, within CuptiOptions::lasting_cost_percent (20): ") != std::string::npos);
  // Until an unseen profile of PyTorch's begins: calls come only all at once from then on.
  g_kineto = KinetoState::kIdle;
  host.Round();
  CHECK(host.collector->Depths() == 0);
}

TEST_CASE("the lasting cost left by an earlier recorder is not forecast again", "[cupti]") {
  GpuHost host;
  host.cupti_options.lasting_cost_percent = 1;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.recorder.Stop();
  REQUIRE(host.StartAt(Depth::kScopes));
  CHECK(fakes::WaitUntil([&] { return host.collector->Depths() == fakes::kDepths; }));
  CHECK_THAT(Attribute(host.Incident(), "cupti.lasting_cost"),
             Catch::StartsWith("kernels were recorded in this process"));
}

TEST_CASE("no call is switched on after a profile, when they come only all at once, unless the host takes any cost",
          "[cupti]") {
  for (const double percent : {20.0, 100.0}) {
    GpuHost host;
    host.cupti_options.lasting_cost_percent = percent;
    host.environment.look_ns = host.environment.between_looks_ns = 1;
    g_kineto = KinetoState::kUnused;
    REQUIRE(host.StartAt(Depth::kScopes));
    fakes::Profile(host);
    if (percent == 100) {
      CHECK(host.collector->Depths() == fakes::kDepths);
      continue;
    }
    for (int i = 0; i < 5; ++i) {
      CHECK(host.collector->Depths() == 0);
      host.Round();
    }
    CHECK_FALSE(host.cuda.IsEnabled(cupti::kRuntime));
    CHECK_THAT(Attribute(host.Incident(), "cupti.not_recorded"),
               Catch::StartsWith("CUDA calls can be recorded only all together here"));
  }
}

TEST_CASE("a call in flight when the depth fell hides none after it", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  const uint32_t graph = host.cuda.Instantiate(3);
  host.cuda.Begin("cudaDeviceSynchronize");  // never ends, as far as callbacks tell
  host.collector->SetDepth(Depth::kGraphs);
  host.cuda.Replay(graph, "node");
  const model::Trace trace = host.Incident();
  REQUIRE(Find(trace, "node") != kNone);
  CHECK(trace.gpu.call[Find(trace, "node")] != kNone);
}

TEST_CASE("a thread in a callback when the depth has fallen has its later calls", "[cupti]") {
  for (const Depth to : {Depth::kScopes, Depth::kGraphs}) {
    INFO("down to " << static_cast<int>(to));
    GpuHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    const uint32_t graph = host.cuda.Instantiate(3);
    host.cuda.OnNext(fakes::FakeCupti::kCallback, [&] { host.collector->SetDepth(to); });
    host.cuda.Run({.name = "falls"});
    if (to == Depth::kGraphs) host.cuda.Replay(graph, "node");
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Run({.name = "after"});

    const model::Trace trace = host.Incident();
    for (const char* const name : {"node", "after"}) {
      if (to == Depth::kScopes && name == std::string_view("node")) continue;
      INFO(name);
      REQUIRE(Find(trace, name) != kNone);
      CHECK(trace.gpu.call[Find(trace, name)] != kNone);
    }
  }
}

TEST_CASE("a call in flight while the depth changes is recorded if its beginning and its end are reported", "[cupti]") {
  for (const auto& [from, to] :
       {std::pair(Depth::kGraphs, Depth::kKernels), std::pair(Depth::kKernels, Depth::kGraphs)}) {
    INFO(static_cast<int>(from) << " to " << static_cast<int>(to));
    GpuHost host;
    REQUIRE(host.StartAt(from));
    const uint64_t missed = MissedCalls(host);
    const uint32_t correlation = host.cuda.Begin("cudaGraphLaunch");
    host.collector->SetDepth(to);
    host.cuda.End("cuGraphLaunch", host.cuda.Begin("cuGraphLaunch"));
    host.cuda.End("cudaGraphLaunch", correlation);

    const model::Trace trace = host.Incident();
    REQUIRE(trace.calls.size() == 1);
    CHECK(trace.strings[trace.calls.name[0]] == "cudaGraphLaunch");
    CHECK(MissedCalls(host) == missed);
  }
}

TEST_CASE("an end is not paired with a beginning of long ago, although its correlation is the same", "[cupti]") {
  constexpr char kCall[] = "cuLaunchKernel";
  const auto after = [&](int changes, uint64_t* missed) {
    GpuHost host;
    REQUIRE(host.StartAt(Depth::kKernels));
    *missed = MissedCalls(host);
    const uint32_t correlation = host.cuda.Begin(kCall);
    for (int i = 0; i < changes; ++i) {
      host.collector->SetDepth(Depth::kScopes);
      host.collector->SetDepth(Depth::kKernels);
    }
    host.cuda.End(kCall, correlation);
    const size_t calls = host.Incident().calls.size();
    *missed = MissedCalls(host) - *missed;
    host.cuda.Run({});
    CHECK(host.Incident().calls.size() == calls + 1);
    return calls;
  };
  uint64_t missed = 0;

  CHECK(after(1, &missed) == 1);  // it was in flight
  CHECK(missed == 0);
  CHECK(after(2, &missed) == 0);
  CHECK(missed == 1);
}

TEST_CASE("a call with only its beginning or only its end reported is counted", "[cupti]") {
  constexpr char kCall[] = "cudaDeviceSynchronize";
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.has_driver_call = true});
  const uint64_t missed = MissedCalls(host);
  host.collector->SetDepth(Depth::kScopes);

  const uint32_t before = host.cuda.Begin(kCall);
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.End(kCall, before);
  CHECK(MissedCalls(host) == missed + 1);

  const uint32_t within = host.cuda.Begin(kCall);
  host.collector->SetDepth(Depth::kScopes);
  host.cuda.End(kCall, within);
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.has_driver_call = true});
  CHECK(MissedCalls(host) == missed + 2);
}

TEST_CASE("calls missed by an earlier recorder are not this one's", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kScopes));
  const uint32_t correlation = host.cuda.Begin("cudaDeviceSynchronize");
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.End("cudaDeviceSynchronize", correlation);
  CHECK(MissedCalls(host) == 1);
  host.recorder.Stop();
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(MissedCalls(host) == 0);
}

TEST_CASE("a launch while the depth rises or falls has no kernel without its call", "[cupti]") {
  for (const bool has_graph_level : {false, true}) {
    GpuHost host;
    host.cupti_options.graph_level = has_graph_level;
    REQUIRE(host.StartAt(Depth::kScopes));
    const auto launch = [&] { host.cuda.Run({.name = "between"}); };
    for (int i = 0; i < 2; ++i) {
      for (const char* const function : {"cuptiActivityEnable", "cuptiActivityDisable", "cuptiEnableCallback"}) {
        for (const Depth depth : {Depth::kKernels, Depth::kScopes}) {
          host.cuda.OnNext(function, launch);
          host.collector->SetDepth(depth);
        }
      }
    }
    host.cuda.OnNext("", nullptr);

    const model::Trace trace = host.Incident();

    for (uint32_t i = 0; i < trace.gpu.size(); ++i) CHECK(trace.gpu.call[i] != kNone);
    CHECK(CountNamed(trace, "between") >= 1);
    CHECK(host.cuda.broken_rules() == "");
  }
}

TEST_CASE("depth may change while threads launch, and nothing breaks", "[cupti]") {
  GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      while (!stop) host.cuda.Run({});
    });
  }
  for (int i = 0; i < 200; ++i) host.collector->SetDepth(static_cast<Depth>(i % 3));
  const model::Trace trace = host.Incident();
  stop = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(model::FindInconsistency(trace) == "");
  CHECK(host.cuda.broken_rules() == "");
}
