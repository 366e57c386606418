// SPDX-License-Identifier: Apache-2.0
#include "read/event_splitter.h"

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

using pitot::read::ByteSource;
using pitot::read::EventSplitter;
using Piece = EventSplitter::Piece;

namespace {

// Gives `step` bytes at a time.
class Slow final : public ByteSource {
 public:
  Slow(std::string text, size_t step) : text_(std::move(text)), step_(step) {}
  size_t Read(char* out, size_t size) override {
    const size_t got = text_.copy(out, std::min(size, step_), at_);
    at_ += got;
    return got;
  }

 private:
  std::string text_;
  size_t at_ = 0, step_;
};

// The pieces, as "key=text" for members, and the reason for the end.
std::vector<std::string> Split(const std::string& text, size_t step = SIZE_MAX) {
  Slow source(text, step);
  EventSplitter splitter(&source);
  std::vector<std::string> pieces;
  for (;;) {
    switch (splitter.Next()) {
      case Piece::kEvent:
        pieces.emplace_back(splitter.text());
        break;
      case Piece::kMember:
        pieces.push_back(std::string(splitter.key()) + "=" + std::string(splitter.text()));
        break;
      case Piece::kTooDeep:
      case Piece::kTooDeepMember:
        pieces.emplace_back("too deep");
        break;
      case Piece::kBroken:
        pieces.emplace_back("broken");
        break;
      case Piece::kDocument:
        pieces.emplace_back("document");
        break;
      case Piece::kEnd:
        return pieces;
      default:
        pieces.push_back(std::string("! ") + splitter.problem());
        return pieces;
    }
  }
}
using Pieces = std::vector<std::string>;

}  // namespace

TEST_CASE("events and the members next to them come one at a time", "[splitter]") {
  const std::string text = R"( {"schemaVersion": 1, "devices": [{"id": 0}], "traceEvents": [
    {"ph":"X","args":{"a":[1,2]}} , {"name":"}]\"\\"},
    7 ], "traceName": "a\"b"}   )";

  const Pieces expected = {
      "schemaVersion=1",    "devices=[{\"id\": 0}]", R"({"ph":"X","args":{"a":[1,2]}})", R"({"name":"}]\"\\"})", "7",
      R"(traceName="a\"b")"};
  // At any size of the source's pieces.
  for (const size_t step : {SIZE_MAX, size_t{1}, size_t{2}, size_t{7}}) CHECK(Split(text, step) == expected);
}

TEST_CASE("a list without an object around it is a list of events", "[splitter]") {
  CHECK(Split("[{\"a\":1},{}]") == Pieces{"{\"a\":1}", "{}"});
  CHECK(Split("[]").empty());
}

TEST_CASE("truncated text gives its whole events and the place of its end", "[splitter]") {
  CHECK(Split(R"({"traceEvents":[{"a":1},{"b)") == Pieces{"{\"a\":1}", "! it ends in the middle of an event"});
  CHECK(Split(R"({"traceEvents":[{"a":1},)") == Pieces{"{\"a\":1}", "! it ends in the middle of its events"});
  CHECK(Split(R"({"traceEvents":[{"a":1}],"x)") == Pieces{"{\"a\":1}", "! it ends in the middle"});
  CHECK(Split(R"({"traceEvents":[{"a":1}])") == Pieces{"{\"a\":1}", "! it ends in the middle"});
  CHECK(Split("[{\"a\":\"\\") == Pieces{"! it ends in the middle of an event"});
  CHECK(Split("") == Pieces{"! it is empty"});
  CHECK(Split("PITOT") == Pieces{"! it is not JSON"});
}

TEST_CASE("an event nested too deep is passed over, not followed", "[splitter]") {
  const std::string deep = std::string(10000, '[') + std::string(10000, ']');

  CHECK(Split("[{},{\"args\":" + deep + "},{}]") == Pieces{"{}", "too deep", "{}"});
}

TEST_CASE("an event larger than 64 MiB ends the reading", "[splitter]") {
  const std::string huge = "[{},{\"name\":\"" + std::string(EventSplitter::kMaxPieceBytes + (4 << 20), 'x') + "\"}]";

  CHECK(Split(huge) == Pieces{"{}", "! an event or member of it is larger than 64 MiB"});
}

TEST_CASE("a million empty lists of events take no stack", "[splitter]") {
  std::string text = "{";
  for (int i = 0; i < 1000000; ++i) text += "\"traceEvents\":[],";

  CHECK(Split(text + "\"a\":1}") == Pieces{"a=1"});
}

TEST_CASE("documents may follow each other, and nothing else", "[splitter]") {
  const std::string one = R"({"traceEvents":[{"a":1}]})";

  for (const size_t step : {SIZE_MAX, size_t{1}}) {
    CHECK(Split(one + "\n" + one, step) == Pieces{"{\"a\":1}", "document", "{\"a\":1}"});
    CHECK(Split("[{\"a\":1}]" + one, step) == Pieces{"{\"a\":1}", "document", "{\"a\":1}"});
    CHECK(Split(one + " trailing", step) == Pieces{"{\"a\":1}", "! it goes on after its end, and not with a trace"});
  }
  CHECK(Split(one + "{\"b\":2} {}") ==
        Pieces{"{\"a\":1}", "document", "b=2", "! it goes on after its end, and not with a trace"});
  CHECK(Split("{\"a\":1}{\"b\":2}") == Pieces{"a=1"});  // no trace
}

TEST_CASE("an event that does not end costs one event", "[splitter]") {
  const std::string next = "\n{\"ph\": \"X\"}";
  const Pieces expected = {"broken", next.substr(1)};

  for (const size_t step : {SIZE_MAX, size_t{1}, size_t{3}}) {
    // Strings are inside out, with braces in them or not.
    CHECK(Split("[{\"name\": \"a\"b\", \"c\": \"d\"}," + next + "]", step) == expected);
    CHECK(Split("[{\"name\": \"a\"{b\", \"c\": \"}\"},\n  {\n    \"ph\": 1}]", step) ==
          Pieces{"broken", "{\n    \"ph\": 1}"});
    // Braces without a partner.
    CHECK(Split("[{\"name\": \"a\"{\"b\"}," + next + "]", step) == expected);
    CHECK(Split("[{\"name\": \"a\"}}:\"b\"}," + next + "]", step) ==
          Pieces{"{\"name\": \"a\"}", "broken", next.substr(1)});
  }
  // Lines within a name, and objects within arguments, begin no event.
  CHECK(Split("[{\"args\": {\"ph\": 7}}]") == Pieces{"{\"args\": {\"ph\": 7}}"});
  const std::string whole = "{\"name\": \"a\n{b\", \"args\": {\n{\"p\": 1}}}";
  CHECK(Split("[" + whole + "]") == Pieces{whole});
}

TEST_CASE("a document that was cut ends where the next one begins", "[splitter]") {
  const std::string next = "\n{\n  \"schemaVersion\": 1, \"traceEvents\": [{\"a\": 1}]}";
  const Pieces expected = {"{\"b\":2}", "broken", "document", "schemaVersion=1", "{\"a\": 1}"};

  for (const char* const cut : {"{\"name\": \"c", "{\"name\": \"c\", \"args\": {"}) {
    for (const size_t step : {SIZE_MAX, size_t{1}})
      CHECK(Split("{\"traceEvents\": [{\"b\":2}," + std::string(cut) + next, step) == expected);
  }
}

TEST_CASE("many empty lines in a name take no time", "[splitter]") {
  const std::string lines = "[{\"name\": \"" + std::string(8 << 20, '\n') + "\"}]";

  CHECK(Split(lines).size() == 1);
}
