// SPDX-License-Identifier: Apache-2.0
//
// The driver's own NVML: what it gives on this machine, and what a round costs. Takes two seconds.
#include <time.h>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/clock.h"
#include "collect/nvml/counter_trace.h"
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
    collector->Keep(pitot::base::ClockNs(CLOCK_MONOTONIC) - 10'000'000'000);
    trace = {};
    collector->AddTo(trace);
    return std::atoi(trace.attributes["nvml.rounds"].c_str()) >= 20;
  }));
  collector->Stop();

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
