// SPDX-License-Identifier: Apache-2.0
//
// 1,000 files that are mostly not traces: those of a machine, and traces with mistakes. None may pass as a trace in
// which nothing happened.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/read/trace.h"
#include "pitot/serialize/dump.h"
#include "pitot/serialize/perfetto.h"
#include "read/parse.h"
#include "report/incident_trace.h"

namespace fs = std::filesystem;
using pitot::StatusCode;
using pitot::model::Trace;

namespace {

constexpr size_t kFiles = 1000, kOfMachine = 600;

// Whether the program would exit with 0 and show nothing.
bool IsSilent(const pitot::Status& status, const Trace& trace) {
  if (!status.ok()) return std::string(status.message()).empty();
  return trace.events.size() == 0 && trace.calls.size() == 0 && trace.gpu.size() == 0 && trace.samples.size() == 0 &&
         trace.requests.empty() && trace.overheads.empty();
}

void Analyze(const Trace& trace) {
  pitot::analyze::AnalysisReport report;
  REQUIRE(pitot::analyze::Analyze(trace, pitot::analyze::MakeCatalogue(), {}, &report).ok());
}

// Evenly chosen by path, so that a run on the same machine takes the same.
std::vector<std::string> FilesOfMachine(size_t most) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::recursive_directory_iterator entry("/usr/share", fs::directory_options::skip_permission_denied, error), end;
       !error && entry != end && paths.size() < 200000; entry.increment(error)) {
    std::error_code none;
    if (entry->is_regular_file(none) && !entry->is_symlink(none) && entry->file_size(none) < (4 << 20))
      paths.push_back(entry->path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> chosen;
  const size_t step = std::max<size_t>(1, paths.size() / most);
  for (size_t i = 0; i < paths.size() && chosen.size() < most; i += step) chosen.push_back(paths[i]);
  return chosen;
}

std::string FileText(const std::string& name) {
  std::ifstream file(std::string(PITOT_READ_DATA) + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Flips bits, cuts, leaves parts out, and repeats parts.
std::string Mutated(std::string bytes, std::mt19937* random) {
  const auto at = [&] { return (*random)() % bytes.size(); };
  for (size_t changes = 1 + (*random)() % 6; changes > 0 && !bytes.empty(); --changes) {
    const size_t from = at(), size = std::min(bytes.size() - from, size_t{1} + (*random)() % 200);
    switch ((*random)() % 5) {
      case 0:
        bytes[from] = static_cast<char>((*random)());
        break;
      case 1:
        bytes[from] = static_cast<char>(bytes[from] ^ 1 << (*random)() % 8);
        break;
      case 2:
        bytes.erase(from, size);
        break;
      case 3:
        bytes.insert(at(), bytes.substr(from, size));
        break;
      default:
        if ((*random)() % 4 == 0) bytes.resize(from);
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("of 1,000 foreign files none passes as a trace in which nothing happened", "[read]") {
  size_t files = 0, refused = 0, silent = 0;
  Trace trace;
  pitot::TraceReport report;
  const auto take = [&](const pitot::Status& status, const std::string& what) {
    ++files;
    refused += !status.ok();
    if (!IsSilent(status, trace)) return;
    ++silent;
    UNSCOPED_INFO(what);
  };
  for (const std::string& path : FilesOfMachine(kOfMachine)) take(ReadTrace(path, &trace, &report), path);

  const std::string kineto =
      R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":5,"dur":2},)"
      R"({"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":9,"dur":2,"args":{"device":0,"stream":7}}]})";
  // Small ones lose all of their events to a mistake or two.
  const std::string one = R"({"schemaVersion":1,"traceEvents":[{"ph":"X","cat":"cpu_op","name":"a","ts":5,"dur":2}]})";
  const std::string names =
      R"([{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"a"}},{"ph":"i","name":"b","ts":1}])";
  const std::vector<std::string> originals = {
      kineto,
      one,
      names,
      read_test::Gzip(kineto),
      FileText("viztracer.json"),
      FileText("onnxruntime.json"),
      FileText("jax.trace.json.gz"),
      FileText("jax.xplane.pb"),
      incident::Serialize(*pitot::MakePerfettoSerializer(), incident::MakeTrace()),
      incident::Serialize(*pitot::MakeDumpSerializer(), incident::MakeTrace())};
  std::mt19937 random(27);
  for (size_t i = 0; files < kFiles; ++i) {
    const std::string bytes = Mutated(originals[i % originals.size()], &random);
    take(ParseTrace(bytes.data(), bytes.size(), &trace, &report), bytes.substr(0, 200));
    REQUIRE(FindInconsistency(trace) == "");
    if (i % 10 == 0) Analyze(trace);
  }
  CHECK(silent == 0);
  CHECK(refused > 0);
}

TEST_CASE("each reader's own file is read, so that the test above has something to damage", "[read]") {
  for (const char* const name : {"viztracer.json", "onnxruntime.json", "jax.trace.json.gz", "jax.xplane.pb"}) {
    CAPTURE(name);
    const std::string bytes = FileText(name);
    const read_test::Read read = read_test::Parse(bytes);
    CHECK(read.status.ok());
    CHECK(read.trace.events.size() > 10);
  }
}
