// SPDX-License-Identifier: Apache-2.0
//
// Analyzers that count as other tools do.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "analyze/catalogue_edges.h"
#include "peers/catalogue.h"

namespace pitot::test {

using model::GpuKind;
using peers::MakeHtaCatalogue;
using peers::MakeTbPluginCatalogue;
using peers::MakeTraceLensCatalogue;

TEST_CASE(
    "catalogues that count as other tools do have the ordinary analyzers and thresholds, and answer an empty trace",
    "[peers]") {
  const auto described = [](const std::vector<std::unique_ptr<Analyzer>>& analyzers) {
    std::vector<std::string> all;
    for (const std::unique_ptr<Analyzer>& analyzer : analyzers) {
      const AnalyzerInfo info = analyzer->Info();
      all.push_back(std::string(info.name) + " " + info.title);
      for (uint32_t i = 0; i < info.threshold_count; ++i) all.push_back(info.thresholds[i].name);
    }
    return all;
  };
  for (const auto make : {MakeHtaCatalogue, MakeTraceLensCatalogue, MakeTbPluginCatalogue}) {
    CHECK(described(make()) == described(analyze::MakeCatalogue()));
    analyze::AnalysisReport report;
    CHECK(Analyze({}, make(), {}, &report).ok());
    for (const analyze::AnalyzerReport& analyzer : report.analyzers) CHECK(analyzer.status.ok());
  }
}

TEST_CASE("a01 counts as HTA does from the first to the last kernel", "[a01]") {
  GpuTrace made = CopyAndKernels();
  made.UseStream(9);
  made.Gpu(GpuKind::kKernel, "gemm", 560, 80, made.Call("cudaLaunchKernel", 110, 10));

  const analyze::AnalysisReport report = made.Run("a01", {}, MakeHtaCatalogue);

  CHECK(Measured(report, "kernel_time") == 540);
  CHECK(Measured(report, "idle") == 100);
  CHECK(Measured(report, "compute") == 280);
  CHECK(Measured(report, "non_compute") == 540 - 100 - 280);
  CHECK(Measured(report, "overlap") == Approx(0.4));
  // Without communication there is nothing to overlap with.
  GpuTrace alone(1000);
  alone.Launch("gemm", 0, 5, 100, 200);
  CHECK(CountOf(alone.Run("a01", {}, MakeHtaCatalogue), "overlap") == 0);
}

TEST_CASE("a01 counts as TraceLens does: copies and communication where nothing computes", "[a01]") {
  const analyze::AnalysisReport report = CopyAndKernels().Run("a01", {}, MakeTraceLensCatalogue);

  CHECK(Measured(report, "total") == Approx(500));
  CHECK(Measured(report, "busy") == Approx(400));
  CHECK(Measured(report, "idle") == Approx(100));
  CHECK(Measured(report, "idle_share") == Approx(0.2));
  CHECK(Measured(report, "computation") == 200);
  CHECK(Measured(report, "exposed_communication") == 100);
  CHECK(Measured(report, "exposed_memcpy") == 100);
  CHECK(GpuTrace(1000).Run("a01", {}, MakeTraceLensCatalogue).analyzers[0].measures.empty());
}

TEST_CASE("a01 counts as TensorBoard's plug-in does: means of its steps", "[a01]") {
  GpuTrace made(2000);
  made.Event(SiteKind::kScope, "ProfilerStep#1", 0, 400);
  made.Event(SiteKind::kScope, "ProfilerStep#2", 400, 600);
  for (const int64_t at_us : {0, 400}) {
    made.Launch("gemm", at_us + 10, 10, at_us + 100, 200);
    made.Launch("gemm", at_us + 30, 10, at_us + 300, 50);
  }

  const analyze::AnalysisReport report = made.Run("a01", {}, MakeTbPluginCatalogue);

  CHECK(Measured(report, "steps") == 2);
  CHECK(Measured(report, "step") == 500);
  CHECK(Measured(report, "kernel") == 250);
  CHECK(Measured(report, "kernel_share") == Approx(0.5));
  CHECK(Measured(report, "runtime") == 20);
  CHECK(Measured(report, "memcpy_share") == 0);
}

TEST_CASE("a03 cuts kernels at the steps of TensorBoard's plug-in", "[a03]") {
  GpuTrace made(1000);
  made.Event(SiteKind::kScope, "ProfilerStep#1", 200, 400);
  made.Launch("k", 0, 5, 100, 200);
  made.Launch("k", 210, 5, 300, 100);

  CHECK(Measured(made.Run("a03", {}, MakeTbPluginCatalogue), "utilisation") == Approx(0.5));
}

TEST_CASE("a03 rounds occupancies to whole percents for TensorBoard's plug-in", "[a03]") {
  GpuTrace made(1000);
  IsGpu(&made);
  made.Shape(made.Launch("k", 0, 5, 10, 300), Shape(100, 256));  // 12.5 %

  CHECK(Measured(made.Run("a03"), "occupancy") == Approx(0.125));
  CHECK(Measured(made.Run("a03", {}, MakeTbPluginCatalogue), "occupancy") == Approx(0.13));
}

TEST_CASE("a04 counts waits between kernels of a stream as HTA does", "[a04]") {
  GpuTrace made(1000);
  std::vector<uint32_t> calls;
  for (const int64_t at_us : {0, 20, 40, 60, 350}) calls.push_back(made.Call("cudaLaunchKernel", at_us, 5));
  made.Gpu(GpuKind::kKernel, "a", 10, 90, calls[0]);
  made.Gpu(GpuKind::kKernel, "b", 120, 80, calls[1]);  // 20 us: a kernel's wait
  made.Gpu(GpuKind::kKernel, "c", 230, 70, calls[2]);  // 30 us are too long for one
  made.Gpu(GpuKind::kKernel, "d", 400, 50, calls[4]);  // launched after c ended: the host's
  made.UseStream(9);
  made.Gpu(GpuKind::kKernel, "e", 500, 100, calls[3]);

  const analyze::AnalysisReport report = made.Run("a04", {}, MakeHtaCatalogue);

  CHECK(Measured(report, "kernel_wait", "stream 7") == 20);
  CHECK(Measured(report, "other", "stream 7") == 30);
  CHECK(Measured(report, "host_wait", "stream 7") == 100);
  CHECK(Measured(report, "kernel_wait", "stream 9") == 0);
  CHECK(report.analyzers[0].findings.empty());
}

TEST_CASE("a10 counts launches as HTA does, by whole us", "[a10]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 20, 40, 10);
  made.Gpu(GpuKind::kKernel, "no launch", 200, 10, made.Call("cudaEventRecord", 180, 1));

  const analyze::AnalysisReport report = made.Run("a10", {}, MakeHtaCatalogue);

  CHECK(Measured(report, "launches") == 1);
  CHECK(Measured(report, "shorter_than_call") == 1);
  CHECK(Measured(report, "mean_delay") == 20);
  CHECK(report.analyzers[0].findings.empty());
}

TEST_CASE("a11 follows the queue of each stream as HTA does, by whole us", "[a11]") {
  GpuTrace made(1000);
  made.Launch("a", 0, 1, 100, 10);
  made.Launch("b", 50, 1, 150, 10);
  made.Gpu(GpuKind::kKernel, "no launch", 200, 10, made.Call("cudaEventRecord", 180, 1));

  const analyze::AnalysisReport report = made.Run("a11", {}, MakeHtaCatalogue);

  CHECK(Measured(report, "changes", "stream 7") == 4);
  CHECK(Measured(report, "most", "stream 7") == 2);
  CHECK(Measured(report, "mean_of_changes", "stream 7") == 1);
  CHECK(report.Find("a11", "mean", "stream 7") == nullptr);
}

}  // namespace pitot::test
