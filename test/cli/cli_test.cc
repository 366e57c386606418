// SPDX-License-Identifier: Apache-2.0
//
// The built program on small dumps: its output and exit codes.
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>

#include "analyze/unwrapped.h"
#include "cli/folder.h"
#include "fakes/child.h"
#include "fakes/not_run.h"
#include "fakes/own_mounts.h"
#include "golden.h"
#include "pitot/serialize/dump.h"
#include "report/incident_trace.h"
#include "serialize/crc32c.h"
#include "serialize/dump_format.h"
#include "session/host.h"
#include "session/worker_priority.h"

using nlohmann::json;

namespace {

using cli_test::Dump;
using cli_test::Folder;
using cli_test::Result;
using fakes::ReadFile;

// Keeps tests from needing GPUs or waiting for them; doctor_test.cc covers GPUs.
const std::string kNoGpus = " --driver /nowhere --driver-files /nowhere --nvml /nowhere";

// The dump with the payloads of its chunks of this type damaged.
std::string WithBadChunk(std::string dump, pitot::dump_format::ChunkType type) {
  constexpr size_t kHeader = pitot::dump_format::kChunkHeaderBytes;
  for (size_t at = 0; at + kHeader <= dump.size();) {
    uint16_t found = 0;
    uint32_t size = 0;
    memcpy(&found, &dump[at + 4], sizeof found);
    memcpy(&size, &dump[at + 8], sizeof size);
    if (found == static_cast<uint16_t>(type)) dump[at + kHeader] ^= 1;
    at += kHeader + size;
  }
  return dump;
}

// The dump as one of that format: the header begins with the version's two numbers.
std::string WithVersion(std::string dump, char major, char minor) {
  constexpr size_t kHeader = pitot::dump_format::kChunkHeaderBytes;
  uint32_t size = 0;
  memcpy(&size, &dump[8], sizeof size);
  dump[kHeader + 1] = major;
  dump[kHeader + 3] = minor;
  const uint32_t crc =
      pitot::serialize::ExtendCrc32c(pitot::serialize::ExtendCrc32c(0, dump.data(), kHeader - 4), &dump[kHeader], size);
  memcpy(&dump[kHeader - 4], &crc, sizeof crc);
  return dump;
}

// The finding of `pitot doctor` on this topic.
json FindingOf(const Folder& folder, const std::string& topic) {
  const json document = json::parse(folder.Run("doctor --json" + kNoGpus).out, nullptr, false);
  if (document.is_discarded()) return {};
  for (const json& finding : document["findings"]) {
    if (finding["topic"] == topic) return finding;
  }
  return {};
}

// Whether doctor reports that recorders use the cycle counter; -1 if it disagrees with the recorders.
int CycleCounterIsUsed(const Folder& folder) {
  session_test::Host host;
  if (!host.Start() || !host.TriggerAndFlush() || host.traces().size() != 1) return -1;
  const bool is_used = host.traces()[0].clock.cycle_counter;
  host.recorder.Stop();
  host.options.clock = pitot::ClockSource::kCycleCounter;
  const bool can_be_asked_for = pitot::Recorder::Start(host.options).status().ok();
  const bool is_said = FindingOf(folder, "cycle_counter").value("health", "") == "good";
  return is_used == can_be_asked_for && is_used == is_said ? is_used : -1;
}

// Found by threads of this process: the priority of a recorder's worker at work, and whether an idle thread may return
// to normal.
struct Priority {
  int policy, nice;
  bool may_return;
};
Priority PriorityOfWorkers() {
  Priority found{};
  const sched_param param{};
  std::thread([&] {
    found.may_return =
        sched_setscheduler(0, SCHED_IDLE, &param) == 0 && sched_setscheduler(0, SCHED_OTHER, &param) == 0;
  }).join();
  std::thread([&] {
    pitot::session::WorkerPriority worker;
    worker.Enter();
    worker.BeIdle();
    found.policy = sched_getscheduler(0);
    found.nice = getpriority(PRIO_PROCESS, 0);
  }).join();
  return found;
}

// In a child: 0 if doctor and workers agree, and if workers are idle exactly when expected.
int CheckPriority(const Folder& folder, bool is_idle) {
  const Priority worker = PriorityOfWorkers();
  const json finding = FindingOf(folder, "idle_priority");
  HOLDS(worker.may_return == is_idle);
  HOLDS(worker.policy == (is_idle ? SCHED_IDLE : SCHED_OTHER));
  HOLDS(finding.value("health", "") == (is_idle ? "good" : "note"));
  if (!is_idle)
    HOLDS(session_test::Contains(finding.value("answer", ""), "written at nice " + std::to_string(worker.nice)));
  return 0;
}

// Leaves this process and its children without any right to raise a priority beyond the limit. False if the limit
// cannot be set.
bool LimitNice(rlim_t limit) {
  const rlimit both{limit, limit};
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  if (setrlimit(RLIMIT_NICE, &both) != 0 || syscall(SYS_capget, &header, data) != 0) return false;
  if ((data[0].permitted >> CAP_SYS_NICE & 1) == 0) return true;
  data[0].effective &= ~(1u << CAP_SYS_NICE);
  data[0].permitted &= ~(1u << CAP_SYS_NICE);
  data[0].inheritable &= ~(1u << CAP_SYS_NICE);
  return prctl(PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0) == 0 && syscall(SYS_capset, &header, data) == 0;
}

void CheckColumns(const std::string& text) {
  CHECK(!text.empty());
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
}

// As of a recorder that was refused CUPTI: a GPU was there, and nothing of its work is.
pitot::model::Trace MakeWithoutGpuWork() {
  pitot::model::Trace trace = incident::MakeTrace();
  trace.depths = {{trace.window_begin_ns, trace.window_end_ns, pitot::Depth::kScopes}};
  trace.attributes.push_back(
      {trace.strings.Add("collector.cupti"), trace.strings.Add("refused: there is no libcupti; install it")});
  return trace;
}

}  // namespace

TEST_CASE("a gzipped dump is read as a plain one", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());
  const Result plain = folder.Run("why dump.pitot");
  REQUIRE(system(("gzip -k " + (folder / "dump.pitot")).c_str()) == 0);
  const Result packed = folder.Run("why dump.pitot.gz");
  CHECK(packed.exit_code == plain.exit_code);
  CHECK(packed.out == plain.out);
  CHECK_FALSE(packed.out.empty());
}

