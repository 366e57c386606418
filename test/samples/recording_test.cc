// SPDX-License-Identifier: Apache-2.0
//
// The order in which the sample servers add collectors. The collectors are fakes.
#include "server_common/recording.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "collect/counters/collector.h"
#include "collect/cuda_calls/collector.h"
#include "collect/cuda_events/collector.h"
#include "collect/nvml/collector.h"
#include "fakes/temp_directory.h"
#include "pitot/analyze/judge.h"
#include "pitot/collect/counters.h"
#include "pitot/collect/cuda_calls.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/collect/cupti.h"
#include "pitot/collect/host.h"
#include "pitot/collect/nvml.h"
#include "pitot/collect/nvtx.h"
#include "pitot/collect/torch.h"

namespace {

using Names = std::vector<std::string>;
Names g_started;
pitot::CuptiAttach g_attach{};
std::string g_visible_to_torch;  // CUDA_VISIBLE_DEVICES

class FakeCollector final : public pitot::Collector {
 public:
  explicit FakeCollector(const char* name) : name_(name) {}
  const char* Name() const noexcept override { return name_; }
  pitot::Status Start() noexcept override {
    g_started.push_back(name_);
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (g_started.back() == "torch") g_visible_to_torch = visible == nullptr ? "(all)" : visible;
    return {};
  }
  void Stop() noexcept override {}
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder&) override {}

 private:
  const char* const name_;
};

std::unique_ptr<pitot::Collector> Make(const char* name) { return std::make_unique<FakeCollector>(name); }

class FakeJudge final : public pitot::Judge {
 public:
  const char* Name() const noexcept override { return "why"; }
  pitot::JudgeNeeds Needs() const noexcept override { return {}; }
  pitot::Status Decide(pitot::Hearing&) override { return {}; }
};
Names g_baselines;  // of each judge; "": none

void Start(bool uses_cuda, server_common::RecordingOptions options = {}) {
  const fakes::TempDirectory directory;
  g_started.clear();
  g_baselines.clear();
  options.incident_directory = directory.path();
  pitot::Recorder recorder = server_common::StartRecorder({}, options, uses_cuda);
  REQUIRE(recorder.status().ok());
}

}  // namespace

PITOT_NAMESPACE_BEGIN
std::unique_ptr<Collector> MakeCounterCollector(const CounterOptions&) noexcept { return Make("counters"); }
std::unique_ptr<Collector> MakeCudaCallCollector(const CudaCallOptions&) noexcept { return Make("cuda_calls"); }
std::unique_ptr<Collector> MakeCudaEventCollector(const CudaEventOptions&) noexcept { return Make("cuda_events"); }
std::unique_ptr<Collector> MakeCuptiCollector(const CuptiOptions& options) noexcept {
  g_attach = options.attach;
  return Make("cupti");
}
std::unique_ptr<Collector> MakeHostCollector(const HostOptions&) noexcept { return Make("host"); }
std::unique_ptr<Collector> MakeNvmlCollector(const NvmlOptions&) noexcept { return Make("nvml"); }
std::unique_ptr<Collector> MakeNvtxCollector(const NvtxOptions&) noexcept { return Make("nvtx"); }
std::unique_ptr<Collector> MakeTorchCollector(const TorchOptions&) noexcept { return Make("torch"); }
std::unique_ptr<Judge> MakeWhyJudge(const WhyJudgeOptions& options, std::vector<std::unique_ptr<Analyzer>>) noexcept {
  g_baselines.push_back(options.baseline_file != nullptr ? options.baseline_file : "");
  return std::make_unique<FakeJudge>();
}
PITOT_NAMESPACE_END

