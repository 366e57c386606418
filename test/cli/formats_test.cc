// SPDX-License-Identifier: Apache-2.0
//
// The built program on traces of other tools. test/read/data has files that these tools wrote (docs/reference/formats).
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"
#include "golden.h"

namespace {

using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;

void CopyInto(const Folder& folder, const std::string& name) {
  std::filesystem::copy_file(std::string(PITOT_READ_DATA) + "/" + name, folder / name);
}

// The answers of commands about a file, with their exit codes.
std::string AnswersOn(const std::string& name) {
  const Folder folder;
  CopyInto(folder, name);
  std::string text;
  for (const char* const command : {"info", "top", "top --by scope", "top --by kernel", "requests", "roofline"}) {
    const Result result = folder.Run(std::string(command) + " " + name);
    text += "$ pitot " + std::string(command) + " " + name + "\n" + result.out + result.err + "exit code " +
            std::to_string(result.exit_code) + "\n\n";
  }
  return text;
}

}  // namespace

TEST_CASE("a trace by viztracer is answered as far as it goes", "[cli][golden]") {
  CheckGolden("cli_viztracer.txt", AnswersOn("viztracer.json"));
}

TEST_CASE("a profile by ONNX Runtime is answered as far as it goes", "[cli][golden]") {
  CheckGolden("cli_onnxruntime.txt", AnswersOn("onnxruntime.json"));
}

TEST_CASE("a trace by JAX's profiler is answered as far as it goes", "[cli][golden]") {
  CheckGolden("cli_jax.txt", AnswersOn("jax.trace.json.gz"));
}

TEST_CASE("a log of vLLM is answered as far as it goes", "[cli][golden]") {
  CheckGolden("cli_vllm_log.txt", AnswersOn("vllm_0.32.0.log"));
}

TEST_CASE("a log of SGLang is answered as far as it goes", "[cli][golden]") {
  CheckGolden("cli_sglang_log.txt", AnswersOn("sglang_0.5.23_json.log"));
}

TEST_CASE("steps of JAX are the units of a trace", "[cli]") {
  const Folder folder;
  std::string events = R"({"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}})";
  for (int step = 0; step < 12; ++step) {
    const std::string begin = std::to_string(step * 1000);
    events += R"(,{"ph":"X","pid":1,"tid":1,"name":"train","ts":)" + begin + R"(,"dur":900,"args":{"step_num":")" +
              std::to_string(step) + R"("}})" + R"(,{"ph":"X","pid":1,"tid":1,"name":"dot","ts":)" + begin +
              R"(.5,"dur":800,"args":{"hlo_op":"dot"}})";
  }
  folder.Write("jax.trace.json", R"({"traceEvents":[)" + events + "]}");

  const Result analysis = folder.Run("analyze jax.trace.json --all"),
               diff = folder.Run("diff jax.trace.json jax.trace.json --json");

  CHECK(analysis.exit_code == 0);
  CHECK(analysis.out.find("most expensive: dot") != std::string::npos);
  CHECK(analysis.out.find("fewer than 10 requests or steps") == std::string::npos);
  CHECK(json::parse(diff.out)["per"] == "step");
}

TEST_CASE("an argument named step_num makes no step of another tool's scope", "[cli]") {
  const Folder folder;
  std::string events;
  for (int step = 0; step < 12; ++step)
    events += std::string(step == 0 ? "" : ",") + R"({"ph":"X","pid":1,"tid":1,"name":"train","ts":)" +
              std::to_string(step * 1000) + R"(,"dur":900,"args":{"step_num":7}})";
  folder.Write("a.json", "[" + events + "]");

  CHECK(json::parse(folder.Run("diff a.json a.json --json").out)["per"] == "trace");
}

TEST_CASE("every command that reads a trace works on one of another tool", "[cli]") {
  for (const char* const name : {"viztracer.json", "onnxruntime.json", "jax.trace.json.gz"}) {
    const Folder folder;
    CopyInto(folder, name);
    const std::string of = std::string(" ") + name;
    for (const std::string& command :
         {"analyze" + of, "analyze --json" + of, "report" + of, "report --html -o a.html" + of, "diff" + of + of,
          "top --json --by scope" + of, "convert -o a.pftrace" + of, "recover -o a.pitot" + of,
          std::string("info a.pitot"), "info --json" + of}) {
      CAPTURE(name, command);
      const Result result = folder.Run(command);
      CHECK(result.exit_code == 0);
      CHECK(result.out.find("nothing happened") == std::string::npos);
      CHECK(result.err.find("record again") == std::string::npos);
    }
    CHECK(folder.Run("why" + of).exit_code == 1);
    const json info = json::parse(folder.Run("info --json" + of).out);
    CHECK(info["complete"].is_null());  // the format does not say what was lost
    CHECK(info["losses"].is_null());
    const std::string lost = "LOST: the format does not say what was lost.";
    CHECK(folder.Run("report" + of).out.find(lost) != std::string::npos);
    CHECK(info["json"]["events"] > 10);
    CHECK_FALSE(info["json"]["lacks"].empty());
    CHECK(folder.Run("analyze" + of).out.find("GPU work, which was not recorded") != std::string::npos);
  }
}

