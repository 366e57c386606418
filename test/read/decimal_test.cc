// SPDX-License-Identifier: Apache-2.0
#include "read/decimal.h"

#include <catch2/catch.hpp>
#include <string>

using pitot::read::ParseDecimal;

TEST_CASE("microseconds of Unix time keep their nanoseconds", "[decimal]") {
  CHECK(ParseDecimal("1790000000000000.579", 3) == 1790000000000000579);
  CHECK(ParseDecimal("4458676522690.655", 3) == 4458676522690655);
  CHECK(ParseDecimal("1712195495505543.2", 3) == 1712195495505543200);
  CHECK(ParseDecimal("1695835542514261", 3) == 1695835542514261000);
}

TEST_CASE("digits beyond the scale are rounded, halves away from zero", "[decimal]") {
  CHECK(ParseDecimal("1.0004999", 3) == 1000);
  CHECK(ParseDecimal("1.0005", 3) == 1001);
  CHECK(ParseDecimal("-1.0005", 3) == -1001);
  CHECK(ParseDecimal("0.00000000000000000000000000000000000000000000000000001", 3) == 0);
  CHECK(ParseDecimal("0." + std::string(100, '9'), 3) == 1000);
}

TEST_CASE("exponents move the point", "[decimal]") {
  CHECK(ParseDecimal("1.7e+15", 3) == 1700000000000000000);
  CHECK(ParseDecimal("25E-1", 3) == 2500);
  CHECK(ParseDecimal("1e-400", 3) == 0);
  CHECK(ParseDecimal("0e999999999", 3) == 0);
}

TEST_CASE("a number in quotes is a number", "[decimal]") {
  CHECK(ParseDecimal("\"25738\"", 0) == 25738);
  CHECK(ParseDecimal("25738 \n", 0) == 25738);
}

TEST_CASE("text that is not a number or does not fit gives no value", "[decimal]") {
  for (const char* const text :
       {"", "-", ".5", "NaN", "Infinity", "1e", "1e+", "stream 7", "\"stream 7\"", "\"\"", "null", "1x",
        "9223372036854776", "1e30", "99999999999999999999999999999999999999999999999999"})
    CHECK_FALSE(ParseDecimal(text, 3));
  CHECK(ParseDecimal("9223372036854775.807", 3) == INT64_MAX);
  CHECK_FALSE(ParseDecimal("9223372036854775.808", 3));
}
