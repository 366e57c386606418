// SPDX-License-Identifier: Apache-2.0
//
// Analyzers of counters, memory and clocks: each on a fault and on a harmless trace that looks like it.
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>

#include "analyze/facts/trend.h"
#include "analyze/gpu_trace.h"

namespace pitot::test {

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Requests one a ms; so many MiB are given out as the i-th ends.
GpuTrace Memory(int count, const std::function<double(int)>& mebibytes) {
  GpuTrace made(1000 * count);
  const uint32_t counter = made.Counter("GPU 0 (LibTorch): LibTorch allocated", "bytes");
  for (int i = 0; i < count; ++i) {
    made.Request(1000 * i, 900);
    made.Sample(counter, 1000 * i, mebibytes(i) * kMiB + 500 * kMiB);  // while it runs
    made.Sample(counter, 1000 * i + 800, mebibytes(i) * kMiB);
  }
  return made;
}

GpuTrace OutOfMemory(uint64_t wanted, uint64_t free_bytes, uint64_t reserved, uint64_t allocated) {
  GpuTrace made(1000);
  made.Event(
      SiteKind::kInstant, "out of GPU memory", 500, 0,
      {{"bytes", wanted}, {"device", 0}, {"free_bytes", free_bytes}, {"reserved", reserved}, {"allocated", allocated}});
  return made;
}

// Kernels of 1 ms at the clock of their time; `feels` is how much they feel it. The clock falls in the second half.
struct Throttled {
  double low_mhz = 1000, feels = 1;
  std::string reason = "SW thermal";
  int64_t shift_us = 0;
  GpuTrace Make() const {
    GpuTrace made(400'000 + shift_us);
    made.trace.window_begin_ns = shift_us * 1000;
    const uint32_t clock = made.Counter("GPU 0 (NVIDIA H100): SM clock", "MHz");
    const uint32_t held = made.Counter("GPU 0 (NVIDIA H100): clocks held by " + reason, "");
    made.Sample(clock, shift_us, 2000);
    made.Sample(clock, shift_us + 200'000, low_mhz);
    made.Sample(held, shift_us, 0);
    made.Sample(held, shift_us + 200'000, 1);
    for (int64_t i = 0; i < 100; ++i) {
      const double factor = i < 50 ? 1 : std::pow(2000 / low_mhz, feels);
      const auto us = static_cast<int64_t>(1000 * factor) + i % 7;  // no two are quite the same
      made.Launch("gemm", shift_us + 4000 * i, 5, shift_us + 4000 * i + 10, us);
    }
    return made;
  }
};

}  // namespace

TEST_CASE("a trend is the median slope, and sure only if a series goes one way", "[a23]") {
  std::vector<double> rising, flat, jumping;
  for (int i = 0; i < 20; ++i) {
    rising.push_back(10 + 2 * i + (i % 2));
    flat.push_back(10 + (i * 7) % 5);
    jumping.push_back(i < 2 ? 0 : 100);
  }
  CHECK(facts::FindTrend(rising).slope == Approx(2).margin(0.1));
  CHECK(facts::FindTrend(rising).p < 1e-6);
  CHECK(facts::FindTrend(flat).p > 0.5);
  CHECK(facts::FindTrend(jumping).slope == 0);
  // S = 6 of n = 4 is too few for a claim; and of 10 in order: z = 44 / sqrt(125).
  CHECK(facts::FindTrend({1, 2, 3, 4}).p == 1);
  CHECK(facts::FindTrend({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}).p == Approx(8.3e-5).epsilon(0.01));
  CHECK(facts::FindTrend({}).p == 1);
}

TEST_CASE("a23 finds memory left behind by requests", "[a23]") {
  for (const int count : {100, 1000}) {
    const analyze::AnalysisReport report = Memory(count, [](int i) { return 1000 + i; }).Run("a23");

    CHECK(Measured(report, "growth_a_request") == Approx(kMiB).epsilon(0.02));
    const std::optional<analyze::FindingRow> finding = Found(report, "a23.leak");
    REQUIRE(finding.has_value());
    CHECK(finding->value > 0.05);
    CHECK(finding->confidence > 0.85);
  }
}

TEST_CASE("a23 ignores memory that fills once, goes up and down, or hardly grows", "[a23]") {
  CHECK(Memory(100, [](int i) { return i < 5 ? 500.0 : 1000.0; }).Run("a23").analyzers[0].findings.empty());
  CHECK(Memory(100, [](int i) { return 1000 + 30.0 * (i % 10); }).Run("a23").analyzers[0].findings.empty());
  CHECK(Memory(100, [](int i) { return 1000 + 0.01 * i; }).Run("a23").analyzers[0].findings.empty());
  CHECK(Memory(10, [](int i) { return 1000.0 + 100 * i; }).Run("a23").analyzers[0].findings.empty());
}

TEST_CASE("a23 tells memory in pieces from no memory", "[a23]") {
  const std::optional<analyze::FindingRow> pieces =
      Found(OutOfMemory(300 * kMiB, 100 * kMiB, 1000 * kMiB, 700 * kMiB).Run("a23"), "a23.fragmentation");
  REQUIRE(pieces.has_value());
  CHECK(pieces->summary.find("would fit if") != std::string::npos);
  const analyze::AnalysisReport none = OutOfMemory(500 * kMiB, 100 * kMiB, 1000 * kMiB, 700 * kMiB).Run("a23");
  REQUIRE(Found(none, "a23.out_of_memory").has_value());
  CHECK(Found(none, "a23.out_of_memory")->subject == "GPU 0");
  CHECK_FALSE(Found(none, "a23.fragmentation").has_value());
}

TEST_CASE("a23 reports repeated refusals of a GPU's memory once", "[a23]") {
  GpuTrace made(10'000);
  const auto refuse = [&](int64_t at_us, uint64_t device, uint64_t mebibytes) {
    made.Event(SiteKind::kInstant, "out of GPU memory", at_us, 0,
               {{"bytes", mebibytes * kMiB},
                {"device", device},
                {"free_bytes", 10 * kMiB},
                {"reserved", 1000 * kMiB},
                {"allocated", 900 * kMiB}});
  };
  made.trace.window_begin_ns = 1'000'000;
  for (int64_t i = 0; i < 8; ++i) refuse(3'000 + 500 * i, 0, i == 5 ? 700 : 500);
  refuse(8'000, 1, 600);
  refuse(8'500, 0, 50);  // in pieces
  made.UseThread();
  refuse(2'000, 0, 500);

  const analyze::AnalysisReport report = made.Run("a23");

  const std::vector<analyze::FindingRow>& findings = report.analyzers[0].findings;
  REQUIRE(findings.size() == 3);
  CHECK(findings[0].code == "a23.out_of_memory");
  CHECK(findings[0].subject == "GPU 0");
  CHECK(findings[0].summary.find("allocations of at most 700 MiB failed 9 times, first 1.00 ms into the window: ") ==
        0);
  CHECK(findings[0].value == Approx(700.0 / 110));
  REQUIRE(findings[0].evidence.size() == 2);
  CHECK(findings[0].evidence[0].begin_ns == 2'000'000);
  CHECK(findings[0].evidence[1].begin_ns == 5'500'000);
  CHECK(findings[1].code == "a23.fragmentation");
  CHECK(findings[1].subject == "GPU 0");
  CHECK(findings[1].evidence.size() == 1);
  CHECK(findings[2].subject == "GPU 1");
  CHECK(findings[2].summary.find("an allocation of 600 MiB failed 7.00 ms into the window: ") == 0);
}

TEST_CASE("a23 names the GPU of an allocator if each has one", "[a23]") {
  GpuTrace made(1000);
  made.trace.devices.resize(2);
  made.trace.devices[1].ordinal = 1;
  for (uint32_t device = 0; device < 2; ++device) {
    const uint32_t counter = made.Counter("LibTorch allocated", "bytes");
    made.trace.counters[counter].device = device;
    made.Sample(counter, 0, 1000 * (device + 1));
  }

  const analyze::AnalysisReport report = made.Run("a23");

  CHECK(Measured(report, "most", "GPU 0: LibTorch allocated") == 1000);
  CHECK(Measured(report, "most", "GPU 1: LibTorch allocated") == 2000);
}

TEST_CASE("a23 finds a device that is nearly full", "[a23]") {
  const auto has_peak = [](double used) {
    GpuTrace made(1000);
    made.Sample(made.Counter("GPU 0 (NVIDIA H100): memory used", "bytes"), 0, used);
    made.Sample(made.Counter("GPU 0 (NVIDIA H100): memory total", "bytes"), 0, 100);
    return Found(made.Run("a23"), "a23.peak").has_value();
  };
  CHECK(has_peak(95));
  CHECK_FALSE(has_peak(85));
}

TEST_CASE("a26 finds a throttled GPU by its slower kernels", "[a26]") {
  const analyze::AnalysisReport report = Throttled().Make().Run("a26");

  CHECK(Measured(report, "slope") == Approx(1).epsilon(0.01));
  CHECK(Measured(report, "SM_clock_of_kernels") == 2000);
  const std::optional<analyze::FindingRow> finding = Found(report, "a26.throttled");
  REQUIRE(finding.has_value());
  CHECK(finding->subject == "GPU 0 (NVIDIA H100)");
  CHECK(finding->severity == Severity::kHigh);
  CHECK(static_cast<double>(finding->cost_ns) == Approx(50e6).epsilon(0.02));  // 50 kernels, each 1 ms too long
  CHECK(finding->summary.find("SW thermal") != std::string::npos);
  CHECK_FALSE(finding->is_undetermined);
  const analyze::AnalysisReport later = Throttled{1000, 1, "SW thermal", 77'000}.Make().Run("a26");
  CHECK(Found(later, "a26.throttled")->cost_ns == finding->cost_ns);
}

TEST_CASE("a26 calls it a low clock if no lack of power or cooling held it", "[a26]") {
  const analyze::AnalysisReport report = Throttled{1500, 1, "application clocks"}.Make().Run("a26");

  CHECK(Found(report, "a26.clock_low").has_value());
  CHECK_FALSE(Found(report, "a26.throttled").has_value());
}

TEST_CASE("a26 ignores a low clock that kernels do not feel, and slow kernels without one", "[a26]") {
  CHECK(Throttled{1000, 0}.Make().Run("a26").analyzers[0].findings.empty());
  CHECK(Throttled{1950, 1}.Make().Run("a26").analyzers[0].findings.empty());
  GpuTrace slow = Throttled{1000, 1}.Make();
  for (double& value : slow.trace.samples.value) value = value > 1 ? 2000 : 0;
  CHECK(slow.Run("a26").analyzers[0].findings.empty());
}

TEST_CASE("a26 makes no claim about kernels at a clock they never had", "[a26]") {
  GpuTrace made = Throttled().Make();
  for (double& value : made.trace.samples.value) value = value > 1 ? 1000 : 1;

  const std::optional<analyze::FindingRow> finding = Found(made.Run("a26"), "a26.throttled");

  REQUIRE(finding.has_value());
  CHECK(finding->is_undetermined);
  CHECK(finding->cost_ns == 0);
}

}  // namespace pitot::test