// What lib/collect/gpu uses of these collectors.
namespace pitot::counters {
Status Check(const CounterOptions&) noexcept { return {}; }
}  // namespace pitot::counters
namespace pitot::cuda_calls {
Status Check(const CudaCallOptions&) noexcept { return {}; }
}  // namespace pitot::cuda_calls
namespace pitot::cuda_events {
Status Check(const CudaEventOptions&) noexcept { return {}; }
}  // namespace pitot::cuda_events
namespace pitot::nvml {
Status Check(const NvmlOptions&) noexcept { return {}; }
Environment SystemEnvironment() { return {}; }
std::unique_ptr<Collector> MakeCollector(const NvmlOptions&, Environment) { return Make("nvml"); }
}  // namespace pitot::nvml

TEST_CASE("threads that run a network have larger rings, unless the host said what it wants", "[recording]") {
  const pitot::Options defaults, larger = server_common::WithRoomForOperators(defaults);
  CHECK(larger.max_ring_bytes > defaults.max_ring_bytes);
  CHECK(larger.memory_budget_bytes >= 12 * larger.max_ring_bytes);
  pitot::Options own;
  own.memory_budget_bytes = 96 << 20;
  CHECK(server_common::WithRoomForOperators(own).memory_budget_bytes == 96 << 20);
  CHECK(server_common::WithRoomForOperators(own).max_ring_bytes == defaults.max_ring_bytes);
  pitot::Options small;
  small.max_ring_bytes = 1 << 16;
  CHECK(server_common::WithRoomForOperators(small).max_ring_bytes == 1 << 16);
}

TEST_CASE("CUPTI is there before LibTorch is watched, which starts CUDA", "[recording]") {
  unsetenv("CUDA_VISIBLE_DEVICES");
  Start(true);
  CHECK(g_started == Names{"nvtx", "host", "counters", "cuda_calls", "cuda_events", "nvml", "cupti", "torch"});
  CHECK(g_visible_to_torch == "(all)");
}

TEST_CASE("CUPTI is called at the start only if the host says so, and each collector of GPUs can be left out",
          "[recording]") {
  Start(true);
  CHECK(g_attach == pitot::CuptiAttach::kWhenAsked);
  server_common::RecordingOptions options;
  options.attach_cupti = true;
  options.collect_counters = options.collect_nvml = false;
  options.collect_cuda_calls = options.collect_cuda_events = false;
  Start(true, options);
  CHECK(g_attach == pitot::CuptiAttach::kAtStart);
  CHECK(g_started == Names{"nvtx", "host", "cupti", "torch"});
}

TEST_CASE("a server that runs on the CPU collects nothing of GPUs, and LibTorch sees none to start", "[recording]") {
  unsetenv("CUDA_VISIBLE_DEVICES");
  Start(false);
  CHECK(g_started == Names{"nvtx", "host", "torch"});
  CHECK(g_visible_to_torch.empty());
}

TEST_CASE("incidents are judged unless that is not wanted, by a baseline that is kept where a file is named",
          "[recording]") {
  Start(false);
  CHECK(g_baselines == Names{""});

  server_common::RecordingOptions options;
  options.baseline_file = "/var/lib/server/baseline";
  Start(false, options);
  CHECK(g_baselines == Names{"/var/lib/server/baseline"});

  options.judge = false;
  Start(false, options);
  CHECK(g_baselines.empty());
}

TEST_CASE("the log line of a verdict is its sentence, on one line", "[recording]") {
  using server_common::VerdictLine;
  const std::string rest = "incident 0007  latency /classify\n\nrequest 31cd  /classify  95.0 ms\n";
  CHECK(
      VerdictLine("Request 31cd (/classify) took 95.0 ms instead of 4.0 ms: it waited 90.7 ms for lock \"cache\",\n"
                  "held by request c050 (/reload).\n" +
                  rest) ==
      "Request 31cd (/classify) took 95.0 ms instead of 4.0 ms: it waited 90.7 ms for lock \"cache\", held by request "
      "c050 (/reload).");
  CHECK(VerdictLine(rest + "no verdict: no request\n").empty());
  CHECK(VerdictLine("no verdict: judge why: no memory\n").empty());
  CHECK(VerdictLine("").empty());
}
