// SPDX-License-Identifier: Apache-2.0
//
// The theoretical occupancy of kernels on an H100, texts of profiles, and the recorder around a profile.
#include "collect/profile/occupancy.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "collect/profile/measure.h"
#include "collect/profile/rig.h"
#include "pitot/collect/cuda_calls.h"
#include "pitot/pitot.h"

using fakes::FakeKernel;
using fakes::g_cuda;
using pitot::KernelProfile;
using pitot::OccupancyLimit;
using pitot::Profile;
using pitot::StatusCode;

namespace {

KernelProfile Occupancy(uint32_t threads, int registers, int shared_bytes, uint64_t dynamic_bytes, int blocks) {
  FakeKernel function{"k"};
  function.registers = registers;
  function.shared_bytes = shared_bytes;
  g_cuda.Reset();
  g_cuda.blocks_of_sm = blocks;
  KernelProfile kernel;
  kernel.grid[0] = 264, kernel.grid[1] = kernel.grid[2] = 1;
  kernel.block[0] = threads / 2, kernel.block[1] = 2, kernel.block[2] = 1;
  kernel.dynamic_shared_bytes = dynamic_bytes;
  pitot::profile::AddOccupancy(fakes::FakeDriver(), 0, &function, &kernel);
  return kernel;
}

}  // namespace

TEST_CASE("occupancy is limited by registers, shared memory, threads or blocks", "[profile]") {
  const KernelProfile registers = Occupancy(256, 128, 0, 0, 2);
  CHECK(registers.theoretical_occupancy_percent == 25);
  CHECK(registers.limited_by == OccupancyLimit::kRegisters);
  CHECK(registers.waves == 1);
  const KernelProfile shared = Occupancy(128, 32, 1024, 64 << 10, 3);
  CHECK(shared.theoretical_occupancy_percent == 18.75);
  CHECK(shared.limited_by == OccupancyLimit::kSharedMemory);
  const KernelProfile threads = Occupancy(1024, 32, 0, 0, 2);
  CHECK(threads.theoretical_occupancy_percent == 100);
  CHECK(threads.limited_by == OccupancyLimit::kThreads);
  const KernelProfile blocks = Occupancy(32, 16, 0, 0, 32);
  CHECK(blocks.theoretical_occupancy_percent == 50);
  CHECK(blocks.limited_by == OccupancyLimit::kBlocks);
}

TEST_CASE("what the driver does not say of a kernel stays empty", "[profile]") {
  pitot::profile::Driver driver = fakes::FakeDriver();
  driver.most_blocks = [](int*, void*, int, size_t) { return 1; };
  driver.function_attribute = [](int*, int, void*) { return 1; };
  FakeKernel function{"k"};
  KernelProfile kernel;
  kernel.block[0] = kernel.block[1] = kernel.block[2] = 1;
  pitot::profile::AddOccupancy(driver, 0, &function, &kernel);
  CHECK_FALSE(kernel.registers_per_thread.has_value());
  CHECK_FALSE(kernel.theoretical_occupancy_percent.has_value());
  CHECK(kernel.limited_by == OccupancyLimit::kUnknown);
}

TEST_CASE("a comparison names the slower kernel, the largest difference, and what limits occupancy", "[profile]") {
  KernelProfile fused = Occupancy(64, 168, 0, 0, 6), sdpa = Occupancy(128, 32, 0, 0, 16);
  fused.name = "Fused", sdpa.name = "Sdpa";
  fused.duration_ns = 120'000, sdpa.duration_ns = 100'000;
  fused.l2_hit_percent = 90, sdpa.l2_hit_percent = 95;
  Profile one, other;
  one.kernels = {fused};
  other.kernels = {sdpa};
  CHECK(pitot::CompareProfiles("fused", one, "SDPA", other) ==
        "fused takes 1.20 times as long as SDPA (120 us and 100 us). They differ most in possible occupancy: "
        "fused 18.8 %, SDPA 100.0 %. fused: 18.8 % occupancy possible, limited by registers (168 a thread). "
        "SDPA: 100.0 % occupancy possible, limited by threads.");
  CHECK(pitot::CompareProfiles("fused", {}, "SDPA", other) == "No kernel of fused was measured.");
}

TEST_CASE("the table says what was not measured", "[profile]") {
  KernelProfile kernel = Occupancy(64, 168, 0, 0, 6);
  kernel.name = "Fused";
  kernel.launches = 3;
  kernel.duration_ns = 1'500'000;
  kernel.dram_percent = 0;
  Profile profile;
  profile.kernels = {kernel};
  profile.launches_seen = 10;
  const std::string text = pitot::ProfileText(profile);
  CHECK(text.find("Fused\n  launch      grid 264x1x1, block 32x2x1") == 0);
  CHECK(text.find("time        1.5 ms\n") != std::string::npos);
  CHECK(text.find("L2 hits     not measured\n") != std::string::npos);
  CHECK(text.find("DRAM        0.0 % of its peak; read not measured") != std::string::npos);
  CHECK(text.find("10 launches seen") != std::string::npos);
}

