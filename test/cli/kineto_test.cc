// SPDX-License-Identifier: Apache-2.0
//
// The built program on a trace by PyTorch's profiler.
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"

namespace {

using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;

const std::string kTrace = R"({"traceEvents": [
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":10,"tid":11,"ts":1000,"dur":100},
  {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":11,"ts":1010,"dur":40},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10,"tid":11,"ts":1020,"dur":5,
   "args":{"correlation":3}},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1030.5,"dur":20,
   "args":{"device":0,"context":1,"stream":7,"correlation":3}}
]})";

}  // namespace

TEST_CASE("info, top, report and convert read a PyTorch trace by its content, not its name", "[cli]") {
  const Folder folder;
  folder.Write("anything.bin", kTrace);

  const Result info = folder.Run("info --json anything.bin");
  REQUIRE(info.exit_code == 0);
  const json document = json::parse(info.out);
  CHECK(document["format"] == "kineto");
  CHECK(document["counts"]["events"] == 2);
  CHECK(document["json"]["events"] == 4);
  CHECK(folder.Run("info anything.bin").out.find("Kineto JSON, not damaged") != std::string::npos);

  const Result top = folder.Run("top --json anything.bin");
  REQUIRE(top.exit_code == 0);
  const json row = json::parse(top.out)["rows"][0];
  CHECK(row["name"] == "aten::mm");
  CHECK(row["self_gpu_ns"] == 20000);

  CHECK(folder.Run("report anything.bin").exit_code == 0);
  CHECK(folder.Run("convert anything.bin -o trace.pftrace").exit_code == 0);
  CHECK(folder.Run("recover anything.bin -o a.pitot").exit_code == 0);
  CHECK(folder.Run("info a.pitot").exit_code == 0);
}

TEST_CASE("a trace without events exits as for an empty answer", "[cli]") {
  const Folder folder;
  folder.Write("empty.json", R"({"schemaVersion":1,"traceEvents":[]})");
  for (const char* command : {"analyze", "analyze --json", "info", "top", "report -o -", "convert -o -"}) {
    CAPTURE(command);
    const Result result = folder.Run(std::string(command) + " empty.json");
    CHECK(result.exit_code == 1);
    CHECK(result.out.empty());
    CHECK(result.err.find("nothing happened in empty.json: it is Kineto JSON without an event: profile while") !=
          std::string::npos);
  }
}

TEST_CASE("analyze --json has every finding with its precision, and --all prints as many", "[cli]") {
  Folder folder;
  folder.Write("a.json", kTrace);

  size_t findings = 0;
  const json document = json::parse(folder.Run("analyze --json a.json").out);
  for (const json& analyzer : document["analyzers"]) {
    for (const json& finding : analyzer["findings"]) {
      ++findings;
      CHECK(finding["right_in"] <= finding["of_measured"]);
      CHECK((finding["precision"] > 0 && finding["precision"] <= 1));
      CHECK(finding["silent"] ==
            (!finding["undetermined"] && finding["of_measured"] >= 3 && finding["precision"] < 0.5));
    }
  }
  REQUIRE(findings > 1);
  const std::string all = folder.Run("analyze --all a.json --set a03.utilisation_low=0.6").out;
  CHECK(all.find(", " + std::to_string(findings) + " findings\n") != std::string::npos);
  CHECK(all.find("precision not measured") != std::string::npos);  // by a threshold of the host's
}

TEST_CASE("analyze reports findings that contradict each other, with their confidence", "[cli]") {
  Folder folder;
  folder.Write("a.json", kTrace);
  folder.columns = "200";
  const std::string run = "analyze a.json --set a10.launch_share=-1 --set a11.full_share=-1 --only a10";

  const std::string text = folder.Run(run + ",a11").out, alone = folder.Run(run).out;
  const json document = json::parse(folder.Run(run + ",a11 --json").out);

  CHECK(text.find("       but contradicted by a10.launch_bound of GPU 0: either a GPU waits for launches, or launches "
                  "wait for the GPU\n") != std::string::npos);
  CHECK(text.find("       but contradicted by a11.queue_full of GPU 0 stream 7: ") != std::string::npos);
  CHECK(alone.find("a10.launch_bound") != std::string::npos);
  CHECK(alone.find("contradicted") == std::string::npos);
  for (const json& analyzer : document["analyzers"]) {
    for (const json& finding : analyzer["findings"]) {
      REQUIRE_FALSE(finding["contradictions"].empty());
      CHECK(finding["contradictions"][0]["code"] ==
            (analyzer["name"] == "a10" ? "a11.queue_full" : "a10.launch_bound"));
      CHECK(finding["confidence"] <= 0.45);
      CHECK(finding["repeats"] == 0);
    }
  }
}