TEST_CASE("what is whole in a gzipped dump that was cut short is read", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());
  REQUIRE(system(("gzip -1 " + (folder / "dump.pitot")).c_str()) == 0);
  const std::string packed = fakes::ReadFile(folder / "dump.pitot.gz");
  folder.Write("cut.gz", packed.substr(0, packed.size() - 40));
  const Result cut = folder.Run("requests cut.gz");
  CHECK(cut.exit_code == 4);
  CHECK(cut.err.find("cut.gz is damaged") != std::string::npos);
  CHECK_FALSE(cut.out.empty());
}

TEST_CASE("info prints the contents of a dump", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("info dump.pitot");

  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CheckColumns(result.out);
  CheckGolden("cli_info.txt", result.out);
}

TEST_CASE("info prints JSON", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("info --json dump.pitot");

  REQUIRE(result.exit_code == 0);
  const json info = json::parse(result.out);
  CHECK(info["complete"] == true);
  CHECK(info["process"]["pid"] == 4242);
  CHECK(info["counts"]["requests"] == 14);
  CHECK(info["threads"].size() == 4);
  CHECK(info["losses"][0]["events"] == 1203);
  CHECK(info["firings"][0]["request"] == "0000000000008f0c");
  CHECK(info["routes"][0]["route"] == "/classify");
  CHECK(info["routes"][0]["max_ms"] == Approx(41.3));
  CHECK(info["attributes"]["version"] == "0.1.0");
}

TEST_CASE("unknown queue times are null, and their request is not complete", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  trace.losses.clear();
  folder.Write("whole.pitot", Dump(trace));
  for (auto& handoff : trace.handoffs) handoff.take_ns = 0;
  folder.Write("lost.pitot", Dump(trace));
  const auto slowest = [&](const std::string& name) {
    return json::parse(folder.Run("requests --sort latency --json " + name).out)["requests"][1];
  };

  CHECK(slowest("whole.pitot")["complete"] == true);
  CHECK(slowest("whole.pitot")["queue_ms"] == Approx(6.0).margin(0.01));
  CHECK(slowest("lost.pitot")["complete"] == false);
  CHECK(slowest("lost.pitot")["queue_ms"].is_null());
}

TEST_CASE("a directory of incidents stands for the newest of them", "[cli]") {
  Folder folder;
  CHECK(folder.Run("requests --json").exit_code == 2);
  std::filesystem::create_directories(folder / "incidents/20261120T235959Z-0002-x");
  std::filesystem::create_directories(folder / "incidents/20261121T000001Z-0001-y");
  std::filesystem::create_directories(folder / "incidents/20261122T000001Z-0001-without");
  folder.Write("incidents/20261120T235959Z-0002-x/dump.pitot", "no dump");
  folder.Write("incidents/20261121T000001Z-0001-y/dump.pitot", Dump());

  const Result result = folder.Run("requests --json incidents");

  CHECK(result.exit_code == 0);
  CHECK(result.err ==
        "pitot: incidents has 2 incidents; using the newest, 20261121T000001Z-0001-y. Name another to read it.\n");
  CHECK(folder.Run("info incidents/20261122T000001Z-0001-without").exit_code == 3);
}

TEST_CASE("an unknown command is named in the message", "[cli]") {
  const Folder folder;
  for (const char* const arguments : {"bogus", "bogus --help"}) {
    const Result result = folder.Run(arguments);
    CHECK(result.exit_code == 2);
    CHECK(session_test::Contains(result.err, "there is no command bogus"));
  }
}

TEST_CASE("requests are listed slowest first with their stages", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("requests dump.pitot --limit 4");

  CHECK(result.exit_code == 0);
  CHECK(result.err == "");
  CheckColumns(result.out);
  CheckGolden("cli_requests.txt", result.out);
}

TEST_CASE("requests prints JSON", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("requests dump.pitot --json --route /classify --sort latency");

  REQUIRE(result.exit_code == 0);
  const json requests = json::parse(result.out)["requests"];
  REQUIRE(requests.size() == 13);
  const json& slow = requests[0];
  CHECK(slow["id"] == "0000000000008f0c");
  CHECK(slow["trace_id"].get<std::string>().size() == 32);
  CHECK(slow["route"] == "/classify");
  CHECK(slow["outcome"] == "ok");
  CHECK(slow["begin_ns"] == 1000610000000);
  CHECK(slow["latency_ms"] == Approx(41.3));
  CHECK(slow["queue_ms"] == Approx(6.0005));
  CHECK(slow["batch_ids"] == json::array({"0000000000000077"}));
  CHECK(slow["deadline_ms"] == Approx(40));
  CHECK(slow["parent_id"].is_null());
  CHECK(slow["tokens"].is_null());
  CHECK(slow["fired"] == json::array({"latency /classify"}));
  CHECK(requests[1]["fired"] == json::array());
  CHECK(slow["sizes"]["pixels"] == 50176);
  CHECK(slow["labels"]["model"] == "resnet50");
  CHECK(slow["stages"][1]["name"] == "queue");
  CHECK(slow["stages"][1]["begin_ms"] == Approx(3.0));
  CHECK(slow["stages"][1]["ms"] == Approx(21.3));
  CHECK(slow["complete"] == false);  // a thread lost events meanwhile
}

TEST_CASE("requests and info show the host's own id", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  for (auto& request : trace.requests) {
    if (request.id == incident::kSlowRequest) request.host_id = trace.strings.Add("cmpl-17");
  }
  folder.Write("dump.pitot", Dump(trace));

  const json requests = json::parse(folder.Run("requests dump.pitot --json --limit 0").out)["requests"];
  const auto slow = std::find_if(requests.begin(), requests.end(), [](auto& of) { return of["host_id"] == "cmpl-17"; });

  REQUIRE(slow != requests.end());
  CHECK((*slow)["id"] == "0000000000008f0c");
  CHECK(std::count_if(requests.begin(), requests.end(), [](auto& of) { return of["host_id"] == ""; }) ==
        static_cast<std::ptrdiff_t>(requests.size()) - 1);
  CHECK(session_test::Contains(folder.Run("requests dump.pitot").out, "\n            cmpl-17\n"));
  CHECK(session_test::Contains(folder.Run("info dump.pitot").out, "(request cmpl-17)"));
}

TEST_CASE("requests shows why a request failed", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  trace.requests[0].outcome = pitot::Outcome::kFailed;
  trace.requests[0].reason = trace.strings.Add("KV cache full");
  folder.Write("dump.pitot", Dump(trace));

  const json requests = json::parse(folder.Run("requests dump.pitot --json --sort begin").out)["requests"];
  const std::string table = folder.Run("requests dump.pitot --outcome failed").out;

  CHECK(requests[0]["reason"] == "KV cache full");
  CHECK(requests[1]["reason"] == "");
  CHECK(session_test::Contains(table, "\n            KV cache full\n"));
}

