// SPDX-License-Identifier: Apache-2.0
//
// The choice of a reader by a file's content, and what is said of files that none reads.
#include "pitot/read/trace.h"

#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <string>
#include <utility>
#include <vector>

#include "fakes/temp_directory.h"
#include "pitot/serialize/dump.h"
#include "read/parse.h"
#include "read/rocprof_file.h"
#include "report/incident_trace.h"

using pitot::StatusCode;
using read_test::Parse;
using read_test::Read;
using namespace std::string_literals;

namespace {

const std::string kKinetoEvent = R"({"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":2})";
const std::string kChromeEvent = R"({"ph":"X","cat":"work","name":"a","pid":1,"tid":1,"ts":5,"dur":2})";
const std::string kOnnxEvent = R"({"cat":"Session","ph":"X","name":"model_run","pid":1,"tid":1,"ts":5,"dur":2})";
const std::string kJaxName = R"({"ph":"M","pid":7,"name":"process_name","args":{"name":"/host:CPU"}})";

std::string WhyNot(const std::string& bytes) {
  const Read read = Parse(bytes);
  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK(read.trace.events.size() == 0);
  return read.status.message();
}

}  // namespace

TEST_CASE("the content of a file decides on its reader", "[read]") {
  CHECK(Parse("[" + kKinetoEvent + "]").report.format == "kineto");
  CHECK(Parse("[" + kChromeEvent + "]").report.format == "chrome");
  CHECK(Parse("[" + kOnnxEvent + "]").report.format == "onnxruntime");
  CHECK(Parse(R"({"traceEvents":[)" + kJaxName + "," + kChromeEvent + "]}").report.format == "jax");
  // A member next to the events tells Kineto, also for categories of a later version.
  CHECK(Parse(R"({"schemaVersion":1,"traceEvents":[)" + kChromeEvent + "," + kKinetoEvent + "]}").report.format ==
        "kineto");
  // A general name of a kind needs an argument of Kineto's.
  const auto event = [](const std::string& kind, const std::string& args) {
    return R"([{"ph":"X","cat":")" + kind + R"(","name":"a","pid":1,"tid":1,"ts":5,"dur":2,"args":{)" + args + "}}]";
  };
  CHECK(Parse(event("kernel", "")).report.format == "chrome");
  CHECK(Parse(event("kernel", R"("stream":7)")).report.format == "kineto");
  for (const char* const kind : {"hpu_op", "xpu_sync", "hip_driver"}) {
    CAPTURE(kind);
    const Read read = Parse(event(kind, ""));
    CHECK(read.report.format == "kineto");
    CHECK(read.Count("unknown") == 0);
  }
}

TEST_CASE("a byte order mark before JSON is skipped", "[read]") {
  const std::pair<const char*, std::string> texts[] = {
      {"chrome", "[" + kChromeEvent + "]"},
      {"kineto", R"({"traceEvents":[)" + kKinetoEvent + "]}"},
      {"onnxruntime", "[" + kOnnxEvent + "]"},
      {"jax", R"({"traceEvents":[)" + kJaxName + "," + kChromeEvent + "]}"},
      {"rocprof", read_test::RocprofJson()},
      {"otlp", R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
               R"("spanId":"eee19b7ec3c1b174","startTimeUnixNano":"1","endTimeUnixNano":"2"}]}]}]})"}};
  for (const auto& [format, text] : texts) {
    CAPTURE(format);
    for (const std::string& bytes :
         {"\xef\xbb\xbf" + text, "\xef\xbb\xbf \n" + text, read_test::Gzip("\xef\xbb\xbf" + text)}) {
      const Read read = Parse(bytes);
      CHECK(read.status.message() == std::string());
      CHECK(read.report.format == format);
      CHECK(read.report.events == Parse(text).report.events);
    }
  }
  CHECK(WhyNot("\xef\xbb\xbf") == "it is empty");
}

TEST_CASE("a trace whose first event is larger than 256 KiB is read", "[read]") {
  const std::string large = R"({"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":5,"dur":2,"args":{"text":")" +
                            std::string(300 << 10, 'x') + "\"}}";
  for (const std::string& text : {R"({"traceEvents":[)" + large + "]}", "[{}," + large + "]"}) {
    const Read read = Parse(text);
    CHECK(read.status.message() == std::string());
    CHECK(read.report.format == "kineto");
    CHECK(read.trace.events.size() == 1);
  }
  const std::string after = R"({"first":")" + std::string(300 << 10, 'x') + R"(","traceEvents":[)";
  CHECK(Parse(after + kOnnxEvent + "]}").report.format == "chrome");
  CHECK(Parse(after + kJaxName + "," + kChromeEvent + "]}").report.format == "jax");
}

TEST_CASE("a dump is known by a chunk's mark, also where its beginning is damaged or all there is", "[read]") {
  std::string dump = incident::Serialize(*pitot::MakeDumpSerializer(), incident::MakeTrace());
  CHECK(Parse(dump).report.format == "dump");
  CHECK(Parse(read_test::Gzip(dump)).status.ok());
  for (size_t size = 1; size < 4; ++size) {
    const Read read = Parse(dump.substr(0, size));
    CHECK(read.report.format == "dump");
    CHECK(read.status.code() == StatusCode::kDataLoss);
  }
  dump[0] = 'x';
  const Read damaged = Parse(dump);
  CHECK(damaged.report.format == "dump");
  CHECK(damaged.status.code() == StatusCode::kDataLoss);
  // The mark alone may be in any binary file.
  CHECK(WhyNot("\x7f"
               "ELF\2\1\1 \x89PIT"s) == "it is an ELF program or library");
}