TEST_CASE("analyze prints findings with their threshold and measurements", "[cli]") {
  const Folder folder;
  folder.Write("a.json", kTrace);

  const Result all = folder.Run("analyze --json a.json");
  REQUIRE(all.exit_code == 0);
  const json document = json::parse(all.out);
  CHECK(document["window_ns"] == 100000);
  json finding;
  for (const json& analyzer : document["analyzers"]) {
    if (analyzer["name"] == "a03") finding = analyzer["findings"].at(0);
  }
  CHECK(finding["code"] == "a03.utilisation_low");
  CHECK(finding["threshold"]["value"] == 0.5);
  CHECK(finding["threshold"]["source"] == "torch-tb-profiler");
  CHECK(folder.Run("analyze a.json").out.find("GPU 0: kernels ran for 20.0 % of the window") != std::string::npos);

  const Result one = folder.Run("analyze --json --only A01 --compat hta a.json");
  REQUIRE(one.exit_code == 0);
  REQUIRE(json::parse(one.out)["analyzers"].size() == 1);
  // HTA begins at the next whole microsecond and ends at the last.
  CHECK(json::parse(one.out)["analyzers"][0]["measures"][0]["value"] == 19000);

  const Result set = folder.Run("analyze --json --only a03 --set a03.utilisation_low=0.1 a.json");
  CHECK(json::parse(set.out)["analyzers"][0]["findings"].empty());
  CHECK(folder.Run("analyze --set a03.other=1 a.json").exit_code == 2);
  CHECK(folder.Run("analyze --set a03 a.json").exit_code == 2);
}

TEST_CASE("analyze names the analyzers near a misspelt one, and all of them", "[cli]") {
  const Folder folder;
  folder.Write("a.json", kTrace);
  const auto message = [&](const std::string& name) {
    const Result result = folder.Run("analyze a.json --only " + name);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("The analyzers are a01, a02, a03") != std::string::npos);
    return result.err.substr(0, result.err.find(" The analyzers are"));
  };

  CHECK(message("a99") == "pitot: --only a99: there is no such analyzer.");
  CHECK(message("a4") == "pitot: --only a4: there is no such analyzer. Did you mean a04 (why GPUs were idle)?");
  CHECK(message("a10.launch_bound") ==
        "pitot: --only a10.launch_bound: there is no such analyzer. Did you mean a10 (launch overhead)?");
  CHECK(message("lauch") ==
        "pitot: --only lauch: there is no such analyzer. Did you mean a10 (launch overhead) or a11 (launch queue) or "
        "a20 (launch shapes)?");
}

TEST_CASE("analyze says so and exits with 0 if the analyzers of --only find nothing", "[cli]") {
  const Folder folder;
  folder.Write("a.json", kTrace);

  const Result nothing = folder.Run("analyze a.json --only a12,a43");

  CHECK(nothing.exit_code == 0);
  CHECK(nothing.err == "pitot: a12, a43 found nothing in a.json\n");
}

TEST_CASE("a truncated PyTorch trace is answered from its whole events", "[cli]") {
  const Folder folder;
  folder.Write("cut.json", kTrace.substr(0, kTrace.size() - 20));

  const Result info = folder.Run("info --json cut.json");

  CHECK(info.exit_code == 4);
  CHECK(json::parse(info.out)["counts"]["events"] == 2);
  CHECK(info.err.find("it ends in the middle of an event") != std::string::npos);
}

TEST_CASE("JSON that is not a trace is refused with a reason", "[cli]") {
  const Folder folder;
  folder.Write("other.json", "{\"a\": 1}");

  const Result info = folder.Run("info other.json");

  CHECK(info.exit_code == 5);
  CHECK(info.err.find("it has no traceEvents") != std::string::npos);
}

