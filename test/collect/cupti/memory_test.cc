// SPDX-License-Identifier: Apache-2.0
//
// Memory of the collector and its incidents, and reports of records without room.
#include <malloc.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "collect/cupti/engine.h"
#include "collect/cupti/rig.h"
#include "fakes/scale.h"

namespace {

namespace model = pitot::model;
using pitot::Depth;

uint64_t StatusBytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key, 0) == 0) return std::strtoull(line.c_str() + std::string(key).size() + 1, nullptr, 10) << 10;
  }
  return 0;
}

}  // namespace

TEST_CASE("an incident of a full history takes its stated size, and counts the rows without room", "[cupti][memory]") {
  // Calls come through callbacks to the ring, or as records, which take room, too.
  const auto kineto = GENERATE(pitot::cupti::KinetoState::kAbsent, pitot::cupti::KinetoState::kUnused);
  fakes::GpuHost host;
  mallopt(M_MMAP_THRESHOLD, 128 << 10);  // fixed: otherwise what malloc keeps of freed blocks counts, too
  fakes::g_kineto = kineto;
  host.cupti_options.memory_bytes = uint64_t{64} << 20;
  REQUIRE(host.StartAt(Depth::kKernels));
  CHECK(host.recorder.Stats().collector_bytes == host.cupti_options.memory_bytes);
  uint64_t rows = 0, lost = 0, newest = 0;  // of the last incident
  // A kept trace would be this test's own memory.
  const auto count = [&](const model::Trace& trace, auto&) {
    rows = trace.gpu.size();
    newest = fakes::CountNamed(trace, "new");
    for (const auto& loss : trace.gpu_losses)
      lost += trace.strings[loss.reason] == "no room in the incident" ? loss.records : 0;
    return pitot::Status();
  };
  REQUIRE(host.recorder.Add(fakes::MakeCallSerializer("keep", count)).ok());
  REQUIRE(host.TriggerAndFlush());  // the program's own pages, which count as memory the first time
  pitot::Request request = pitot::Request::Begin("/decode");
  constexpr int kRecords = 1'100'000;  // more than the history holds
  for (int i = 0; i < kRecords; ++i) {
    host.cuda.Run({.name = i < kRecords - 10 ? "old" : "new", .duration_ns = 10});
    if (i % 500 == 0) host.Round();
  }
  const bool is_told = std::ofstream("/proc/self/clear_refs").put('5').flush().good();  // not allowed everywhere
  const uint64_t before = StatusBytes("VmRSS:");

  REQUIRE(host.TriggerAndFlush());
  const uint64_t peak = StatusBytes("VmHWM:");
  request.Finish(pitot::Outcome::kOk);

  CHECK(newest == 10);
  CHECK(rows > 100'000);
  CHECK(lost > 0);
  const uint64_t stated = host.cupti_options.memory_bytes / 2 + host.recorder.Stats().memory.analysis_arena;
  if (is_told && !fakes::kAddressSanitizer && !fakes::kThreadSanitizer) CHECK(peak - before <= stated);
}

TEST_CASE("collectors with alternating memory_bytes have the earlier ones' buffers, and get those that come back",
          "[cupti][memory]") {
  std::vector<pitot::cupti::Engine*> engines;
  for (const uint64_t mebibytes : {21, 22, 21, 22, 21}) {
    INFO(mebibytes);
    fakes::GpuHost host;
    host.cupti_options.memory_bytes = mebibytes << 20;
    REQUIRE(host.StartAt(Depth::kKernels));
    host.cuda.Run({.name = "gemm", .is_running = true});
    REQUIRE(fakes::WaitUntil([&] { return fakes::CountNamed(host.Incident(), "gemm") == 1; }));
    host.recorder.Stop();
    engines.push_back(fakes::EngineOf(static_cast<uint32_t>((mebibytes << 20) / 4 / pitot::cupti::kBufferBytes)));
  }
  CHECK(engines[0] != engines[1]);
  CHECK(engines[2] == engines[0]);
  CHECK(engines[3] == engines[1]);
  CHECK(engines[4] == engines[0]);
}

TEST_CASE("a buffer that comes back while another collector runs is free for its owner", "[cupti][memory]") {
  const auto start = [](fakes::GpuHost* host, uint64_t mebibytes) {
    host->cupti_options.memory_bytes = mebibytes << 20;
    return host->StartAt(Depth::kKernels);
  };
  fakes::GpuHost host;
  REQUIRE(start(&host, 23));
  host.cuda.Refuse("cuptiActivityFlushAll");  // its buffer is out when the collector goes
  host.cuda.Run({});
  const pitot::cupti::Engine* const engine = fakes::EngineOf(23);
  host.recorder.Stop();
  REQUIRE(engine->pool->counts().out() == 1);
  host.cuda.Refuse("");
  REQUIRE(start(&host, 24));

  std::thread([&] { host.cuda.Run({}); }).join();  // this thread has a buffer of its own
  host.Round();

  CHECK(engine->pool->counts().out() == 0);
  CHECK(fakes::Attribute(host.Incident(), "cupti.foreign_buffers") == "");
}

TEST_CASE("a refused collector's engine is kept while earlier callbacks may be in it, and used by the next collector",
          "[cupti][memory]") {
  constexpr uint64_t kRefusedMebibytes = 25;
  constexpr uint32_t kBuffers = (kRefusedMebibytes << 20) / 4 / pitot::cupti::kBufferBytes;
  fakes::GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  host.cuda.Run({});
  host.recorder.Stop();
  REQUIRE(host.Start());
  host.cuda.SubscribeOther("Nsight");
  host.cupti_options.memory_bytes = kRefusedMebibytes << 20;

  REQUIRE(host.Add().code() == pitot::StatusCode::kUnavailable);

  CHECK(fakes::EngineOf(kBuffers)->controls.size() == 1);  // another engine would have none
  host.cuda.UnsubscribeOther();
  REQUIRE(host.Add().ok());
  CHECK(fakes::EngineOf(kBuffers)->controls.size() == 2);
  host.collector->SetDepth(Depth::kKernels);
  host.cuda.Run({.name = "gemm"});
  CHECK(fakes::CountNamed(host.Incident(), "gemm") == 1);
}

TEST_CASE("memory is taken only if CUPTI is available", "[cupti]") {
  fakes::GpuHost host;
  REQUIRE(host.Start());
  host.cuda.SubscribeOther("Nsight");
  host.cupti_options.memory_bytes = uint64_t{1} << 30;
  if (!std::ofstream("/proc/self/clear_refs").put('5').flush()) return;  // forgets the peak; not allowed everywhere
  const uint64_t before = StatusBytes("VmHWM:");

  CHECK(host.Add().code() == pitot::StatusCode::kUnavailable);

  CHECK(StatusBytes("VmHWM:") - before < uint64_t{64} << 20);  // a quarter of 1 GiB is 256 MiB
}

TEST_CASE("names, streams and graphs without bound stay inside the collector's memory, and the rest is reported",
          "[cupti]") {
  fakes::GpuHost host;
  REQUIRE(host.Start());
  const uint64_t memory_bytes = host.cupti_options.memory_bytes;
  constexpr int kNames = 100'000, kLongNames = 200, kNodes = 200'000;
  std::vector<std::string> names;
  for (int i = 0; i < kLongNames; ++i) names.push_back(std::to_string(i) + std::string(1 << 20, 'x'));
  for (int i = 0; i < kNames; ++i) names.push_back("kernel " + std::to_string(i));
  PITOT_SCOPE("forward");
  const bool is_told = std::ofstream("/proc/self/clear_refs").put('5').flush().good();  // not allowed everywhere
  const uint64_t before = StatusBytes("VmHWM:");
  REQUIRE(host.Add().ok());
  host.collector->SetDepth(Depth::kKernels);
  for (size_t i = 0; i < 2 * names.size(); ++i) {  // more than there is room for
    host.cuda.Run({.name = names[i % names.size()].c_str(), .stream = static_cast<uint32_t>(i)});
    if (i % 2000 == 0) host.Round();
  }
  for (uint32_t node = 1; node <= kNodes; ++node) host.cuda.CaptureNode(node);
  host.Round();
  const uint64_t after = StatusBytes("VmHWM:");

  const model::Trace trace = host.Incident();

  constexpr uint64_t kFixedBytes = 2 << 20;
  if (is_told && !fakes::kAddressSanitizer && !fakes::kThreadSanitizer)
    CHECK(after - before <= memory_bytes + kFixedBytes);
  for (const char* const key : {"cupti.names_refused", "cupti.streams_refused", "cupti.graph_nodes_forgotten"}) {
    INFO(key);
    CHECK(fakes::Attribute(trace, key) != "");
  }
}

TEST_CASE("buffers swallowed by one profile after another are written off within the memory, and the rest is reported",
          "[cupti]") {
  fakes::GpuHost host;
  host.environment.surroundings.long_idle_ns = 1'000'000;
  host.cupti_options.memory_bytes = 11 << 20;  // of a size no test had before
  const uint32_t buffers = (11 << 20) / 4 / (256 << 10);
  fakes::g_kineto = pitot::cupti::KinetoState::kIdle;
  REQUIRE(host.StartAt(Depth::kKernels));
  const auto count = [&](const char* key) { return std::atoi(fakes::Attribute(host.Incident(), key).c_str()); };
  for (uint32_t profile = 1; profile <= buffers + 1; ++profile) {
    INFO(profile);
    host.cuda.Run({.is_running = true});
    host.cuda.RegisterOther();
    fakes::g_kineto = pitot::cupti::KinetoState::kActive;
    REQUIRE(fakes::WaitUntil([&] { return host.collector->Depths() == 0; }));
    for (int i = 0; i < 1300; ++i) host.cuda.Run({});  // until the buffer is full, and the profiler gets it
    fakes::g_kineto = pitot::cupti::KinetoState::kIdle;
    const char* const key = profile <= buffers ? "cupti.buffers_written_off" : "cupti.buffers_unplaced";
    const int expected = profile <= buffers ? static_cast<int>(profile) : 1;
    REQUIRE(fakes::WaitUntil([&] { return count(key) == expected; }));
  }
  CHECK(count("cupti.buffers_written_off") == static_cast<int>(buffers));
}

TEST_CASE("the newest records survive, memory is bounded, and missing records are reported", "[cupti]") {
  fakes::GpuHost host;
  REQUIRE(host.StartAt(Depth::kKernels));
  for (int i = 0; i < 200'000; ++i) {
    host.cuda.Run({.name = i < 199'990 ? "old" : "new", .duration_ns = 10});
    if (i % 5000 == 0) host.Round();
  }

  const model::Trace trace = host.Incident();

  CHECK(fakes::CountNamed(trace, "new") == 10);
  CHECK(trace.gpu.size() <= (6u << 20) / 48);
  REQUIRE_FALSE(trace.gpu_losses.empty());
  uint64_t missing = 0;
  for (const auto& loss : trace.gpu_losses) {
    missing += loss.records;
    if (loss.records == 0) missing += 200'000;  // decoded too late on a slow machine: the number is unknown
  }
  CHECK(missing + trace.gpu.size() >= 199'990);
}