TEST_CASE("requests can be sorted, limited and filtered", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());
  const auto ids = [&](const std::string& arguments) {
    const json document = json::parse(folder.Run("requests --json dump.pitot " + arguments).out);
    std::vector<std::string> found;
    for (const json& request : document["requests"]) found.push_back(request["id"].get<std::string>().substr(12));
    return found;
  };

  CHECK(ids("--sort begin --limit 2") == std::vector<std::string>{"0100", "0101"});
  CHECK(ids("--sort queue --limit 2") == std::vector<std::string>{"0200", "8f0c"});
  CHECK(ids("--limit 0").size() == 14);
  CHECK(ids("--route /segment") == std::vector<std::string>{"0200"});
  CHECK(ids("--outcome failed").empty());
}

TEST_CASE("analyze says in a line why rows on GPU work are left out", "[cli]") {
  const Folder folder;
  folder.Write("gpu.pitot", Dump(MakeWithoutGpuWork()));
  folder.Write("host.pitot", Dump());

  const std::string gpu = folder.Run("analyze gpu.pitot").out, host = folder.Run("analyze host.pitot").out;

  CHECK(gpu.find("\nleft out: rows on GPU work, which was not recorded: there is no libcupti; install it\n") !=
        std::string::npos);
  CHECK(host.find("\nleft out: rows on GPU work, which was not recorded\n") != std::string::npos);
  CHECK(folder.Run("analyze gpu.pitot --only a05").out.find("left out") == std::string::npos);
}

TEST_CASE("requests and info say why GPU times are not known", "[cli]") {
  const Folder folder;
  folder.Write("gpu.pitot", Dump(MakeWithoutGpuWork()));

  CHECK(folder.Run("requests gpu.pitot")
            .out.find("\n- not known: kernels were not recorded: there is no libcupti; install it\n") !=
        std::string::npos);
  CHECK(pitot::test::Unwrapped(folder.Run("info gpu.pitot").out)
            .find("for 80 % or more of their time; there is no libcupti; install it ") != std::string::npos);
}

TEST_CASE("requests have their GPU time and its kernel coverage", "[cli]") {
  const Folder folder;
  folder.Write("gpu.pitot", Dump(incident::MakeGpuTrace()));
  folder.Write("none.pitot", Dump());

  const Result text = folder.Run("requests gpu.pitot --limit 2 --sort gpu");
  const json with = json::parse(folder.Run("requests gpu.pitot --json --limit 0").out);
  const json without = json::parse(folder.Run("requests none.pitot --json --limit 0").out);

  CheckColumns(text.out);
  CHECK(text.out.find("gpu") != std::string::npos);
  CHECK(text.out.find("6.55 ms") != std::string::npos);
  CHECK(folder.Run("requests none.pitot").out.find("gpu") == std::string::npos);
  int64_t gpu_ns = 0;
  for (const json& request : with["requests"]) {
    gpu_ns += request["gpu_ns"].is_null() ? 0 : request["gpu_ns"].get<int64_t>();
    if (request["id"] == "0000000000008f0c") {
      CHECK(request["gpu_ns"] == 6550000);
      CHECK(request["gpu_by_events_ns"] == 0);
      CHECK(request["coverage"].get<double>() == Approx(7.999 / 18));  // 1 us of a set has no call
    }
  }
  CHECK(gpu_ns == 13100000);  // the batch's GPU time
  CHECK(without["requests"][0]["gpu_by_events_ns"].is_null());
  CHECK(without["requests"][0]["gpu_ns"].is_null());
  CHECK(without["requests"][0]["coverage"].is_null());
}

TEST_CASE("GPU time is 0 if kernels were recorded and there were none, null if it is unknown", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  trace.gpu_losses.clear();
  trace.losses.clear();
  const int64_t begin_ns = trace.window_begin_ns, end_ns = trace.window_end_ns;
  const auto first = [&](pitot::Depth depth) {
    trace.depths = {{begin_ns + 300 * incident::kMs, end_ns, depth}};
    folder.Write("gpu.pitot", Dump(trace));
    return json::parse(folder.Run("requests gpu.pitot --json --limit 0 --sort begin").out)["requests"];
  };

  // Requests without a batch: the first ended before the recorded depth is known, the last began after.
  const json at_scopes = first(pitot::Depth::kScopes), at_kernels = first(pitot::Depth::kKernels);
  const std::string table = folder.Run("requests gpu.pitot --limit 0 --sort begin").out;
  const size_t early = 0, late = 11;

  for (const json& requests : {at_scopes, at_kernels}) {
    CHECK(requests[early]["gpu_ns"].is_null());
    CHECK(requests[early]["gpu_by_events_ns"].is_null());
    CHECK(requests[early]["coverage"].is_null());
  }
  CHECK(at_scopes[late]["gpu_ns"].is_null());
  CHECK(at_scopes[late]["coverage"] == 0.0);
  CHECK(at_kernels[late]["gpu_ns"] == 0);
  CHECK(at_kernels[late]["gpu_by_events_ns"] == 0);
  CHECK(at_kernels[late]["coverage"] == 1.0);
  CHECK(table.find("0 us") != std::string::npos);
}

TEST_CASE("GPU time known from CUDA events alone is shown as an upper bound", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  std::fill(trace.gpu.kind.begin(), trace.gpu.kind.end(), pitot::model::GpuKind::kSpan);
  folder.Write("spans.pitot", Dump(trace));

  const Result text = folder.Run("requests spans.pitot --limit 2 --sort gpu");
  const json spans = json::parse(folder.Run("requests spans.pitot --json --limit 2 --sort gpu").out);

  CheckColumns(text.out);
  CHECK(text.out.find(" <=6.55 ms") != std::string::npos);
  CHECK(text.out.find("\n<= at most: by CUDA events") != std::string::npos);
  CHECK(spans["requests"][0]["gpu_by_events_ns"] == 6550000);
}

