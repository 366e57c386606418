// SPDX-License-Identifier: Apache-2.0
//
// The collector on the LibTorch of this machine.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/jit/api/module.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "collect/torch/rig.h"
#include "pitot/collect/torch.h"

namespace {

namespace model = pitot::model;
using fakes::Named;
using fakes::TorchHost;
using pitot::Depth;
using pitot::SiteKind;
using pitot::StatusCode;

SiteKind KindOf(const model::Trace& trace, uint32_t event) { return trace.sites[trace.events.site[event]].kind; }
// The value of an argument; for a text its StringId. None: there is no such argument.
std::optional<uint64_t> Argument(const model::Trace& trace, uint32_t event, std::string_view name) {
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  for (size_t i = 0; i < site.arg_names.size(); ++i) {
    if (trace.strings[site.arg_names[i]] == name) return trace.arg_values[trace.events.args[event] + i];
  }
  return std::nullopt;
}
std::string ShapesIn(const model::Trace& trace, std::string_view name) {
  const auto events = Named(trace, name);
  const auto text = events.empty() ? std::nullopt : Argument(trace, events[0], "shapes");
  return text ? std::string(trace.strings[static_cast<model::StringId>(*text)]) : "nothing";
}
bool IsInside(const model::Trace& trace, uint32_t inner, uint32_t outer) {
  return trace.events.thread[inner] == trace.events.thread[outer] &&
         trace.events.begin_ns[inner] >= trace.events.begin_ns[outer] && trace.EventEnd(inner) <= trace.EventEnd(outer);
}

}  // namespace

TEST_CASE("each operator is recorded by its name at their depth, inside its caller", "[torch]") {
  const c10::NoGradGuard no_grad;
  TorchHost host;
  REQUIRE(host.Enable().ok());
  const at::Tensor a = at::ones({4, 3}), weight = at::ones({5, 3}), bias = at::ones({5});
  {
    PITOT_SCOPE("forward");
    at::relu(at::linear(a, weight, bias));
  }
  const model::Trace trace = host.Incident();

  const auto forward = Named(trace, "forward"), linear = Named(trace, "aten::linear"),
             addmm = Named(trace, "aten::addmm"), relu = Named(trace, "aten::relu");
  REQUIRE((forward.size() == 1 && linear.size() == 1 && addmm.size() == 1 && relu.size() == 1));
  CHECK(KindOf(trace, linear[0]) == SiteKind::kOperator);
  CHECK(KindOf(trace, forward[0]) == SiteKind::kScope);
  CHECK(IsInside(trace, linear[0], forward[0]));
  CHECK(IsInside(trace, addmm[0], linear[0]));
  CHECK_FALSE(IsInside(trace, relu[0], linear[0]));
  CHECK_FALSE(Argument(trace, linear[0], "sequence").has_value());  // autograd gave it no number
}

TEST_CASE("ranges are recorded at a lesser depth, and operators are not", "[torch]") {
  TorchHost host(Depth::kKernels);
  REQUIRE(host.Enable().ok());
  {
    const std::string name = "layer 7";
    at::RecordFunction range(at::RecordScope::USER_SCOPE);
    REQUIRE(range.isActive());
    range.before(name, -1);
    RECORD_USER_SCOPE("block");
    at::ones({4}).neg();
  }
  const model::Trace trace = host.Incident();

  CHECK(Named(trace, "aten::neg").empty());
  REQUIRE(Named(trace, "block").size() == 1);
  REQUIRE(Named(trace, "layer 7").size() == 1);
  CHECK(IsInside(trace, Named(trace, "block")[0], Named(trace, "layer 7")[0]));
  CHECK(KindOf(trace, Named(trace, "block")[0]) == SiteKind::kScope);
}

TEST_CASE("a method of a scripted module is an operator", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  {
    at::RecordFunction method(at::RecordScope::TORCHSCRIPT_FUNCTION);
    REQUIRE(method.isActive());
    method.before("forward of a module", -1);
  }
  const model::Trace trace = host.Incident();

  REQUIRE(Named(trace, "forward of a module").size() == 1);
  CHECK(KindOf(trace, Named(trace, "forward of a module")[0]) == SiteKind::kOperator);
}

