// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include <stdlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "cli/folder.h"
#include "fakes/string_sink.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/kineto.h"
#include "pitot/serialize/otlp.h"
#include "pitot/serialize/otlp_profiles.h"
#include "pitot/serialize/pprof.h"
#include "pitot/serialize/xspace.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Folder;
using cli_test::Result;
using fakes::ReadFile;

std::string Serialized(pitot::Serializer& serializer) {
  fakes::StringSink sink;
  REQUIRE(serializer.Serialize(pitot::test::SampleTrace(), sink).ok());
  return sink.bytes;
}

std::string Unzipped(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  REQUIRE(gzdirect(file) == 0);
  std::string text;
  char part[4096];
  for (int got; (got = gzread(file, part, sizeof part)) > 0;) text.append(part, static_cast<size_t>(got));
  REQUIRE(gzclose(file) == Z_OK);
  return text;
}

TEST_CASE("convert writes each format next to the dump, and says what opens it", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Serialized(*pitot::MakeDumpSerializer()));
  const struct {
    const char *format, *file, *open;
    std::string bytes;
  } kFormats[] = {{"pprof", "dump.pb", "go tool pprof", Serialized(*pitot::MakePprofSerializer())},
                  {"kineto", "dump.pt.trace.json", "TensorBoard", Serialized(*pitot::MakeKinetoSerializer())},
                  {"xspace", "dump.xplane.pb", "XProf", Serialized(*pitot::MakeXSpaceSerializer())},
                  {"otlp-profiles", "dump.otlp-profiles.pb", "/v1development/profiles",
                   Serialized(*pitot::MakeOtlpProfilesSerializer())},
                  {"otlp", "dump.otlp.pb", "/v1/traces", ""}};
  for (const auto& one : kFormats) {
    INFO(one.format);

    const Result result = folder.Run(std::string("convert dump.pitot --to ") + one.format);

    CHECK(result.exit_code == 0);
    CHECK(result.out.find(std::string("wrote ") + one.file + " (") == 0);
    CHECK(result.out.find(one.open) != std::string::npos);
    // The command also judges, which the serializer does not.
    if (!one.bytes.empty()) CHECK(ReadFile(folder / one.file) == one.bytes);
    CHECK(folder.Run("convert --help").out.find(one.open) != std::string::npos);
  }
  CHECK(ReadFile(folder / "dump.otlp.pb").find("pitot.verdict.sentence") != std::string::npos);
}

TEST_CASE("convert --compress makes a gzip file of formats that do not compress themselves", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Serialized(*pitot::MakeDumpSerializer()));

  CHECK(folder.Run("convert dump.pitot --to kineto --compress").exit_code == 0);

  CHECK(Unzipped(folder / "dump.pt.trace.json.gz") == Serialized(*pitot::MakeKinetoSerializer()));
  CHECK(folder.Run("convert dump.pitot --to kineto --compress -o /dev/full").exit_code == 6);
}

const char* const kTheirs = R"json({"deviceProperties":[{"id":0,"name":"GPU","numSms":132}],"traceEvents":[
  {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":10,"tid":11,"ts":1000,"dur":100},
  {"ph":"X","cat":"cpu_op","name":"aten::mm","pid":10,"tid":11,"ts":1010,"dur":40,
   "args":{"Input Dims":[[8,16],[16,4]],"Input type":["float","float"]}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":10,"tid":11,"ts":1020,"dur":5,
   "args":{"correlation":3}},
  {"ph":"X","cat":"cuda_runtime","name":"cudaMemcpyAsync","pid":10,"tid":11,"ts":1030,"dur":5,
   "args":{"correlation":4}},
  {"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD (Pageable -> Device)","pid":0,"tid":7,"ts":1060,"dur":2.001,
   "args":{"device":0,"context":1,"stream":7,"correlation":4,"bytes":4096}},
  {"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1030.5,"dur":20,
   "args":{"device":0,"context":1,"stream":7,"correlation":3,"grid":[1,2,3],"block":[32,1,1]}}]})json";

