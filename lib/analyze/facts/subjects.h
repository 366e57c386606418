// SPDX-License-Identifier: Apache-2.0
//
// The subjects of analyzers, and their names.
#ifndef PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_
#define PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/columns.h"
#include "base/overhead_name.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// The subject of facts about all devices together.
inline constexpr const char* kAll = "all";

inline std::string GpuName(const model::Trace& trace, uint32_t device) {
  return device == model::kNone ? "GPU unknown" : "GPU " + std::to_string(trace.devices[device].ordinal);
}
inline std::string StreamName(const model::Trace& trace, uint32_t stream) {
  const model::StreamRow& row = trace.streams[stream];
  return GpuName(trace, row.device) + " stream " + std::to_string(row.stream);
}
// Devices with recorded operations (spans are none), in their order; kNone, for streams of an unknown device, comes
// last.
std::vector<uint32_t> DevicesAtWork(const model::Trace& trace);

// Calls `of_device` for each device with recorded operations, until the analysis is over.
template <class OfDevice> void ForDevicesAtWork(Analysis& analysis, OfDevice of_device) {
  for (const uint32_t device : DevicesAtWork(analysis.trace())) {
    of_device(device);
    if (analysis.IsOver()) return;
  }
}

// Whether a row of overheads is the driver's own work for the program, not the profiling library's. The names are those
// of pitot::cupti ("lazy function loading") and of PyTorch's profiler ("Lazy Function Loading").
bool IsCompiling(std::string_view overhead);
bool IsLoading(std::string_view overhead);
// Likewise waits for room in a full launch queue ("Command Buffer Full").
bool IsQueueing(std::string_view overhead);
// Whether it is a run of pitot::ProfileKernels.
inline bool IsProfiling(std::string_view overhead) { return overhead == base::kProfilingKernels; }
// Adds to a sum; sums of times that may overlap stop at INT64_MAX.
inline void Accumulate(int64_t* sum, int64_t ns) {
  if (__builtin_add_overflow(*sum, ns, sum)) *sum = INT64_MAX;
}
inline double Share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}
inline std::string Percent(double share) { return base::Format("%.1f %%", 100 * share); }

inline void Add(Analysis& analysis, const char* name, const std::string& subject, int64_t ns) {
  analysis.Add(Measure{name, subject.c_str(), static_cast<double>(ns), "ns"});
}
inline void AddNumber(Analysis& analysis, const char* name, const std::string& subject, double value,
                      const char* unit = "1") {
  analysis.Add(Measure{name, subject.c_str(), value, unit});
}

// An analyzer's description of itself.
template <uint32_t kCount> AnalyzerInfo InfoOf(const char* name, const char* title,
                                               const Threshold (&thresholds)[kCount], uint32_t reads = kReadsAll) {
  return {name, title, thresholds, kCount, reads};
}

// A finding with its value and threshold. Texts must live until it is added.
inline Finding Judged(const char* code, const char* subject, const char* metric, double value,
                      const Threshold& threshold) {
  Finding finding;
  finding.code = code;
  finding.subject = subject;
  finding.metric = metric;
  finding.value = value;
  finding.threshold = threshold;
  return finding;
}

// By how many times its threshold a share is: twice is medium, four times high.
inline Severity SeverityOf(double value, double threshold) {
  return value >= 4 * threshold ? Severity::kHigh : value >= 2 * threshold ? Severity::kMedium : Severity::kLow;
}

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_