namespace {

// Stands for the counter collector.
class FakeCounters final : public pitot::Collector {
 public:
  FakeCounters(std::vector<std::string>* calls, StatusCode paused) : calls_(calls), paused_(paused) {}
  const char* Name() const noexcept override { return "counters"; }
  pitot::Status Start() noexcept override { return {}; }
  void Stop() noexcept override {}
  pitot::Status Pause() noexcept override {
    calls_->push_back("pause");
    return paused_ == StatusCode::kOk ? pitot::Status() : pitot::Status(paused_, "CUPTI does not answer");
  }
  pitot::Status Resume() noexcept override {
    calls_->push_back("resume");
    return {};
  }
  void Keep(int64_t, pitot::KeepFor) noexcept override {}
  void AddTo(pitot::TraceBuilder&) override {}

 private:
  std::vector<std::string>* const calls_;
  const StatusCode paused_;
};

}  // namespace

TEST_CASE("the counter collector is paused while kernels are measured, unless the host has paused it", "[profile]") {
  fakes::Rig rig;
  std::vector<std::string> calls;
  pitot::Recorder recorder = pitot::Recorder::Start(pitot::Options());
  REQUIRE(recorder.Add(std::make_unique<FakeCounters>(&calls, StatusCode::kOk)).ok());
  std::atomic<bool> is_paused{true};
  rig.fake->on_start = [&] {
    if (calls != std::vector<std::string>{"pause"}) is_paused = false;
  };
  rig.StartServer();
  CHECK(pitot::profile::MeasureBesideCounters(recorder, rig.options, rig.environment, &rig.profile).ok());
  CHECK(is_paused);
  CHECK(calls == std::vector<std::string>{"pause", "resume"});
  calls.clear();
  rig.fake->Reset();
  rig.fake->results["cuptiRangeProfilerEnable"] = pitot::counters::kHardwareBusy;
  CHECK_FALSE(pitot::profile::MeasureBesideCounters(recorder, rig.options, rig.environment, &rig.profile).ok());
  CHECK(calls == std::vector<std::string>{"pause", "resume"});
  calls.clear();
  rig.options.pauses_counters = false;
  CHECK_FALSE(pitot::profile::MeasureBesideCounters(recorder, rig.options, rig.environment, &rig.profile).ok());
  CHECK(calls.empty());
}

TEST_CASE("if the counter collector does not let go of the GPU, nothing is measured", "[profile]") {
  fakes::Rig rig;
  std::vector<std::string> calls;
  pitot::Recorder recorder = pitot::Recorder::Start(pitot::Options());
  REQUIRE(recorder.Add(std::make_unique<FakeCounters>(&calls, StatusCode::kUnavailable)).ok());
  const pitot::Status status =
      pitot::profile::MeasureBesideCounters(recorder, rig.options, rig.environment, &rig.profile);
  CHECK(std::string(status.message()) == "CUPTI does not answer");
  CHECK(calls == std::vector<std::string>{"pause", "resume"});
  CHECK(rig.Seen(&fakes::FakeRange::calls) == 0);
}

TEST_CASE("wrong options, a recorder that does not run and unseen launches are refused", "[profile]") {
  pitot::Recorder recorder = pitot::Recorder::Start(pitot::Options());
  REQUIRE(recorder.status().ok());
  Profile profile;
  pitot::ProfileOptions options;
  CHECK(pitot::ProfileKernels(recorder, options, nullptr).code() == StatusCode::kInvalidArgument);
  options.launches = 0;
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kInvalidArgument);
  options = {};
  options.timeout_ms = 600'001;
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kInvalidArgument);
  options = {};
  options.replay = static_cast<pitot::ProfileReplay>(2);
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kInvalidArgument);
  options = {};
  options.metrics = static_cast<pitot::ProfileMetrics>(2);
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kInvalidArgument);
  options = {};
  const pitot::Status unseen = pitot::ProfileKernels(recorder, options, &profile);
  CHECK(unseen.code() == StatusCode::kUnavailable);
  CHECK(std::string(unseen.message()).find("MakeCudaCallCollector") != std::string::npos);
  REQUIRE(recorder.Add(pitot::MakeCudaCallCollector()).ok());
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kNotFound);  // of CUDA
  pitot::trace::g_captures.store(1);
  const pitot::Status captured = pitot::ProfileKernels(recorder, options, &profile);
  CHECK(std::string(captured.message()).find("captures a graph") != std::string::npos);
  pitot::trace::g_captures.store(0);
  recorder.Stop();
  CHECK(pitot::ProfileKernels(recorder, options, &profile).code() == StatusCode::kNotRunning);
}
