// SPDX-License-Identifier: Apache-2.0
#include "base/until_exit.h"

#include <catch2/catch.hpp>
#include <cstdint>

TEST_CASE("the end of the process waits once for a hanging call of a driver, whoever closes it", "[base]") {
  pitot::base::UntilExit until_exit;
  const pitot::base::UntilExit::Entered hanging(&until_exit);
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

TEST_CASE("the end of the process waits no longer than calls of a driver are in flight", "[base]") {
  pitot::base::UntilExit until_exit;
  int64_t now_ns = 0;
  {
    const pitot::base::UntilExit::Entered over(&until_exit);
    REQUIRE(over);
  }

  until_exit.Close([&now_ns] { return now_ns += 1'000'000; });

  CHECK(now_ns == 1'000'000);  // the one look that a second would count from
  CHECK_FALSE(pitot::base::UntilExit::Entered(&until_exit));
}
