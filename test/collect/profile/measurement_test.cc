// SPDX-License-Identifier: Apache-2.0
//
// Profiles of kernels over a fake CUPTI and a fake driver.
#include "collect/profile/measure.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <future>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "collect/profile/rig.h"
#include "fakes/child.h"
#include "fakes/wait_until.h"
#include "trace/profile_runs.h"

using fakes::FakeKernel;
using fakes::FakeRange;
using fakes::g_cuda;
using fakes::Rig;
using pitot::KernelProfile;
using pitot::ProfileMetrics;
using pitot::ProfileReplay;
using pitot::Status;
using pitot::StatusCode;

namespace {

bool Has(const Status& status, const char* text) {
  return std::string(status.message()).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("a kernel's metrics are medians over launches that run once", "[profile]") {
  Rig rig;
  double next = 0;
  rig.fake->value = [&](const std::string& metric) {
    if (metric == "gpu__time_duration.sum") return 1000 + 100 * next++;
    if (metric.rfind("lts__", 0) == 0) return 75.0;
    if (metric.rfind("sm__throughput", 0) == 0) return 33.0;
    return 0.0;
  };
  const Status status = rig.Profile();

  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(rig.IsClean());
  REQUIRE(rig.profile.kernels.size() == 1);
  const KernelProfile& kernel = rig.profile.kernels[0];
  CHECK(kernel.name == "FusedAttention(float const*, int)");
  CHECK((kernel.grid[0] == 128 && kernel.block[0] == 64));
  CHECK(kernel.launches == 33);  // three rounds of 1, 2 and 8 passes
  CHECK(rig.profile.launches_measured == 33);
  CHECK(kernel.duration_ns == 1100);
  CHECK(kernel.l2_hit_percent == 75);
  CHECK(kernel.sm_percent == 33);
  CHECK(kernel.tensor_percent == 0);
  CHECK(kernel.registers_per_thread == 168U);
  CHECK(kernel.theoretical_occupancy_percent == 18.75);  // 6 blocks of 2 warps, of 64
  for (const auto& sample : rig.Seen(&FakeRange::samples)) {
    for (const void* launched : sample) CHECK(launched == &rig.attention);
  }
  CHECK(rig.Seen(&FakeRange::calls_of).at("cuptiRangeProfilerStart") == 44);  // 11 are empty: each set's first round
  CHECK(rig.other.runs > 0);
}

TEST_CASE("the passes of a metric are launches of one kernel and shape, and shapes take turns", "[profile]") {
  Rig rig;
  FakeKernel flash{"_Z14FlashAttentionv"};
  rig.options.launches = 660;
  rig.round = [&] {
    rig.Launch(&rig.attention, 128);
    rig.Launch(&flash, 16);
    rig.Launch(&rig.attention, 256);
  };
  REQUIRE(rig.Profile().ok());

  REQUIRE(rig.profile.kernels.size() == 3);
  for (const KernelProfile& kernel : rig.profile.kernels) CHECK(kernel.duration_ns.has_value());
  for (const auto& sample : rig.Seen(&FakeRange::samples))
    CHECK(std::set<const void*>(sample.begin(), sample.end()).size() == 1);
}

TEST_CASE("a kernel that is seldom launched when a sample is wanted gets its turn, too", "[profile]") {
  Rig rig;
  FakeKernel flash{"_Z14FlashAttentionv"};
  rig.round = [&] {
    rig.Launch(&flash, 16);  // first, so that it is known before the first set of metrics is done
    for (int i = 0; i < 8; ++i) rig.Launch(&rig.attention, 128);
  };
  REQUIRE(rig.Profile().ok());

  REQUIRE(rig.profile.kernels.size() == 2);
  for (const KernelProfile& kernel : rig.profile.kernels) {
    CHECK(kernel.duration_ns.has_value());
    CHECK(kernel.l2_hit_percent.has_value());
    CHECK(kernel.sm_percent.has_value());
  }
}

TEST_CASE("basic metrics take three launches a round, and leave the SMs' share empty", "[profile]") {
  Rig rig;
  rig.options.metrics = ProfileMetrics::kBasic;
  rig.options.launches = 3;
  REQUIRE(rig.Profile().ok());
  REQUIRE(rig.profile.kernels.size() == 1);
  CHECK(rig.profile.kernels[0].duration_ns.has_value());
  CHECK(rig.profile.kernels[0].l2_hit_percent.has_value());
  CHECK_FALSE(rig.profile.kernels[0].sm_percent.has_value());
}

TEST_CASE("hits in L2 are 100 % at most, though hits and sectors are of different launches", "[profile]") {
  Rig rig;
  rig.options.launches = 3;
  rig.options.metrics = ProfileMetrics::kBasic;
  rig.fake->value = [](const std::string&) { return 102.5; };
  REQUIRE(rig.Profile().ok());
  CHECK(rig.profile.kernels.at(0).l2_hit_percent == 100);
  CHECK(rig.profile.kernels.at(0).duration_ns == 102.5);
}

TEST_CASE("with replay one launch has all metrics, and the kernel runs once a pass", "[profile]") {
  Rig rig;
  rig.options.replay = ProfileReplay::kKernel;
  rig.options.launches = 1;
  uint64_t launches = 0;
  rig.round = [&] { ++launches, rig.Launch(&rig.attention); };
  REQUIRE(rig.Profile().ok());
  REQUIRE(rig.profile.kernels.size() == 1);
  CHECK(rig.profile.kernels[0].launches == 1);
  CHECK(rig.profile.kernels[0].sm_percent.has_value());
  CHECK(rig.profile.kernels[0].l2_hit_percent.has_value());
  CHECK(rig.attention.runs == launches + 7);
}

TEST_CASE("a metric unknown to the chip, or without a value, is empty and never 0", "[profile]") {
  Rig rig;
  rig.fake->unknown = {"dram__bytes_read.sum", "sm__throughput.avg.pct_of_peak_sustained_elapsed"};
  rig.fake->value = [](const std::string& metric) { return metric.rfind("lts__", 0) == 0 ? NAN : 10; };
  const Status status = rig.Profile();
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(rig.IsClean());
  REQUIRE(rig.profile.kernels.size() == 1);
  const KernelProfile& kernel = rig.profile.kernels[0];
  CHECK_FALSE(kernel.dram_read_bytes.has_value());
  CHECK_FALSE(kernel.sm_percent.has_value());
  CHECK_FALSE(kernel.l2_hit_percent.has_value());
  CHECK(kernel.dram_written_bytes == 10);
}

TEST_CASE("whichever call of CUPTI fails, there is a status, nothing is left running, and launches go on",
          "[profile]") {
  Rig rig;
  rig.options.launches = 11;
  REQUIRE(rig.Profile().ok());
  const uint64_t calls = rig.Seen(&FakeRange::calls);
  REQUIRE(calls > 50);
  for (uint64_t call = 1; call <= calls; ++call) {
    rig.fake->Reset();
    rig.fake->fail_at_call = call;
    const uint64_t runs = rig.attention.runs;
    const Status status = rig.Profile();
    INFO(call);
    INFO(status.message());
    // A set of metrics without a configuration is left out. A failed release is no loss.
    if (!status.ok()) {
      CHECK(status.code() == StatusCode::kUnavailable);
      CHECK(Has(status, "CUPTI_ERROR_OTHER"));
    }
    CHECK(rig.IsClean());
    rig.Launch(&rig.attention);
    CHECK(rig.attention.runs > runs);
  }
  for (const char* function :
       {"cuptiProfilerInitialize", "cuptiDeviceGetChipName", "cuptiProfilerGetCounterAvailability",
        "cuptiProfilerHostInitialize", "cuptiProfilerHostConfigAddMetrics", "cuptiProfilerHostGetConfigImageSize",
        "cuptiProfilerHostGetConfigImage", "cuptiProfilerHostGetNumOfPasses", "cuptiProfilerHostEvaluateToGpuValues",
        "cuptiRangeProfilerEnable", "cuptiRangeProfilerGetCounterDataSize",
        "cuptiRangeProfilerCounterDataImageInitialize", "cuptiRangeProfilerSetConfig", "cuptiRangeProfilerStart",
        "cuptiRangeProfilerStop", "cuptiRangeProfilerDecodeData", "cuptiRangeProfilerGetCounterDataInfo"}) {
    rig.fake->Reset();
    rig.fake->results[function] = pitot::counters::kUnknown;
    const Status status = rig.Profile();
    INFO(status.message());
    CHECK(Has(status, function));
    CHECK(rig.IsClean());
  }
}

TEST_CASE("a refusal says what to do", "[profile]") {
  Rig rig;
  rig.fake->results["cuptiRangeProfilerEnable"] = pitot::counters::kHardwareBusy;
  CHECK(Has(rig.Profile(), "pitot counters release"));
  rig.fake->results["cuptiRangeProfilerEnable"] = pitot::counters::kInsufficientPrivileges;
  CHECK(Has(rig.Profile(), "NVreg_RestrictProfilingToAdminUsers=0"));
  rig.fake->results["cuptiRangeProfilerEnable"] = pitot::counters::kVirtualizedDeviceNotSupported;
  CHECK(Has(rig.Profile(), "administrator can enable it"));
  rig.fake->results.clear();
  g_cuda.has_context = false;
  CHECK(rig.Profile().code() == StatusCode::kNotFound);
  g_cuda.has_context = true;
  rig.options.device = 7;
  CHECK(Has(rig.Profile(), "CUDA has no such GPU"));
  CHECK(rig.IsClean());
}

TEST_CASE("too few launches in time end in a status that says why", "[profile]") {
  Rig rig;
  rig.options.timeout_ms = 20;
  SECTION("nothing was launched") {
    rig.round = [] {};
    CHECK(Has(rig.Profile(), "-cudart shared"));
  }
  SECTION("no kernel has the name") {
    rig.options.kernel = "Convolution";
    CHECK(Has(rig.Profile(), "no launched kernel has ProfileOptions::kernel in its name"));
    CHECK(rig.profile.launches_seen > 0);
  }
  SECTION("the kernels run on another GPU") {
    g_cuda.is_elsewhere = true;
    CHECK(Has(rig.Profile(), "set ProfileOptions::device"));
  }
  SECTION("the handles are not functions") {
    g_cuda.has_names = false;
    CHECK(Has(rig.Profile(), "no launched kernel has"));
  }
  CHECK(rig.IsClean());
}

TEST_CASE("what was measured before the time was up is in the profile", "[profile]") {
  Rig rig;
  rig.options.timeout_ms = 50;
  rig.options.launches = 100;
  rig.round = [&] {
    if (rig.Seen(&FakeRange::samples).empty()) rig.Launch(&rig.attention);
  };
  const Status status = rig.Profile();
  CHECK(status.code() == StatusCode::kUnavailable);
  CHECK(Has(status, "1 of 100 launches of \"Attention\""));
  REQUIRE(rig.profile.kernels.size() == 1);
  CHECK(rig.profile.kernels[0].duration_ns.has_value());
  CHECK_FALSE(rig.profile.kernels[0].l2_hit_percent.has_value());
}

TEST_CASE("a launch is not used if another thread enqueued work meanwhile", "[profile]") {
  Rig rig;
  rig.options.launches = 11;
  int disturbances = 0;
  bool is_copy = false;
  const std::thread::id caller = std::this_thread::get_id();
  rig.fake->on_start = [&] {
    if (std::this_thread::get_id() == caller || disturbances++ >= 4) return;
    is_copy = !is_copy;
    std::thread([&] {
      if (is_copy)
        pitot::trace::g_launch_hook.load()->copy();
      else
        rig.Launch(&rig.other);
    }).join();
  };
  REQUIRE(rig.Profile().ok());
  CHECK(rig.profile.launches_disturbed == 4);  // of the first set, of one pass
  CHECK(rig.profile.launches_measured == 11);
  for (const auto& sample : rig.Seen(&FakeRange::samples)) {
    for (const void* launched : sample) CHECK(launched == &rig.attention);
  }
}

TEST_CASE("a disturbed pass costs the passes of its sample, and the next sample begins with the first pass",
          "[profile]") {
  Rig rig;
  rig.options.launches = 11;
  const std::thread::id caller = std::this_thread::get_id();
  bool is_disturbed = false;
  rig.fake->on_start = [&] {
    // In the third pass of eight.
    const size_t kernels = rig.Seen(&FakeRange::kernels).size();
    if (std::this_thread::get_id() == caller || kernels != 2 || std::exchange(is_disturbed, true)) return;
    std::thread([&] { pitot::trace::g_launch_hook.load()->copy(); }).join();
  };
  const Status status = rig.Profile();
  INFO(status.message());
  REQUIRE(status.ok());
  CHECK(rig.profile.launches_disturbed == 3);
  CHECK(rig.profile.kernels.at(0).sm_percent == 50);
  CHECK(rig.Seen(&FakeRange::calls_of).at("cuptiRangeProfilerEnable") == 3);
}

TEST_CASE("if empty passes spoil CUPTI's values, samples are taken without them", "[profile]") {
  Rig rig;
  rig.options.launches = 11;
  rig.fake->breaks_by_empty_passes = true;
  const Status status = rig.Profile();
  INFO(status.message());
  REQUIRE(status.ok());
  REQUIRE(rig.profile.kernels.size() == 1);
  CHECK(rig.profile.kernels[0].duration_ns == 50);
  CHECK(rig.profile.kernels[0].l2_hit_percent == 50);
  CHECK(rig.profile.kernels[0].sm_percent == 50);
  CHECK(rig.IsClean());
}

TEST_CASE("a launch is not used if CUPTI saw another kernel in its range", "[profile]") {
  Rig rig;
  rig.options.timeout_ms = 20;
  rig.fake->kernels_of_others = 1;
  CHECK(Has(rig.Profile(), "profile with less load"));
  CHECK(rig.profile.launches_measured == 0);
  CHECK(rig.profile.launches_disturbed > 0);
  CHECK(rig.profile.kernels.empty());
}

TEST_CASE("a kernel is found by a symbol, a CUkernel or a CUfunction, and refused handles are not asked again",
          "[profile]") {
  for (const auto handle : {pitot::trace::KernelHandle::kSymbol, pitot::trace::KernelHandle::kKernel,
                            pitot::trace::KernelHandle::kFunction}) {
    Rig rig;
    rig.options.launches = 1;
    rig.options.metrics = ProfileMetrics::kBasic;
    rig.round = [&] {
      fakes::LaunchWith(
          &rig.attention, 128, [&] { rig.fake->Launch(&rig.attention); }, handle);
    };
    // A CUkernel is no CUfunction, and the other way round.
    if (handle == pitot::trace::KernelHandle::kKernel)
      rig.environment.driver.function_name = [](const char**, void*) { return 400; };
    else
      rig.environment.driver.kernel_name = [](const char**, void*) { return 400; };
    REQUIRE(rig.Profile().ok());
    REQUIRE(rig.profile.kernels.size() == 1);
    CHECK(rig.profile.kernels[0].name == "FusedAttention(float const*, int)");
  }
}

TEST_CASE("a driver's call inside a call of the runtime is one launch", "[profile]") {
  Rig rig;
  rig.options.launches = 11;
  rig.round = [&] { fakes::LaunchWith(&rig.attention, 128, [&] { rig.Launch(&rig.attention); }); };
  REQUIRE(rig.Profile().ok());
  CHECK(rig.profile.launches_disturbed == 0);
}

TEST_CASE("a reset of the device waits until CUPTI has let go, and ends the profile", "[profile]") {
  Rig rig;
  rig.options.launches = 100'000;
  bool was_clean = false, is_reset = false;
  rig.round = [&] {
    if (is_reset) return;
    rig.Launch(&rig.attention);
    if (rig.Seen(&FakeRange::samples).size() < 5) return;
    is_reset = true;
    pitot::trace::g_launch_hook.load()->interrupt(pitot::trace::Interruption::kReset);
    was_clean = rig.Seen(&FakeRange::enabled) == 0 && g_cuda.retained == 0;
  };
  const Status status = rig.Profile();
  CHECK(Has(status, "the device was reset"));
  CHECK(was_clean);
  CHECK(rig.IsClean());
}

TEST_CASE("the capture of a graph waits until CUPTI has let go, and ends the profile", "[profile]") {
  Rig rig;
  rig.options.launches = 100'000;
  bool was_clean = false, is_captured = false;
  SECTION("its beginning was seen") {
    rig.round = [&] {
      if (is_captured) return;
      rig.Launch(&rig.attention);
      if (rig.Seen(&FakeRange::samples).size() < 5) return;
      is_captured = true;
      pitot::trace::g_launch_hook.load()->interrupt(pitot::trace::Interruption::kCapture);
      was_clean = rig.Seen(&FakeRange::enabled) == 0;
    };
    CHECK(Has(rig.Profile(), "captures a graph"));
    CHECK(was_clean);
    REQUIRE(rig.profile.kernels.size() == 1);
    CHECK(rig.profile.kernels[0].launches >= 5);
  }
  SECTION("a launch into it was seen, of any kernel") {
    rig.round = [&] {
      rig.Launch(&rig.attention);
      if (rig.Seen(&FakeRange::samples).size() < 5) return;
      g_cuda.is_capturing = true;
      rig.Launch(&rig.other);
    };
    CHECK(Has(rig.Profile(), "captures a graph"));
    CHECK(rig.profile.launches_captured > 0);
  }
  CHECK(rig.IsClean());
}

TEST_CASE("a launch that does not return is left behind, and ends CUPTI itself", "[profile]") {
  Rig rig;
  rig.options.timeout_ms = 20;
  rig.environment.patience_ns = 20'000'000;
  std::promise<void> goes_on;
  std::shared_future<void> awaited = goes_on.get_future().share();
  std::atomic<bool> hangs{false}, has_hung{false};
  rig.round = [&] {
    fakes::LaunchWith(&rig.attention, 128, [&] {
      rig.fake->Launch(&rig.attention);
      if (!rig.Seen(&FakeRange::is_started) || has_hung.exchange(true)) return;
      hangs = true;
      awaited.wait();
    });
  };
  rig.StartServer();
  const Status status = pitot::profile::Measure(rig.options, rig.environment, &rig.profile);
  CHECK(Has(status, "has not returned"));
  CHECK(hangs);
  CHECK(rig.Seen(&FakeRange::enabled) == 1);
  CHECK(g_cuda.pushed == 0);
  goes_on.set_value();
  CHECK(fakes::WaitUntil([&] { return rig.Seen(&FakeRange::enabled) == 0; }));
  rig.EndServer();
}

TEST_CASE("the child of a fork launches as if nobody profiled", "[profile]") {
  Rig rig;
  rig.options.launches = 100'000;
  int child = -1;
  rig.round = [&] {
    rig.Launch(&rig.attention);
    if (child >= 0 || rig.Seen(&FakeRange::samples).empty()) return;
    child = fakes::InChild([&] {
      const pitot::trace::LaunchHook& hook = *pitot::trace::g_launch_hook.load();
      pitot::trace::Launch launch;
      launch.kernel = &rig.attention;
      for (int i = 0; i < 100; ++i) {
        hook.before(&launch);
        HOLDS(!launch.is_taken);
        hook.after(&launch, 0);
      }
      hook.interrupt(pitot::trace::Interruption::kReset);
      return 0;
    });
  };
  rig.options.timeout_ms = 300;
  rig.Profile();
  CHECK(child == 0);
  CHECK(rig.profile.launches_measured > 0);
  CHECK(rig.IsClean());
}

TEST_CASE("a profile leaves its time for incidents, and one that does not begin leaves none", "[profile]") {
  Rig rig;
  const auto now = [] { return pitot::base::ClockNs(CLOCK_MONOTONIC); };
  const int64_t begin_ns = now();
  int64_t started_ns = 0;
  rig.fake->on_start = [&] { started_ns = now(); };
  REQUIRE(rig.Profile().ok());
  const int64_t end_ns = now();

  const pitot::trace::ProfileRuns found = pitot::trace::ProfileRunsWithin(begin_ns, end_ns);
  REQUIRE(found.count == 1);
  CHECK((found.runs[0].begin_ns < started_ns && found.runs[0].end_ns > started_ns));
  CHECK(found.runs[0].end_ns <= end_ns);

  pitot::trace::g_captures.store(1);
  const Status refused = rig.Profile();
  pitot::trace::g_captures.store(0);
  REQUIRE_FALSE(refused.ok());
  CHECK(pitot::trace::ProfileRunsWithin(end_ns, now()).count == 0);
}