TEST_CASE("a file of no known kind is refused by name by every command, and nothing is printed or written", "[cli]") {
  const Folder folder;
  folder.Write("page", "<!DOCTYPE html><html></html>");
  folder.Write("list", R"([{"name": "a"}, {"name": "b"}])");
  for (const char* const command : {"info", "top", "analyze", "why", "report -o out.txt", "requests", "roofline",
                                    "convert -o out.txt", "recover -o out.txt", "info --json", "diff page"}) {
    for (const char* const name : {"page", "list"}) {
      CAPTURE(command, name);
      const Result result = folder.Run(std::string(command) + " " + name);
      CHECK(result.exit_code == 5);
      CHECK(result.out.empty());
      CHECK(result.err.find("is not a trace readable by this version: it is ") != std::string::npos);
      CHECK(result.err.find("It reads Pitot's dumps, ") != std::string::npos);
      CHECK_FALSE(std::filesystem::exists(folder / "out.txt"));
    }
  }
}

TEST_CASE("GPU work of a format without calls is not answered with advice for Pitot's collectors", "[cli]") {
  Folder folder;
  folder.Write("a.json",
               R"([{"cat":"Session","ph":"X","name":"model_run","pid":7,"tid":7,"ts":5,"dur":90,"args":{}},)"
               R"({"cat":"Kernel","ph":"X","name":"gemm","pid":-1,"tid":-1,"ts":9,"dur":40,"args":{"stream":"7"}}])");
  folder.columns = "200";

  const Result analyze = folder.Run("analyze a.json");
  CHECK(analyze.out.find("100.0 % of GPU work has no call") != std::string::npos);
  CHECK(analyze.out.find("The file has no calls: its tool did not record them") != std::string::npos);
  CHECK(analyze.out.find("depth kernels") == std::string::npos);
}

TEST_CASE("operators without sizes are answered with the advice of their own tool", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":2}])");

  const Result top = folder.Run("top --by op --group-by-shape a.json");
  CHECK(top.exit_code == 0);
  CHECK(top.err == "pitot: no operator of a.json has sizes of inputs: record with record_shapes=True.\n");
  CHECK(folder.Run("top --by kernel a.json")
            .err.find("there is nothing to count by kernel in a.json: record with activities=[ProfilerActivity.CPU, "
                      "ProfilerActivity.CUDA].\n") != std::string::npos);
}

TEST_CASE("a tool that records what a file lacks is not said to lack it", "[cli]") {
  Folder folder;
  folder.columns = "200";
  folder.Write("jax.json", R"({"traceEvents":[{"ph":"M","pid":1,"name":"process_name","args":{"name":"/host:CPU"}},)"
                           R"({"ph":"X","pid":1,"tid":1,"ts":1,"dur":2,"name":"a"},{}]})");
  folder.Write("onnx.json", R"([{"cat":"Kernel","ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2,"args":{}},)"
                            R"({"cat":"Node","ph":"X","name":"a_kernel_time","pid":1,"tid":1,"ts":1,"dur":2,)"
                            R"("args":{"op_name":"Conv"}}])");

  const auto answer = [&](const std::string& arguments) { return folder.Run("top --by " + arguments).err; };
  CHECK(answer("op jax.json").find("profile a program while it runs a function under jax.jit.") != std::string::npos);
  CHECK(answer("call jax.json").find("profile a program that runs on a GPU.") != std::string::npos);
  CHECK(answer("op --group-by-shape onnx.json").find("a version of ONNX Runtime that writes input_type_shape.") !=
        std::string::npos);
  folder.Write("onnx.json",
               R"([{"cat":"Session","ph":"X","name":"model_run","pid":1,"tid":1,"ts":1,"dur":2,"args":{}}])");
  CHECK(answer("op onnx.json").find("run the session between enable_profiling and end_profiling.") !=
        std::string::npos);
}