// The names and contents of an archive's files.
std::map<std::string, std::string> FilesOf(const std::string& tar) {
  std::map<std::string, std::string> files;
  size_t at = 0;
  while (tar.at(at) != '\0') {
    const std::string name = tar.c_str() + at;
    const size_t size = std::stoul(tar.substr(at + 124, 11), nullptr, 8);
    uint32_t sum = 8 * ' ';
    for (size_t i = 0; i < 512; ++i) sum += i >= 148 && i < 156 ? 0 : static_cast<uint8_t>(tar.at(at + i));
    CHECK(std::stoul(tar.substr(at + 148, 6), nullptr, 8) == sum);
    files[name] = tar.substr(at + 512, size);
    at += 512 + (size + 511) / 512 * 512;
  }
  CHECK(tar.size() == at + 1024);
  return files;
}

TEST_CASE("several dumps become an archive of Perfetto traces with a manifest of their machines", "[cli]") {
  const Folder folder;
  folder.Write("one.pitot", Serialized(*pitot::MakeDumpSerializer()));
  folder.Write("two.json", kTheirs);

  const Result result = folder.Run("convert one.pitot two.json");

  CHECK(result.exit_code == 0);
  CHECK(result.out.find("wrote one.tar (") == 0);
  CHECK(folder.Run("convert one.pitot -o 1.pftrace").exit_code == 0);
  CHECK(folder.Run("convert two.json -o 2.pftrace").exit_code == 0);
  auto files = FilesOf(ReadFile(folder / "one.tar"));
  CHECK(files.size() == 3);
  CHECK((files["1.pftrace"] == ReadFile(folder / "1.pftrace")));
  CHECK((files["2.pftrace"] == ReadFile(folder / "2.pftrace")));
  CHECK(files["perfetto_manifest.json"] ==
        R"({"perfetto_manifest":{"files":[{"machine":{"name":"gpu-\u00e9t\u00e9"},"path":"1.pftrace"},)"
        R"({"path":"2.pftrace"}],"version":1}})");
}

TEST_CASE("several dumps become one file of Perfetto's only, and none if one cannot be read", "[cli]") {
  const Folder folder;
  folder.Write("one.pitot", Serialized(*pitot::MakeDumpSerializer()));

  CHECK(folder.Run("convert one.pitot one.pitot --to kineto").exit_code == 2);
  CHECK(folder.Run("convert one.pitot one.pitot -o one.pitot").exit_code == 2);
  const Result result = folder.Run("convert one.pitot missing.pitot -o both.tar");

  CHECK(result.exit_code == 3);
  CHECK(result.err.find("both.tar was not written: missing.pitot could not be read. Leave it out") !=
        std::string::npos);
  CHECK(result.err.find("Choose another place") == std::string::npos);
  CHECK(ReadFile(folder / "both.tar").empty());
  folder.Write("empty.json", R"({"schemaVersion": 1, "traceEvents": []})");
  CHECK(folder.Run("convert one.pitot empty.json -o both.tar").err.find("empty.json is empty. Leave it out") !=
        std::string::npos);
  fakes::StringSink empty;
  REQUIRE(pitot::MakeDumpSerializer()->Serialize(pitot::model::Trace(), empty).ok());
  folder.Write("empty.pitot", empty.bytes);
  const Result of_empty = folder.Run("convert empty.pitot empty.pitot -o both.tar");
  CHECK(of_empty.exit_code == 1);
  CHECK(of_empty.err.find("empty.pitot is empty. Leave it out") != std::string::npos);
  CHECK(ReadFile(folder / "both.tar").empty());
}

TEST_CASE("no command writes over a trace of the folder that it reads", "[cli]") {
  const Folder folder;
  const std::string trace = Serialized(*pitot::MakeKinetoSerializer());
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/a.json", trace);
  folder.Write("in/b.json", trace);
  folder.Write("one.json", trace);

  for (const char* command :
       {"convert in", "convert one.json in", "view in", "report in", "roofline in", "recover in"}) {
    INFO(command);
    const Result result = folder.Run(std::string(command) + " -o in/b.json");
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("in/b.json is an input. Choose another place with -o") != std::string::npos);
    CHECK((ReadFile(folder / "in/b.json") == trace));
  }
  folder.Write("c.json",
               R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c",)"
               R"("spanId":"00000000000000aa","name":"/r","kind":2,"startTimeUnixNano":"1700000000000000000",)"
               R"("endTimeUnixNano":"1700000000500000000"}]}]}]})");
  const Result of_both = folder.Run("report in/a.json c.json -o c.json");
  CHECK(of_both.exit_code == 2);
  CHECK(of_both.err.find("c.json is an input") != std::string::npos);
  CHECK(folder.Run("convert in -o in/new").exit_code == 0);
}

