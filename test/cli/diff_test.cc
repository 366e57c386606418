// SPDX-License-Identifier: Apache-2.0
//
// `pitot diff` on dumps of two versions of a small server: its output, and its exit codes for CI.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "analyze/two_versions.h"
#include "cli/folder.h"
#include "golden.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;
using pitot::test::Version;

// Has dumps of the version before, a slower one, one with more launches, and two with few requests.
class Versions : public Folder {
 public:
  Versions() {
    Version before, slow, more, few, few_again, tail, fast;
    fast.gemm_us = 500;
    fast.allocations = 1;
    slow.gemm_us = 1300;
    slow.gemm = "gemm_128";
    more.gemms = 6;
    few.requests = 3;
    few_again.requests = 3;
    few_again.gemm_us = 1001;
    tail.slow_requests = 3;
    Write("before", before);
    Write("slow", slow);
    Write("more", more);
    Write("few", few);
    Write("few_again", few_again);
    Write("tail", tail);
    Write("fast", fast);
  }

 private:
  void Write(const std::string& name, const Version& version) {
    Folder::Write(name + ".pitot", Dump(pitot::test::Make(version)));
  }
};

}  // namespace

TEST_CASE("diff reports regressions and their causes", "[cli]") {
  const Result result = Versions().Run("diff before.pitot slow.pitot");

  INFO(result.err);
  CHECK(result.exit_code == 1);
  CheckGolden("cli_diff.txt", result.out);
}

TEST_CASE("diff's exit code tells a build of no regression, a regression, or an inconclusive result", "[cli]") {
  const Versions versions;
  CHECK(versions.Run("diff before.pitot before.pitot").exit_code == 0);
  CHECK(versions.Run("diff slow.pitot before.pitot").exit_code == 0);
  CHECK(versions.Run("diff before.pitot more.pitot").exit_code == 1);
  CHECK(versions.Run("diff few.pitot few_again.pitot").exit_code == 7);
}

TEST_CASE("diff's first line names the measures with growth, by how much, and why they prove no regression", "[cli]") {
  Versions versions;
  versions.columns = "200";
  const auto first_line = [&](const std::string& arguments) {
    const std::string out = versions.Run("diff " + arguments).out;
    return out.substr(0, out.find('\n'));
  };

  CHECK(first_line("slow.pitot before.pitot") == "no regression: forward -1.20 ms a request (latency -16.2 %)");
  CHECK(versions.Run("diff before.pitot tail.pitot").exit_code == 0);
  CHECK(first_line("before.pitot tail.pitot") ==
        "not a proven regression: mean latency +8.0 %, latency p99 +315.8 %; too few requests for a proof");
  CHECK(first_line("before.pitot more.pitot") ==
        "regression: latency +32.2 %, latency p50 +32.2 %, gpu time +47.6 %, launches +50.0 %; not proven: latency p99 "
        "+32.4 %");
  CHECK(first_line("few.pitot few_again.pitot") ==
        "inconclusive: latency, gpu time; too few to compare (3 before, 3 after; requests queued behind each "
        "other count less): compare longer traces");
  const std::string counted = first_line("before.pitot fast.pitot");
  CHECK(counted.rfind("regression: gemm -", 0) == 0);
  CHECK(counted.find(" a request (latency -") < counted.find("allocations new"));
  CHECK(first_line("before.pitot slow.pitot --regression 0.194") ==
        "regression: gpu time +28.6 %; not proven: latency p99 +19.4 %");
}

TEST_CASE("diff of a dump and itself reports no difference", "[cli]") {
  const Versions versions;

  const Result result = versions.Run("diff few.pitot few.pitot");

  CHECK(result.exit_code == 0);
  CHECK(result.out.rfind("no regression, and no difference\n", 0) == 0);
  CHECK(result.out.find("inconclusive") == std::string::npos);
  CHECK(json::parse(versions.Run("diff few.pitot few.pitot --json").out)["same_recording"] == true);
  CHECK(json::parse(versions.Run("diff few.pitot few_again.pitot --json").out)["same_recording"] == false);
}

