// SPDX-License-Identifier: Apache-2.0
//
// The ring of samples and the windows copied from it.
#include "collect/nvml/history.h"

#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collect/nvml/counter_trace.h"
#include "fakes/own_box.h"

namespace {

using fakes::Trace;
using pitot::nvml::Counter;
using pitot::nvml::History;
using pitot::nvml::kStaleNs;
using pitot::nvml::Sample;
using Samples = std::vector<std::pair<int64_t, double>>;

constexpr int64_t kStart = 1'000'000'000'000, kStep = 1'000'000;
// Samples in a ring of the least memory.
constexpr int kCapacity = (64 << 10) / 2 / sizeof(Sample);

struct OneGpu {
  OneGpu() { history.SetDevices({{"NVIDIA Fake 80GB", "", ""}}, 0, ""); }
  void Write(Counter counter, int64_t at_ns, double value) {
    const Sample sample{at_ns, value, static_cast<uint32_t>(counter), 0};
    history.Commit(0, {&sample, 1}, {});
  }
  Trace Ask(int64_t begin_ns, int64_t end_ns) {
    history.Keep(begin_ns, end_ns);
    Trace trace;
    history.AddTo(trace);
    return trace;
  }
  History history{64 << 10, 10};
};

}  // namespace

TEST_CASE("an overwritten value still holds at a window's beginning", "[nvml]") {
  OneGpu gpu;
  gpu.Write(Counter::kTemperature, kStart, 61);
  for (int i = 1; i <= kCapacity; ++i) gpu.Write(Counter::kPower, kStart + i * kStep, i);
  const int64_t begin_ns = kStart + 10 * kStep;
  const Trace trace = gpu.Ask(begin_ns, kStart + kCapacity * kStep);

  CHECK(trace.Of("temperature").samples == Samples{{begin_ns, 61}});
  CHECK(trace.Of("power").samples.front() == std::pair<int64_t, double>(begin_ns, 10));
  CHECK(trace.attributes.count("nvml.overwritten") == 0);
}

TEST_CASE("a black box has each counter of a GPU once a second", "[nvml]") {
  const fakes::OwnBox box;
  OneGpu gpu;
  for (int i = 0; i <= 2000; ++i) gpu.Write(Counter::kPower, kStart + i * kStep, i);
  gpu.Write(Counter::kTemperature, kStart + 5 * kStep, 61);
  const auto values = box.ValuesNow();
  REQUIRE(values.size() == 2);
  const std::string prefix = "GPU 0 (NVIDIA Fake 80GB): ";
  CHECK(values.at(prefix + "power, W") == std::vector<double>{0, 1000, 2000});
  CHECK(values.at(prefix + "temperature, C") == std::vector<double>{61});
}

TEST_CASE("a full ring of one counter has its newest samples, in order", "[nvml]") {
  OneGpu gpu;
  for (int i = 0; i < 3 * kCapacity; ++i) gpu.Write(Counter::kPower, kStart + i * kStep, i);
  const Trace trace = gpu.Ask(0, kStart + 3 * kCapacity * kStep);

  const auto& samples = trace.Of("power").samples;
  // One more than fit: the newest overwritten one.
  REQUIRE(samples.size() == kCapacity + 1);
  for (int i = 0; i <= kCapacity; ++i) CHECK(samples[i].second == 2 * kCapacity - 1 + i);
  CHECK(trace.attributes.count("nvml.overwritten") == 1);
}

TEST_CASE("the age of a window's first value is bounded", "[nvml]") {
  OneGpu gpu;
  gpu.Write(Counter::kPower, kStart, 1);

  CHECK(gpu.Ask(kStart + kStaleNs - 1, kStart + kStaleNs).Has("power"));
  CHECK_FALSE(gpu.Ask(kStart + kStaleNs, kStart + kStaleNs).Has("power"));
}

TEST_CASE("an empty window is empty", "[nvml]") {
  OneGpu gpu;
  CHECK(gpu.Ask(0, kStart).counters.empty());
  gpu.Write(Counter::kPower, kStart, 1);
  CHECK(gpu.Ask(kStart + 100 * kStaleNs, kStart + 200 * kStaleNs).counters.empty());
}

TEST_CASE("a window has the samples kept, not later ones", "[nvml]") {
  OneGpu gpu;
  gpu.Write(Counter::kPower, kStart, 1);
  gpu.history.Keep(0, kStart);
  gpu.Write(Counter::kPower, kStart + 1, 2);
  Trace trace;
  gpu.history.AddTo(trace);

  CHECK(trace.Of("power").samples == Samples{{kStart, 1}});
  CHECK(gpu.Ask(0, kStart + 1).Of("power").samples == Samples{{kStart, 1}, {kStart + 1, 2}});
}
