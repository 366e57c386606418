// SPDX-License-Identifier: Apache-2.0
//
// A small network under Pitot and under LibTorch's own profiler at once: the same operators, called as often.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>

#include "pitot/analyze/top.h"
#include "pitot/collect/torch.h"
#include "session/host.h"

namespace {

using pitot::analyze::TopOptions;
using pitot::analyze::TopRow;
using pitot::analyze::TopTable;

void Forward(const at::Tensor& input, const at::Tensor& kernel, const at::Tensor& weight, const at::Tensor& bias) {
  const at::Tensor features = at::relu(at::conv2d(input, kernel, {}, 1, 1));
  at::softmax(at::linear(features.flatten(1), weight, bias), 1);
}

}  // namespace

TEST_CASE("top has the same operators as LibTorch's profiler, called as often", "[torch]") {
  namespace profiler = torch::autograd::profiler;
  const c10::NoGradGuard no_grad;
  const at::Tensor input = at::ones({8, 3, 32, 32}), kernel = at::ones({16, 3, 3, 3}),
                   weight = at::ones({10, 16 * 32 * 32}), bias = at::ones({10});
  Forward(input, kernel, weight, bias);  // work done only once is not compared
  session_test::Host host;
  host.options.depth = pitot::Depth::kOps;
  REQUIRE(host.Start());
  REQUIRE(pitot::torch::Enable(host.recorder).ok());

  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
  const std::set<torch::profiler::impl::ActivityType> activities{torch::profiler::impl::ActivityType::CPU};
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  for (int i = 0; i < 20; ++i) Forward(input, kernel, weight, bias);
  const auto profile = profiler::disableProfiler();
  REQUIRE(host.TriggerAndFlush());

  std::map<std::string, uint64_t> calls, expected;
  for (const profiler::KinetoEvent& event : profile->events()) ++expected[event.name()];
  TopTable table;
  REQUIRE(pitot::analyze::FindTop(host.traces().back(), TopOptions(), &table).ok());
  for (const TopRow& row : table.rows) calls[row.name] = row.calls;
  CHECK(expected.count("aten::conv2d") == 1);
  CHECK(calls == expected);
}
