// SPDX-License-Identifier: Apache-2.0
//
// Memory of tensors, on the LibTorch of this machine. The allocator is watched from the first test on.
#include <ATen/ATen.h>
#include <c10/core/CPUAllocator.h>

#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>

#include "collect/torch/rig.h"
#include "pitot/collect/torch.h"

namespace {

namespace model = pitot::model;
using fakes::Count;
using fakes::TorchHost;
using pitot::Depth;
using pitot::torch::kCpu;

constexpr int64_t kMiB = 1 << 20;

at::Tensor Bytes(int64_t bytes) { return at::empty({bytes}, at::kByte); }
uint64_t Allocated() {
  pitot::torch::MemoryUse use;
  REQUIRE(pitot::torch::GetMemoryUse(kCpu, &use));
  return use.allocated_bytes;
}

// The maximum of a counter; nothing: there is none.
std::optional<double> Peak(const model::Trace& trace, std::string_view name) {
  std::optional<double> peak;
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == name) peak = std::max(peak.value_or(0), trace.samples.value[i]);
  }
  return peak;
}

}  // namespace

TEST_CASE("memory of tensors on the CPU is known at every depth", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  const uint64_t before = Allocated();
  at::Tensor tensor = Bytes(8 * kMiB);
  CHECK(Allocated() >= before + 8 * kMiB);
  CHECK(Allocated() < before + 9 * kMiB);
  { const at::Tensor more = Bytes(64 * kMiB); }
  tensor = at::Tensor();
  CHECK(Allocated() == before);

  const model::Trace trace = host.Incident();
  REQUIRE(Peak(trace, "LibTorch CPU allocated").has_value());
  CHECK(*Peak(trace, "LibTorch CPU allocated") >= static_cast<double>(before + 72 * kMiB));
  CHECK(*Peak(trace, "LibTorch CPU allocated") < static_cast<double>(before + 74 * kMiB));
  CHECK(Count(trace, "allocate") == 0);
}

TEST_CASE("a piece of work has a peak of its own", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  { Bytes(100 * kMiB); }
  const uint64_t before = Allocated();
  const pitot::torch::PeakMemory peak(kCpu);
  { Bytes(20 * kMiB); }

  CHECK(peak.bytes() >= before + 20 * kMiB);
  CHECK(peak.bytes() < before + 21 * kMiB);
}

TEST_CASE("each larger allocation is an instant at the depth of operators", "[torch]") {
  TorchHost host(Depth::kOps);
  REQUIRE(host.Enable().ok());
  { const at::Tensor sum = at::ones({1 << 16}).add(1); }
  { const at::Tensor small = at::ones({1024}); }
  const model::Trace trace = host.Incident();

  CHECK(Count(trace, "allocate") == 2);
  CHECK(Count(trace, "free") == 2);
}

TEST_CASE("a tensor may outlive the recorder, and be freed on another thread", "[torch]") {
  const uint64_t before = [] {
    TorchHost host(Depth::kScopes);
    REQUIRE(host.Enable().ok());
    return Allocated();
  }();
  std::optional<at::Tensor> tensor;
  {
    TorchHost host(Depth::kScopes);
    REQUIRE(host.Enable().ok());
    tensor = Bytes(5 * kMiB);
  }
  CHECK(Allocated() >= before + 5 * kMiB);
  std::thread([&] { tensor.reset(); }).join();
  CHECK(Allocated() == before);
}

TEST_CASE("tensors can be resized, cloned and made of nothing", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  const uint64_t before = Allocated();
  {
    at::Tensor tensor = Bytes(kMiB);
    tensor.fill_(7);
    tensor.resize_({4 * kMiB});
    CHECK(tensor[0].item<int>() == 7);
    const at::Tensor clone = tensor.clone();
    CHECK(clone.sizes() == tensor.sizes());
    const at::Tensor nothing = at::empty({0});
    CHECK(Allocated() >= before + 8 * kMiB);
  }
  CHECK(Allocated() == before);
}

TEST_CASE("memory is left alone if it is not requested", "[torch]") {
  TorchHost host(Depth::kOps, {.memory = false});
  REQUIRE(host.Enable().ok());
  { const at::Tensor sum = at::ones({1 << 16}).add(1); }
  const model::Trace trace = host.Incident();

  CHECK(Count(trace, "allocate") == 0);
  CHECK_FALSE(Peak(trace, "LibTorch CPU allocated").has_value());
}

TEST_CASE("a block freed now from before watching takes nothing from later allocations", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  void* const block = c10::GetDefaultCPUAllocator()->raw_allocate(Allocated() + 64 * kMiB);
  c10::GetAllocator(c10::DeviceType::CPU)->raw_deallocate(block);
  CHECK(Allocated() == 0);
  const at::Tensor tensor = Bytes(32 * kMiB);
  CHECK(Allocated() >= 32 * kMiB);
}

TEST_CASE("nothing is known of an unwatched device", "[torch]") {
  pitot::torch::MemoryUse use;
  CHECK_FALSE(pitot::torch::GetMemoryUse(15, &use));
  CHECK_FALSE(pitot::torch::GetMemoryUse(-2, &use));
  CHECK_FALSE(pitot::torch::GetMemoryUse(1 << 20, &use));
  CHECK(pitot::torch::PeakMemory(15).bytes() == 0);
}
