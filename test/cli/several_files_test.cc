// SPDX-License-Identifier: Apache-2.0
//
// The built program on several traces: those of a directory, named ones, and incidents of several processes.
#include <catch2/catch.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/folder.h"
#include "serialize/sample_trace.h"

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using nlohmann::json;

// A file of spans with one request, at that second of Unix time.
std::string Spans(const std::string& id, const std::string& second) {
  return R"({"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"5b8efff798038103d269b633813fc60c","spanId":")" + id +
         R"(","name":"/r","kind":2,"startTimeUnixNano":")" + second + R"(000000000","endTimeUnixNano":")" + second +
         R"(500000000"}]}]}]})";
}

// The dump of a second of a process, from that moment of its machine's clock on, with one request, and perhaps another.
std::string SecondOf(int64_t pid, int64_t begin_ms, const char* host = "node",
                     int64_t start_of_machine_s = 1'700'000'000, int64_t also_ms = 0) {
  constexpr int64_t kMs = 1'000'000;
  pitot::test::TraceMaker maker;
  pitot::model::Trace& trace = maker.trace;
  trace.pid = pid;
  trace.window_begin_ns = begin_ms * kMs;
  trace.window_end_ns = trace.window_begin_ns + 1000 * kMs;
  trace.clock.monotonic_ns = trace.clock.boottime_ns = trace.window_end_ns;
  trace.clock.realtime_ns = start_of_machine_s * 1000 * kMs + trace.window_end_ns;
  trace.attributes.push_back({maker.String("host"), maker.String(host)});
  maker.Request(static_cast<uint64_t>(pid * 1'000'000 + begin_ms), "/r", trace.window_begin_ns + kMs, 5 * kMs);
  if (also_ms != 0) maker.Request(static_cast<uint64_t>(pid * 1'000'000 + also_ms), "/r", also_ms * kMs + kMs, 5 * kMs);
  return Dump(maker.Finish());
}

// Writes it as the dump of an incident, in a new directory.
void WriteIncident(const Folder& folder, const std::string& directory, const std::string& dump) {
  std::filesystem::create_directories(folder / directory);
  folder.Write(directory + "/dump.pitot", dump);
}

size_t RequestsIn(const Result& info) { return json::parse(info.out)["counts"]["requests"]; }

