// SPDX-License-Identifier: Apache-2.0
//
// Extend: an analyzer asks a trace one question. It answers with measures (facts) and findings (problems, with
// confidence, cost and advice). The built-in ones (pitot/analyze/analyze.h) use this interface.
//
// Texts given by an analyzer are copied before the call returns; texts given to it live as long as the trace.
#ifndef PITOT_EXTEND_ANALYZER_H_
#define PITOT_EXTEND_ANALYZER_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

namespace model {
struct Indexes;
struct Trace;
}  // namespace model
namespace analyze {
class BlameIndex;
struct Walks;
}  // namespace analyze

enum class Severity : uint8_t { kInfo = 0, kLow = 1, kMedium = 2, kHigh = 3 };

// A number that an analyzer judges by. Hosts may set another value; the source is then "config".
struct Threshold {
  const char* name;  // "idle_share"
  double value;
  const char* unit;    // "ns", "1" for shares and counts
  const char* source;  // its origin: "TraceLens", "pitot"
};

// A measured value. Times in ns are exact below 2^53 (104 days).
struct Measure {
  const char* name;     // "idle"
  const char* subject;  // the thing measured: "GPU 0", "GPU 0 stream 7"
  double value;         // NaN: not recorded
  const char* unit;     // "ns", "1", "bytes"
};

// Where in the trace to look: `rows` rows from `first_row` on, or with 0 rows a stretch of time.
enum class EvidenceTable : uint8_t { kWindow = 0, kEvents = 1, kCalls = 2, kGpu = 3 };
struct Evidence {
  EvidenceTable table = EvidenceTable::kWindow;
  uint32_t first_row = 0, rows = 0;
  int64_t begin_ns = 0, end_ns = 0;
  const char* note = "";
};

struct Finding {
  const char* code = "";     // "a04.idle"; stable for ever
  const char* subject = "";  // as in Measure
  Severity severity = Severity::kInfo;
  double confidence = 0;         // 0 to 1: how likely it is true, given the content of the trace; reports leave out 0
  bool is_undetermined = false;  // the trace does not tell; `summary` names the missing data
  int64_t cost_ns = 0;           // of the window's time; costs of findings may overlap
  const char* metric = "";       // the judged metric
  double value = 0;
  Threshold threshold = {"", 0, "", ""};  // it was judged by this
  const char* summary = "";
  const char* recommendation = "";
  const Evidence* evidence = nullptr;  // the most telling first
  uint32_t evidence_count = 0;
};

// The input of an analyzer, and the receiver of its answers.
class Analysis {
 public:
  virtual const model::Trace& trace() const noexcept = 0;
  virtual const model::Indexes& indexes() const noexcept = 0;
  // Data for walks of requests (pitot/analyze/why.h), and their results (pitot/analyze/walks.h). Made on first use, at
  // the expense of the caller's budget, and then shared. Null: no memory, or the budget is spent.
  virtual const analyze::BlameIndex* blame_index() noexcept = 0;
  virtual const analyze::Walks* walks() noexcept = 0;
  // One of the analyzer's own thresholds, as the host set it.
  virtual Threshold threshold(const char* name) const noexcept = 0;
  virtual void Add(const Measure& measure) = 0;
  virtual void Add(const Finding& finding) = 0;
  // True once the CPU budget is spent: return then. Ask once per millisecond of work. An analyzer that got true, or
  // that overruns the budget without asking, is named in the report, and its answers are dropped.
  virtual bool IsOver() noexcept = 0;

 protected:
  ~Analysis() = default;
};

// Parts of a trace that answers can rest on. If a part is damaged, findings of analyzers that read it carry a caveat
// and have less confidence.
inline constexpr uint32_t kReadsEvents = 1;     // scopes, instants, counters of threads
inline constexpr uint32_t kReadsCalls = 2;      // calls of the GPU's API
inline constexpr uint32_t kReadsGpu = 4;        // activities of GPUs
inline constexpr uint32_t kReadsLaunches = 8;   // the calls of activities, and the GPU's clock against the host's
inline constexpr uint32_t kReadsRequests = 16;  // requests, batches, tokens
inline constexpr uint32_t kReadsAll = 31;

struct AnalyzerInfo {
  const char* name;   // "a04"
  const char* title;  // "GPU idle gaps"
  const Threshold* thresholds;
  uint32_t threshold_count;
  uint32_t reads = kReadsAll;
};

class PITOT_EXPORT Analyzer {
 public:
  virtual ~Analyzer();
  virtual AnalyzerInfo Info() const noexcept = 0;
  // Runs alone on one thread; may allocate. An exception or an error fails only this analyzer.
  virtual Status Run(Analysis& analysis) = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_ANALYZER_H_
