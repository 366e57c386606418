// SPDX-License-Identifier: Apache-2.0
//
// `pitot list`: incidents with and without verdicts, half-written ones, and files that are not Pitot's.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/folder.h"

namespace {

using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;

constexpr const char* kVerdict = R"({
"again": {"times": 22, "requests": 30, "first": 1, "worst": 4, "last": 23, "first_at_ns": 1, "at_ns": [1]},
"summary": "It waited.", "request": "000000000000abcd", "route": "/classify", "verdict": "causes",
"latency_ns": 91200000, "typical_ns": 2200000,
"root": {"kind": "request", "blame": "host_oncpu_pre", "confidence": 0.75,
         "by": {"thread": "handler", "request": "0000000000000007", "route": "/reload"}},
"causes": [{"blame": "host_lock", "excess_ns": 88000000, "confidence": 0.99, "by": {"thread": "loader"}}]})";

struct Incidents : Folder {
  std::string Add(const std::string& name) const {
    std::filesystem::create_directories(*this / ("in/" + name));
    return "in/" + name + "/";
  }
  void AddDump(const std::string& name, const std::string& verdict = "") const {
    const std::string directory = Add(name);
    Write(directory + "dump.pitot", "x");
    if (!verdict.empty()) Write(directory + "verdict.json", verdict);
  }
  json List() const {
    const Result listed = Run("list --json in");
    INFO(listed.err);
    REQUIRE(listed.exit_code == 0);
    return json::parse(listed.out).at("incidents");
  }
};

std::vector<std::string> Names(const json& incidents) {
  std::vector<std::string> names;
  for (const json& one : incidents) names.push_back(one.at("directory"));
  return names;
}

}  // namespace

TEST_CASE("incidents are listed by time, with the sentence, cause, root, confidence and how often they came", "[cli]") {
  const Incidents folder;
  folder.AddDump("20261127T185410Z-0002-latency-classify", kVerdict);
  folder.AddDump("20261127T185409Z-0001-manual");

  CHECK(folder.Run("list in").out ==
        "20261127T185409Z-0001-manual\n"
        "    no verdict: `pitot why` makes one\n"
        "20261127T185410Z-0002-latency-classify  000000000000abcd /classify 91.2 ms, again 22 times\n"
        "    It waited.\n"
        "    cause host_lock +88.0 ms, by thread loader, confidence 0.99\n"
        "    root request, host_oncpu_pre, of request 0000000000000007 (/reload), confidence 0.75\n");

  const json incidents = folder.List();
  REQUIRE(incidents.size() == 2);
  CHECK(incidents[0] == json::parse(R"({"directory": "20261127T185409Z-0001-manual", "at": "2026-11-27T18:54:09Z",
      "number": 1, "trigger": "manual", "state": "no_verdict", "problem": ""})"));
  CHECK(incidents[1] == json::parse(R"({"directory": "20261127T185410Z-0002-latency-classify",
      "at": "2026-11-27T18:54:10Z", "number": 2, "trigger": "latency-classify", "state": "judged", "problem": "",
      "request": "000000000000abcd", "host_id": "", "route": "/classify", "latency_ns": 91200000, "typical_ns": 2200000,
      "verdict": "causes", "summary": "It waited.", "again": 22,
      "cause": {"blame": "host_lock", "excess_ns": 88000000, "confidence": 0.99, "by": {"thread": "loader"}},
      "root": {"kind": "request", "blame": "host_oncpu_pre", "confidence": 0.75,
               "by": {"thread": "handler", "request": "0000000000000007", "route": "/reload"}}})"));
}

TEST_CASE("incidents name requests by the server's own ids", "[cli]") {
  const Incidents folder;
  json verdict = json::parse(kVerdict);
  verdict["host_id"] = "cmpl-17";
  verdict["root"]["by"]["host_id"] = "reload-3";
  folder.AddDump("20261127T185410Z-0002-latency-classify", verdict.dump());

  const std::string text = folder.Run("list in").out;

  CHECK(text.find("latency-classify  cmpl-17 /classify 91.2 ms") != std::string::npos);
  CHECK(text.find("of request reload-3 (/reload)") != std::string::npos);
  CHECK(folder.List()[0]["host_id"] == "cmpl-17");
  CHECK(folder.List()[0]["request"] == "000000000000abcd");
}

