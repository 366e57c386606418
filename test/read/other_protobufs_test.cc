// SPDX-License-Identifier: Apache-2.0
//
// Protobufs that begin like a trace: descriptors by protoc, and metrics and logs of OpenTelemetry.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fakes/string_sink.h"
#include "pitot/serialize/otlp.h"
#include "read/parse.h"
#include "serialize/sample_trace.h"
#include "serialize/wire.h"

using pitot::StatusCode;
using pitot::serialize::WireBuffer;
using read_test::Parse;
using read_test::Read;

namespace {

std::string Message(uint32_t number, const std::string& content) {
  WireBuffer buffer;
  buffer.Bytes(number, reinterpret_cast<const uint8_t*>(content.data()), content.size());
  return {reinterpret_cast<const char*>(buffer.data()), buffer.size()};
}

// A group of OTLP by resource, with a group by library, with a record.
std::string Export(const std::string& record) {
  return Message(1, Message(1, "") + Message(2, Message(1, Message(1, "meter")) + Message(2, record)));
}

void CheckIsRefused(const std::string& bytes, const std::string& name) {
  const Read read = Parse(bytes);
  CHECK(read.status.code() == StatusCode::kInvalidArgument);
  CHECK_THAT(read.status.message(), Catch::Contains(name));
}

}  // namespace

TEST_CASE("descriptors by protoc are refused by name", "[read]") {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(PITOT_READ_DESCRIPTORS)) {
    if (entry.path().extension() != ".desc") continue;
    CAPTURE(entry.path());
    std::ifstream file(entry.path(), std::ios::binary);
    CheckIsRefused({std::istreambuf_iterator<char>(file), {}}, "FileDescriptorSet");
    ++files;
  }
  CHECK(files > 3);
}

TEST_CASE("metrics of OpenTelemetry are refused by name, also with texts as long as ids", "[otlp]") {
  const std::string sum = Message(7, Message(1, ""));
  CheckIsRefused(Export(Message(1, "queue.length") + Message(2, "requests that wait") + sum), "metrics");
  CheckIsRefused(Export(Message(1, "http.server.size") + Message(2, "in bytes") + sum), "metrics");
}

TEST_CASE("logs of OpenTelemetry are refused by name", "[otlp]") {
  WireBuffer time;
  time.Fixed64(1, 1'700'000'000'000'000'000);
  const std::string begin(reinterpret_cast<const char*>(time.data()), time.size());
  CheckIsRefused(Export(begin + Message(5, Message(1, "started"))), "logs");
}

TEST_CASE("metrics and logs of OpenTelemetry as JSON are refused by name", "[otlp]") {
  CheckIsRefused(R"({"resourceMetrics":[{"scopeMetrics":[]}]})", "metrics");
  CheckIsRefused(R"({"resourceLogs":[{"scopeLogs":[]}]})", "logs");
}

TEST_CASE("spans are still spans", "[otlp]") {
  fakes::StringSink sink;
  REQUIRE(pitot::MakeOtlpSerializer()->Serialize(pitot::test::SampleTrace(), sink).ok());
  CHECK(Parse(sink.bytes).report.format == "otlp");
}
