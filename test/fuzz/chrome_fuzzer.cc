// SPDX-License-Identifier: Apache-2.0
#include "fuzz/reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return fuzz::ReadAs(pitot::read::kChromeFormat, data, size);
}

#ifdef PITOT_CORPUS_WRITER
namespace {

constexpr const char* kSample = R"json({"displayTimeUnit": "ms", "traceEvents": [
{"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "server"}},
{"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "main"}},
{"ph": "X", "pid": 1, "tid": 2, "ts": 5.125, "dur": 9, "name": "work (/srv/prog.py:12)", "cat": "FEE",
 "args": {"n": -3, "x": 1.5, "is": true, "of": "b", "list": [1, 2]}},
{"ph": "B", "pid": 1, "tid": 2, "ts": "6", "name": "outer"}, {"ph": "B", "pid": 1, "tid": 2, "ts": 7, "name": "inner"},
{"ph": "E", "pid": 1, "tid": 2, "ts": 8}, {"ph": "E", "pid": 1, "tid": 2, "ts": 9, "name": "outer"},
{"ph": "b", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 10, "name": "get"},
{"ph": "b", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 11, "name": "dns"},
{"ph": "n", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 12, "name": "mark"},
{"ph": "e", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 13, "name": "dns"},
{"ph": "e", "cat": "net", "id": "0x1", "pid": 1, "tid": 2, "ts": 14, "name": "get"},
{"ph": "S", "cat": "old", "id2": {"local": 5}, "scope": "s", "pid": "p", "tid": "t", "ts": 15, "name": "old"},
{"ph": "T", "cat": "old", "id2": {"local": 5}, "scope": "s", "pid": "p", "tid": "t", "ts": 16, "name": "old"},
{"ph": "F", "cat": "old", "id2": {"local": 5}, "scope": "s", "pid": "p", "tid": "t", "ts": 17, "name": "old"},
{"ph": "s", "id": 1, "pid": 1, "tid": 2, "ts": 5, "name": "f"}, {"ph": "f", "id": 1, "pid": 1, "tid": 2, "ts": 6, "name": "f"},
{"ph": "C", "pid": 1, "tid": 2, "ts": 18, "name": "queue", "args": {"depth": 3, "size": "4.5"}},
{"ph": "i", "s": "g", "pid": 1, "tid": 2, "ts": 19, "name": "mark \ud83d\ude00"}, {}
], "viztracer_metadata": {"version": "1.1.1", "overflow": true, "baseTimeNanoseconds": 1795968099037724160}})json";

}  // namespace

bool fuzz::WriteCorpus(const std::string& folder) {
  const auto write = [&](const char* name, const std::string& bytes) {
    return fuzz::WriteFile(folder + "/" + name, bytes);
  };
  const std::string sample = kSample;
  return write("sample", sample) && write("cut", sample.substr(0, 900)) &&
         write("unfinished", "[{\"ph\":\"X\",\"ts\":1,\"name\":\"a\"},") &&
         write("long", "[{\"ph\":\"B\",\"ts\":0},{\"ph\":\"X\",\"ts\":0},{\"ph\":\"i\",\"ts\":4.6e15}]") &&
         write("not_text", "[{\"ph\":\"X\",\"name\":\"\xff\x01\",\"ts\":1,\"dur\":2}]");
}
#endif