TEST_CASE("files that are named together are answered as one trace", "[cli]") {
  const Folder folder;
  folder.Write("rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("rank1.json", Spans("00000000000000ab", "1700000002"));

  const Result info = folder.Run("info --json rank0.json rank1.json");

  CHECK(info.exit_code == 0);
  CHECK(RequestsIn(info) == 2);
  CHECK(json::parse(info.out)["window"]["end_unix_ns"] == 1'700'000'002'500'000'000);
  CHECK(json::parse(folder.Run("requests --json rank0.json rank1.json").out)["requests"].size() == 2);
  for (const char* const command : {"analyze", "report", "top --by request", "why"}) {
    const Result result = folder.Run(std::string(command) + " rank0.json rank1.json");
    INFO(command << ": " << result.err);
    CHECK(result.exit_code == 0);
  }
  CHECK(json::parse(folder.Run("top --by request --json rank0.json rank1.json").out)["totals"]["rows"] == 2);
  CHECK(folder.Run("analyze --set a04.idle_share=0.2 rank0.json rank1.json").exit_code == 0);
  CHECK(folder.Run("analyze --help").out.find("joined by their clocks") != std::string::npos);
}

TEST_CASE("a named file that is no trace is refused, and an output that is an input", "[cli]") {
  const Folder folder;
  folder.Write("rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("notes.txt", "not a trace");

  CHECK(folder.Run("analyze rank0.json notes.txt").exit_code == 5);
  CHECK(folder.Run("analyze rank0.json missing").exit_code == 3);
  folder.Write("rank1.json", Spans("00000000000000ab", "1700000002"));
  CHECK(folder.Run("report -o rank1.json rank0.json rank1.json").exit_code == 2);
  CHECK(folder.Run("why --save-baseline rank1.json rank0.json rank1.json").exit_code == 2);
}

TEST_CASE("incidents of one moment in several processes are one trace", "[cli]") {
  const Folder folder;
  WriteIncident(folder, "in/20261121T000001Z-0001-slow", SecondOf(11, 5'000));
  WriteIncident(folder, "in/20261121T000009Z-0002-slow", SecondOf(11, 9'100));
  WriteIncident(folder, "in/20261121T000009Z-0001-slow", SecondOf(12, 9'500));
  WriteIncident(folder, "in/20261121T000003Z-0001-slow", SecondOf(13, 7'000));

  const Result info = folder.Run("info --json in");

  CHECK(info.exit_code == 0);
  CHECK(RequestsIn(info) == 2);
  CHECK(info.err ==
        "pitot: in has 4 incidents; those of the newest moment are joined by their clocks: "
        "20261121T000009Z-0002-slow, 20261121T000009Z-0001-slow. Name others to read them.\n");
  CHECK(folder.Run("analyze in").exit_code == 0);
  CHECK(folder.Run("view in -o out.html").exit_code == 0);
  CHECK(folder.Run("convert in -o out.pftrace").exit_code == 0);
  CHECK(RequestsIn(folder.Run("info --json out.pftrace")) == 2);
  CHECK(RequestsIn(folder.Run("info --json in/20261121T000001Z-0001-slow in/20261121T000003Z-0001-slow")) == 2);
}

TEST_CASE("incidents of workers with a directory each are found", "[cli]") {
  const Folder folder;
  // The same process number, in containers.
  WriteIncident(folder, "in/worker0/20261121T000009Z-0001-slow", SecondOf(1, 9'000, "pod0"));
  WriteIncident(folder, "in/worker1/20261121T000009Z-0001-slow", SecondOf(1, 9'500, "pod1"));
  std::filesystem::create_directories(folder / "in/20261120T000000Z-0001-slow");
  folder.Write("in/20261120T000000Z-0001-slow/worker0.pitot", SecondOf(1, 2'000, "pod0"));

  const Result info = folder.Run("info --json in");

  CHECK(RequestsIn(info) == 2);
  CHECK(info.err.find("in has 3 incidents") != std::string::npos);
  CHECK(info.err.find("worker0/20261121T000009Z-0001-slow, worker1/20261121T000009Z-0001-slow") != std::string::npos);
  CHECK(RequestsIn(folder.Run("info --json in/20261120T000000Z-0001-slow")) == 1);
  CHECK(RequestsIn(folder.Run("info --json in/worker0")) == 1);
}

TEST_CASE("incidents of one process are not joined, whether or not their windows overlap", "[cli]") {
  const Folder folder;
  WriteIncident(folder, "in/20261121T000009Z-0001-slow", SecondOf(11, 9'000));
  WriteIncident(folder, "in/20261121T000009Z-0002-slow", SecondOf(11, 9'500));
  const Result newest = folder.Run("info --json in");
  CHECK(RequestsIn(newest) == 1);
  CHECK(newest.err ==
        "pitot: in has 2 incidents; using the newest, 20261121T000009Z-0002-slow. Name another to read it.\n");

  std::filesystem::create_directory(folder / "files");
  folder.Write("files/a.pitot", SecondOf(11, 9'500));
  folder.Write("files/b.pitot", SecondOf(11, 5'000));
  folder.Write("files/c.pitot", SecondOf(12, 5'000));
  const Result files = folder.Run("info --json files");
  CHECK(RequestsIn(files) == 2);
  CHECK(files.err.find("files/b.pitot is left out: it is an older incident of the process in files/a.pitot") !=
        std::string::npos);
  // Named, it is read.
  CHECK(RequestsIn(folder.Run("info --json files/a.pitot files/b.pitot")) == 2);
}

TEST_CASE("incidents of several machines, or of one before and after its start, are not of one moment", "[cli]") {
  const Folder folder;
  WriteIncident(folder, "in/20261121T000009Z-0001-slow", SecondOf(11, 9'000));
  WriteIncident(folder, "in/20261121T000009Z-0002-slow", SecondOf(12, 9'000, "node", 1'700'000'005));

  CHECK(RequestsIn(folder.Run("info --json in")) == 1);
  // Files of a directory are ranks: all of them count.
  std::filesystem::create_directory(folder / "files");
  folder.Write("files/a.pitot", SecondOf(11, 9'000, "node0"));
  folder.Write("files/b.pitot", SecondOf(11, 9'000, "node1"));
  CHECK(RequestsIn(folder.Run("info --json files")) == 2);
}

TEST_CASE("incidents are found three folders down, not four", "[cli]") {
  const Folder folder;
  WriteIncident(folder, "in/a/b/near", SecondOf(11, 9'000));
  WriteIncident(folder, "in/a/b/c/far", SecondOf(12, 9'500));
  folder.Write("in/a/b/c/worker.pitot", SecondOf(13, 9'500));

  const Result info = folder.Run("info --json in");

  CHECK(RequestsIn(info) == 2);
  CHECK(info.err.find("in has 2 incidents; those of the newest moment are joined by their clocks: near, worker.") !=
        std::string::npos);
}

TEST_CASE("a message says that dumps next to incidents are left out", "[cli]") {
  const Folder folder;
  WriteIncident(folder, "in/20261121T000009Z-0001-slow", SecondOf(11, 9'000));
  folder.Write("in/stray.pitot", SecondOf(12, 9'000));
  const std::string message = "pitot: in has 1 dump next to its incidents; left out. Name files to read them.\n";
  CHECK(folder.Run("info in").err == message);

  WriteIncident(folder, "in/20261121T000009Z-0002-slow", SecondOf(13, 9'000));
  CHECK(folder.Run("info in").err.find(message) == 0);
}

TEST_CASE("named incidents of one process may not overlap, and windows apart are named", "[cli]") {
  const Folder folder;
  folder.Write("a.pitot", SecondOf(11, 9'500, "node", 1'700'000'000, 9'900));
  folder.Write("b.pitot", SecondOf(11, 9'000, "node", 1'700'000'000, 9'500));
  folder.Write("c.pitot", SecondOf(11, 5'000));

  const Result refused = folder.Run("info a.pitot b.pitot");
  CHECK(refused.exit_code == 3);
  CHECK(refused.err ==
        "pitot: cannot join a.pitot and b.pitot: a and b are of one process, and their windows overlap. Give one of "
        "the files.\n");
  const Result apart = folder.Run("info a.pitot c.pitot");
  CHECK(apart.exit_code == 0);
  CHECK(apart.err == "pitot: the windows of these files overlap no other: a, c. Check them with `pitot info`.\n");
}

TEST_CASE("a joined trace's header names the formats and processes of its files", "[cli]") {
  const Folder folder;
  folder.Write("a.pitot", SecondOf(11, 9'500));
  folder.Write("b.pitot", SecondOf(11, 5'000));
  folder.Write("c.json", Spans("00000000000000aa", "1700000009"));
  const std::string version = json::parse(folder.Run("info --json a.pitot").out)["version"];

  const Result info = folder.Run("info a.pitot b.pitot c.json"), report = folder.Run("report a.pitot b.pitot c.json");
  const json facts = json::parse(folder.Run("info --json a.pitot b.pitot c.json").out);

  const std::string formats = "a, b: dump " + version + "; c: OpenTelemetry spans\n";
  INFO(info.out << report.out);
  CHECK(info.out.find("format     3 files, joined by their clocks, ") != std::string::npos);
  CHECK(info.out.find("files      " + formats) != std::string::npos);
  CHECK(info.out.find("processes  a, b: (pid 11) on node; c: ") != std::string::npos);
  CHECK(info.out.find("joined.") == std::string::npos);
  CHECK(report.out.find("files      3, joined by their clocks: " + formats) != std::string::npos);
  CHECK(report.out.find("processes  a, b: (pid 11) on node; c: ") != std::string::npos);
  CHECK(report.out.find("joined.") == std::string::npos);
  REQUIRE(facts["files"].size() == 3);
  CHECK(facts["files"][1] ==
        json{{"name", "b"}, {"format", "dump " + version}, {"process", {{"name", ""}, {"pid", 11}}}, {"host", "node"}});
  CHECK(facts["files"][2]["format"] == "OpenTelemetry spans");
  CHECK(!json::parse(folder.Run("info --json a.pitot").out).contains("files"));
}

TEST_CASE("requests without queues and GPUs stay unknown next to a dump that has both", "[cli]") {
  const Folder folder;
  folder.Write("spans.json", Spans("00000000000000aa", "1700000000"));
  pitot::model::Trace server = incident::MakeGpuTrace();
  server.depths = {{server.window_begin_ns, server.window_end_ns, pitot::Depth::kKernels}};
  server.clock.realtime_ns = 1'700'000'000'000'000'000 + server.clock.monotonic_ns - server.window_begin_ns;
  folder.Write("server.pitot", Dump(server));

  const auto facts = [&](const std::string& files) {
    const json answer = json::parse(folder.Run("requests --json " + files).out);
    for (const json& row : answer["requests"]) {
      if (row["route"] == "/r") return json{row["queue_ms"], row["gpu_ns"], row["coverage"], row["complete"]};
    }
    return json();
  };
  CHECK(facts("spans.json") == json{nullptr, nullptr, nullptr, false});
  CHECK(facts("spans.json server.pitot") == json{nullptr, nullptr, nullptr, false});
}

TEST_CASE("info lists what one file's format cannot say for the joined trace", "[cli]") {
  const Folder folder;
  folder.Write("spans.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("server.pitot", SecondOf(11, 0));
  const auto lacks = [&](const std::string& files) {
    const std::string out = folder.Run("info " + files).out;
    const size_t at = out.find("lacks      "), end = out.find("\nprocess", at);
    return at == std::string::npos ? "" : out.substr(at, end - at);
  };

  CHECK(lacks("server.pitot").empty());
  CHECK(lacks("spans.json").find("queues") != std::string::npos);
  CHECK(lacks("spans.json server.pitot") == lacks("spans.json"));
}

TEST_CASE("a dump whose beginning is damaged is used alone", "[cli]") {
  const Folder folder;
  std::string damaged = SecondOf(12, 9'500);
  damaged[30] ^= 1;
  WriteIncident(folder, "in/20261121T000009Z-0001-slow", SecondOf(11, 9'000));
  WriteIncident(folder, "in/20261121T000009Z-0002-slow", damaged);
  WriteIncident(folder, "in/.pitot-partial-1", SecondOf(13, 9'000));
  folder.Write("in/stray.pitot", SecondOf(14, 9'000));

  const Result result = folder.Run("info --json in/");

  CHECK(result.err.find("in/ has 2 incidents") != std::string::npos);
  CHECK(RequestsIn(result) == 1);
}

TEST_CASE("GPUs without a UUID are said to be counted for each process", "[cli]") {
  const Folder folder;
  pitot::model::Trace other = incident::MakeGpuTrace();
  ++other.pid;
  folder.Write("a.pitot", Dump(incident::MakeGpuTrace()));
  folder.Write("b.pitot", Dump(other));

  CHECK(folder.Run("analyze a.pitot b.pitot").err.find("do not tell the UUID of 4 GPUs") != std::string::npos);
}

TEST_CASE("a directory of traces is answered as one", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/rank1.json", Spans("00000000000000ab", "1700000002"));
  folder.Write("in/notes.txt", "not a trace");

  const Result result = folder.Run("info --json in");

  CHECK(result.exit_code == 0);
  CHECK(result.err.find("in has 2 traces") != std::string::npos);
  const json info = json::parse(result.out);
  CHECK(info["counts"]["requests"] == 2);
  CHECK(info["window"]["begin_unix_ns"] == 1'700'000'000'000'000'000);
  CHECK(info["window"]["end_unix_ns"] == 1'700'000'002'500'000'000);
  CHECK(folder.Run("analyze in").exit_code == 0);
}

TEST_CASE("what is wrong with one of a directory's traces is said", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/rank1.json", Spans("00000000000000ab", "1700000002"));
  folder.Write("in/rank2.json", R"({"traceEvents":[]})");
  folder.Write("in/rank3.json", Spans("00000000000000ac", "1700000004") + Spans("00000000000000ac", "1700000005"));
  folder.Write("in/rank4.json", Spans("00000000000000ad", "9700000000"));

  const Result result = folder.Run("info --json in");

  CHECK(result.err.find("rank3.json: 1 span came again with the same id") != std::string::npos);
  CHECK(result.err.find("rank4.json is left out: it has 1 event") != std::string::npos);
}

TEST_CASE("a dump comes before other traces of its directory", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/a.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/server.pitot", Dump());

  const Result result = folder.Run("info --json in");

  CHECK(result.exit_code == 0);
  CHECK(json::parse(result.out)["format"] == "dump");
}

TEST_CASE("a trace without a date cannot be joined, and is named", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/rank0.json", Spans("00000000000000aa", "1700000000"));
  folder.Write("in/chrome.json", R"({"traceEvents":[{"ph":"X","name":"a","pid":1,"tid":1,"ts":1,"dur":2}]})");

  const Result result = folder.Run("info in");

  CHECK(result.exit_code != 0);
  CHECK(result.out.empty());
  CHECK(result.err.find("chrome has no date") != std::string::npos);
}

TEST_CASE("a trace and its conversions in one directory count once", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/server.pitot", Dump(incident::MakeGpuTrace()));
  const auto count = [&](const char* of) { return json::parse(folder.Run("info --json in").out)["counts"][of]; };
  const json gpu = count("gpu"), requests = count("requests"), firings = count("firings");
  REQUIRE(gpu > 0);
  REQUIRE(requests > 0);

  for (const char* const format : {"perfetto", "kineto", "otlp", "xspace"}) {
    CAPTURE(format);
    CHECK(folder.Run(std::string("convert in/server.pitot --to ") + format).exit_code == 0);
    CHECK(count("gpu") == gpu);
    CHECK(count("requests") == requests);
    CHECK(count("firings") == firings);
  }
  CHECK(folder.Run("info in").err.find(
            "in/server.pftrace is left out: it repeats in/server.pitot. Name it to read it.") != std::string::npos);
  // Without a dump, the other tool's file stays.
  std::filesystem::create_directory(folder / "fold");
  folder.Run("convert in/server.pitot --to kineto -o fold/rank0.json");
  const Result alone = folder.Run("top fold --by kernel --json");
  CHECK(folder.Run("convert fold/rank0.json").exit_code == 0);
  const Result both = folder.Run("top fold --by kernel --json");
  CHECK(both.out == alone.out);
  CHECK(both.err.find("fold/rank0.pftrace is left out: it repeats fold/rank0.json") != std::string::npos);
}

TEST_CASE("one recording that is named twice is refused", "[cli]") {
  const Folder folder;
  folder.Write("a.pitot", Dump());
  folder.Run("convert a.pitot");

  for (const char* const inputs : {"a.pitot a.pitot", "a.pftrace a.pitot"}) {
    const Result result = folder.Run(std::string("top ") + inputs);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(result.err.find("are of the same recording, which would count twice. Name one of them.") !=
          std::string::npos);
  }
}

TEST_CASE("the two forms of JAX's profile are found below a directory, and count once", "[cli]") {
  const Folder folder;
  const std::string data = PITOT_READ_DATA "/", run = "jx/plugins/profile/2026_11_30";
  std::filesystem::create_directories(folder / run);
  for (const char* const name : {"/host.a.trace.json.gz", "/perfetto_trace.json.gz"})
    std::filesystem::copy(data + "jax.trace.json.gz", folder / (run + name));
  std::filesystem::copy(data + "jax.xplane.pb", folder / (run + "/host.a.xplane.pb"));

  const Result result = folder.Run("info --json jx");

  CHECK(result.exit_code == 0);
  CHECK(json::parse(result.out)["format"] == "xspace");
  CHECK(result.err == "pitot: jx has no trace; using " + run + " below it.\npitot: " + run +
                          "/host.a.trace.json.gz is left out: it repeats " + run +
                          "/host.a.xplane.pb. Name it to read it.\npitot: " + run +
                          "/perfetto_trace.json.gz is left out: it repeats " + run +
                          "/host.a.xplane.pb. Name it to read it.\n");

  std::filesystem::create_directory(folder / "jx/plugins/profile/2026_12_01");
  std::filesystem::copy(data + "jax.trace.json.gz", folder / "jx/plugins/profile/2026_12_01/host.trace.json.gz");
  const Result two = folder.Run("info jx");
  CHECK(two.exit_code == 3);
  CHECK(two.err == "pitot: there is no trace in jx, but in folders below it: name one of " + run +
                       ", jx/plugins/profile/2026_12_01.\n");
}

TEST_CASE("a directory without a trace is refused", "[cli]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "in");
  folder.Write("in/notes.txt", "not a trace");

  const Result result = folder.Run("info in");

  CHECK(result.exit_code != 0);
  CHECK(result.err.find("there is no incident and no trace in in") != std::string::npos);
}

}  // namespace

TEST_CASE("files of equal times without a common name are not of one recording", "[cli]") {
  const Folder folder;
  folder.Write("a.json", R"([{"ph":"X","name":"old","pid":1,"tid":1,"ts":5,"dur":2}])");
  folder.Write("b.json", R"([{"ph":"X","name":"new","pid":1,"tid":1,"ts":9,"dur":2}])");

  CHECK(folder.Run("diff a.json b.json").out.find("same recording") == std::string::npos);
  CHECK(folder.Run("analyze a.json b.json").err.find("of the same recording") == std::string::npos);
}

TEST_CASE("folders below are not chosen from while some were not looked at", "[cli]") {
  const Folder folder;
  for (const char* const below : {"in/a", "in/b", "in/c"}) std::filesystem::create_directories(folder / below);
  folder.Write("in/a/t.json", Spans("00000000000000aa", "1700000000"));
  for (int i = 0; i < 260; ++i) folder.Write("in/b/" + std::to_string(i) + ".txt", "junk");
  folder.Write("in/c/t.json", Spans("00000000000000ab", "1700000000"));

  const Result info = folder.Run("info in");

  CHECK(info.exit_code == 3);
  CHECK(info.err.find("256 files were looked at, not all") != std::string::npos);
}

TEST_CASE("traces without a common route are not called too short", "[cli]") {
  const Folder folder;
  const auto spans = [](std::string text, const char* route) {
    text.replace(text.find("/r"), 2, route);
    return text;
  };
  folder.Write("a.json", spans(Spans("00000000000000aa", "1700000000"), "/a"));
  folder.Write("b.json", spans(Spans("00000000000000ab", "1700000000"), "/b"));

  CHECK(folder.Run("diff a.json b.json").out.find("no route and size is in both traces") != std::string::npos);
}

TEST_CASE("bytes next to a dump are named, as in a file of several dumps", "[cli]") {
  const Folder folder;
  const std::string dump = SecondOf(1, 1'000);
  folder.Write("two.pitot", dump + dump);

  const Result info = folder.Run("info two.pitot");

  CHECK(info.exit_code == 4);
  CHECK(info.err.find(" bytes before or behind its dump, which were not read.") != std::string::npos);
}