TEST_CASE("a request says for what share of its time hardware counters were read", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  const auto sampled = [&] {
    folder.Write("sampled.pitot", Dump(trace));
    return json::parse(folder.Run("requests sampled.pitot --json --limit 1").out)["requests"][0];
  };
  CHECK(sampled()["sampled"].is_null());

  const int64_t begin_ns = sampled()["begin_ns"], latency_ns = std::lround(sampled()["latency_ms"].get<double>() * 1e6);
  const auto row = static_cast<uint32_t>(trace.counters.size());
  trace.counters.push_back({0, trace.strings.Add("sampled"), trace.strings.Add("")});
  for (const auto& [at_ns, value] : {std::pair{begin_ns - 1, 1.0}, std::pair{begin_ns + latency_ns / 4, 0.0}}) {
    trace.samples.counter.push_back(row);
    trace.samples.at_ns.push_back(at_ns);
    trace.samples.value.push_back(value);
  }
  CHECK(sampled()["sampled"].get<double>() == Approx(0.25).margin(1e-3));
}

TEST_CASE("the message about an option out of range has its name, its value and the allowed range", "[cli]") {
  const Folder folder;
  const auto says = [&](const std::string& arguments, const std::string& message) {
    const Result result = folder.Run(arguments);
    INFO(arguments << ": " << result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out == "");
    CHECK(result.err.rfind("pitot: " + message + ". See `pitot --help`", 0) == 0);
  };

  says("top x --limit -1", "--limit: -1 was given; allowed: a whole number, 0 to 1000000000");
  says("top x --width wide", "--width: wide was given; allowed: a whole number, 0 to 1000000");
  says("requests x --limit 1.5", "--limit: 1.5 was given; allowed: a whole number, 0 to 1000000000");
  says("diff a b --limit -1", "--limit: -1 was given; allowed: a whole number, 0 to 1000000000");
  says("diff a b --q 1", "--q: 1 was given; allowed: a number, 1e-09 to 0.999");
  says("diff a b --regression -0.1", "--regression: -0.1 was given; allowed: a number, 0 or more");
  says("diff a b --least-share nan", "--least-share: nan was given; allowed: a number, 0 or more");
  says("diff a b --least-us inf", "--least-us: inf was given; allowed: a number, 0 to 9e+12");
  says("diff a b --count-growth ''", "--count-growth: nothing was given; allowed: a number, 0 or more");
  says("analyze x --budget 0", "--budget: 0 was given; allowed: a number, 1e-06 to 9e+12");
  says("analyze x --compat kineto", "--compat: kineto was given; allowed: one of hta, pitot, tbplugin, tracelens");
  says("requests x --sort age", "--sort: age was given; allowed: one of latency, queue, gpu, begin");
  says("top x --limit", "--limit: the value is missing");
}

TEST_CASE("text is wrapped at COLUMNS, from 60 to 200, and at 100 without it", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  std::string words;
  for (int i = 0; i < 100; ++i) words += "word ";
  trace.attributes.push_back({trace.strings.Add("said"), trace.strings.Add(words)});
  folder.Write("dump.pitot", Dump(trace));
  const auto widest = [&](const char* columns) {
    folder.columns = columns;
    std::istringstream lines(folder.Run("info dump.pitot").out);
    size_t most = 0;
    for (std::string line; std::getline(lines, line);) {
      if (line.find("word word") != std::string::npos) most = std::max(most, line.size());
    }
    return most;
  };

  const auto is_close = [&](size_t most, size_t columns) { return most <= columns && most + 5 > columns; };
  CHECK(is_close(widest("80"), 80));
  CHECK(is_close(widest("150"), 150));
  CHECK(is_close(widest("20"), 60));
  CHECK(is_close(widest("5000"), 200));
  for (const char* const none : {"", "wide", "-3"}) CHECK(is_close(widest(none), 100));
  // Rows of tables keep their numbers.
  folder.columns = "60";
  const std::string narrow = folder.Run("info dump.pitot").out, help = folder.Run("top --help").out;
  CHECK(narrow.find("slowest\n") != std::string::npos);
  CHECK(help.find("1000000=60 ") != std::string::npos);  // --width
}

TEST_CASE("info reports CPU time stolen by the hypervisor", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  trace.counters.push_back(
      {pitot::model::kNone, trace.strings.Add("host: CPU time stolen by the hypervisor"), trace.strings.Add("ns")});
  for (const int64_t stolen_ms : {0, 60}) {
    trace.samples.counter.push_back(0);
    trace.samples.at_ns.push_back(trace.window_begin_ns + stolen_ms * incident::kMs);
    trace.samples.value.push_back(static_cast<double>(stolen_ms * incident::kMs));
  }
  trace.attributes.push_back({trace.strings.Add("host.cpus"), trace.strings.Add("4")});
  folder.Write("dump.pitot", Dump(trace));

  const Result result = folder.Run("info dump.pitot");

  CHECK(result.out.find("stolen     the hypervisor took 60.0 ms of the machine's 4 CPUs, 1.5 % of their time\n") !=
        std::string::npos);
}

TEST_CASE("info counts a dump's GPU rows", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  trace.losses.clear();
  folder.Write("gpu.pitot", Dump(trace));

  const Result text = folder.Run("info gpu.pitot");
  const json document = json::parse(folder.Run("info gpu.pitot --json").out);

  CheckColumns(text.out);
  CHECK(text.out.find("gpu        2 devices, 3 streams, 6 GPU records, 4 calls, 3 overheads, 2 depths") !=
        std::string::npos);
  CHECK(text.out.find("stream 13 (context 1)               overwritten") != std::string::npos);
  CHECK(document["counts"]["gpu"] == 6);
  CHECK(document["counts"]["calls"] == 4);
  CHECK(document["counts"]["gpu_losses"] == 1);
  CHECK(document["devices"][1]["ordinal"] == 1);
  CHECK(document["devices"][0]["name"] == "NVIDIA H100 80GB HBM3");
  CHECK(document["gpu_losses"][0]["stream"] == "stream 13 (context 1)");
  CHECK(document["gpu_losses"][0]["device"].is_null());
  CHECK(document["gpu_losses"][0]["records"] == 12);
}

TEST_CASE("requests have the peak of allocated memory during their time", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  trace.samples = {};
  trace.counters = {{0, trace.strings.Add("LibTorch allocated"), trace.strings.Add("bytes")}};
  trace.samples.counter = {0};
  trace.samples.at_ns = {trace.window_begin_ns};
  trace.samples.value = {4096};
  folder.Write("gpu.pitot", Dump(trace));
  folder.Write("none.pitot", Dump());

  const json with = json::parse(folder.Run("requests gpu.pitot --json").out)["requests"];
  const json without = json::parse(folder.Run("requests none.pitot --json").out)["requests"];

  CHECK(with[0]["memory"] ==
        json::parse(R"([{"allocator": "LibTorch allocated", "gpu": 0, "most_bytes": 4096, "before_bytes": 4096}])"));
  CHECK(without[0]["memory"] == json::array());
}

