// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/until_exit.h"

#include <catch2/catch.hpp>
#include <cstdint>

TEST_CASE("the end of the process waits once for a hanging call of CUPTI, whoever closes it", "[cupti]") {
  pitot::cupti::UntilExit until_exit;
  const pitot::cupti::UntilExit::Entered hanging(&until_exit);
  REQUIRE(hanging);
  int64_t now_ns = 0;
  const auto pass = [&now_ns] { return now_ns += 1'000'000; };  // 1 ms at each look

  until_exit.Close(pass);
  const int64_t waited_ns = now_ns;
  for (int i = 0; i < 9; ++i) until_exit.Close(pass);

  CHECK(waited_ns >= 1'000'000'000);
  CHECK(waited_ns < 1'010'000'000);
  CHECK(now_ns == waited_ns);
}

TEST_CASE("the end of the process waits no longer than calls of CUPTI are in flight", "[cupti]") {
  pitot::cupti::UntilExit until_exit;
  int64_t now_ns = 0;
  {
    const pitot::cupti::UntilExit::Entered over(&until_exit);
    REQUIRE(over);
  }

  until_exit.Close([&now_ns] { return now_ns += 1'000'000; });

  CHECK(now_ns == 1'000'000);  // the one look that a second would count from
  CHECK_FALSE(pitot::cupti::UntilExit::Entered(&until_exit));
}
