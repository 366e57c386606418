// SPDX-License-Identifier: Apache-2.0
//
// The collector next to PyTorch's own profiler, in the same library.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <catch2/catch.hpp>
#include <memory>
#include <string_view>

#include "collect/torch/rig.h"
#include "pitot/collect/torch.h"
#include "session/host.h"

namespace {

namespace model = pitot::model;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

// Like torch.profiler.profile(record_shapes, profile_memory, with_stack, with_flops) of the CPU.
void BeginProfile() {
  const ProfilerConfig config(ProfilerState::KINETO, true, true, true, true);
  profiler::prepareProfiler(config, {ActivityType::CPU});
  profiler::enableProfiler(config, {ActivityType::CPU});
}

using fakes::Count;
int Count(const profiler::ProfilerResult& profile, std::string_view name) {
  int count = 0;
  for (const auto& event : profile.events()) count += event.name() == name;
  return count;
}

}  // namespace

TEST_CASE("PyTorch's profiler comes and goes, and both see all operators and allocations", "[torch]") {
  session_test::Host host;
  host.options.depth = pitot::Depth::kOps;
  REQUIRE(host.Start());
  REQUIRE(pitot::torch::Enable(host.recorder, {.shapes = true}).ok());
  const at::Tensor a = at::ones({256, 256});

  for (int i = 0; i < 3; ++i) {
    at::matmul(a, a);
    BeginProfile();
    for (int k = 0; k < 5; ++k) at::matmul(a, a);
    const auto profile = profiler::disableProfiler();
    CHECK(Count(*profile, "aten::mm") == 5);
    CHECK(Count(*profile, "[memory]") >= 5);
  }
  at::matmul(a, a);
  REQUIRE(host.TriggerAndFlush());

  const model::Trace trace = host.traces().back();
  CHECK(Count(trace, "aten::mm") == 3 * 6 + 1);
  CHECK(Count(trace, "allocate") >= 3 * 6 + 1);
}
