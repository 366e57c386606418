// SPDX-License-Identifier: Apache-2.0
//
// A host with LibTorch recorded, and the contents of its incidents.
#ifndef PITOT_TEST_COLLECT_TORCH_RIG_H_
#define PITOT_TEST_COLLECT_TORCH_RIG_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <string_view>
#include <vector>

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

// The events of this name.
inline std::vector<uint32_t> Named(const pitot::model::Trace& trace, std::string_view name) {
  std::vector<uint32_t> events;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.EventName(event) == name) events.push_back(event);
  }
  return events;
}
inline size_t Count(const pitot::model::Trace& trace, std::string_view name) { return Named(trace, name).size(); }

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_TORCH_RIG_H_
