// SPDX-License-Identifier: Apache-2.0
#include "model/depth_rows.h"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

using namespace pitot;

TEST_CASE("depths of recording are a text and come back", "[model]") {
  const std::vector<model::DepthRow> rows = {{1'002'000'000, 1'020'000'000, Depth::kScopes},
                                             {1'020'000'000, 1'100'000'000, Depth::kOps}};
  const std::string text = "1002000000 1020000000 scopes, 1020000000 1100000000 ops";

  CHECK(model::DepthsText(rows) == text);
  CHECK(model::DepthsOf(text).size() == 2);
  CHECK(model::DepthsText(model::DepthsOf(text)) == text);
  CHECK(model::DepthsText({}).empty());
  CHECK(model::DepthsOf("").empty());
}

TEST_CASE("depths of a text end at the first row that makes no sense", "[model]") {
  const std::string begin = "1 2 scopes, ";
  for (const char* const row : {"3", "3 4", "3 4 ", "3 x ops", "4 3 ops", "-1 4 ops", "3 4 deep",
                                "3 9223372036854775807 ops", "99999999999999999999 3 ops", ", 3 4 ops"}) {
    CAPTURE(row);
    const std::vector<model::DepthRow> rows = model::DepthsOf(begin + row + ", 5 6 ops");

    REQUIRE(rows.size() == 1);
    CHECK(rows[0].begin_ns == 1);
    CHECK(rows[0].end_ns == 2);
  }
}
