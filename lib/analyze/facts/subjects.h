// SPDX-License-Identifier: Apache-2.0
//
// What analyzers say something of, and how they call it.
#ifndef PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_
#define PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/columns.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Of things that no device has alone.
inline constexpr const char* kAll = "all";

inline std::string GpuName(const model::Trace& trace, uint32_t device) {
  return device == model::kNone ? "GPU unknown" : "GPU " + std::to_string(trace.devices[device].ordinal);
}
inline std::string StreamName(const model::Trace& trace, uint32_t stream) {
  const model::StreamRow& row = trace.streams[stream];
  return GpuName(trace, row.device) + " stream " + std::to_string(row.stream);
}
// Devices that did anything, in their order; kNone for streams whose device is unknown comes last.
inline std::vector<uint32_t> DevicesAtWork(const model::Trace& trace) {
  std::set<uint32_t> devices;
  for (const model::StreamRow& stream : trace.streams) {
    if (stream.event_count != 0) devices.insert(stream.device);
  }
  return {devices.begin(), devices.end()};
}

// `of_device` of each device that did anything, until the analysis is over.
template <class OfDevice> void ForDevicesAtWork(Analysis& analysis, OfDevice of_device) {
  for (const uint32_t device : DevicesAtWork(analysis.trace())) {
    of_device(device);
    if (analysis.IsOver()) return;
  }
}

// Rows of overheads that are the driver's own work, not the profiling library's, by the names that pitot::cupti gives.
inline bool IsCompiling(std::string_view overhead) {
  return overhead == "driver compiler" || overhead == "compiling PTX";
}
inline bool IsLoading(std::string_view overhead) {
  return overhead == "module loading" || overhead == "lazy function loading";
}
// Calls of the driver's and the runtime's API, of CUDA and HIP, and of compilers that do nothing else.
inline bool IsCompilingCall(std::string_view call) {
  const auto has = [&](std::string_view part) { return call.find(part) != std::string_view::npos; };
  return has("nvrtcCompile") || has("LinkComplete") || has("nvPTXCompiler");
}
// With lazy loading a kernel's code may be loaded where it is asked for, too.
inline bool IsLoadingCall(std::string_view call) {
  const auto has = [&](std::string_view part) { return call.find(part) != std::string_view::npos; };
  return has("ModuleLoad") || has("LibraryLoad") || has("FuncLoad") || has("ModuleGetFunction") ||
         has("LibraryGetKernel") || has("KernelGetFunction");
}

// Sums of times that may overlap stay at the most there is.
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

// What an analyzer says of itself.
template <uint32_t kCount> AnalyzerInfo InfoOf(const char* name, const char* title,
                                               const Threshold (&thresholds)[kCount], uint32_t reads = kReadsAll) {
  return {name, title, thresholds, kCount, reads};
}

// A finding of a value against its threshold. Texts must live until it is added.
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

// By how often a share is its threshold: twice is medium, four times high.
inline Severity SeverityOf(double value, double threshold) {
  return value >= 4 * threshold ? Severity::kHigh : value >= 2 * threshold ? Severity::kMedium : Severity::kLow;
}

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_SUBJECTS_H_
