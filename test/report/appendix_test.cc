// SPDX-License-Identifier: Apache-2.0
#include "base/appendix.h"

#include <catch2/catch.hpp>
#include <string>

namespace base = pitot::base;

TEST_CASE("an opening is put before both parts of a report, and the next one takes its place", "[appendix]") {
  std::string report = "head\nAPPENDIX\ntables\n";
  base::OpeningSize size;

  base::Open(&report, "sentence\nAPPENDIX\nnumbers\n", &size);
  CHECK(report == "sentence\n\nhead\nAPPENDIX\nnumbers\ntables\n");
  base::Open(&report, "other\n\nAPPENDIX\n1\n2\n", &size);
  CHECK(report == "other\n\nhead\nAPPENDIX\n1\n2\ntables\n");
  base::Open(&report, "without\n", &size);
  CHECK(report == "without\n\nhead\nAPPENDIX\ntables\n");
}

TEST_CASE("a report without an appendix gets that of its opening at its end", "[appendix]") {
  std::string report = "text\n";
  base::OpeningSize size;

  base::Open(&report, "a\nAPPENDIX\nb\n", &size);
  CHECK(report == "a\n\ntext\nAPPENDIX\nb\n");
  base::Open(&report, "c\nAPPENDIX\nd\n", &size);
  CHECK(report == "c\n\ntext\nAPPENDIX\nd\n");
  CHECK(base::FindAppendix("the APPENDIX\nAPPENDIX of it\nAPPENDIX") == 36);
}

TEST_CASE("lines are added before the line APPENDIX, or at the end", "[appendix]") {
  std::string text = "a\nAPPENDIX\nb\n", without = "a\n";
  base::AddToFront(&text, "c\n");
  base::AddToFront(&without, "c\n");
  CHECK(text == "a\nc\nAPPENDIX\nb\n");
  CHECK(without == "a\nc\n");
}

TEST_CASE("the first lines of a text end with dots if it has more, within the columns", "[appendix]") {
  CHECK(base::FirstLines("a\nb\n", 2, 100) == "a\nb\n");
  CHECK(base::FirstLines("a\nb\nc\n", 2, 100) == "a\nb ...\n");
  CHECK(base::FirstLines("a\nb\n", 0, 100).empty());
  CHECK(base::FirstLines("", 3, 100).empty());
  CHECK(base::FirstLines("0123456789\nb\n", 1, 10) == "0123456...\n");
}
