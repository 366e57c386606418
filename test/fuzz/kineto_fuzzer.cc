// SPDX-License-Identifier: Apache-2.0
//
// Any bytes must read as a consistent trace or as an error. A trace must be fit for the indexes and for every analyzer,
// in every way of counting, and for every writer.
#include <string>

#include "fuzz/fuzz.h"
#include "fuzz/questions.h"
#include "fuzz/writers.h"
#include "peers/catalogue.h"
#include "pitot/analyze/analyze.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "pitot/read/kineto.h"

using fuzz::Require;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  pitot::model::Trace trace;
  pitot::KinetoReport report;
  const pitot::Status status = pitot::ParseKineto(data, size, &trace, &report);
  Require(status.code() != pitot::StatusCode::kInternal, "reading", status.message());
  Require(FindInconsistency(trace).empty(), "the trace", FindInconsistency(trace).c_str());
  const pitot::model::ThreadFlatten flatten(trace);
  const pitot::model::CoverageIndex coverage(trace);
  fuzz::AskWhy(trace);
  fuzz::AskTop(trace);
  fuzz::AskDiff(trace);
  for (const auto make : {pitot::analyze::MakeCatalogue, pitot::peers::MakeHtaCatalogue,
                          pitot::peers::MakeTraceLensCatalogue, pitot::peers::MakeTbPluginCatalogue}) {
    pitot::analyze::AnalysisReport answers;
    const pitot::Status analyzed = Analyze(trace, make(), {}, &answers);
    Require(analyzed.ok(), "analyzing", analyzed.message());
    for (const pitot::analyze::AnalyzerReport& analyzer : answers.analyzers)
      Require(analyzer.status.ok(), analyzer.name.c_str(), analyzer.status.message());
  }
  fuzz::WriteAll(trace);
  return 0;
}

#ifdef PITOT_CORPUS_WRITER
namespace {

constexpr const char* kSample = R"json({
  "schemaVersion": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 1711964646000000000, "traceName": "a\"b.json",
  "deviceProperties": [{"id": 0, "name": "GPU", "numSms": 132, "maxThreadsPerMultiprocessor": 2048,
                        "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 233472}],
  "traceEvents": [
  {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "ts": 0, "args": {"name": "thread 2 (python)"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#6", "pid": 1, "tid": 2, "ts": 100.001, "dur": 90.5},
  {"ph": "X", "cat": "python_function", "name": "a/b.py(12): forward", "pid": 1, "tid": 2, "ts": 101, "dur": 80},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 110, "dur": 20,
   "args": {"External id": 3, "Input Dims": [[4, 8], [8, 2]]}},
  {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": 112, "dur": 5.25,
   "args": {"cbid": 211, "correlation": 9}},
  {"ph": "s", "id": 9, "pid": 1, "tid": 2, "ts": 112, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "void gemm<float>(float*)", "pid": 0, "tid": 7, "ts": 125.5, "dur": 30,
   "args": {"device": 0, "context": 1, "stream": 7, "correlation": 9, "registers per thread": 40,
            "shared memory": 1024, "grid": [8, 1, 1], "block": [256, 1, 1], "graph id": 0}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy DtoH (Device -> Pinned)", "pid": 0, "tid": 7, "ts": 156, "dur": 2,
   "args": {"device": 0, "context": 1, "stream": 7, "correlation": 10, "bytes": 4096}},
  {"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 157, "dur": 3,
   "args": {"cuda_sync_kind": "Stream Sync", "stream": 7, "correlation": 11, "device": 0, "context": 1}},
  {"ph": "X", "cat": "overhead", "name": "Buffer Flush", "pid": -1, "tid": 0, "ts": 170, "dur": 4},
  {"ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 2, "ts": 115,
   "args": {"Total Reserved": 8192, "Total Allocated": 4096, "Device Id": 0, "Device Type": 1}}
]})json";

constexpr const char* kOld = R"([
  {"ph": "X", "cat": "Operator", "name": "aten::empty", "pid": 5, "tid": "5", "ts": 1623142623460111, "dur": 25},
  {"ph": "X", "cat": "Runtime", "name": "hipMemcpyAsync", "pid": 5, "tid": "5", "ts": 1.6e15, "dur": -1,
   "args": {"correlation": 8}},
  {"ph": "X", "cat": "Memset", "name": "Memset \ud83d\ude00", "pid": 2, "tid": "stream 3", "ts": 1623142623460140,
   "dur": 0, "args": {"correlation": 8, "stream": -1}}
])";