TEST_CASE("a file that was converted and read again has each attribute once, and no date that was not recorded",
          "[cli]") {
  const Folder folder;
  CopyInto(folder, "onnxruntime.json");
  for (const std::string& arguments : {std::string("onnxruntime.json -o 1.json"), std::string("1.json -o 2.json")})
    REQUIRE(folder.Run("convert --to kineto " + arguments).exit_code == 0);

  const Result info = folder.Run("info 2.json");
  const auto count = [&](const std::string& text) {
    size_t found = 0;
    for (size_t at = 0; (at = info.out.find(text, at)) != std::string::npos; at += text.size()) ++found;
    return found;
  };
  CHECK(count("\nformat  ") == 2);  // a line of the head, and the attribute
  CHECK(count("\nnot_recorded") == 1);
  CHECK(count("requests and batches") == 2);
  CHECK(info.out.find("the calls that launched GPU work") != std::string::npos);
  CHECK(info.out.find("taken      (unknown)") != std::string::npos);
  CHECK(json::parse(folder.Run("info --json 2.json").out)["window"]["begin_unix_ns"].is_null());
}

TEST_CASE("requests of a trace without a date arrived so long after its begin", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":5,"dur":2},)"
                         R"({"ph":"b","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":1005},)"
                         R"({"ph":"e","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":2005}])");

  CHECK(folder.Run("requests a.json").out.find("  +1.00 ms\n") != std::string::npos);
}

TEST_CASE("a request's time in queues is unknown where the format says nothing about queues", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"b","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":1005},)"
                         R"({"ph":"e","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":2005}])");

  const json requests = json::parse(folder.Run("requests --json a.json").out)["requests"];
  REQUIRE(requests.size() == 1);
  CHECK(requests[0]["queue_ms"].is_null());
  CHECK(requests[0]["complete"] == false);
}

TEST_CASE("a verdict does not claim that nothing was lost where the format does not say so", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"b","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":1005},)"
                         R"({"ph":"e","cat":"net","id":1,"name":"get","pid":1,"tid":1,"ts":2005}])");

  CHECK(folder.Run("why a.json").out.find("evidence    the format does not say what was lost, no contra") !=
        std::string::npos);
  CHECK(folder.Run("report --html a.json").out.find("The format does not say what was lost.") != std::string::npos);
}

namespace {

constexpr char kSpan[] =
    R"({"resourceSpans":[{"resource":{"attributes":[]},"scopeSpans":[{"scope":{"name":"lib"},"spans":[)"
    R"({"traceId":"5b8efff798038103d269b633813fc60c","spanId":"00000000000000aa","name":"get",)"
    R"("kind":2,"startTimeUnixNano":"1700000001000000000","endTimeUnixNano":"1700000002000000000"}]}]}]})";

}  // namespace

TEST_CASE("a time that a format cannot say is not 0", "[cli]") {
  Folder folder;
  folder.columns = "200";
  folder.Write("a.json", kSpan);

  const json top = json::parse(folder.Run("top --by request --json a.json").out)["rows"];
  REQUIRE(top.size() == 1);
  for (const char* const key : {"self_cpu_ns", "cpu_total_ns", "self_gpu_ns", "gpu_busy_ns"}) {
    CAPTURE(key);
    CHECK(top[0][key].is_null());
  }
  const std::string text = folder.Run("top --by request a.json").out;
  CHECK(text.find("0us") == std::string::npos);
  CHECK(text.find("-: not recorded") != std::string::npos);
  for (const char* const only : {"a34", "a01"}) {
    CAPTURE(only);
    const json measures = json::parse(folder.Run(std::string("analyze --json --only ") + only + " a.json").out);
    for (const json& one : measures["analyzers"][0]["measures"]) {
      CAPTURE(one.dump());
      if (one["name"] == "CPU time of a request" || one["name"] == "operator" || one["name"] == "scope")
        CHECK(one["value"].is_null());
    }
  }
}

TEST_CASE("time of requests on no known thread is no finding, because all of it is without a record", "[cli]") {
  const Folder folder;
  std::string spans;
  for (int i = 100; i < 140; ++i)
    spans += std::string(spans.empty() ? "" : ",") +
             R"({"traceId":"5b8efff798038103d269b633813fc60c","spanId":"0000000000000)" + std::to_string(i) +
             R"(","name":"get","kind":2,"startTimeUnixNano":"1700000)" + std::to_string(i) +
             R"(000000000","endTimeUnixNano":"1700000)" + std::to_string(i) + R"(500000000"})";
  folder.Write("a.json", R"({"resourceSpans":[{"scopeSpans":[{"spans":[)" + spans + "]}]}]}");

  const json report = json::parse(folder.Run("analyze --json --only a31 a.json").out);
  CHECK(report["analyzers"][0]["findings"].empty());
  CHECK(!report["analyzers"][0]["measures"].empty());
}