TEST_CASE("info reports the time with recorded kernels within the window", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  trace.depths[1].end_ns += incident::kMs;  // after the window
  folder.Write("gpu.pitot", Dump(trace));
  trace.depths.clear();
  folder.Write("untold.pitot", Dump(trace));
  folder.Write("none.pitot", Dump());

  const Result text = folder.Run("info gpu.pitot");
  const json with = json::parse(folder.Run("info gpu.pitot --json").out);

  CheckColumns(text.out);
  CHECK(pitot::test::Unwrapped(text.out).find(
            "kernels recorded for 360.0 ms of the window's 1.00 s, 350.0 ms of it without "
            "losses (35.0 %); 0 of 1 batches for 80 % or more of their time") != std::string::npos);
  CHECK(with["kernels"] ==
        json{{"recorded_ns", 360000000}, {"without_losses_ns", 350000000}, {"batches_mostly_recorded", 0}});
  CHECK(folder.Run("info untold.pitot").out.find("kernels    the recorded time is not known") != std::string::npos);
  CHECK(json::parse(folder.Run("info untold.pitot --json").out)["kernels"].is_null());
  CHECK(folder.Run("info none.pitot").out.find("kernels ") == std::string::npos);
}

TEST_CASE("requests that fired are marked, and the mark is explained", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  const std::string both = folder.Run("requests dump.pitot --limit 2").out;
  const std::string other = folder.Run("requests dump.pitot --route /segment").out;

  CHECK(both.find("\n*  41.3 ms") != std::string::npos);
  CHECK(both.find("\n   86.0 ms") != std::string::npos);
  CHECK(both.find("\n* fired a trigger of this incident") != std::string::npos);
  CHECK(other.find('*') == std::string::npos);
  CHECK(folder.Run("requests --help").out.find("* a request that fired a trigger") != std::string::npos);
}

TEST_CASE("requests that fired but are not shown are counted, and --fired shows them", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());

  const std::string slowest = folder.Run("requests dump.pitot --limit 1").out;
  const std::string fired = folder.Run("requests dump.pitot --fired").out;

  CHECK(slowest.find("\n1 fired request is not shown, of 41.3 ms: --fired shows it\n") != std::string::npos);
  CHECK(fired.find("*  41.3 ms") != std::string::npos);
  CHECK(fired.find("86.0 ms") == std::string::npos);
  CHECK(fired.find("not shown") == std::string::npos);
  CHECK(folder.Run("requests dump.pitot --limit 2").out.find("not shown") == std::string::npos);
  CHECK(folder.Run("requests dump.pitot --route /segment --fired").exit_code == 1);
}

TEST_CASE("an empty answer exits with 1", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result text = folder.Run("requests dump.pitot --route /none");
  const Result program = folder.Run("requests dump.pitot --route /none --json");

  CHECK(text.exit_code == 1);
  CHECK(text.err.find("none of the 14 requests") != std::string::npos);
  CHECK(text.err.find("`pitot info` lists the routes") != std::string::npos);
  CHECK(program.exit_code == 1);
  CHECK(json::parse(program.out)["requests"].empty());
}

TEST_CASE(
    "report prints the verdict on the request that fired, the findings in the window, then the report, in two parts",
    "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result result = folder.Run("report dump.pitot"), why = folder.Run("why dump.pitot");

  CHECK(result.exit_code == 0);
  REQUIRE(result.out.find(why.out.substr(0, why.out.find("\n\n"))) == 0);
  const std::string line = "\nAPPENDIX\n";
  const size_t found = result.out.find("\nin window   a39.lost_events: "),
               rest = result.out.find("\n\nPitot incident:"), appendix = result.out.find(line),
               numbers = result.out.find("\nwhy  "), tables = result.out.find("\n1) 41.3 ms  /classify", appendix);
  CHECK(found < rest);
  CHECK(appendix < numbers);
  CHECK(numbers < tables);
  REQUIRE(tables != std::string::npos);
  CheckGolden("report_incident.txt",
              result.out.substr(rest + 2, appendix + line.size() - rest - 2) + result.out.substr(tables));
  const Result written = folder.Run("report dump.pitot -o report.txt");
  CHECK(written.exit_code == 0);
  CHECK(written.out.find("wrote report.txt (") == 0);
  CHECK(ReadFile(folder / "report.txt") == result.out);
}

TEST_CASE("report judges the request given by --request, as text and as a page", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  CHECK(folder.Run("report dump.pitot --request 105").out.find("Request 0000000000000105 (/classify) took") == 0);
  const Result page = folder.Run("report dump.pitot --request 105 --html");
  CHECK(page.exit_code == 0);
  CHECK(page.out.find("<h1>Request 0000000000000105 (/classify) took") != std::string::npos);
  const Result none = folder.Run("report dump.pitot --request beef");
  CHECK(none.exit_code == 1);
  CHECK(none.out.empty());
  CHECK(none.err.find("beef") != std::string::npos);

  pitot::model::Trace trace = incident::MakeTrace();
  for (pitot::model::RequestRow& request : trace.requests) request.begin_known = request.id != 0x105;
  folder.Write("cut.pitot", Dump(trace));
  const Result cut = folder.Run("report cut.pitot --request 105");
  CHECK(cut.exit_code != 0);
  CHECK(!cut.err.empty());
}

TEST_CASE("the evidence of a verdict agrees with a39 on losses outside the request's time", "[cli]") {
  Folder folder;
  pitot::model::Trace trace = incident::MakeTrace();
  const int64_t begin_ns = trace.window_begin_ns;
  trace.losses = {{pitot::model::kNone, pitot::model::LossReason::kOverwritten, begin_ns, begin_ns + 9'000'000, 3, 0}};
  folder.Write("dump.pitot", Dump(trace));
  trace.losses.clear();
  folder.Write("whole.pitot", Dump(trace));

  const std::string lossy = folder.Run("report dump.pitot").out, whole = folder.Run("report whole.pitot").out;

  CHECK(lossy.find("evidence    nothing lost in its time (but in 1 other part of the window), no contradictions; ") !=
        std::string::npos);
  CHECK(lossy.find("a39.lost_events") != std::string::npos);
  CHECK(whole.find("evidence    nothing lost, no contradictions; ") != std::string::npos);
  CHECK(whole.find("a39.lost_events") == std::string::npos);
}

