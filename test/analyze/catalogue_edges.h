// SPDX-License-Identifier: Apache-2.0
//
// Pins where an analyzer's findings begin: at, above or below a threshold, to the last bit.
#ifndef PITOT_TEST_ANALYZE_CATALOGUE_EDGES_H_
#define PITOT_TEST_ANALYZE_CATALOGUE_EDGES_H_

#include <catch2/catch.hpp>
#include <cmath>
#include <optional>
#include <string>

#include "analyze/gpu_trace.h"

namespace pitot::test {

// The finding `code` ("a06.small_copies") of its analyzer, with a threshold of it ("exposed_share") at `value`.
inline std::optional<analyze::FindingRow> FoundWith(const GpuTrace& made, const std::string& code,
                                                    const std::string& threshold, double value,
                                                    analyze::AnalyzeOptions options = {}) {
  const std::string analyzer = code.substr(0, 3);
  options.thresholds.push_back({analyzer + "." + threshold, value});
  return Found(made.Run(analyzer, options), code);
}
inline GpuTrace Of(const model::Trace& trace) {
  GpuTrace made(0);
  made.trace = trace;
  return made;
}

// The finding is made if the trace's value ...
enum class Edge {
  kFrom,   // is the threshold or more
  kAbove,  // is more
  kUpTo,   // is the threshold or less
  kBelow,  // is less
};
inline void CheckEdge(const GpuTrace& made, const std::string& code, const std::string& threshold, Edge edge,
                      double value, const analyze::AnalyzeOptions& options = {}) {
  INFO(code << " and " << threshold << " at " << value);
  const bool is_rising = edge == Edge::kFrom || edge == Edge::kAbove;
  const double found = std::nextafter(value, is_rising ? -INFINITY : INFINITY),
               not_found = std::nextafter(value, is_rising ? INFINITY : -INFINITY);
  CHECK(FoundWith(made, code, threshold, found, options).has_value());
  CHECK_FALSE(FoundWith(made, code, threshold, not_found, options).has_value());
  CHECK(FoundWith(made, code, threshold, value, options).has_value() == (edge == Edge::kFrom || edge == Edge::kUpTo));
}
// The same for the finding's own value.
inline void CheckEdge(const GpuTrace& made, const std::string& code, const std::string& threshold, Edge edge) {
  const std::optional<analyze::FindingRow> finding = Found(made.Run(code.substr(0, 3)), code);
  INFO(code);
  REQUIRE(finding.has_value());
  CheckEdge(made, code, threshold, edge, finding->value);
}

// A finding only informs if the trace's value is below that of a threshold.
inline void CheckInformsBelow(const GpuTrace& made, const std::string& code, const std::string& threshold,
                              double value) {
  INFO(code << " and " << threshold << " at " << value);
  for (const bool is_below : {false, true}) {
    const std::optional<analyze::FindingRow> finding =
        FoundWith(made, code, threshold, is_below ? std::nextafter(value, INFINITY) : value);
    REQUIRE(finding.has_value());
    CHECK((finding->severity == Severity::kInfo) == is_below);
  }
}

// A finding is of medium severity from 2 x `times` x its threshold on, and of high severity from 4 x `times` on.
inline void CheckSeverities(const GpuTrace& made, const std::string& code, const std::string& threshold, double times,
                            double value, const analyze::AnalyzeOptions& options = {}) {
  INFO(code);
  const auto at = [&](double share) {
    const std::optional<analyze::FindingRow> finding = FoundWith(made, code, threshold, value * share, options);
    REQUIRE(finding.has_value());
    return finding->severity;
  };
  CHECK(at(0.999 / 4 / times) == Severity::kHigh);
  CHECK(at(1.001 / 4 / times) == Severity::kMedium);
  CHECK(at(0.999 / 2 / times) == Severity::kMedium);
  CHECK(at(1.001 / 2 / times) == Severity::kLow);
}
inline void CheckSeverities(const GpuTrace& made, const std::string& code, const std::string& threshold,
                            double times = 1) {
  const std::optional<analyze::FindingRow> finding = Found(made.Run(code.substr(0, 3)), code);
  INFO(code);
  REQUIRE(finding.has_value());
  CheckSeverities(made, code, threshold, times, finding->value);
}

// A finding's severity, confidence, cost and number of rows of evidence.
inline void CheckFinding(const std::optional<analyze::FindingRow>& finding, Severity severity, double confidence,
                         int64_t cost_us, size_t evidence, bool is_undetermined = false) {
  REQUIRE(finding.has_value());
  INFO(finding->code);
  CHECK(finding->severity == severity);
  CHECK(finding->confidence == Approx(confidence));
  CHECK(finding->cost_ns == cost_us * 1000);
  CHECK(finding->evidence.size() == evidence);
  CHECK(finding->is_undetermined == is_undetermined);
  for (const analyze::EvidenceRow& row : finding->evidence) {
    // A stretch of the window is no row of a table.
    if (row.table == EvidenceTable::kWindow) CHECK((row.first_row == 0 && row.rows == 0));
    if (row.table != EvidenceTable::kWindow) CHECK(row.rows >= 1);
  }
}
inline bool IsEvidence(const analyze::EvidenceRow& row, uint32_t first_row, int64_t begin_us, int64_t end_us) {
  return row.first_row == first_row && row.begin_ns == begin_us * 1000 && row.end_ns == end_us * 1000;
}

// The number of subjects with a measure, by the beginning of their names.
inline size_t CountOf(const analyze::AnalysisReport& report, const std::string& measure,
                      const std::string& subject = "") {
  size_t count = 0;
  for (const analyze::MeasureRow& row : report.analyzers.at(0).measures)
    count += row.name == measure && row.subject.find(subject) == 0 ? 1 : 0;
  return count;
}

// 8 blocks of 256 threads fit on each multiprocessor of this device.
inline void IsGpu(GpuTrace* made, uint32_t multiprocessors = 100) {
  model::DeviceRow& device = made->trace.devices[0];
  device.multiprocessors = multiprocessors;
  device.threads_per_multiprocessor = 2048;
  device.blocks_per_multiprocessor = 32;
  device.registers_per_multiprocessor = 65536;
  device.shared_bytes_per_multiprocessor = 233472;
}
inline model::KernelShape Shape(uint32_t blocks, uint32_t threads, uint32_t registers = 32) {
  model::KernelShape shape;
  shape.grid[0] = blocks;
  shape.block[0] = threads;
  shape.grid[1] = shape.grid[2] = shape.block[1] = shape.block[2] = 1;
  shape.registers_per_thread = registers;
  return shape;
}

// Two kernels and a copy, each with its call: 50 us of copy and kernel at once, and a gap of 100 us.
inline GpuTrace CopyAndKernels() {
  GpuTrace made(1000);
  made.Gpu(GpuKind::kKernel, "gemm", 100, 200, made.Call("cudaLaunchKernel", 50, 10));
  made.Gpu(GpuKind::kMemcpy, "DtoH, device to pinned", 250, 150, made.Call("cudaMemcpyAsync", 70, 10));
  made.Gpu(GpuKind::kKernel, "ncclKernel_AllReduce", 500, 100, made.Call("cudaLaunchKernel", 90, 10));
  return made;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_CATALOGUE_EDGES_H_
