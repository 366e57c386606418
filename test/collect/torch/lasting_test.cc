// SPDX-License-Identifier: Apache-2.0
//
// Lasting or exhaustible resources of a process with LibTorch: a program of its own.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>
#include <string>

#include "collect/torch/thread_state.h"
#include "fakes/trace_text.h"
#include "pitot/collect/torch.h"
#include "session/host.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;

// Like LibTorch's, with blocks known to the C library; it might not know another's.
struct HostsAllocator final : at::Allocator {
  at::Allocator* const base = c10::GetDefaultCPUAllocator();
#if TORCH_VERSION_MAJOR >= 2
  at::DataPtr allocate(size_t bytes) override { return base->allocate(bytes); }
  void copy_data(void* to, const void* from, std::size_t bytes) const override { base->copy_data(to, from, bytes); }
#else
  at::DataPtr allocate(size_t bytes) const override { return base->allocate(bytes); }
#endif
  at::DeleterFnPtr raw_deleter() const override { return base->raw_deleter(); }
};

thread_local bool t_is_out_of_memory = false;

}  // namespace

// Not inlined: compilers would find them mismatched.
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return t_is_out_of_memory ? nullptr : std::malloc(size != 0 ? size : 1);
}
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* const memory = operator new(size, std::nothrow)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

TEST_CASE("a host's own allocator is left alone, and incidents say that it is not watched", "[torch]") {
  static HostsAllocator allocator;
  at::Allocator* const before = c10::GetAllocator(c10::DeviceType::CPU);
  c10::SetAllocator(c10::DeviceType::CPU, &allocator);
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(pitot::torch::Enable(host.recorder).ok());
  at::ones({8});
  REQUIRE(host.TriggerAndFlush());

  CHECK(c10::GetAllocator(c10::DeviceType::CPU) == &allocator);
  CHECK(Attribute(host.traces().back(), "torch.memory.not_recorded") ==
        "the host has its own allocator for CPU tensors; to record this memory: leave LibTorch's in place");
  pitot::torch::MemoryUse use;
  CHECK_FALSE(pitot::torch::GetMemoryUse(pitot::torch::kCpu, &use));
  c10::SetAllocator(c10::DeviceType::CPU, before);
}

TEST_CASE("incidents count the ranges named (other) once names of ranges are used up", "[torch]") {
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(pitot::torch::Enable(host.recorder).ok());
  for (uint32_t i = 0; i < pitot::libtorch::kMaxRangeNames + 7; ++i) {
    at::RecordFunction range(at::RecordScope::USER_SCOPE);
    if (range.isActive()) range.before("step " + std::to_string(i), -1);
  }
  REQUIRE(host.TriggerAndFlush());

  CHECK(Attribute(host.traces().back(), "torch.names_folded") == "7");
}

TEST_CASE("a callback refused by LibTorch leaves operators recorded as before, and the incident says when", "[torch]") {
  session_test::Host host;
  host.options.depth = pitot::Depth::kScopes;
  REQUIRE(host.Start());
  auto made = pitot::MakeTorchCollector({.shapes = true});
  pitot::Collector* const collector = made.get();
  REQUIRE(host.recorder.Add(std::move(made)).ok());
  const auto without_memory = [](auto act) {
    t_is_out_of_memory = true;
    act();
    t_is_out_of_memory = false;
  };
  collector->Arm(false);
  without_memory([&] { collector->SetDepth(pitot::Depth::kOps); });
  at::ones({8}).neg();
  collector->SetDepth(pitot::Depth::kOps);
  without_memory([&] { collector->Arm(true); });
  at::ones({8}).sigmoid();
  collector->Arm(true);
  at::ones({8}).relu();
  REQUIRE(host.TriggerAndFlush());
  const model::Trace trace = host.traces().back();

  CHECK(fakes::EventsNamed(trace, "aten::neg").empty());
  const auto sigmoid = fakes::EventsNamed(trace, "aten::sigmoid"), relu = fakes::EventsNamed(trace, "aten::relu");
  REQUIRE((sigmoid.size() == 1 && relu.size() == 1));
  CHECK(relu[0].args.size() > sigmoid[0].args.size());  // shapes
  REQUIRE(trace.operator_depths.size() >= 2);
  CHECK(trace.operator_depths[0].depth < pitot::Depth::kOps);
  CHECK(trace.operator_depths[1].depth == pitot::Depth::kOps);
  CHECK(trace.operator_depths[1].begin_ns <= sigmoid[0].begin_ns);
  CHECK(trace.operator_depths[1].end_ns >= relu[0].begin_ns);
}
