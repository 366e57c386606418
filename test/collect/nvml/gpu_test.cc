// SPDX-License-Identifier: Apache-2.0
//
// The driver's own NVML: its values on this machine, and the cost of a round. Takes two seconds.
#include <time.h>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/clock.h"
#include "collect/nvml/counter_trace.h"
#include "collect/nvml/counters.h"
#include "fakes/wait_until.h"
#include "pitot/collect/nvml.h"

TEST_CASE("the GPUs of this machine have at least clocks, power and memory", "[gpu]") {
  const auto collector = pitot::MakeNvmlCollector();
  REQUIRE(collector != nullptr);
  if (const pitot::Status status = collector->Start(); !status.ok()) {
    std::cout << "SKIP: " << status.message() << "\n";
    return;
  }
  fakes::Trace trace;
  REQUIRE(fakes::WaitUntil([&] {
    collector->Keep(pitot::base::ClockNs(CLOCK_MONOTONIC) - 10'000'000'000, pitot::KeepFor::kIncident);
    trace = {};
    collector->AddTo(trace);
    return std::atoi(trace.attributes["nvml.rounds"].c_str()) >= 20;
  }));
  collector->Stop();

  // The cost of each call; each has answered or gives the reason why not.
  for (int gpu = 0; trace.attributes.count("nvml." + std::to_string(gpu)) != 0; ++gpu) {
    const std::string prefix = "nvml." + std::to_string(gpu), times = ", " + trace.attributes[prefix + ".call_us"];
    for (uint32_t i = 0; i < static_cast<uint32_t>(pitot::nvml::Source::kXid); ++i) {
      const std::string source = pitot::nvml::kSourceNames[i];
      INFO(gpu << ": " << source << times);
      CHECK(
          (times.find(", " + source + " ") != std::string::npos || trace.attributes.count(prefix + "." + source) != 0));
    }
  }
  for (const auto& [key, value] : trace.attributes) std::cout << key << " = " << value << "\n";
  for (const auto& [name, counter] : trace.counters) {
    std::cout << name << " = " << counter.last() << " " << counter.unit << " (" << counter.samples.size()
              << " samples)\n";
  }
  for (const char* name : {"SM clock", "power", "memory used"}) {
    bool is_there = false;
    for (const auto& [full, counter] : trace.counters) is_there |= full.find(name) != std::string::npos;
    INFO(name);
    CHECK(is_there);
  }
}
