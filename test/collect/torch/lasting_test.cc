// SPDX-License-Identifier: Apache-2.0
//
// What a process with LibTorch has for good, or can use up: a program of its own.
#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <torch/version.h>

#include <catch2/catch.hpp>
#include <string>

#include "collect/torch/thread_state.h"
#include "fakes/trace_text.h"
#include "pitot/collect/torch.h"
#include "session/host.h"

namespace {

namespace model = pitot::model;
using fakes::Attribute;

// As LibTorch's, of which the C library knows the blocks; another's it might not.
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

}  // namespace

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
  CHECK(
      Attribute(host.traces().back(), "torch.memory.not_recorded") ==
      "the host has an allocator of its own for tensors on the CPU; to record that memory: leave LibTorch's in place");
  pitot::torch::MemoryUse use;
  CHECK_FALSE(pitot::torch::GetMemoryUse(pitot::torch::kCpu, &use));
  c10::SetAllocator(c10::DeviceType::CPU, before);
}

TEST_CASE("incidents say how many ranges were called (other) because names of ranges were used up", "[torch]") {
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
