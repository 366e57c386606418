// SPDX-License-Identifier: Apache-2.0
#include "base/columns.h"

#include <catch2/catch.hpp>

using namespace pitot::base;

TEST_CASE("durations show three digits and a unit", "[report]") {
  CHECK(Duration(0) == "0 us");
  CHECK(Duration(1) == "0.00 us");
  CHECK(Duration(1234) == "1.23 us");
  CHECK(Duration(9994) == "9.99 us");
  CHECK(Duration(12345) == "12 us");
  CHECK(Duration(1234567) == "1.23 ms");
  CHECK(Duration(41300000) == "41.3 ms");
  CHECK(Duration(1234567890) == "1.23 s");
  CHECK(Duration(-5000000) == "-5.00 ms");
}

TEST_CASE("counts and bytes are grouped", "[report]") {
  CHECK(Count(7) == "7");
  CHECK(Count(1203) == "1,203");
  CHECK(Count(1234567) == "1,234,567");
  CHECK(Bytes(40960) == "40 KiB");
  CHECK(Plural(1, "request") == "1 request");
  CHECK(Plural(0, "request") == "0 requests");
}

TEST_CASE("coverage is rounded, but 100 % means everything and 0 % means nothing", "[report]") {
  CHECK(Coverage(9766, 10000) == "97.7 %");
  CHECK(Coverage(9764, 10000) == "97.6 %");
  CHECK(Coverage(10000, 10000) == "100 %");
  CHECK(Coverage(9999, 10000) == "99.9 %");
  CHECK(Coverage(1, 10000) == "less than 0.1 %");
  CHECK(Coverage(0, 10000) == "0.0 %");
  CHECK(Coverage(0, 0) == "0.0 %");
}

TEST_CASE("text is cut and padded by characters, not bytes", "[report]") {
  CHECK(PadRight("äöü", 5) == "äöü  ");
  CHECK(PadLeft("äöü", 5) == "  äöü");
  CHECK(Cut("äöüäöü", 5) == "äö...");
  CHECK(Cut("abc", 2) == "..");
}

TEST_CASE("names are shortened in the middle, where they differ least", "[report]") {
  CHECK(CutMiddle("aten::convolution_backward", 11) == "aten...ward");
  CHECK(CutMiddle("aten::convolution_backward", 12) == "aten:...ward");
  CHECK(CutMiddle("äöüäöüäö", 7) == "äö...äö");
  CHECK(CutMiddle("aten::mm", 8) == "aten::mm");
  CHECK(CutMiddle("aten::mm", 3) == "...");
  CHECK(CutMiddle("aten::mm", 0) == "");
}

TEST_CASE("times are UTC", "[report]") { CHECK(DateTime(1795228277123456789) == "2026-11-21 02:31:17.123 UTC"); }

TEST_CASE("lines wrap at 100 columns under their first word", "[report]") {
  Lines lines;
  std::string words;
  for (int i = 0; i < 40; ++i) words += "word ";

  lines.AddWrapped(2, "lead  ", words);

  CHECK(lines.text().substr(0, 13) == "  lead  word ");
  CHECK(lines.text().find("\n        word") != std::string::npos);
  for (size_t at = 0; at < lines.text().size();) {
    const size_t end = lines.text().find('\n', at);
    CHECK(end - at <= 100);
    at = end + 1;
  }
}
