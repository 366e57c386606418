// SPDX-License-Identifier: Apache-2.0
//
// The choice of a reader by the content: any bytes are read, or refused with a reason. Two traces in one input are
// joined.
#include <string_view>
#include <vector>

#include "fuzz/reader.h"
#include "pitot/read/join.h"
#ifdef PITOT_CORPUS_WRITER
#include "serialize/sample_trace.h"
#endif

namespace {

constexpr std::string_view kBetween = "\n&\n";

// Durations may add up to too much, or end too late. Any other way in which the parts do not fit is a fault.
bool IsTooLong(std::string_view message) {
  return message.find("add up") != std::string_view::npos || message.find("out of range") != std::string_view::npos;
}

void JoinBoth(std::string_view both) {
  const size_t end = both.find(kBetween);
  if (end == std::string_view::npos) return;
  std::vector<pitot::TracePart> parts = {{"a", {}}, {"b", {}}};
  const std::string_view inputs[] = {both.substr(0, end), both.substr(end + kBetween.size())};
  for (size_t i = 0; i < parts.size(); ++i) {
    pitot::TraceReport report;
    const pitot::Status status = pitot::ParseTrace(inputs[i].data(), inputs[i].size(), &parts[i].trace, &report);
    if (!status.ok() && status.code() != pitot::StatusCode::kDataLoss) return;
  }
  pitot::model::Trace joined;
  const pitot::Status status = JoinTraces(&parts, &joined);
  const std::string_view message = status.message();
  fuzz::Require(message.find("do not fit") == std::string_view::npos || IsTooLong(message), "joining",
                status.message());
  fuzz::CheckRead(status, joined);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pitot::model::Trace trace;
  pitot::TraceReport report;
  const pitot::Status status = pitot::ParseTrace(data, size, &trace, &report);
  fuzz::Require(status.ok() || *status.message() != '\0', "refusing", "no reason is given");
  JoinBoth({reinterpret_cast<const char*>(data), size});
  return fuzz::CheckRead(status, trace);
}

#ifdef PITOT_CORPUS_WRITER
bool fuzz::WriteCorpus(const std::string& folder) {
  const auto dump = [](const pitot::model::Trace& from) {
    fakes::StringSink sink;
    fuzz::Require(pitot::MakeDumpSerializer()->Serialize(from, sink).ok(), "dump", "failed");
    return sink.bytes;
  };
  const pitot::model::Trace sample = pitot::test::SampleTrace();
  pitot::model::Trace random = pitot::test::RandomTrace(3, 30);
  random.clock = sample.clock;
  const std::string dumps = dump(sample) + std::string(kBetween) + dump(random);
  const std::string otlp =
      R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
      R"("spanId":"00000000000000aa","name":"/r","kind":2,)"
      R"("startTimeUnixNano":"1700000000000000000","endTimeUnixNano":"1700000000500000000"}]}]}]})";
  const std::string kineto = R"([{"ph":"X","pid":1,"tid":2,"ts":1700000000000000,"dur":9,"cat":"cpu_op","name":"a"}])";
  const auto write = [&](const char* name, const std::string& bytes) {
    return fuzz::WriteFile(folder + "/" + name, bytes);
  };
  const std::string span = R"("ph":"X","pid":1,"tid":2,"ts":5,"dur":9)";
  return write("chrome", "[{" + span + ",\"name\":\"a\"}]") &&
         write("kineto", "[{" + span + ",\"cat\":\"cpu_op\",\"name\":\"aten::mm\"}]") &&
         write("onnx", "[{" + span + ",\"cat\":\"Session\",\"name\":\"model_run\"}]") &&
         write("jax", "[{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"/host:CPU\"}},{" + span +
                          ",\"name\":\"a\"}]") &&
         write("empty", "{\"schemaVersion\":1,\"traceEvents\":[]}") && write("sqlite", "SQLite format 3\n") &&
         write("dump", "\x89PIT") && write("protobuf", "\n\x04\x08\x01\x10\x02") && write("html", "<!doctype html>") &&
         write("joined_dumps", dumps) && write("joined_formats", otlp + std::string(kBetween) + kineto);
}
#endif
