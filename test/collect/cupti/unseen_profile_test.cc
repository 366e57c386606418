// SPDX-License-Identifier: Apache-2.0
//
// Profiles of PyTorch's that come and go between two looks: what incidents claim of the time after.
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "collect/cupti/rig.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;
using fakes::CountNamed;
using fakes::g_kineto;
using fakes::GpuHost;
using pitot::Depth;
using pitot::cupti::KinetoState;

bool IsEverDeep(const model::Trace& trace) {
  for (const auto& row : trace.depths) {
    if (row.depth != Depth::kScopes) return true;
  }
  return false;
}

// PyTorch's profiler is in the process, and a profile at `scopes` leaves its callbacks.
void StartAndProfile(GpuHost* host, int64_t long_idle_ns) {
  host->environment.surroundings.long_idle_ns = long_idle_ns;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host->StartAt(Depth::kScopes));
  host->Round();
  host->cuda.RegisterOther();
}

constexpr int64_t kForEver = int64_t{1} << 60;

TEST_CASE("a depth at which CUPTI never answered is not claimed, and the incident says why", "[cupti]") {
  GpuHost host;
  StartAndProfile(&host, kForEver);
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "unseen"});

  const model::Trace trace = host.Incident();
  REQUIRE(CountNamed(trace, "unseen") == 0);
  CHECK_FALSE(IsEverDeep(trace));
  CHECK(Attribute(trace, "cupti.not_recorded").find("CUPTI has asked for no buffer since the depth rose") == 0);
}

TEST_CASE("a depth is claimed from the rise on once CUPTI has answered", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "seen"});

  const model::Trace trace = host.Incident();
  REQUIRE(CountNamed(trace, "seen") == 1);
  REQUIRE(IsEverDeep(trace));
  CHECK(trace.depths.back().depth == Depth::kKernels);
  CHECK(trace.depths.back().begin_ns <= trace.gpu.begin_ns[fakes::Find(trace, "seen")]);
  CHECK(Attribute(trace, "cupti.not_recorded") == "");
}

TEST_CASE("after callbacks were registered again what came before is not claimed, and what comes after is", "[cupti]") {
  GpuHost host;
  StartAndProfile(&host, 1'000'000'000);
  g_kineto = KinetoState::kActive;  // just ended: it is not long idle when the depth rises
  host.Round();
  g_kineto = KinetoState::kIdle;
  host.Round();
  host.cuda.RegisterOther();
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "unseen"});
  model::Trace trace;
  REQUIRE(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    trace = host.Incident();
    return CountNamed(trace, "after") != 0;
  }));

  CHECK(CountNamed(trace, "unseen") == 0);
  REQUIRE(trace.depths.size() >= 3);  // before the rise, unheard, and after
  CHECK(trace.depths.back().depth == Depth::kKernels);
  CHECK(trace.depths[trace.depths.size() - 2].depth == Depth::kScopes);
  CHECK(trace.depths[trace.depths.size() - 2].end_ns == trace.depths.back().begin_ns);
}

TEST_CASE("of a profile unseen while kernels were recorded nothing is claimed until callbacks are registered again",
          "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  REQUIRE(CountNamed(host.Incident(), "before") == 1);
  host.cuda.RegisterOther();
  host.cuda.DisableAll();
  model::Trace trace;
  REQUIRE(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    trace = host.Incident();
    return CountNamed(trace, "after") != 0;
  }));

  const uint32_t after = fakes::Find(trace, "after");
  REQUIRE(trace.depths.size() >= 3);
  CHECK(trace.depths.back().depth == Depth::kKernels);
  CHECK(trace.depths.back().begin_ns <= trace.gpu.begin_ns[after]);
  CHECK(trace.depths[trace.depths.size() - 2].depth == Depth::kScopes);
  // Callbacks may have been registered more than once.
  CHECK(std::count_if(trace.depths.begin(), trace.depths.end(),
                      [](const auto& row) { return row.depth == Depth::kKernels; }) == 2);
}

// How often PyTorch's profiler was asked since the clocks were last read, which is done in each round of 20 ms.
std::atomic<int> g_asked{0}, g_most_asked{0}, g_rounds{0};

TEST_CASE("for a while after a profile the next one is looked for often, also at scopes", "[cupti]") {
  GpuHost host;
  host.environment.surroundings.ask_kineto = []() noexcept {
    g_most_asked = std::max(g_most_asked.load(), ++g_asked);
    return g_kineto.load();
  };
  host.environment.read_clocks = []() noexcept {
    g_asked = 0, ++g_rounds;
    return pitot::cupti::Environment().read_clocks();
  };
  host.environment.surroundings.long_idle_ns = GENERATE(int64_t{0}, kForEver);
  const bool is_soon = host.environment.surroundings.long_idle_ns != 0;
  g_kineto = KinetoState::kActive;
  REQUIRE(host.StartAt(Depth::kScopes));
  g_kineto = KinetoState::kIdle;
  host.Round();
  host.Round();
  g_most_asked = 0;
  if (is_soon) {
    CHECK(fakes::WaitUntil([] { return g_most_asked > 4; }));
  } else {
    g_rounds = 0;
    REQUIRE(fakes::WaitUntil([] { return g_rounds > 10; }));
    CHECK(g_most_asked <= 4);
  }
}

}  // namespace
