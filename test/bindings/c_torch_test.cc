// SPDX-License-Identifier: Apache-2.0
//
// LibTorch through pitot/c.h, with a library built with LibTorch, read back from a dump.
#include <ATen/ATen.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "bindings/recorded.h"

TEST_CASE("LibTorch's operators are in incidents, with shapes on request", "[bindings]") {
  const auto trace = bindings_test::Recorded([](pitot_recorder* recorder) {
    pitot_torch torch;
    pitot_torch_init(&torch, sizeof torch);
    torch.shapes = 1;
    char message[256] = "";
    const pitot_status added = pitot_recorder_add_torch(recorder, &torch, message, sizeof message);
    INFO(message);
    REQUIRE(added == PITOT_OK);
    REQUIRE(pitot_recorder_set_depth(recorder, PITOT_DEPTH_OPS, nullptr, 0) == PITOT_OK);
    at::ones({2, 3}).neg();
  });

  const auto events = bindings_test::Events(trace);
  const auto neg =
      std::find_if(events.begin(), events.end(), [](const auto& event) { return event.name == "aten::neg"; });
  REQUIRE(neg != events.end());
  CHECK(neg->args.back() == std::pair<std::string, std::string>("shapes", "2x3 f32"));
  CHECK_FALSE(trace.counters.empty());  // of memory
}
