// SPDX-License-Identifier: Apache-2.0
//
// What an incident takes where the history is full.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>

#include "collect/cupti/rig.h"
#include "fakes/scale.h"

namespace {

namespace model = pitot::model;
using pitot::Depth;

uint64_t StatusBytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + std::string(key).size() + 1, nullptr, 10) << 10;
  }
  return 0;
}

}  // namespace

TEST_CASE("an incident of a full history takes what is stated, and says how many rows had no room", "[cupti][memory]") {
  // Calls come through callbacks to the ring, or as records, which take room, too.
  const auto kineto = GENERATE(pitot::cupti::KinetoState::kAbsent, pitot::cupti::KinetoState::kUnused);
  fakes::GpuHost host;
  fakes::g_kineto = kineto;
  host.options.pre_window_ms = 600'000;
  host.cupti_options.memory_bytes = uint64_t{64} << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  uint64_t rows = 0, lost = 0, newest = 0;
  // A trace that is kept would be this test's own memory.
  const auto count = [&](const model::Trace& trace, auto&) {
    rows = trace.gpu.size();
    newest = fakes::CountNamed(trace, "new");
    for (const auto& loss : trace.gpu_losses)
      lost += trace.strings[loss.reason] == "no room in the incident" ? loss.records : 0;
    return pitot::Status();
  };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("keep", count)).ok());
  pitot::Request request = pitot::Request::Begin("/decode");
  constexpr int kRecords = 1'100'000;  // more than the history holds
  for (int i = 0; i < kRecords; ++i) {
    host.cuda.Run({.name = i < kRecords - 10 ? "old" : "new", .duration_ns = 10});
    if (i % 500 == 0) host.Round();
  }
  const bool is_told = std::ofstream("/proc/self/clear_refs").put('5').flush().good();  // not allowed everywhere
  const uint64_t before = StatusBytes("VmRSS:");

  REQUIRE(host.TriggerAndFlush());
  const uint64_t peak = StatusBytes("VmHWM:");
  request.Finish(pitot::Outcome::kOk);

  CHECK(newest == 10);
  CHECK(rows > 100'000);
  CHECK(lost > 0);
  const uint64_t stated = host.cupti_options.memory_bytes / 2 + host.recorder.Stats().memory.analysis_arena;
  if (is_told && !fakes::kAddressSanitizer && !fakes::kThreadSanitizer) CHECK(peak - before <= stated);
}
