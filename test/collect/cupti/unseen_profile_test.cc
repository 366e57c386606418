// SPDX-License-Identifier: Apache-2.0
//
// Profiles of PyTorch's that come and go between two looks: the claims of incidents about the time after.
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

Depth Last(const model::Trace& trace) { return trace.depths.back().depth; }
// When the last claim of recording ends, after there was one.
int64_t EndOfDepth(const model::Trace& trace) {
  int64_t end_ns = 0;
  for (const auto& row : trace.depths) {
    if (row.depth != Depth::kScopes) end_ns = row.end_ns;
  }
  return end_ns;
}
// Whether nothing is claimed to be recorded in that time.
bool IsUnclaimed(const model::Trace& trace, int64_t begin_ns, int64_t end_ns) {
  return begin_ns < end_ns && std::all_of(trace.depths.begin(), trace.depths.end(), [&](const auto& row) {
           return row.end_ns <= begin_ns || row.begin_ns >= end_ns || row.depth == Depth::kScopes;
         });
}

// PyTorch's profiler is in the process, and a profile at `scopes` leaves its callbacks.
void StartAndProfile(GpuHost* host, int64_t long_idle_ns, KinetoState kineto = KinetoState::kIdle) {
  host->environment.surroundings.long_idle_ns = long_idle_ns;
  g_kineto = kineto;
  REQUIRE(host->StartAt(Depth::kScopes));
  host->Round();
  host->cuda.RegisterOther();
}

// Somebody takes the buffers while kernels are recorded.
void StartAndLoseBuffers(GpuHost* host, KinetoState kineto, Depth depth = Depth::kKernels, bool has_one_out = false) {
  g_kineto = kineto;
  REQUIRE(host->StartAt(depth));
  host->cuda.Run({.name = "before"});
  REQUIRE(CountNamed(host->Incident(), "before") == 1);
  if (has_one_out) host->cuda.Run({.is_stuck = true});
  host->cuda.RegisterOther();
  host->cuda.Run({.name = "taken"});
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
  CHECK(Attribute(trace, "cupti.not_recorded").find("CUPTI asked for no buffer meanwhile: no GPU worked, or ") == 0);
}

TEST_CASE("the incident names the likely owner of the buffers if CUPTI never answered, and the remedy", "[cupti]") {
  struct {
    KinetoState kineto;
    const char* says;
  } const cases[] = {
      {KinetoState::kIdle, "unseen; to record kernels: wait, Pitot resumes 10 s after a profile"},
      {KinetoState::kUnused, "another profiler took the buffers; to record kernels: wait, Pitot takes them back after"},
      {KinetoState::kUnknown,
       "took the buffers; to record kernels: call Recorder::Resume(\"cupti\") when no profile runs"},
  };
  for (const auto& [kineto, says] : cases) {
    GpuHost host;
    StartAndProfile(&host, kForEver, kineto);
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Run({.name = "unseen"});

    const model::Trace trace = host.Incident();

    CHECK_FALSE(IsEverDeep(trace));
    const std::string why = Attribute(trace, "cupti.not_recorded");
    CHECK_THAT(why, Catch::Contains("no GPU worked, or ") && Catch::Contains(says));
  }
}

TEST_CASE("buffers taken before PyTorch's profiler has profiled are noticed and taken back", "[cupti]") {
  GpuHost host;
  StartAndLoseBuffers(&host, KinetoState::kUnused);
  model::Trace trace;
  REQUIRE(fakes::WaitUntil([&] { return Last(trace = host.Incident()) == Depth::kScopes; }));
  const int64_t unheard_ns = EndOfDepth(trace);
  CHECK_FALSE(fakes::HasLoss(trace, "not handed over by CUPTI yet"));
  REQUIRE(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(trace = host.Incident(), "after") != 0;
  }));

  CHECK(Last(trace) == Depth::kKernels);
  CHECK(trace.depths.back().begin_ns <= trace.gpu.begin_ns[fakes::Find(trace, "after")]);
  CHECK(IsUnclaimed(trace, unheard_ns, trace.depths.back().begin_ns));
  CHECK(CountNamed(trace, "taken") == 0);
}