TEST_CASE("all commands shorten a long kernel name in the same way", "[cli]") {
  const std::string brief = "library::kernels::a_template_of_many_arguments_and_a_long_name";
  const std::string shown = "library::kernels:..._and_a_long_name";
  const auto slow = [&](int64_t us) {
    Version version;
    version.gemm_us = us;
    version.gemm = "void " + brief + "<float, std::tuple<int, 3> >(float const*, int)";
    return Dump(pitot::test::Make(version));
  };
  const Folder folder;
  folder.Write("before.pitot", slow(1000));
  folder.Write("after.pitot", slow(1300));

  CHECK(folder.Run("diff before.pitot after.pitot").out.find(shown) != std::string::npos);
  CHECK(folder.Run("why before.pitot").out.find(shown) != std::string::npos);
  CHECK(folder.Run("report before.pitot").out.find(shown) != std::string::npos);
  CHECK(folder.Run("analyze before.pitot").out.find(shown) != std::string::npos);
}

TEST_CASE("diff accepts other limits", "[cli]") {
  const Versions versions;
  CHECK(versions.Run("diff before.pitot slow.pitot --regression 0.4").exit_code == 0);
  CHECK(versions.Run("diff before.pitot more.pitot --regression 0.4").exit_code == 1);
  CHECK(versions.Run("diff before.pitot more.pitot --regression 0.6 --count-growth 0.6").exit_code == 0);
  const auto is_significant = [&](const std::string& options) {
    const json document = json::parse(versions.Run("diff before.pitot slow.pitot --json " + options).out);
    return document["tables"].back()["rows"][0]["significant"] == true;
  };
  CHECK(is_significant(""));
  CHECK_FALSE(is_significant("--least-us 5000"));
  CHECK_FALSE(is_significant("--least-share 0.5"));
}

TEST_CASE("diff prints JSON in whole ns that add up", "[cli]") {
  const Result result = Versions().Run("diff before.pitot slow.pitot --json");

  CHECK(result.exit_code == 1);
  const json document = json::parse(result.out);
  CHECK(document["outcome"] == "regression");
  CHECK(document["per"] == "request");
  CHECK(document["gates"][0]["name"] == "latency");
  const json& gpu = document["tables"].back();
  CHECK(gpu["name"] == "gpu");
  CHECK(gpu["rows"][0]["name"] == "gemm_128");
  CHECK(gpu["rows"][0]["was"] == "gemm");
  CHECK(gpu["rows"][0]["by_duration"] == true);
  CHECK(gpu["rows"][0]["by_count"] == false);
  for (const json& table : document["tables"]) {
    int64_t change_ns = 0;
    for (const json& row : table["rows"])
      change_ns += row["count_effect_ns"].get<int64_t>() + row["duration_effect_ns"].get<int64_t>();
    CHECK(change_ns == table["after_ns"].get<int64_t>() - table["before_ns"].get<int64_t>());
  }
}

TEST_CASE("diff refuses wrong arguments and files", "[cli]") {
  const Versions versions;
  const std::string dump = Dump(pitot::test::Make(Version()));
  versions.Folder::Write("cut.pitot", dump.substr(0, dump.size() - 30));
  versions.Folder::Write("garbage", "garbage");

  CHECK(versions.Run("diff").exit_code == 2);
  CHECK(versions.Run("diff before.pitot").exit_code == 2);
  CHECK(versions.Run("diff before.pitot slow.pitot --q 0").exit_code == 2);
  CHECK(versions.Run("diff before.pitot none.pitot").exit_code == 3);
  CHECK(versions.Run("diff garbage before.pitot").exit_code == 5);
  CHECK(versions.Run("diff before.pitot cut.pitot").exit_code == 4);
}

TEST_CASE("diff has a help text", "[cli]") {
  const Result result = Folder().Run("diff --help");
  REQUIRE(result.exit_code == 0);
  CheckGolden("cli_diff_help.txt", result.out);
}