TEST_CASE("an operator numbered by autograd can be found in its backward", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  at::Tensor a = at::ones({4, 4}).requires_grad_(true);
  const at::Tensor product = a.mul(a);
  product.sum().backward();
  const model::Trace trace = host.Incident();

  const auto forward = Named(trace, "aten::mul"), backward = Named(trace, "MulBackward0");
  REQUIRE(!forward.empty());
  REQUIRE(backward.size() == 1);
  REQUIRE(Argument(trace, forward[0], "sequence").has_value());
  CHECK(Argument(trace, forward[0], "sequence") == Argument(trace, backward[0], "sequence"));
  CHECK(Argument(trace, backward[0], "forward_thread").value_or(0) != 0);
}

TEST_CASE("a backward finds its forward among threads with equal numbers", "[torch]") {
  for (const bool shapes : {false, true}) {
    TorchHost host(Depth::kOps, {.shapes = shapes});
    REQUIRE(host.Enable().ok());
    std::vector<at::Tensor> sums(2);
    for (at::Tensor& sum : sums) {
      std::thread([&] {
        const at::Tensor a = at::ones({4, 4}).requires_grad_(true);
        sum = a.mul(a).sum();
      }).join();
    }
    for (const at::Tensor& sum : sums) sum.backward();
    const model::Trace trace = host.Incident();

    const auto forward = Named(trace, "aten::mul"), backward = Named(trace, "MulBackward0");
    REQUIRE((forward.size() >= 2 && backward.size() == 2));
    for (const uint32_t event : backward) {
      std::vector<uint32_t> found;
      for (const uint32_t other : forward) {
        if (Argument(trace, other, "sequence") == Argument(trace, event, "sequence") &&
            Argument(trace, other, "thread") == Argument(trace, event, "forward_thread"))
          found.push_back(other);
      }
      CHECK(found.size() == 1);
    }
    CHECK(Argument(trace, backward[0], "forward_thread") != Argument(trace, backward[1], "forward_thread"));
  }
}

TEST_CASE("operators have their tensors and their cost with shapes", "[torch]") {
  const c10::NoGradGuard no_grad;
  TorchHost host(Depth::kOps, {.shapes = true});
  REQUIRE(host.Enable().ok());
  const at::Tensor input = at::ones({2, 3, 8, 8}), weight = at::ones({4, 3, 3, 3});
  at::conv2d(input, weight, {}, 1, 1);
  at::mm(at::ones({3, 5}), at::ones({5, 7}));
  at::cat({at::ones({2}), at::ones({3}, at::kLong)});
  at::ones({3}).to(at::kHalf).neg();
  const model::Trace trace = host.Incident();

  CHECK(ShapesIn(trace, "aten::conv2d") == "2x3x8x8 f32, 4x3x3x3 f32");
  CHECK(ShapesIn(trace, "aten::cat") == "2 f32, 3 i64");
  CHECK(ShapesIn(trace, "aten::neg") == "3 f16");
  REQUIRE(!Named(trace, "aten::mm").empty());
  CHECK(Argument(trace, Named(trace, "aten::mm")[0], "flops") == 2 * 3 * 5 * 7);
  REQUIRE(!Named(trace, "aten::convolution").empty());
  CHECK(Argument(trace, Named(trace, "aten::convolution")[0], "flops") == 2ull * 2 * 4 * 3 * 9 * 64);
  CHECK(Argument(trace, Named(trace, "aten::conv2d")[0], "flops") == 0);
}

TEST_CASE("shapes are recorded for incidents and at a depth fixed by the host, not in the governor's trials",
          "[torch]") {
  const c10::NoGradGuard no_grad;
  TorchHost host(Depth::kScopes, {.shapes = true});
  REQUIRE(host.Start());
  auto made = pitot::MakeTorchCollector(host.torch_options);
  pitot::Collector* const collector = made.get();
  REQUIRE(host.recorder.Add(std::move(made)).ok());
  collector->Arm(false);
  collector->SetDepth(Depth::kOps);
  at::mm(at::ones({3, 5}), at::ones({5, 7}));
  collector->Arm(true);
  at::mm(at::ones({2, 5}), at::ones({5, 7}));
  collector->Arm(false);
  at::mm(at::ones({4, 5}), at::ones({5, 7}));
  const model::Trace trace = host.Incident();

  const auto products = Named(trace, "aten::mm");
  REQUIRE(products.size() == 3);
  CHECK_FALSE(Argument(trace, products[0], "shapes"));
  CHECK(Argument(trace, products[1], "flops") == 2 * 2 * 5 * 7);
  CHECK_FALSE(Argument(trace, products[2], "shapes"));
}