TEST_CASE(
    "buffers taken next to a profiler of PyTorch's that cannot be asked are noticed, and the host takes them back",
    "[cupti]") {
  const bool has_one_out = GENERATE(false, true);
  GpuHost host;
  StartAndLoseBuffers(&host, KinetoState::kUnknown, Depth::kKernels, has_one_out);
  const int registered = host.cuda.calls_of("cuptiActivityRegisterCallbacks");
  model::Trace trace;
  REQUIRE(fakes::WaitUntil([&] { return Last(trace = host.Incident()) == Depth::kScopes; }));
  const int64_t unheard_ns = trace.depths.back().begin_ns;
  for (const auto& loss : trace.gpu_losses) CHECK(loss.end_ns <= unheard_ns);  // not handed over yet
  // It may be in the middle of a profile.
  for (int i = 0; i < 100; ++i) host.Round();
  CHECK(host.cuda.calls_of("cuptiActivityRegisterCallbacks") == registered);

  REQUIRE(host.recorder.Resume("cupti").ok());
  host.cuda.Unstick();
  host.Round();
  host.cuda.Run({.name = "after"});
  trace = host.Incident();

  CHECK(CountNamed(trace, "after") == 1);
  REQUIRE(Last(trace) == Depth::kKernels);
  CHECK(IsUnclaimed(trace, unheard_ns, trace.depths.back().begin_ns));
}

TEST_CASE("buffers are missed at the depth of graphs, too", "[cupti]") {
  GpuHost host;
  StartAndLoseBuffers(&host, KinetoState::kIdle, Depth::kGraphs);
  CHECK(fakes::WaitUntil([&] {
    host.cuda.Run({.name = "after"});
    return CountNamed(host.Incident(), "after") != 0;
  }));
}

TEST_CASE("buffers missed at one rise of the depth are taken back at the next", "[cupti]") {
  GpuHost host;
  StartAndProfile(&host, kForEver, KinetoState::kUnused);
  for (const bool is_first : {true, false}) {
    host.collector->SetDepth(Depth::kKernels);
    host.cuda.Run({.name = "work"});
    CHECK(CountNamed(host.Incident(), "work") == (is_first ? 0 : 1));
    host.collector->SetDepth(Depth::kScopes);
  }
}

TEST_CASE("a host without work for GPUs for long loses nothing, and learns so once it has work again", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kUnknown;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  model::Trace trace;
  REQUIRE(fakes::WaitUntil([&] { return Last(trace = host.Incident()) == Depth::kScopes; }));
  CHECK(trace.gpu_losses.empty());
  CHECK(Attribute(trace, "cupti.not_recorded") == "");
  host.cuda.Run({.name = "after"});

  trace = host.Incident();

  CHECK(CountNamed(trace, "before") + CountNamed(trace, "after") == 2);
  CHECK(trace.gpu_losses.empty());
  const int64_t first_ns = trace.gpu.begin_ns[fakes::Find(trace, "before")];
  for (const auto& row : trace.depths) CHECK((row.end_ns <= first_ns || row.depth == Depth::kKernels));
}

TEST_CASE("a host without work for GPUs for very long loses nothing later", "[cupti]") {
  GpuHost host;
  g_kineto = KinetoState::kUnused;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({.name = "before"});
  host.Round();
  const int registered = host.cuda.calls_of("cuptiActivityRegisterCallbacks");
  REQUIRE(fakes::WaitUntil([&] { return host.cuda.calls_of("cuptiActivityRegisterCallbacks") > registered; }));
  host.Round();  // the round of the registration is over
  host.cuda.Run({.name = "after"});

  const model::Trace trace = host.Incident();

  CHECK(CountNamed(trace, "before") + CountNamed(trace, "after") == 2);
  CHECK(trace.gpu_losses.empty());
  CHECK(Last(trace) == Depth::kKernels);
  CHECK(Attribute(trace, "cupti") == "");
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

TEST_CASE("the time before callbacks were registered again is not claimed, and the time after is", "[cupti]") {
  GpuHost host;
  StartAndProfile(&host, 3'000'000'000);
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

TEST_CASE("nothing is claimed after a profile unseen while kernels were recorded until callbacks are registered again",
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

// How often PyTorch's profiler was asked since the clocks were last read: each round of 20 ms reads them.
std::atomic<int> g_asked{0}, g_most_asked{0}, g_rounds{0};

TEST_CASE("the next profile is looked for often for a while after one, even at scopes", "[cupti]") {
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