TEST_CASE("a converted file without requests sends to the trace behind it", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":5,"dur":2}])");
  REQUIRE(folder.Run("convert a.json -o a.pftrace").exit_code == 0);

  CHECK(folder.Run("requests a.pftrace").err.find("look into the trace it was converted from") != std::string::npos);
}

TEST_CASE("a report of another tool's trace has findings in its first part, and names no files", "[cli]") {
  const Folder folder;
  folder.Write("a.json",
               R"([{"cat":"Session","ph":"X","name":"model_run","pid":7,"tid":7,"ts":5,"dur":90,"args":{}},)"
               R"({"cat":"Kernel","ph":"X","name":"gemm","pid":-1,"tid":-1,"ts":9,"dur":4,"args":{"stream":"7"}},)"
               R"({"cat":"Kernel","ph":"X","name":"gemm","pid":-1,"tid":-1,"ts":90,"dur":4,"args":{"stream":"7"}}])");
  folder.Write("b.json", kSpan);
  folder.Write("c.json", R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":5,"dur":2}])");

  const std::string text = folder.Run("report a.json").out, front = text.substr(0, text.find("\nAPPENDIX\n"));
  CHECK(front.find("There is no request in the window.\n\nin window   a04.idle") != std::string::npos);
  CHECK(folder.Run("report c.json").out.find("no grave finding") != std::string::npos);
  CHECK(folder.Run("report b.json").out.find("Next to this report") == std::string::npos);
}

TEST_CASE("a report does not deny requests that it shows itself", "[cli]") {
  const Folder folder;
  folder.Write("a.json", kSpan);
  CHECK(folder.Run("report a.json").out.find("only 0 ok requests of the same route besides those shown here") !=
        std::string::npos);
}

TEST_CASE("what a file's format says nothing about stays unknown after it is converted", "[cli]") {
  const Folder folder;
  folder.Write("a.json", kSpan);

  REQUIRE(folder.Run("convert --to otlp -o 1.pb a.json").exit_code == 0);
  REQUIRE(folder.Run("convert --to xspace -o 2.pb 1.pb").exit_code == 0);
  REQUIRE(folder.Run("convert -o 3.pftrace 2.pb").exit_code == 0);

  for (const char* const name : {"a.json", "1.pb", "2.pb", "3.pftrace"}) {
    CAPTURE(name);
    const json requests = json::parse(folder.Run(std::string("requests --json ") + name).out)["requests"];
    REQUIRE(requests.size() == 1);
    CHECK(requests[0]["queue_ms"].is_null());
    CHECK(requests[0]["complete"] == false);
  }
}

TEST_CASE("a request's time in queues outlives an XSpace, which does not say what was lost", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", cli_test::Dump());
  REQUIRE(folder.Run("convert dump.pitot --to xspace -o a.xplane.pb").exit_code == 0);

  const auto by_id = [&](const std::string& file) {
    const json document = json::parse(folder.Run("requests --json " + file).out);
    std::map<std::string, json> requests;
    for (const json& one : document["requests"]) requests[one["id"]] = one;
    return requests;
  };
  const auto before = by_id("dump.pitot"), after = by_id("a.xplane.pb");
  REQUIRE(!before.empty());
  REQUIRE(after.size() == before.size());
  for (const auto& [id, request] : after) {
    CHECK(request["queue_ms"] == before.at(id)["queue_ms"]);
    CHECK(request["complete"] == false);
  }
}

TEST_CASE("an unfinished list of Chrome's JSON is whole, and a cut one is damaged", "[cli]") {
  const Folder folder;
  const std::string list = R"([{"ph":"X","name":"a","pid":1,"tid":1,"ts":5,"dur":2},)";
  folder.Write("open.json", list);
  folder.Write("cut.json", list + "{\"ph\":");

  CHECK(folder.Run("info open.json").exit_code == 0);
  const Result cut = folder.Run("info cut.json");
  CHECK(cut.exit_code == 4);
  CHECK(cut.err.find("cut.json is damaged: it ends in the middle of an event; 1 events were read.") !=
        std::string::npos);
}
