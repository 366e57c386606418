// SPDX-License-Identifier: Apache-2.0
//
// A host that has LibTorch recorded.
#ifndef PITOT_TEST_COLLECT_TORCH_RIG_H_
#define PITOT_TEST_COLLECT_TORCH_RIG_H_

#include <catch2/catch.hpp>

#include "pitot/collect/torch.h"
#include "session/host.h"

namespace fakes {

struct TorchHost : session_test::Host {
  explicit TorchHost(pitot::Depth depth = pitot::Depth::kOps, pitot::TorchOptions with = {}) : torch_options(with) {
    options.depth = depth;
  }
  pitot::Status Enable() { return Start() ? pitot::torch::Enable(recorder, torch_options) : recorder.status(); }
  pitot::model::Trace Incident() {
    REQUIRE(TriggerAndFlush());
    REQUIRE(pitot::model::FindInconsistency(traces().back()) == "");
    return traces().back();
  }

  pitot::TorchOptions torch_options;
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_TORCH_RIG_H_
