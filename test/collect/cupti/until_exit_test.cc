// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/until_exit.h"

#include <catch2/catch.hpp>
#include <cstdint>

#include "base/clock.h"

TEST_CASE("the end of the process waits once for a call of CUPTI that hangs, whoever closes it", "[cupti]") {
  pitot::cupti::UntilExit until_exit;
  const pitot::cupti::UntilExit::Entered hanging(&until_exit);
  REQUIRE(hanging);
  until_exit.Close();
  const int64_t closed_ns = pitot::base::ClockNs(CLOCK_MONOTONIC);
  for (int i = 0; i < 9; ++i) until_exit.Close();
  CHECK(pitot::base::ClockNs(CLOCK_MONOTONIC) - closed_ns < 5'000'000'000);  // nine seconds, if each did
}