TEST_CASE("convert writes a Perfetto trace next to the dump, compressed on request", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result plain = folder.Run("convert --to perfetto dump.pitot");
  const Result compressed = folder.Run("convert dump.pitot --compress -o small.pftrace");

  CHECK(plain.exit_code == 0);
  CHECK(plain.out.find("wrote dump.pftrace") == 0);
  CHECK(compressed.exit_code == 0);
  CHECK(ReadFile(folder / "dump.pftrace").size() > 500);
  CHECK(ReadFile(folder / "small.pftrace").size() < ReadFile(folder / "dump.pftrace").size());
  struct stat file = {};
  REQUIRE(stat((folder / "dump.pftrace").c_str(), &file) == 0);
  CHECK((file.st_mode & 0777) == 0600);
  CHECK(folder.Run("convert dump.pitot -o -").out == ReadFile(folder / "dump.pftrace"));
}

TEST_CASE("a truncated dump is answered from its whole chunks, exits with 4 and can be recovered", "[cli]") {
  Folder folder;
  const std::string dump = Dump();
  folder.Write("dump.pitot", dump.substr(0, dump.size() - 10));

  const Result info = folder.Run("info --json dump.pitot");
  CHECK(info.exit_code == 4);
  CHECK(json::parse(info.out)["complete"] == false);
  CHECK(info.err.find("pitot recover") != std::string::npos);
  CHECK(folder.Run("requests dump.pitot").exit_code == 4);
  CHECK(folder.Run("convert dump.pitot").exit_code == 4);
  CHECK(folder.Run("report dump.pitot").exit_code == 4);

  const Result recovered = folder.Run("recover dump.pitot");
  CHECK(recovered.exit_code == 0);
  const Result whole = folder.Run("info --json dump.recovered.pitot");
  CHECK(whole.exit_code == 0);
  CHECK(json::parse(whole.out)["complete"] == false);  // the damaged part is missing
  CHECK(json::parse(whole.out)["attributes"]["recovered"].get<std::string>().find("damaged dump") != std::string::npos);
  CHECK(json::parse(whole.out)["counts"]["requests"] == 14);
  const std::string text = folder.Run("info dump.recovered.pitot").out;
  CHECK(text.find(", recovered from a damaged dump: ") < text.find("process "));
  CHECK(text.find("complete") == std::string::npos);
  // The loss stays recorded.
  bool says_damaged = false;
  const json said = json::parse(whole.out);
  for (const auto& loss : said["losses"]) says_damaged |= loss["reason"] == "dump damaged";
  CHECK(says_damaged);
}

TEST_CASE("a dump of a newer format is read with a note on the parts left out, or refused", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", WithVersion(Dump(), 1, 99));
  folder.Write("other.pitot", WithVersion(Dump(), 2, 0));

  const Result newer = folder.Run("info dump.pitot"), other = folder.Run("info other.pitot");

  CHECK(newer.exit_code == 0);
  CHECK(newer.out.find("format     1.99, complete") != std::string::npos);
  CHECK(newer.err.find("has format 1.99, and this version knows 1.") != std::string::npos);
  CHECK(newer.err.find("newer parts are left out, 0 chunks") != std::string::npos);
  CHECK(other.exit_code == 5);
  CHECK(other.err.find("a dump of version 2; this reader knows 1") != std::string::npos);
  folder.Write("dump.pitot", Dump());
  CHECK(folder.Run("info dump.pitot").err.empty());
}

TEST_CASE("a damaged dump has no complete request", "[cli]") {
  Folder folder;
  const std::string bytes = Dump();
  folder.Write("dump.pitot", bytes.substr(0, bytes.size() - 30));

  const Result result = folder.Run("requests dump.pitot --json");

  REQUIRE(result.exit_code == 4);
  const json requests = json::parse(result.out)["requests"];
  REQUIRE(requests.size() > 0);
  for (const json& request : requests) CHECK(request["complete"] == false);
}

TEST_CASE("a dump with damaged GPU records has no kernel coverage, and neither has its recovery", "[cli]") {
  const Folder folder;
  pitot::model::Trace trace = incident::MakeGpuTrace();
  trace.gpu_losses.clear();
  const std::string whole = Dump(trace);
  folder.Write("whole.pitot", whole);
  folder.Write("dump.pitot", WithBadChunk(whole, pitot::dump_format::ChunkType::kGpu));
  folder.Write("cut.pitot", whole.substr(0, whole.size() - 30));
  const auto slow = [&](const std::string& dump) {
    const json document = json::parse(folder.Run("requests --json --limit 0 " + dump).out);
    for (const json& request : document["requests"]) {
      if (request["id"] == "0000000000008f0c") return request;
    }
    return json();
  };
  REQUIRE(slow("whole.pitot")["coverage"].get<double>() > 0.999);

  const Result recovered = folder.Run("recover dump.pitot");

  for (const char* dump : {"dump.pitot", "dump.recovered.pitot", "cut.pitot"}) {
    INFO(dump);
    CHECK(slow(dump)["coverage"].is_null());
    CHECK(folder.Run(std::string("requests ") + dump).out.find("the dump is damaged: GPU times are incomplete") !=
          std::string::npos);
    CHECK(folder.Run(std::string("report ") + dump).out.find("kernel coverage unknown") != std::string::npos);
  }
  CHECK(recovered.exit_code == 0);
  CHECK(recovered.out.find("the number of missing ones is not known") != std::string::npos);
  CHECK(folder.Run("recover whole.pitot").out.find("missing") == std::string::npos);
  CHECK(folder.Run("requests whole.pitot").out.find("damaged") == std::string::npos);
}

TEST_CASE("an empty --route matches only requests without a route", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());
  CHECK(folder.Run("requests dump.pitot --json --route ''").exit_code == 1);
}

TEST_CASE("recovering a whole dump writes nothing unless a file is named, and says so", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result unnamed = folder.Run("recover dump.pitot"), named = folder.Run("recover dump.pitot -o copy.pitot");

  CHECK(unnamed.exit_code == 0);
  CHECK(unnamed.out == "nothing to recover: dump.pitot is a whole dump\n");
  CHECK_FALSE(std::filesystem::exists(folder / "dump.recovered.pitot"));
  CHECK(named.exit_code == 0);
  CHECK(named.out.find("nothing to recover: dump.pitot is a whole dump; the copy copy.pitot holds ") == 0);
  CHECK(folder.Run("info copy.pitot").exit_code == 0);
}