TEST_CASE("a half-written incident is listed as that, the hidden ones last", "[cli]") {
  const Incidents folder;
  folder.Add("20261127T185411Z-0003-manual");                                // its dump was removed
  folder.Write(folder.Add(".pitot-partial-7-0004") + "dump.pitot", "half");  // being written
  folder.AddDump("20261127T185409Z-0001-manual", R"({"request": "0000)");    // a full disk
  folder.AddDump("20261127T185410Z-0002-manual", "[]");

  const json incidents = folder.List();

  REQUIRE(Names(incidents) == std::vector<std::string>{"20261127T185409Z-0001-manual", "20261127T185410Z-0002-manual",
                                                       "20261127T185411Z-0003-manual", ".pitot-partial-7-0004"});
  for (const size_t i : {0, 1}) {
    CHECK(incidents[i].at("state") == "no_verdict");
    CHECK(incidents[i].at("problem") == "verdict.json cannot be read");
  }
  for (const size_t i : {2, 3}) CHECK(incidents[i].at("state") == "partial");
  const std::string text = folder.Run("list in").out;
  CHECK(text.find("20261127T185411Z-0003-manual\n    not whole") != std::string::npos);
}

TEST_CASE("fields of a verdict with another type or that are missing are listed as unknown", "[cli]") {
  const Incidents folder;
  folder.AddDump("20261127T185409Z-0001-manual",
                 R"({"again": 3, "request": 5, "latency_ns": "x", "causes": [7], "root": [], "verdict": "diffuse"})");
  folder.AddDump("20261127T185410Z-0002-manual",
                 R"({"causes": [{"excess_ns": 1e300, "confidence": "y", "by": null}]})");

  const json incidents = folder.List();

  CHECK(incidents[0].at("state") == "judged");
  CHECK(incidents[0].at("request") == "");
  CHECK(incidents[0].at("again") == 0);
  for (const char* field : {"latency_ns", "cause", "root"}) CHECK(incidents[0].at(field).is_null());
  CHECK(incidents[1].at("cause").at("excess_ns").is_null());
  CHECK(folder.Run("list in").exit_code == 0);
}

TEST_CASE("an incident itself is listed, and what is not Pitot's is not", "[cli]") {
  const Incidents folder;
  folder.AddDump("20261127T185409Z-0001-manual");
  folder.Add("logs");
  folder.Add(".cache");
  folder.Write("in/notes.txt", "");
  CHECK(Names(folder.List()) == std::vector<std::string>{"20261127T185409Z-0001-manual"});

  const Result one = folder.Run("list in/20261127T185409Z-0001-manual/");

  CHECK(one.exit_code == 0);
  CHECK(one.out.rfind("20261127T185409Z-0001-manual\n", 0) == 0);
}

TEST_CASE("a directory without incidents is an empty answer, and a missing one an error", "[cli]") {
  const Incidents folder;
  folder.Add("logs");
  const Result empty = folder.Run("list --json in"), missing = folder.Run("list nowhere");
  CHECK(empty.exit_code == 1);
  CHECK(json::parse(empty.out).at("incidents").empty());
  CHECK(missing.exit_code == 3);
  CHECK(missing.err.find("cannot read nowhere") != std::string::npos);
  CHECK(folder.Run("list in").err ==
        "pitot: there is no incident in in: one is written when a trigger fires or the server calls "
        "Recorder::Trigger.\n");
}

TEST_CASE("a directory with incidents only further down says where they are", "[cli]") {
  const Incidents folder;
  folder.AddDump("worker0/20261127T185409Z-0001-manual");
  folder.AddDump("worker0/20261127T185410Z-0002-manual");
  folder.AddDump("worker1/20261127T185409Z-0001-manual");

  const Result result = folder.Run("list in");

  CHECK(result.exit_code == 1);
  CHECK(result.err == "pitot: there is no incident in in, but in folders below it: list in/worker0, in/worker1.\n");
}
