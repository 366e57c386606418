// SPDX-License-Identifier: Apache-2.0
//
// How pitot::cupti sees PyTorch's real profiler. A process of its own, because having profiled once stays.
#include "collect/cupti/kineto.h"

#include <ATen/ATen.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <catch2/catch.hpp>

namespace {

namespace profiler = torch::autograd::profiler;
using pitot::cupti::AskKineto;
using pitot::cupti::KinetoState;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

// Debian's LibTorch has no Kineto, so nothing could take CUPTI.
bool HasKineto() { return dlsym(RTLD_DEFAULT, "_ZN9libkineto3apiEv") != nullptr; }

KinetoState IfThere(KinetoState state) { return HasKineto() ? state : KinetoState::kAbsent; }

}  // namespace

TEST_CASE("LibTorch's profiler is seen unused, active from its preparation on, idle, and active again", "[torch]") {
  at::ones({2, 2});
  CHECK(AskKineto() == IfThere(KinetoState::kUnused));

  for (int i = 0; i < 2; ++i) {
    const ProfilerConfig config(ProfilerState::KINETO);
    profiler::prepareProfiler(config, {ActivityType::CPU});
    CHECK(AskKineto() == IfThere(KinetoState::kActive));  // from here on CUPTI is its own
    profiler::enableProfiler(config, {ActivityType::CPU});
    CHECK(AskKineto() == IfThere(KinetoState::kActive));
    at::ones({2, 2});
    profiler::disableProfiler();
    CHECK(AskKineto() == IfThere(KinetoState::kIdle));
  }
}