TEST_CASE("recovering a dump without a readable event exits with 1 and writes nothing", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump().substr(0, 200));

  const Result result = folder.Run("recover dump.pitot");

  CHECK(result.exit_code == 1);
  CHECK(result.err.find("nothing could be recovered: the readable part of dump.pitot has no events, requests or GPU "
                        "records; nothing was written") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(folder / "dump.recovered.pitot"));
}

TEST_CASE("an incident's directory stands for the dump in it", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  CHECK(folder.Run("requests .").out == folder.Run("requests dump.pitot").out);
  CHECK(folder.Run("convert .").exit_code == 0);
  CHECK(ReadFile(folder / "dump.pftrace").size() > 500);
}

TEST_CASE("missing files and files that are not dumps are told apart", "[cli]") {
  Folder folder;
  folder.Write("empty", "");
  folder.Write("garbage", std::string(10000, 'x'));

  for (const std::string command : {"info", "requests", "report", "convert", "recover"}) {
    CAPTURE(command);
    const Result missing = folder.Run(command + " none.pitot");
    CHECK(missing.exit_code == 3);
    CHECK(missing.err.find("none.pitot: No such file or directory") != std::string::npos);
    CHECK(missing.err.find("none.pitot") == missing.err.rfind("none.pitot"));
    CHECK(missing.out == "");
    const Result without = folder.Run(command + " .");
    CHECK(without.exit_code == 3);
    CHECK(without.err.find("there is no incident and no trace in .: an incident is written when a trigger fires") !=
          std::string::npos);
    CHECK(std::count(without.err.begin(), without.err.end(), '\n') == 1);
    CHECK(folder.Run(command + " garbage").exit_code == 5);
    CHECK(folder.Run(command + " empty").exit_code == 5);
  }
}

TEST_CASE("a large file that cannot be a dump is not read to its end", "[cli]") {
  const Folder folder;
  folder.Write("huge.bin", "");
  std::filesystem::resize_file(folder / "huge.bin", uint64_t{1} << 40);  // sparse, and larger than any machine's memory

  const Result result = folder.Run("info huge.bin");

  CHECK(result.exit_code == 5);
  CHECK(result.err.find("binary data of no known kind") != std::string::npos);
}

TEST_CASE("standard input and pipes are read like files", "[cli]") {
  const Folder folder;
  folder.Write("dump.pitot", Dump());
  const json of_file = json::parse(folder.Run("requests --json dump.pitot").out)["requests"];
  const auto run = [&](const std::string& commands) {
    return folder.Run("--version >/dev/null; { " + commands + "; }");
  };
  const std::string program = PITOT_PROGRAM " ";

  for (const char* const name : {"-", "/dev/stdin", "/dev/fd/0"}) {
    CAPTURE(name);
    const Result piped = run("cat dump.pitot | " + program + "requests --json " + name);
    CHECK(piped.exit_code == 0);
    REQUIRE(!piped.out.empty());
    CHECK(json::parse(piped.out)["requests"] == of_file);
  }
  CHECK(json::parse(run(program + "requests --json - <dump.pitot").out)["requests"] == of_file);
  CHECK(run("cat dump.pitot | " + program + "convert -").out.find("wrote stdin.pftrace") == 0);
  const Result database = run("echo SQLite format 3 | " + program + "info -");
  CHECK(database.exit_code == 5);
  CHECK(database.err == "pitot: - is a SQLite database, which is read by its name only. Name the file.\n");
  // The writer of what is no trace is left early.
  CHECK(run("(head -c 268435456 /dev/zero && touch whole) | " + program + "info -").exit_code == 5);
  CHECK(!std::filesystem::exists(folder / "whole"));
  const Result full = run("cat dump.pitot | TMPDIR=/proc " + program + "info -");
  CHECK(full.exit_code == 6);
  CHECK(full.err.find("cannot keep the content of -: ") != std::string::npos);
  CHECK(full.err.find("Set TMPDIR to a folder with more room, or name a file.") != std::string::npos);
}

TEST_CASE("a folder that cannot be read is named, with the reason", "[cli][platform]") {
  const Folder folder;
  std::filesystem::create_directory(folder / "locked");
  std::filesystem::permissions(folder / "locked", std::filesystem::perms::none);
  // Root reads every folder, unless the program has no such right.
  const std::string without_rights = geteuid() == 0 ? "setpriv --bounding-set=-dac_override,-dac_read_search " : "";
  if (system((without_rights + "true").c_str()) != 0) {
    NOT_RUN("no process may give up rights here");
    return;
  }

  for (const char* const command : {"info", "analyze", "why", "convert", "view"}) {
    CAPTURE(command);
    const Result result =
        folder.Run("--version >/dev/null; " + without_rights + PITOT_PROGRAM + " " + command + " locked");

    CHECK(result.exit_code == 3);
    CHECK(result.err ==
          "pitot: cannot read locked: Permission denied. Check the path and its permissions (incidents belong to the "
          "server's user, mode 0600).\n");
  }
  std::filesystem::permissions(folder / "locked", std::filesystem::perms::owner_all);
}

TEST_CASE("a named pipe is refused at once, with how to read it", "[cli]") {
  Folder folder;
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);

  const Result result = folder.Run("info pipe");

  CHECK(result.exit_code == 5);
  CHECK(result.err ==
        "pitot: pipe is a named pipe, and a reader opens its file more than once. Read it from standard input: "
        "`cat pipe | pitot info -`.\n");
}

TEST_CASE("output that cannot be written exits with 6 and leaves nothing behind", "[cli]") {
  Folder folder;
  folder.Write("dump.pitot", Dump());

  const Result nowhere = folder.Run("convert dump.pitot -o nowhere/x.pftrace");
  CHECK(nowhere.exit_code == 6);
  CHECK(nowhere.err.find("nowhere/x.pftrace") != std::string::npos);
  CHECK(folder.Run("convert dump.pitot -o /dev/full").exit_code == 6);
  for (const char* command : {"info dump.pitot", "info --json dump.pitot", "requests dump.pitot", "report dump.pitot"})
    CHECK(folder.Run(command, "/dev/full").exit_code == 6);
  CHECK(folder.Run("convert dump.pitot -o dump.pitot").exit_code == 2);
  CHECK(ReadFile(folder / "dump.pitot") == Dump());
}

TEST_CASE("wrong usage exits with 2 and points at the help", "[cli]") {
  Folder folder;

  for (const std::string arguments : {"", "fly", "info", "requests x --sort color", "requests x --limit -1",
                                      "convert x --to ascii", "roofline a b", "--nonsense"}) {
    CAPTURE(arguments);
    const Result result = folder.Run(arguments);
    CHECK(result.exit_code == 2);
    CHECK(result.err.find("--help") != std::string::npos);
    CHECK(result.out == "");
  }
}

