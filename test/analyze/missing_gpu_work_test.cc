// SPDX-License-Identifier: Apache-2.0
//
// Findings about a trace that misses GPU work.
#include "analyze/facts/missing_gpu_work.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "analyze/gpu_trace.h"
#include "base/gpu_loss_reason.h"

namespace pitot::test {
namespace {

using model::GpuKind;
using model::kNone;

void Lose(GpuTrace* made, std::string_view reason, uint64_t records, uint32_t stream = kNone) {
  model::GpuLossRow loss;
  loss.stream = stream;
  loss.reason = made->trace.strings.Add(reason);
  loss.begin_ns = 100'000;
  loss.end_ns = 150'000;
  loss.records = records;
  made->trace.gpu_losses.push_back(loss);
}

// Ten launches of 100 us, one a ms, and as many `lost` for a reason.
GpuTrace Launched(std::string_view reason, uint64_t lost, const std::string& call = "cudaLaunchKernel") {
  GpuTrace made(10'000);
  for (int64_t i = 0; i < 10; ++i) made.Gpu(GpuKind::kKernel, "k", 1000 * i + 20, 100, made.Call(call, 1000 * i, 10));
  if (lost > 0) Lose(&made, reason, lost);
  return made;
}

std::string Caveat(const GpuTrace& made, const char* code) {
  const std::optional<analyze::FindingRow> finding = Found(made.Run("a39"), code);
  return finding.has_value() ? finding->summary : "";
}

}  // namespace

TEST_CASE("a39 counts launches without work", "[a39]") {
  GpuTrace none(1000);
  for (int64_t i = 0; i < 3; ++i) none.Call("cudaLaunchKernel", 100 * i, 10);
  Lose(&none, base::kLaunchWithoutWork, 3);
  CHECK(Caveat(none, "a39.lost_gpu_records") == "3 launches, and nothing that GPUs did: kernels were not recorded");
  CHECK(Found(none.Run("a39"), "a39.lost_gpu_records")->severity == Severity::kHigh);

  CHECK(Caveat(Launched(base::kLaunchWithoutWork, 30), "a39.lost_gpu_records") ==
        "30 of 40 launches have no work in the trace");
  CHECK(Caveat(Launched(base::kGraphWithoutWork, 30, "hipGraphLaunch"), "a39.lost_gpu_records") ==
        "30 of 40 launches of graphs have no work in the trace");
  CHECK(Caveat(Launched(base::kGraphInPart, 30, "cudaGraphLaunch"), "a39.lost_gpu_records") ==
        "30 of 40 records of graphs are missing: other launches of the same graphs have them");
}

TEST_CASE("a39 counts records that were set aside", "[a39]") {
  CHECK(Caveat(Launched(base::kNoTime, 2), "a39.no_time") ==
        "2 things that GPUs did had no time, or one far outside the trace: 16.7 % of the records were set aside");
  GpuTrace made = Launched("", 0);
  Lose(&made, std::string(base::kImpossibleDuration) + ", 6.80 s in all", 2, 0);
  CHECK(Caveat(made, "a39.impossible_duration") ==
        "2 of 12 records have an impossible duration (6.80 s in all) and were set aside: their times are not known, at "
        "most 50 us until the next work began");
  CHECK(Found(made.Run("a39"), "a39.impossible_duration")->subject == "GPU 0 stream 7");
}

TEST_CASE("idleness is undetermined with much work missing, and determined with little", "[a03][a04][a11][a39]") {
  const auto found = [](const char* code, std::string_view reason, uint64_t lost) {
    return *Found(Launched(reason, lost).Run(std::string(code).substr(0, 3)), code);
  };
  for (const char* const code : {"a03.utilisation_low", "a04.idle", "a11.queue_empty"}) {
    INFO(code);
    const analyze::FindingRow sure = found(code, "", 0), unsure = found(code, base::kLaunchWithoutWork, 2);
    CHECK_FALSE(sure.is_undetermined);
    CHECK(sure.cost_ns > 0);
    CHECK(unsure.is_undetermined);
    CHECK(unsure.cost_ns == 0);
    CHECK(unsure.severity <= Severity::kLow);
    CHECK(unsure.confidence <= 0.3);
    CHECK(unsure.caveats.size() == 1);
    CHECK_FALSE(found(code, base::kLaunchWithoutWork, 1).is_undetermined);  // a tenth
  }
}

TEST_CASE("idleness is undetermined if much of the work lost its end, but not if its times are whole microseconds",
          "[a03][a04][a39]") {
  const auto run = [](int64_t more_ns, const char* code) {
    GpuTrace made(10'000);
    for (int64_t i = 0; i < 100; ++i) made.Launch("k", 100 * i, 5, 100 * i + 20, i % 2 == 0 ? 0 : 50);
    made.trace.gpu.duration_ns[1] += more_ns;
    return *Found(made.Run(std::string(code).substr(0, 3)), code);
  };
  for (const char* const code : {"a03.utilisation_low", "a04.idle"}) {
    CHECK(run(500, code).is_undetermined);
    CHECK_FALSE(run(0, code).is_undetermined);  // they took less than one
  }
}

TEST_CASE("shares of time hold without a few records that were set aside, but not without many", "[a03][a04][a39]") {
  using facts::IsKnownWithout;
  CHECK(IsKnownWithout({0, 0.2}, "a04.idle", 0.78, 0.15));       // 63 % if the others took twice as long
  CHECK_FALSE(IsKnownWithout({0, 0.2}, "a04.idle", 0.4, 0.15));  // 0 %
  CHECK_FALSE(IsKnownWithout({0, 0.3}, "a04.idle", 0.99, 0.15));
  CHECK(IsKnownWithout({0, 0.2}, "a03.utilisation_low", 0.2, 0.5));
  CHECK_FALSE(IsKnownWithout({0, 0.2}, "a03.utilisation_low", 0.4, 0.5));
  CHECK_FALSE(IsKnownWithout({0, 0.2}, "a17.critical_path", 0.9, 0.3));
  CHECK(IsKnownWithout({0, 0.1}, "a17.critical_path", 0.9, 0.3));
  CHECK_FALSE(IsKnownWithout({0.2, 0}, "a04.idle", 0.99, 0.15));
  CHECK(IsKnownWithout({0.9, 0.9}, "a20.small_grid", 0.9, 0.3));  // of the work that is there
}

TEST_CASE("one launch of a graph stands for the work of another", "[a39]") {
  GpuTrace made(10'000);
  const uint32_t graph = made.Call("cudaGraphLaunch", 0, 10);
  for (int64_t i = 0; i < 30; ++i) made.Gpu(GpuKind::kKernel, "node", 20 + 10 * i, 9, graph);
  Lose(&made, base::kGraphWithoutWork, 1);
  CHECK(Found(made.Run("a03"), "a03.utilisation_low")->is_undetermined);
}

TEST_CASE("work of a GPU that was not recorded has no value, not 0", "[a01][a10]") {
  GpuTrace without(1000);
  without.Request(0, 500);

  CHECK(std::isnan(without.Run("a01").Find("a01", "compute")->value));
  CHECK(std::isnan(without.Run("a10").Find("a10", "launches")->value));
  CHECK(std::isnan(without.Run("a10").Find("a10", "launches_a_request")->value));
}

// Recorded from 6 to 10 ms. There a request launched two kernels, which ran from 7 to 8 and from 9 to 9.5 ms.
GpuTrace Partly() {
  GpuTrace made(10'000);
  made.trace.depths = {{0, 6'000'000, Depth::kScopes}, {6'000'000, 10'000'000, Depth::kKernels}};
  made.Request(0, 1000);
  made.Request(5500, 1500);
  made.For(made.Request(6500, 2000));
  const uint32_t first = made.Call("cudaLaunchKernel", 6600, 10), second = made.Call("cudaLaunchKernel", 6700, 10);
  made.Gpu(GpuKind::kKernel, "k", 7000, 1000, first);
  made.Gpu(GpuKind::kKernel, "k", 9000, 500, second);
  return made;
}

TEST_CASE("launches a request are those of requests recorded all the time", "[a10]") {
  GpuTrace made = Partly();
  CHECK(Measured(made.Run("a10"), "launches_a_request") == 2);

  made.trace.requests.pop_back();
  std::fill(made.trace.calls.request.begin(), made.trace.calls.request.end(), kNone);
  CHECK(std::isnan(made.Run("a10").Find("a10", "launches_a_request")->value));
}

TEST_CASE("a batch's launches count by its members that were recorded all the time", "[a10]") {
  GpuTrace made = Partly();
  const uint32_t batch = made.Batch("e", 6500, 3000, 2);
  made.trace.members[0].request = 1;  // recorded in part
  made.trace.members[1].request = 2;
  std::fill(made.trace.calls.batch.begin(), made.trace.calls.batch.end(), batch);

  CHECK(Measured(made.Run("a10"), "launches_a_request") == 1);
}

TEST_CASE("a GPU is not idle while its work was not recorded", "[a01][a03][a04][a10]") {
  GpuTrace partly = Partly();
  CHECK(Measured(partly.Run("a01"), "recorded") == 4000);
  CHECK(Measured(partly.Run("a03"), "utilisation") == Approx(1.5 / 4));
  CHECK(Found(partly.Run("a03"), "a03.utilisation_low")->summary.find("ran for 37.5 % of the recorded 4.00 ms") !=
        std::string::npos);
  CHECK(Measured(partly.Run("a04"), "idle") == 1000);
  CHECK(Found(partly.Run("a04"), "a04.idle")->value == Approx(1.0 / 2.5));

  // With a part that was not recorded between the two kernels.
  partly.trace.depths = {{6'000'000, 8'200'000, Depth::kKernels},
                         {8'200'000, 8'800'000, Depth::kScopes},
                         {8'800'000, 10'000'000, Depth::kKernels}};
  CHECK(Measured(partly.Run("a03"), "utilisation") == Approx(1.5 / 3.4));
  CHECK(Measured(partly.Run("a04"), "idle") == 0);
  CHECK_FALSE(Found(partly.Run("a04"), "a04.idle").has_value());

  partly.trace.depths = {{0, 10'000'000, Depth::kKernels}};
  CHECK(partly.Run("a01").Find("a01", "recorded") == nullptr);
  CHECK(Measured(partly.Run("a03"), "utilisation") == Approx(0.15));
}

TEST_CASE("exposed launching is a share of the recorded time", "[a10]") {
  GpuTrace made = Partly();
  made.trace.calls.duration_ns = {10'000, 2'100'000};  // the second launch: to 8.8 ms
  const auto share = [&] { return Found(made.Run("a10"), "a10.launch_bound")->value; };
  CHECK(share() == Approx(0.8 / 2.5));

  made.trace.depths = {{6'000'000, 8'200'000, Depth::kKernels},
                       {8'200'000, 8'800'000, Depth::kScopes},
                       {8'800'000, 10'000'000, Depth::kKernels}};
  CHECK(share() == Approx(0.2 / 1.9));
}

TEST_CASE("a launch queue is not empty while launches were not recorded", "[a11]") {
  GpuTrace made(10'000);
  made.Gpu(GpuKind::kKernel, "k", 200, 100, made.Call("cudaLaunchKernel", 100, 10));
  made.Gpu(GpuKind::kKernel, "k", 9300, 100, made.Call("cudaLaunchKernel", 9100, 10));
  made.trace.depths = {{0, 1'000'000, Depth::kKernels},
                       {1'000'000, 9'000'000, Depth::kScopes},
                       {9'000'000, 10'000'000, Depth::kKernels}};

  const analyze::AnalysisReport report = made.Run("a11");

  CHECK(Measured(report, "empty") == 900);
  CHECK(Found(report, "a11.queue_empty")->value == Approx(0.9 / 1.2));
}

TEST_CASE("energy goes into an idle GPU only while its work was recorded", "[a43]") {
  GpuTrace made = Partly();
  const uint32_t power = made.Counter("GPU 0 (H100): power", "W");
  made.Sample(power, 0, 100);

  CHECK(made.Run("a43").Find("a43", "energy while idle")->value == Approx(0.25));  // 2.5 ms of 4 recorded ones
}

TEST_CASE("a10 counts launches without work, and no launches in their place", "[a10]") {
  GpuTrace none(1000);
  none.Call("cudaLaunchKernel", 0, 10);
  Lose(&none, base::kLaunchWithoutWork, 1);
  CHECK(Measured(none.Run("a10"), "launches_without_work") == 1);
  CHECK(none.Run("a10").Find("a10", "launches") == nullptr);
  CHECK(Measured(Launched(base::kLaunchWithoutWork, 4).Run("a10"), "launches") == 10);
}

}  // namespace pitot::test
