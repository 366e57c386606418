// SPDX-License-Identifier: Apache-2.0
//
// Extend: an analyzer asks a trace one question and answers it with measures (what is) and findings (what is wrong, how
// sure that is, what it costs and what to do). The built-in ones (pitot/analyze/analyze.h) use this interface.
//
// Texts that an analyzer gives are copied before the call returns; those it is given live as long as the trace.
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

// Whose way of counting, where tools that answer the same question count differently.
enum class Compat : uint8_t { kPitot = 0, kHta = 1, kTraceLens = 2, kTbPlugin = 3 };

enum class Severity : uint8_t { kInfo = 0, kLow = 1, kMedium = 2, kHigh = 3 };

// A number that an analyzer judges by. Hosts may set another value; the source is then "config".
struct Threshold {
  const char* name;  // "idle_share"
  double value;
  const char* unit;    // "ns", "1" for shares and counts
  const char* source;  // whose it is: "TraceLens", "pitot"
};

// Something measured. Times in ns are exact below 2^53 (104 days).
struct Measure {
  const char* name;     // "idle"
  const char* subject;  // of what: "GPU 0", "GPU 0 stream 7"
  double value;
  const char* unit;  // "ns", "1", "bytes"
};

// Where in the trace to look. `rows` rows from `first_row` on; 0 rows: a stretch of time.
enum class EvidenceTable : uint8_t { kWindow = 0, kEvents = 1, kCalls = 2, kGpu = 3 };
struct Evidence {
  EvidenceTable table = EvidenceTable::kWindow;
  uint32_t first_row = 0, rows = 0;
  int64_t begin_ns = 0, end_ns = 0;
  const char* note = "";
};

struct Finding {
  const char* code = "";     // "a04.idle": for ever
  const char* subject = "";  // as Measure's
  Severity severity = Severity::kInfo;
  double confidence = 0;         // 0 to 1: how likely it is true, given what is in the trace
  bool is_undetermined = false;  // the trace does not say; `summary` says what is missing
  int64_t cost_ns = 0;           // of the window's time; findings' costs may overlap
  const char* metric = "";       // what was judged
  double value = 0;
  Threshold threshold = {"", 0, "", ""};  // by what
  const char* summary = "";
  const char* recommendation = "";
  const Evidence* evidence = nullptr;  // the most telling
  uint32_t evidence_count = 0;
};

// What an analyzer is given, and what it answers to.
class Analysis {
 public:
  virtual const model::Trace& trace() const noexcept = 0;
  virtual const model::Indexes& indexes() const noexcept = 0;
  // What walks of requests need to know (pitot/analyze/why.h), and where their time went (pitot/analyze/walks.h): found
  // when first asked for, which the asker's budget pays, and then shared. Null: no memory, or the budget is spent.
  virtual const analyze::BlameIndex* blame_index() noexcept = 0;
  virtual const analyze::Walks* walks() noexcept = 0;
  virtual Compat compat() const noexcept = 0;
  // One of the analyzer's own, as the host set it.
  virtual Threshold threshold(const char* name) const noexcept = 0;
  virtual void Add(const Measure& measure) = 0;
  virtual void Add(const Finding& finding) = 0;
  // The CPU budget is spent: return. Ask once a millisecond of work. Who was told so, or does not ask and overruns it,
  // is named, and what it added dropped.
  virtual bool IsOver() noexcept = 0;

 protected:
  ~Analysis() = default;
};

// What answers rest on: where a part of the trace is damaged, findings of those that read it carry a caveat, and are
// less sure.
inline constexpr uint32_t kReadsEvents = 1;     // scopes, instants, counters of threads
inline constexpr uint32_t kReadsCalls = 2;      // of the GPU's API
inline constexpr uint32_t kReadsGpu = 4;        // what GPUs did
inline constexpr uint32_t kReadsLaunches = 8;   // which call caused what, and when: the GPU's clock against the host's
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
  // On one thread, on its own; may allocate. What it throws or returns fails this analyzer alone.
  virtual Status Run(Analysis& analysis) = 0;
};

PITOT_NAMESPACE_END

#endif  // PITOT_EXTEND_ANALYZER_H_