TEST_CASE("a JSON list without a readable event is refused, and nothing is written from it", "[cli]") {
  const Folder folder;
  for (const char* const other : {"[1,2", "[1,2]", "[{"}) {
    CAPTURE(other);
    folder.Write("other.json", other);

    const Result convert = folder.Run("convert other.json -o out.pftrace");

    CHECK(convert.exit_code == 5);
    CHECK(convert.err.find("other.json is not a trace readable by this version: it is JSON, but not a trace: it has no "
                           "readable event") != std::string::npos);
    CHECK_FALSE(std::filesystem::exists(folder / "out.pftrace"));
  }
}

TEST_CASE("a trace of which no event can be read is damaged, not something else", "[cli]") {
  const Folder folder;
  folder.Write("cut.json", R"_({"schemaVersion": 1, "traceEvents": [{"ph":"X","name":"@"sP(0)","pid":1)_");

  const Result info = folder.Run("info cut.json");

  CHECK(info.exit_code == 4);
  CHECK(info.err.find("cut.json is damaged: it ends in the middle of an event; 0 events were read.\n") !=
        std::string::npos);
}

TEST_CASE("top says how PyTorch's profiler records operators, if a trace has none", "[cli]") {
  const Folder folder;
  folder.Write("scopes.json", R"({"traceEvents":[
    {"ph":"X","cat":"user_annotation","name":"step","pid":1,"tid":1,"ts":1,"dur":50}]})");

  const Result top = folder.Run("top --by op scopes.json");

  CHECK(top.exit_code == 1);
  CHECK(top.err.find("record with activities=[ProfilerActivity.CPU].") != std::string::npos);
}

TEST_CASE("analyze prints no rows of GPUs for a trace without any, and --json keeps them", "[cli]") {
  const Folder folder;
  folder.Write("host.json", R"({"traceEvents":[
    {"ph":"X","cat":"cpu_op","name":"aten::add","pid":1,"tid":1,"ts":1,"dur":50}]})");

  const Result text = folder.Run("analyze host.json --only a01,a10");

  CHECK(text.out.find("operator") != std::string::npos);
  for (const char* const of_gpus : {"compute", "communication", "memcpy", "synchronization", "launches"}) {
    CAPTURE(of_gpus);
    CHECK(text.out.find(of_gpus) == std::string::npos);
  }
  CHECK(folder.Run("analyze host.json --only a01 --json").out.find("\"compute\"") != std::string::npos);
}

TEST_CASE("top has PyTorch's Self CPU, which is without calls", "[cli]") {
  const Folder folder;
  folder.Write("trace.json", kTrace);

  const json row = json::parse(folder.Run("top --json trace.json").out)["rows"][0];
  CHECK(row["self_cpu_ns"] == 40000);
  CHECK(row["self_no_calls_ns"] == 35000);
  CHECK(folder.Run("top trace.json --width 0").out.find("no calls") != std::string::npos);
  CHECK(folder.Run("top trace.json --sort \"Self no calls\"").exit_code == 0);
  CHECK(json::parse(folder.Run("top --by call --json trace.json").out)["rows"][0]["self_no_calls_ns"].is_null());
}

TEST_CASE("diff shows a Python function whose line changed in one row", "[cli]") {
  const Folder folder;
  const auto trace_of = [](const std::string& line) {
    return R"([{"ph":"X","cat":"python_function","name":"torch/nn/module.py()" + line +
           R"(): _call_impl","pid":10,"tid":11,"ts":1000,"dur":100}])";
  };
  folder.Write("before.json", trace_of("1743"));
  folder.Write("after.json", trace_of("1755"));

  const std::string text = folder.Run("diff before.json after.json").out;
  CHECK(text.find("torch/nn/module.py(1755): _call_impl") != std::string::npos);
  CHECK(text.find("was line 1743") != std::string::npos);
}

TEST_CASE("info says that ranks in one file were kept apart", "[cli]") {
  const Folder folder;
  folder.Write("two.json", kTrace + "\n" + kTrace);

  const Result info = folder.Run("info two.json");
  CHECK(info.exit_code == 0);
  CHECK(info.err.find("2 documents were read: it goes on after its end") != std::string::npos);
  CHECK(info.err.find("2 processes are in the file and were kept apart") != std::string::npos);
  CHECK(json::parse(folder.Run("info --json two.json").out)["json"]["processes"] == 2);
}