TEST_CASE("no operator is lost or recorded twice while shapes are switched on and off", "[torch]") {
  TorchHost host(Depth::kScopes, {.shapes = true, .memory = false});
  host.options.max_ring_bytes = 4 << 20;
  host.options.memory_budget_bytes = 128 << 20;
  REQUIRE(host.Start());
  auto made = pitot::MakeTorchCollector(host.torch_options);
  pitot::Collector* const collector = made.get();
  REQUIRE(host.recorder.Add(std::move(made)).ok());
  collector->SetDepth(Depth::kOps);
  constexpr size_t kOperators = 10'000;
  std::atomic<bool> is_done{false};
  std::thread runner([&] {
    const c10::NoGradGuard no_grad;
    const at::Tensor a = at::ones({2});
    for (size_t i = 0; i < kOperators; ++i) a.neg();
    is_done = true;
  });
  for (bool is_armed = false; !is_done; is_armed = !is_armed) collector->Arm(is_armed);
  runner.join();
  const model::Trace trace = host.Incident();

  REQUIRE(trace.losses.empty());
  CHECK(Named(trace, "aten::neg").size() == kOperators);
}

TEST_CASE("tensors without sizes are symbolic with shapes, and their operators recorded", "[torch]") {
  const c10::NoGradGuard no_grad;
  TorchHost host(Depth::kOps, {.shapes = true});
  REQUIRE(host.Enable().ok());
  const at::Tensor nested = at::_nested_tensor_from_tensor_list({at::ones({2, 4}), at::ones({2, 4})});
  at::relu(nested);
  at::bmm(nested, at::_nested_tensor_from_tensor_list({at::ones({4, 3}), at::ones({4, 3})}));
  at::mm(at::ones({3, 5}), at::ones({5, 7}));
  const model::Trace trace = host.Incident();

  CHECK(ShapesIn(trace, "aten::relu") == "symbolic");
  CHECK(ShapesIn(trace, "aten::bmm") == "symbolic, symbolic");
  CHECK(Argument(trace, Named(trace, "aten::bmm")[0], "flops") == 0);
  CHECK(Argument(trace, Named(trace, "aten::mm").back(), "flops") == 2 * 3 * 5 * 7);
}

// Counted as by torch/utils/flop_counter.py of PyTorch 2.11: a convolution by its outermost operator, even if a traced
// model calls _convolution.
TEST_CASE("floating point operations of a net are counted once", "[torch]") {
  const c10::NoGradGuard no_grad;
  TorchHost host(Depth::kOps, {.shapes = true});
  REQUIRE(host.Enable().ok());
  const at::Tensor weight = at::ones({4, 3, 3, 3});
  at::Tensor x = at::relu(at::conv2d(at::ones({2, 3, 8, 8}), weight, {}, 1, 1));
  x = at::linear(x.reshape({2, 256}), at::ones({10, 256}), at::ones({10}));
  at::matmul(x.reshape({2, 2, 5}), at::ones({2, 5, 7}));
  at::_convolution(at::ones({1, 3, 8, 8}), weight, {}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}, 1, false, false, false,
                   false);
  CHECK_THROWS(at::conv2d(at::ones({1, 5, 8, 8}), weight));  // counts, too: its inputs are known
  at::mm(at::ones({3, 5}), at::ones({5, 7}));
  const model::Trace trace = host.Incident();

  uint64_t sum = 0;
  for (uint32_t event = 0; event < trace.events.size(); ++event) sum += Argument(trace, event, "flops").value_or(0);
  const uint64_t convolution = 2ull * 4 * 3 * 9;
  CHECK(sum ==
        convolution * 2 * 64 + 2ull * 2 * 256 * 10 + 2ull * 2 * 2 * 5 * 7 + convolution * 2 * 36 + 2ull * 3 * 5 * 7);
}