TEST_CASE("a gzipped file is read by the reader of its content", "[read]") {
  const Read read = Parse(read_test::Gzip("[" + kOnnxEvent + "]"));

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "onnxruntime");
  CHECK(read.report.is_gzip);
  CHECK(read.trace.events.size() == 1);
}

TEST_CASE("a trace of another tool says what its format lacks", "[read]") {
  const Read read = Parse("[" + kChromeEvent + "]");

  REQUIRE_FALSE(read.report.lacks.empty());
  CHECK(read.report.lacks[0] == "the threads that work for a request");
  CHECK(std::string(read.trace.AttributeOf("not_recorded")).find("GPU work") != std::string::npos);
  CHECK(read.trace.AttributeOf("format") == "Chrome JSON, by a tool that writes Chrome's JSON");
}

TEST_CASE("a file of no known format is named", "[read]") {
  CHECK(WhyNot("") == "it is empty");
  CHECK(WhyNot("\x7f"
               "ELF\2\1\1"s) == "it is an ELF program or library");
  CHECK(WhyNot("SQLite format 3\0 tables"s).find("it is a SQLite database: ") == 0);
  CHECK(WhyNot("<!DOCTYPE html>\n<html>") == "it is an HTML page, not the file it links to");
  CHECK(WhyNot("some words\nand more\n") == "it is plain text");
  CHECK(WhyNot("\x01\x02\x03"s) == "it is binary data of no known kind");
  CHECK(WhyNot("PK\x03\x04 zip"s).find("it is a ZIP archive: unpack it first") == 0);
  CHECK(WhyNot(read_test::Gzip("some words\n")) == "it is, in gzip, plain text");
  CHECK(WhyNot(read_test::Gzip("")) == "it is a gzip file with nothing in it");
  CHECK(WhyNot("\x1f\x8b and more"s).find("its compressed data is damaged") != std::string::npos);
  CHECK(WhyNot("\x0a\x0b\x12\x09/host:CPU"s).find("XSpace without an event") == 0);
  CHECK(WhyNot("\x0a\x02\x08\x01\x0a\x01\x08"s) == "it is a protobuf, neither a Perfetto trace nor an XSpace");
  CHECK(WhyNot("\nwords after an empty line\n") == "it is plain text");
  CHECK(WhyNot("version https://git-lfs.github.com/spec/v1\n").find("git lfs pull") != std::string::npos);
}

TEST_CASE("JSON without a readable event is refused with its reason", "[read]") {
  CHECK(WhyNot("{\"a\": 1}").find("it has no traceEvents") != std::string::npos);
  CHECK(WhyNot("{\"traceEvents\": []}").find("its traceEvents are empty") != std::string::npos);
  CHECK(WhyNot("{\"traceEvents\": [{\"ph\":").find("a trace that ends before its first event does") !=
        std::string::npos);
  CHECK(WhyNot("[]").find("it has no readable event") != std::string::npos);
  CHECK(WhyNot("[1,2]").find("it has no readable event") != std::string::npos);
  CHECK(WhyNot("[{\"name\":\"a\"}]").find("it has no readable event") != std::string::npos);
  CHECK(WhyNot("{\"traceEvents\": [{\"name\":\"a\"}]}").find("none of its 1 traceEvents has a phase") !=
        std::string::npos);
  CHECK(WhyNot("{\"resourceSpans\": []}").find("OpenTelemetry") != std::string::npos);
}

TEST_CASE("a known file without an event is empty, not unknown", "[read]") {
  const Read read = Parse(R"({"schemaVersion":1,"traceEvents":[]})");

  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK(read.report.is_empty);
  CHECK(std::string(read.status.message()).find("Kineto JSON without an event: profile while the model works") == 0);
}

TEST_CASE("events of which the reader uses none are refused with their categories", "[read]") {
  const Read read = Parse(R"({"schemaVersion":1,"traceEvents":[)" + kChromeEvent + "," + kChromeEvent + "]}");

  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK_FALSE(read.report.is_empty);
  CHECK(std::string(read.status.message()).find("it has 2 events, none of a kind") == 0);
  CHECK(std::string(read.status.message()).find("categories: work 2") != std::string::npos);
}

TEST_CASE("a missing file, a folder and a pipe are refused at once", "[read]") {
  const fakes::TempDirectory folder;
  const std::string pipe = folder / "pipe";
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  Read read;
  CHECK(pitot::ReadTrace(folder / "nothing", &read.trace, &read.report).code() == StatusCode::kNotFound);
  CHECK(pitot::ReadTrace(pipe, &read.trace, &read.report).code() == StatusCode::kInvalidArgument);
  CHECK(pitot::ReadTrace(folder.path(), &read.trace, &read.report).code() == StatusCode::kInvalidArgument);
}

TEST_CASE("the list of formats names each", "[read]") {
  CHECK(pitot::ReadableFormats() ==
        "Pitot's dumps, XSpaces (xplane.pb), Perfetto traces, SQLite exports of Nsight Systems, databases of "
        "rocprofv3, JSON of rocprofv3, logs of requests by vLLM and SGLang, ONNX Runtime's profiles, traces of JAX's "
        "profiler, OpenTelemetry's spans (OTLP), JSON of PyTorch's profiler and Chrome JSON");
}
