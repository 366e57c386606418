// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <string>

#include "read/byte_source.h"
#include "read/gzip.h"
#include "read/json_cursor.h"
#include "read/parse.h"
#include "read/rocprof_file.h"
#include "read/rocprof_work.h"

using namespace read_test;
using pitot::StatusCode;

TEST_CASE("JSON of rocprofv3 has calls, work, devices and marks", "[rocprof]") {
  const Read read = Parse(RocprofJson());

  REQUIRE(read.status.ok());
  CHECK(read.report.format == "rocprof");
  CHECK(read.Events() == "step \"7\" 1400+1600, here 1450+0, ncclAllReduce 3100+100");
  CheckRocprofWork(read);
}

TEST_CASE("gzipped JSON of rocprofv3 is read, and one without a list", "[rocprof]") {
  CHECK(Parse(Gzip(RocprofJson())).trace.gpu.size() == 3);
  CHECK(Parse("{\"rocprofiler-sdk-tool\": " + RocprofProcess(100) + "}").trace.gpu.size() == 3);
}

TEST_CASE("processes in JSON of rocprofv3 are kept apart", "[rocprof]") {
  const Read read = Parse("{\"rocprofiler-sdk-tool\": [" + RocprofProcess(100) + "," + RocprofProcess(200) + "]}");

  REQUIRE(read.status.ok());
  CHECK(read.trace.gpu.size() == 6);
  REQUIRE(read.trace.devices.size() == 2);
  CHECK(read.Name(read.trace.devices[1].name) == "[pid 200] AMD Instinct MI300X");
  for (uint32_t row = 0; row < 6; ++row)
    CHECK(read.trace.calls.thread[read.trace.gpu.call[row]] == read.trace.streams[read.trace.gpu.stream[row]].device);
}

TEST_CASE("a second document of rocprofv3 is another process", "[rocprof]") {
  const std::string second = "{\"rocprofiler-sdk-tool\": [" + RocprofProcess(200) + "]}";
  const Read read = Parse(RocprofJson() + "\n" + second);

  REQUIRE(read.status.ok());
  CHECK(read.trace.gpu.size() == 6);
  CHECK(read.Count("processes") == 2);
  CHECK(Parse(RocprofJson() + second.substr(0, second.size() / 2)).status.code() == StatusCode::kDataLoss);
}

TEST_CASE("what follows JSON of rocprofv3 and is not its own is said", "[rocprof]") {
  const Read other = Parse(RocprofJson() + "{\"x\": [1]}");
  CHECK(other.status.ok());
  CHECK(other.trace.gpu.size() == 3);
  CHECK(other.report.problems.find("1 document without rocprofiler-sdk-tool was left out") != std::string::npos);

  const Read text = Parse(RocprofJson() + "]");
  CHECK(text.status.code() == StatusCode::kDataLoss);
  CHECK(std::string(text.status.message()) == "it goes on after its end, and not with an object");
  CHECK(text.trace.gpu.size() == 3);
}

TEST_CASE("JSON that only mentions rocprofv3 is not taken for its own", "[rocprof]") {
  CHECK(Parse(R"({"writer": "rocprofiler-sdk-tool", "rows": []})").report.format != "rocprof");
  CHECK(Parse(R"({"files": {"rocprofiler-sdk-tool": []}})").report.format != "rocprof");
  const std::string late = "{\"note\": \"" + std::string(5000, 'a') + "\", ";
  CHECK(Parse(late + RocprofJson().substr(1)).report.format == "rocprof");
}

TEST_CASE("JSON of rocprofv3 is read up to where it is cut off", "[rocprof]") {
  const std::string json = RocprofJson();
  size_t most = 0;
  for (size_t size = 30; size < json.size(); size += 7) {
    const Read read = Parse(json.substr(0, size));
    CHECK(read.status.code() == StatusCode::kDataLoss);
    most = std::max<size_t>(most, read.trace.gpu.size());
  }
  CHECK(most >= 2);
}

TEST_CASE("a record of rocprofv3 without sense is counted, and the others are read", "[rocprof]") {
  std::string json = RocprofJson();
  json.replace(json.find("\"start_timestamp\":2000"), 22, "\"start_timestamp\":\"x\" ");

  const Read read = Parse(json);

  CHECK(read.status.code() == StatusCode::kDataLoss);
  CHECK(read.report.events_bad == 1);
  CHECK(read.trace.gpu.size() == 2);
}

TEST_CASE("JSON of rocprofv3 without a record is empty", "[rocprof]") {
  const Read read = Parse(R"({"rocprofiler-sdk-tool": [{"metadata": {"pid": 1}, "buffer_records": {"hip_api": []}}]})");

  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK(read.report.is_empty);
  const Read large = Parse(R"({"rocprofiler-sdk-tool": [{"code_objects": [")" + std::string(1 << 20, 'a') + R"("]}]})");
  CHECK(std::string(large.status.message()).find("rocprofv3 --sys-trace") != std::string::npos);
}

TEST_CASE("a cursor goes through values larger than its buffer without keeping them", "[rocprof]") {
  const std::string json =
      "{\"skipped\": \"" + std::string(40 << 20, 'a') + "\\\"\", \"list\": [1, {\"b\": [2]}, \"c\"]}";
  const auto source = pitot::read::FromMemory(json.data(), json.size());
  pitot::read::JsonCursor cursor(source.get());

  REQUIRE(cursor.BeginObject());
  REQUIRE(cursor.NextMember());
  CHECK(cursor.key() == "skipped");
  REQUIRE(cursor.Skip());
  CHECK(cursor.capacity() < (8 << 20));
  REQUIRE(cursor.NextMember());
  REQUIRE(cursor.BeginList());
  std::string elements;
  while (cursor.NextElement() && cursor.Take()) elements += std::string(cursor.text()) + ";";
  CHECK(elements == "1;{\"b\": [2]};\"c\";");
  CHECK_FALSE(cursor.NextMember());
  CHECK(std::string(cursor.fault()) == "");
}

TEST_CASE("a cursor stops at what is not JSON", "[rocprof]") {
  for (const std::string json : {"[1, ]]", "[}", "[1 : 2]", "[", "[1", "{\"a\" 1}", "{1: 2}", "{\"a\": }", "["}) {
    const auto source = pitot::read::FromMemory(json.data(), json.size());
    pitot::read::JsonCursor cursor(source.get());
    int values = 0;
    if (cursor.BeginList()) {
      while (cursor.NextElement() && cursor.Skip()) ++values;
    } else if (cursor.BeginObject()) {
      while (cursor.NextMember() && cursor.Skip()) ++values;
    }
    CHECK(values < 3);
  }
}

TEST_CASE("a cursor refuses to take a value of more than 16 MiB", "[rocprof]") {
  const std::string json = "[\"" + std::string(40 << 20, 'a') + "\"]";
  const auto source = pitot::read::FromMemory(json.data(), json.size());
  pitot::read::JsonCursor cursor(source.get());

  REQUIRE(cursor.BeginList());
  REQUIRE(cursor.NextElement());
  CHECK_FALSE(cursor.Take());
  CHECK(std::string(cursor.fault()).find("larger than 16 MiB") != std::string::npos);
}