// ROCm without ids of correlation, Intel's XPU, two ranks, and names that are not escaped.
constexpr const char* kDialect = R"json({"schemaVersion": 1, "baseTimeNanoseconds": 1000,
  "distributedInfo": {"backend": "nccl", "rank": 1},
  "deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X", "computeMajor": 9, "computeMinor": 4, "warpSize": 64,
                        "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "numSms": 304,
                        "maxSharedMemoryPerMultiProcessor": 65536}], "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 100, "dur": 20, "args": {"External id": 3}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 1, "tid": 2, "ts": 102, "dur": 5,
   "args": {"External id": 3}},
  {"ph": "s", "id": 5, "pid": 1, "tid": 2, "ts": 102, "cat": "ac2g", "name": "ac2g"},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": 2, "tid": 0, "ts": 110, "dur": 5, "args": {"External id": 3,
   "grid": [8, 1, 1], "block": [256, 1, 1], "registers per thread": 40}},
  {"ph": "f", "id": 5, "pid": 2, "tid": 0, "ts": 110, "cat": "ac2g", "name": "ac2g", "bp": "e"},
  {"ph": "X", "cat": "gpu_memcpy", "name": "CopyHostToDevice", "pid": 2, "tid": 1, "ts": 111, "dur": 5,
   "args": {"External id": 3, "bytes": 64}},
  {"ph": "X", "cat": "cuda_runtime", "name": "hipGraphLaunch", "pid": 1, "tid": 2, "ts": 130, "dur": 5,
   "args": {"correlation": 7}},
  {"ph": "X", "cat": "kernel", "name": "node", "pid": 2, "tid": 0, "ts": 140, "dur": 5, "args": {"correlation": 7}},
  {"ph": "X", "cat": "python_function", "name": "a\b\c.py(3): f", "pid": 1, "tid": 2, "ts": 90, "dur": 60},
  {"ph": "X", "cat": "python_function", "name": "<built-in f at 0x7f00>", "pid": 1, "tid": 2, "ts": 91, "dur": 50},
  {"ph": "X", "cat": "python_function", "name": "@"x", "pid": 1, "tid": 2, "ts": 91, "dur": 50},
  {"ph": "i", "name": "[memory]", "pid": 1, "tid": 2, "ts": 115, "args": {"Bytes": -8, "Device Id": 0, "Device Type": 1}},
  {"ph": "X", "cat": "cuda_profiler_range", "name": "r", "pid": 0, "tid": 0, "ts": 100, "dur": 50}
]}
{"baseTimeNanoseconds": 3000, "traceEvents": [
  {"ph": "X", "cat": "xpu_runtime", "name": "urEnqueueKernelLaunch", "pid": "[TP00] 1", "tid": 2, "ts": 100, "dur": 5,
   "args": {"correlation": 1}},
  {"ph": "X", "cat": "kernel", "name": "k", "pid": "[TP00] 0", "tid": 0, "ts": 110, "dur": 5,
   "args": {"device": 0, "correlation": 1, "sycl queue": 64}},
  {"ph": "X", "cat": "xpu_sync", "name": "zeEventHostSynchronize", "pid": -1, "tid": 2, "ts": 120, "dur": 5,
   "args": {"correlation": 2}},
  {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy D2M(DEVICE -> MEMORY)", "pid": "[TP01] 0", "tid": 0, "ts": 110,
   "dur": 5, "args": {"device": 0, "correlation": 1}},
  {"ph": "X", "cat": "unheard", "name": "of", "pid": "[TP01", "tid": 0, "ts": 110, "dur": 5}
], "deviceProperties": [{"id": 0, "name": "A"}, {"id": 0, "name": "B"}]}
)json";

// `text` as gzip without compression, so that a fuzzer sees through it. At most 65535 bytes.
std::string Stored(const std::string& text) {
  uint32_t crc = 0xffffffff;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
  }
  std::string packed("\x1f\x8b\x08\0\0\0\0\0\0\xff\x01", 11);
  const auto number = [&](uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) packed += static_cast<char>(value >> 8 * i & 255);
  };
  number(text.size(), 2);
  number(~text.size() & 0xffff, 2);
  packed += text;
  number(crc ^ 0xffffffff, 4);
  number(text.size(), 4);
  return packed;
}

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const auto write = [&](const char* name, const std::string& bytes) {
    return fuzz::WriteFile(folder + "/" + name, bytes);
  };
  const std::string sample = kSample;
  return write("sample", sample) && write("old", kOld) && write("dialect", kDialect) && write("gzip", Stored(sample)) &&
         write("cut", sample.substr(0, 1500)) && write("none", "{\"traceEvents\": []}") &&
         write("deep", "[{\"args\":" + std::string(600, '[') + std::string(600, ']') + "}]") &&
         write("not_text", "[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"\xff\x01\",\"ts\":1,\"dur\":2}]");
}
#endif
