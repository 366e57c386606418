// SPDX-License-Identifier: Apache-2.0
//
// The choice of a reader by the content: any bytes are read, or refused with a reason.
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pitot::model::Trace trace;
  pitot::TraceReport report;
  const pitot::Status status = pitot::ParseTrace(data, size, &trace, &report);
  fuzz::Require(status.ok() || *status.message() != '\0', "refusing", "no reason is given");
  return fuzz::CheckRead(status, trace);
}

#ifdef PITOT_CORPUS_WRITER
bool fuzz::WriteCorpus(const std::string& folder) {
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
         write("dump", "\x89PIT") && write("protobuf", "\n\x04\x08\x01\x10\x02") && write("html", "<!doctype html>");
}
#endif
