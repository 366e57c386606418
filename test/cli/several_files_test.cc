// SPDX-License-Identifier: Apache-2.0
//
// The built program on a directory of traces.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;

// A file of spans with one request, at that second of Unix time.
std::string Spans(const std::string& id, const std::string& second) {
  return R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":")" + id +
         R"(","name":"/r","kind":2,"startTimeUnixNano":")" + second + R"(000000000","endTimeUnixNano":")" + second +
         R"(500000000"}]}]}]})";
}

TEST_CASE("a directory of traces is answered as one", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/rank1.json", Spans("00000000000000ab", "1700000002"));
  folder.Write("in/notes.txt", "not a trace");

  const Result result = folder.Run("info --json in");

  CHECK(result.exit_code == 0);
  CHECK(result.err.find("in has 2 traces") != std::string::npos);
  const json info = json::parse(result.out);
  CHECK(info["counts"]["requests"] == 2);
  CHECK(info["window"]["begin_unix_ns"] == 1'700'000'000'000'000'000);
  CHECK(info["window"]["end_unix_ns"] == 1'700'000'002'500'000'000);
  CHECK(folder.Run("analyze in").exit_code == 0);
}

TEST_CASE("what is wrong with one of a directory's traces is said", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/rank1.json", Spans("00000000000000ab", "1700000002"));
  folder.Write("in/rank2.json", R"({"traceEvents":[]})");
  folder.Write("in/rank3.json", Spans("00000000000000ac", "1700000004") + Spans("00000000000000ac", "1700000005"));
  folder.Write("in/rank4.json", Spans("00000000000000ad", "9700000000"));

  const Result result = folder.Run("info --json in");

  CHECK(result.err.find("rank3.json: 1 span came again with the same id") != std::string::npos);
  CHECK(result.err.find("rank4.json is left out: it has 1 event") != std::string::npos);
}

TEST_CASE("a dump comes before other traces of its directory", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/a.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/server.pitot", Dump());

  const Result result = folder.Run("info --json in");

  CHECK(result.exit_code == 0);
  CHECK(json::parse(result.out)["format"] == "dump");
}

TEST_CASE("a trace without a date cannot be joined, and is named", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/chrome.json", R"({"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]})");

  const Result result = folder.Run("info in");

  CHECK(result.exit_code != 0);
  CHECK(result.out.empty());
  CHECK(result.err.find("chrome has no date") != std::string::npos);
}

TEST_CASE("a directory without a trace is refused", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/notes.txt", "not a trace");

  const Result result = folder.Run("info in");

  CHECK(result.exit_code != 0);
  CHECK(result.err.find("there is no incident in in") != std::string::npos);
}

}  // namespace
