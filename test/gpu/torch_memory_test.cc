// SPDX-License-Identifier: Apache-2.0
//
// LibTorch's memory of a GPU, compared with its allocator's own numbers. Built by tools/libtorch_2, run by
// tools/gpu_check, each test in a process of its own: the first to begin decides on the allocator.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include "collect/torch/rig.h"
#include "fakes/trace_text.h"
#include "pitot/collect/torch.h"
#include "pitot/trace.h"
#include "trace/mirror.h"

namespace {

namespace Caching = c10::cuda::CUDACachingAllocator;
namespace model = pitot::model;
using fakes::Attribute;
using fakes::Count;
using fakes::TorchHost;
using pitot::Depth;

constexpr int64_t kMiB = 1 << 20;

at::Tensor Bytes(int64_t bytes) { return at::empty({bytes}, at::TensorOptions(at::kCUDA).dtype(at::kByte)); }

auto Stats() { return Caching::getDeviceStats(0); }
int64_t StatsAllocated() { return Stats().allocated_bytes[0].current; }
int64_t StatsReserved() { return Stats().reserved_bytes[0].current; }

pitot::torch::MemoryUse Use() {
  pitot::torch::MemoryUse use;
  REQUIRE(pitot::torch::GetMemoryUse(0, &use));
  return use;
}
// Compares with LibTorch's numbers, once a small block has shown the true size of the last large one.
void CheckLevel() {
  const at::Tensor last = Bytes(512);
  CHECK(static_cast<int64_t>(Use().allocated_bytes) == StatsAllocated());
  CHECK(static_cast<int64_t>(Use().reserved_bytes) == StatsReserved());
}

bool HasGpu() {
  static const bool is_loaded = dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL) != nullptr;
  if (!is_loaded) std::printf("SKIP: %s\n", dlerror());
  if (is_loaded && c10::cuda::device_count() > 0) return true;
  std::printf("skipped, there is no GPU\n");
  return false;
}

// When a counter was first at `least` or more; -1: never.
int64_t FirstAt(const model::Trace& trace, std::string_view name, double least) {
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == name && trace.samples.value[i] >= least) return trace.samples.at_ns[i];
  }
  return -1;
}

double Peak(const model::Trace& trace, std::string_view name) {
  double peak = -1;
  for (uint32_t i = 0; i < trace.samples.size(); ++i) {
    const model::CounterRow& counter = trace.counters[trace.samples.counter[i]];
    if (trace.strings[counter.name] == name) peak = std::max(peak, trace.samples.value[i]);
  }
  return peak;
}

// The cost of a block made from the cache and given back.
double NsOfBlock() {
  constexpr int kBlocks = 200'000;
  { Bytes(4096); }
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kBlocks; ++i) Bytes(4096);
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
  return took.count() / kBlocks;
}

}  // namespace

TEST_CASE("LibTorch's memory of a GPU is known as to LibTorch itself", "[torch_memory]") {
  if (!HasGpu()) return;
  const at::Tensor before = Bytes(100 * kMiB + 1);
  const double plain_ns = NsOfBlock();
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  CHECK(static_cast<int64_t>(Use().allocated_bytes) == StatsAllocated());
  std::printf("a block from the cache, ns: %.0f, watched %.0f\n", plain_ns, NsOfBlock());
  CheckLevel();
  {
    std::vector<at::Tensor> tensors;
    for (int64_t i = 1; i < 2000; ++i) tensors.push_back(Bytes(i * i % 3'000'000 + 1));
    CheckLevel();
    for (size_t i = 0; i < tensors.size(); i += 2) tensors[i] = at::Tensor();
    CheckLevel();
  }
  CheckLevel();
  const pitot::torch::PeakMemory peak(0);
  const auto least = static_cast<uint64_t>(StatsAllocated() + 300 * kMiB);
  { Bytes(300 * kMiB); }
  CHECK(peak.bytes() >= least);
  CHECK(peak.bytes() < least + 2 * kMiB);
}

TEST_CASE("a GPU reports no memory before its first allocation, and a peak may begin", "[torch_memory]") {
  if (!HasGpu()) return;
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  CHECK(Use().allocated_bytes == 0);
  const pitot::torch::PeakMemory peak(0);
  { Bytes(100 * kMiB); }
  CHECK(peak.bytes() == 100 * kMiB);
}