TEST_CASE("the output of a folder is next to it, with its name", "[cli]") {
  const Folder folder;
  std::filesystem::create_directories(folder / "run.1/in");
  folder.Write("run.1/in/a.json", kTheirs);
  folder.Write("run.1/b.json", kTheirs);

  CHECK(folder.Run("view run.1/").out.find("wrote run.1.html (") == 0);
  CHECK(folder.Run("convert run.1/in/").out.find("wrote run.1/in.pftrace (") == 0);
  CHECK(folder.Run("convert run.1/in/.").out.find("wrote run.1/in.pftrace (") == 0);
  CHECK(system(("cd " + (folder / "run.1/in") + " && " PITOT_PROGRAM " convert . >out").c_str()) == 0);
  CHECK(ReadFile(folder / "run.1/in/out").find("run.1/in.pftrace (") != std::string::npos);
}

TEST_CASE("convert writes no empty file: it says what the trace lacks, and exits with 1", "[cli]") {
  const Folder folder;
  fakes::StringSink sink;
  REQUIRE(pitot::MakeDumpSerializer()->Serialize(pitot::model::Trace(), sink).ok());
  folder.Write("empty.pitot", sink.bytes);
  folder.Write("theirs.json", kTheirs);

  for (const std::string format : {"perfetto", "kineto", "otlp", "otlp-profiles", "pprof", "xspace"}) {
    INFO(format);
    const Result result = folder.Run("convert empty.pitot --to " + format + " -o out");
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("empty.pitot has no ") != std::string::npos);
  }
  CHECK(folder.Run("convert theirs.json --to otlp").exit_code == 1);
  CHECK(folder.Run("convert theirs.json --to pprof").exit_code == 0);
}

TEST_CASE("what a format does not write makes no file of it", "[cli]") {
  const Folder folder;
  folder.Write("marks.json", R"([{"ph":"i","name":"mark","pid":1,"tid":1,"ts":5,"s":"t"},
    {"ph":"C","name":"queue","pid":1,"ts":5,"args":{"length":3}}])");

  for (const std::string format : {"kineto", "otlp-profiles", "pprof", "xspace"}) {
    INFO(format);
    const Result result = folder.Run("convert marks.json -o out --to " + format);
    CHECK(result.exit_code == 1);
    CHECK(result.err.find("marks.json has no scopes") != std::string::npos);
  }
  CHECK(folder.Run("convert marks.json -o out --to perfetto").exit_code == 0);
}

namespace {

// Chrome's dialect, without scopes, calls, GPU work and a date.
constexpr char kRequestAlone[] = R"([{"ph":"b","cat":"http","name":"/v1","id":1,"pid":1,"tid":1,"ts":5},
    {"ph":"e","cat":"http","name":"/v1","id":1,"pid":1,"tid":1,"ts":9}])";

}  // namespace

TEST_CASE("requests alone make no file of PyTorch's profiler, because it would have nothing to read back", "[cli]") {
  const Folder folder;
  folder.Write("chrome.json", kRequestAlone);

  const Result result = folder.Run("convert chrome.json -o out --to kineto");

  CHECK(result.exit_code == 1);
  CHECK(result.err.find("chrome.json has no scopes, calls and no GPU work") != std::string::npos);
}

TEST_CASE("convert writes no spans of a trace without a date, and exits with 1", "[cli]") {
  const Folder folder;
  folder.Write("chrome.json", kRequestAlone);

  const Result result = folder.Run("convert chrome.json --to otlp");

  CHECK(result.exit_code == 1);
  CHECK(result.err ==
        "pitot: chrome.json has no date: no file for otlp was written. --to perfetto and --to parquet need none.\n");
}

TEST_CASE("a trace of PyTorch's profiler that is converted to itself gives the same tables", "[cli]") {
  const Folder folder;
  folder.Write("theirs.json", kTheirs);

  CHECK(folder.Run("convert theirs.json --to kineto -o ours.json").exit_code == 0);

  for (const std::string by : {"op --group-by-shape", "kernel --group-by-shape", "scope", "call", "layer"}) {
    INFO(by);
    const Result theirs = folder.Run("top --json --by " + by + " theirs.json");
    CHECK(theirs.exit_code == 0);
    CHECK(folder.Run("top --json --by " + by + " ours.json").out == theirs.out);
  }
}

}  // namespace