TEST_CASE("the help command prints the same as --help", "[cli]") {
  const Folder folder;
  const Result help = folder.Run("help");
  CHECK(help.exit_code == 0);
  CHECK(help.out == folder.Run("--help").out);
}

// A profile of ONNX Runtime has no date.
const char* const kUndated = R"([{"cat":"Session","ph":"X","name":"run","pid":0,"tid":1,"ts":5,"dur":2}])";

TEST_CASE("info does not invent a time for a trace without one", "[cli]") {
  const Folder folder;
  folder.Write("undated.json", kUndated);
  const Result info = folder.Run("info undated.json");
  CHECK(info.out.find("process    (unknown)\n") != std::string::npos);
  CHECK(info.out.find("taken      (unknown)\n") != std::string::npos);
  CHECK(info.out.find("span       2.00 us\n") != std::string::npos);
  CHECK(info.out.find("1970") == std::string::npos);
}

TEST_CASE("a report of a trace without time or process names neither, and no files", "[cli]") {
  const Folder folder;
  folder.Write("undated.json", kUndated);

  const Result report = folder.Run("report undated.json");

  CHECK(report.exit_code == 0);
  CHECK(report.out.find("holds      1 event") != std::string::npos);
  for (const char* const invented : {"1970", "00:00:00", "pid 0", "FILES", "dump.pitot"}) {
    CAPTURE(invented);
    CHECK(report.out.find(invented) == std::string::npos);
  }
}

TEST_CASE("help documents the exit codes", "[cli]") {
  Folder folder;

  const Result help = folder.Run("--help");

  CHECK(help.exit_code == 0);
  CHECK(help.out.find("Exit codes:") != std::string::npos);
  for (const std::string command : {"info", "requests", "report", "convert", "recover", "doctor", "counters"}) {
    CHECK(help.out.find(command) != std::string::npos);
    CHECK(folder.Run(command + " --help").exit_code == 0);
  }
  CHECK(folder.Run("requests --help").out.find("Exit codes: 1 no request matches") != std::string::npos);
  CHECK(folder.Run("--version").out.find("pitot 0.") == 0);
}

TEST_CASE("doctor reports the machine's abilities", "[cli]") {
  Folder folder;

  const Result text = folder.Run("doctor" + kNoGpus);
  const Result program = folder.Run("doctor --json --incident-dir ." + kNoGpus);

  CHECK(text.exit_code == 0);
  CheckColumns(text.out);
  REQUIRE(program.exit_code == 0);
  const json document = json::parse(program.out);
  CHECK(document["healthy"] == true);
  std::vector<std::string> topics;
  for (const json& finding : document["findings"]) topics.push_back(finding["topic"]);
  // This topic depends on whether the machine has a libcupti.
  topics.erase(std::remove(topics.begin(), topics.end(), "cupti_records"), topics.end());
  // One finding for each variable that is set.
  topics.erase(std::unique(topics.begin(), topics.end()), topics.end());
  CHECK(topics == std::vector<std::string>{"switch", "environment", "cycle_counter", "clock_cost", "memory", "cpu",
                                           "threads", "locked_memory", "unloaded_sites", "idle_priority",
                                           "host_evidence", "stacks", "nvtx", "incident_directory", "collector_host",
                                           "collector_driver", "collector_cupti", "collector_nvml"});
}

TEST_CASE("doctor names the tool that has NVTX", "[cli]") {
  const Folder folder;
  unsetenv("NVTX_INJECTION64_PATH");
  CHECK(FindingOf(folder, "nvtx").value("health", "") == "good");

  setenv("NVTX_INJECTION64_PATH", "/opt/profiler.so", 1);
  const json finding = FindingOf(folder, "nvtx");
  unsetenv("NVTX_INJECTION64_PATH");

  CHECK(finding.value("health", "") == "note");
  CHECK(finding.value("answer", "").find("/opt/profiler.so") != std::string::npos);
}

TEST_CASE("doctor agrees with recorders about the cycle counter", "[cli][platform]") {
  const Folder folder;
  CHECK(CycleCounterIsUsed(folder) >= 0);

  // Also if the kernel does not trust it.
  folder.Write("clock source", "hpet\n");
  fakes::InOwnMounts([&] {
    if (mount((folder / "clock source").c_str(), "/sys/devices/system/clocksource/clocksource0/current_clocksource",
              nullptr, MS_BIND, nullptr) != 0)
      return fakes::kCannotRun;
    HOLDS(FindingOf(folder, "cycle_counter").value("answer", "").find("by hpet") != std::string::npos);
#if defined(__x86_64__)
    HOLDS(CycleCounterIsUsed(folder) == 0);
#else
    HOLDS(CycleCounterIsUsed(folder) >= 0);
#endif
    return 0;
  });
}

TEST_CASE("doctor agrees with recorders about the priority for writing incidents", "[cli][platform]") {
  const Folder folder;
  CHECK(fakes::InChild([&] { return CheckPriority(folder, PriorityOfWorkers().may_return); }) == 0);
  CHECK(fakes::InChild([&] {
          HOLDS(LimitNice(0));
          return CheckPriority(folder, false);
        }) == 0);
  CHECK(fakes::InChild([&] {
          HOLDS(setpriority(PRIO_PROCESS, 0, 15) == 0);
          HOLDS(LimitNice(0));
          return CheckPriority(folder, false);
        }) == 0);
  const int with_limit =
      fakes::InChild([&] { return LimitNice(20) ? CheckPriority(folder, true) : fakes::kCannotRun; });
  if (with_limit == fakes::kCannotRun) {
    NOT_RUN("this user may not raise its limits");
    return;
  }
  CHECK(with_limit == 0);
}

TEST_CASE("doctor finds a problem and exits with 1", "[cli]") {
  Folder folder;
  folder.Write("file", "");

  CHECK(folder.Run("doctor --incident-dir file" + kNoGpus).exit_code == 1);
  CHECK(folder.Run("doctor --incident-dir none/none/none" + kNoGpus).exit_code == 1);
  CHECK(folder.Run("doctor --incident-dir new" + kNoGpus).exit_code == 0);
  setenv("PITOT_OFF", "1", 1);
  const Result off = folder.Run("doctor" + kNoGpus);
  unsetenv("PITOT_OFF");
  CHECK(off.exit_code == 1);
  CHECK(off.out.find("PITOT_OFF=1") != std::string::npos);
}