TEST_CASE("a block still used by another stream is as freed as LibTorch says", "[torch_memory]") {
  if (!HasGpu()) return;
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  const at::Tensor kept = Bytes(64 * kMiB);
  const c10::cuda::CUDAStream other = c10::cuda::getStreamFromPool();
  const at::Tensor a = at::ones({8192, 8192}, at::kCUDA);
  bool was_pending = false;
  {
    at::Tensor used = Bytes(512 * kMiB);
    {
      const c10::cuda::CUDAStreamGuard guard(other);
      for (int i = 0; i < 50; ++i) at::mm(a, a);
      used.zero_();
    }
    used.record_stream(other);
  }
  CheckLevel();
  was_pending = Stats().requested_bytes[0].current > StatsAllocated();
  CHECK(was_pending);
  other.synchronize();
  CheckLevel();
}

TEST_CASE("retries are those counted by LibTorch", "[torch_memory]") {
  if (!HasGpu()) return;
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  { Bytes(200 * kMiB); }
  Caching::emptyCache();
  { Bytes(200 * kMiB); }
  CHECK(Use().retries == 0);

  size_t free_bytes = 0, all_bytes = 0;
  REQUIRE(cudaMemGetInfo(&free_bytes, &all_bytes) == cudaSuccess);
  Caching::setMemoryFraction(1024.0 * kMiB / static_cast<double>(all_bytes), 0);
  { Bytes(600 * kMiB); }
  { Bytes(700 * kMiB); }  // cached memory has to go first
  CHECK(Use().retries == 1);
  CHECK_THROWS(Bytes(2048 * kMiB));
  CHECK(static_cast<int64_t>(Use().retries) == Stats().num_alloc_retries);
  CHECK(static_cast<int64_t>(Use().out_of_memory) == Stats().num_ooms);
  const model::Trace trace = host.Incident();
  CHECK(Count(trace, "cudaMalloc after cached memory was freed") == 1);
  CHECK(Count(trace, "out of GPU memory") == 1);
  CHECK(Attribute(trace, "torch.gpu0.retries") == std::to_string(Stats().num_alloc_retries));
  CheckLevel();
}

TEST_CASE("memory of a GPU over time is recorded while a tool is attached", "[torch_memory]") {
  if (!HasGpu()) return;
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  static const pitot::trace::Mirror mirror{[](const pitot::Site*, pitot::Name) noexcept {}, []() noexcept {}};
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, &mirror);
  { Bytes(kMiB); }  // CUDA starts
  {
    PITOT_SCOPE("forward");
    Bytes(150 * kMiB);
  }
  const model::Trace trace = host.Incident();
  pitot::trace::SetMirror(pitot::trace::MirrorUse::kTool, nullptr);
  REQUIRE(Count(trace, "forward") == 1);
  // The times: LibTorch stamps its allocator's reports, and a moment of history is 3 ms at most.
  const uint32_t forward = fakes::Named(trace, "forward")[0];
  for (const char* name : {"LibTorch allocated", "LibTorch reserved"}) {
    CHECK(FirstAt(trace, name, 150.0 * kMiB) >= trace.events.begin_ns[forward] - 3'000'000);
    CHECK(FirstAt(trace, name, 150.0 * kMiB) <= trace.EventEnd(forward));
  }
}

// With PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync.
TEST_CASE("operators are recorded even if the allocator reports nothing", "[.torch_memory_async]") {
  if (!HasGpu()) return;
  TorchHost host(Depth::kOps);
  REQUIRE(host.Enable().ok());
  at::ones({64, 64}, at::kCUDA).neg();
  const model::Trace trace = host.Incident();
  CHECK(Count(trace, "aten::neg") == 1);
  CHECK(Peak(trace, "LibTorch CPU allocated") >= 0);
  CHECK(Peak(trace, "LibTorch allocated") < 0);
  std::printf("not recorded: %s\n", Attribute(trace, "torch.memory.not_recorded").c_str());
  CHECK(session_test::Contains(Attribute(trace, "torch.memory.not_recorded"), "CUDA: "));
  CHECK(session_test::Contains(Attribute(trace, "torch.memory.not_recorded"), "backend:native"));
}