TEST_CASE("a throwing operator ends, and later ones are recorded in their place", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  {
    PITOT_SCOPE("forward");
    CHECK_THROWS(at::mm(at::ones({2, 3}), at::ones({2, 3})));
    at::ones({2}).neg();
  }
  const model::Trace trace = host.Incident();

  REQUIRE(Named(trace, "aten::mm").size() == 1);
  CHECK(trace.events.duration_ns[Named(trace, "aten::mm")[0]] != model::kOpen);
  REQUIRE(Named(trace, "aten::neg").size() == 1);
  CHECK(IsInside(trace, Named(trace, "aten::neg")[0], Named(trace, "forward")[0]));
  CHECK(host.recorder.Stats().scopes_misnested == 0);
}

TEST_CASE("a model that throws in forward ends, and the next one is recorded like the first", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  torch::jit::Module net("net");
  net.define("def forward(self, x):\n  return torch.mm(x, torch.relu(x))\n");
  for (int i = 0; i < 3; ++i) CHECK_THROWS(net.forward({at::ones({2, 3})}));
  net.forward({at::ones({2, 2})});
  const model::Trace trace = host.Incident();

  const auto forwards = Named(trace, "forward"), products = Named(trace, "aten::mm");
  REQUIRE(products.size() == 4);
  CHECK(forwards.size() >= 4);  // LibTorch reports one for the method and one for its graph
  for (const uint32_t forward : forwards) CHECK(trace.events.duration_ns[forward] != model::kOpen);
  for (const uint32_t product : products) {
    const auto is_around = [&](uint32_t forward) { return IsInside(trace, product, forward); };
    CHECK(static_cast<size_t>(std::count_if(forwards.begin(), forwards.end(), is_around)) == forwards.size() / 4);
  }
  CHECK(host.recorder.Stats().scopes_misnested == 0);
}

TEST_CASE("the depth may change a thousand times while threads run operators", "[torch]") {
  TorchHost host(Depth::kScopes);
  REQUIRE(host.Enable().ok());
  std::atomic<bool> is_done{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      const c10::NoGradGuard no_grad;
      const at::Tensor a = at::ones({8});
      while (!is_done) a.neg().relu();
    });
  }
  bool is_well = true;
  for (int i = 0; i < 1000; ++i) {
    is_well = is_well && host.recorder.SetDepth(i % 2 == 0 ? Depth::kOps : Depth::kScopes).ok();
    at::ones({2}).neg();
  }
  is_done = true;
  for (std::thread& thread : threads) thread.join();
  CHECK(is_well);
  CHECK(host.recorder.Stats().scopes_misnested == 0);
  CHECK_FALSE(Named(host.Incident(), "aten::neg").empty());
}

TEST_CASE("threads that end leave their records, and nothing else", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  for (int i = 0; i < 20; ++i) std::thread([] { at::ones({8}).neg(); }).join();
  CHECK(Named(host.Incident(), "aten::neg").size() == 20);
}

TEST_CASE("another profiler of LibTorch's operators may run at the same time", "[torch]") {
  static std::atomic<int> seen;
  seen = 0;
  TorchHost host;
  REQUIRE(host.Enable().ok());
  const auto handle = at::addGlobalCallback(at::RecordFunctionCallback(
      [](const at::RecordFunction&) { return ++seen, std::unique_ptr<at::ObserverContext>(); }));
  at::ones({8}).neg();
  at::removeCallback(handle);
  CHECK(seen > 0);
  CHECK(Named(host.Incident(), "aten::neg").size() == 1);
}

TEST_CASE("there is one collector at a time, and after Stop LibTorch calls nobody", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  CHECK(pitot::torch::Enable(host.recorder).code() == StatusCode::kAlreadyRunning);
  CHECK(at::hasGlobalCallbacks());
  host.recorder.Stop();
  CHECK_FALSE(at::hasGlobalCallbacks());
  TorchHost other;
  CHECK(other.Enable().ok());
}

TEST_CASE("an operator begun before the recorder stopped ends under the next", "[torch]") {
  TorchHost host;
  REQUIRE(host.Enable().ok());
  std::optional<TorchHost> other;
  {
    RECORD_USER_SCOPE("across");
    host.recorder.Stop();
    other.emplace();
    REQUIRE(other->Enable().ok());
    at::ones({8}).neg();
  }
  const model::Trace trace = other->Incident();
  CHECK(Named(trace, "aten::neg").size() == 1);
}
