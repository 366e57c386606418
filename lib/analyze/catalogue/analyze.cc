// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/analyze.h"

#include <time.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "analyze/catalogue/namespace.h"
#include "analyze/catalogue/precision.h"
#include "analyze/facts/missing_gpu_work.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/quality.h"
#include "analyze/facts/statistics.h"
#include "analyze/facts/subjects.h"
#include "analyze/verdict/contradictions.h"
#include "base/columns.h"
#include "base/message.h"
#include "model/host_language.h"
#include "pitot/analyze/walks.h"
#include "pitot/analyze/why.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace {

using facts::Damage;
using facts::kAll;
using facts::Over;

constexpr uint32_t kMostEvidence = 16;
constexpr size_t kMostMeasures = 100000, kMostFindings = 1000;
constexpr double kSureOfMissing = 0.3;  // of a finding whose evidence may be missing work

int64_t CpuNs() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * int64_t{1000000000} + now.tv_nsec;
}

std::string Text(const char* text) { return text == nullptr ? "" : text; }

// Shared by all analyzers. The index and the walks are made when an analyzer first asks for them.
struct Shared {
  std::vector<Damage> damages;
  facts::MissingWork missing;
  std::optional<BlameIndex> index;
  std::optional<Walks> walks;
  Analysis* asker = nullptr;
};
bool IsAskerOver(void* shared) { return static_cast<Shared*>(shared)->asker->IsOver(); }

bool IsOverAll(const AnalyzeOptions& options) {
  return options.is_over != nullptr && options.is_over(options.is_over_context);
}

class Running final : public Analysis {
 public:
  Running(const model::Trace& trace, const model::Indexes& indexes, const AnalyzeOptions& options,
          const AnalyzerInfo& info, Shared* shared, AnalyzerReport* report)
      : trace_(trace),
        indexes_(indexes),
        options_(options),
        info_(info),
        shared_(*shared),
        begin_ns_(CpuNs()),
        report_(*report) {}

  const model::Trace& trace() const noexcept override { return trace_; }
  const model::Indexes& indexes() const noexcept override { return indexes_; }
  const BlameIndex* blame_index() noexcept override {
    if (options_.index != nullptr) return options_.index;
    if (!shared_.index.has_value()) {
      BlameOptions options;
      options.is_over = IsAskerOver;
      options.is_over_context = &shared_;
      BlameIndex made;
      if (!BlameIndex::Make(trace_, options, &made).ok()) return nullptr;
      shared_.index = std::move(made);
    }
    return &*shared_.index;
  }
  const Walks* walks() noexcept override {
    try {
      if (!shared_.walks.has_value()) {
        const BlameIndex* const index = trace_.requests.empty() ? nullptr : blame_index();
        if (index == nullptr && !trace_.requests.empty()) return nullptr;
        Walks walks = index == nullptr ? Walks() : FindWalks(*index, IsAskerOver, &shared_);
        if (was_over_) return nullptr;
        shared_.walks = std::move(walks);
      }
      return &*shared_.walks;
    } catch (...) {
      return nullptr;
    }
  }
  Threshold threshold(const char* name) const noexcept override {
    Threshold threshold = {name, NAN, "", "unknown"};
    for (uint32_t i = 0; i < info_.threshold_count; ++i) {
      if (std::string_view(info_.thresholds[i].name) == name) threshold = info_.thresholds[i];
    }
    for (const ThresholdSetting& setting : options_.thresholds) {
      const std::string_view wanted = setting.name, mine = info_.name;
      if (wanted.size() == mine.size() + 1 + std::string_view(name).size() && wanted.substr(0, mine.size()) == mine &&
          wanted.substr(mine.size() + 1) == name) {
        threshold.value = setting.value;
        threshold.source = "config";
      }
    }
    return threshold;
  }
  void Add(const Measure& measure) override {
    if (report_.measures.size() >= kMostMeasures) return;
    report_.measures.push_back({Text(measure.name), Text(measure.subject), Text(measure.unit), measure.value});
  }
  void Add(const Finding& finding) override {
    if (report_.findings.size() >= kMostFindings) return;
    FindingRow row;
    row.code = Text(finding.code);
    row.subject = Text(finding.subject);
    row.metric = Text(finding.metric);
    row.summary = Text(finding.summary);
    row.recommendation = model::InHostLanguage(trace_, Text(finding.recommendation));
    row.severity = finding.severity;
    double whole = 1;
    for (const Damage& damage : shared_.damages) {
      if ((damage.spoils & info_.reads) == 0) continue;
      whole = std::min(whole, damage.multiplier);
      row.caveats.push_back(damage.subject == kAll ? damage.caveat : damage.subject + ": " + damage.caveat);
    }
    row.confidence = facts::NearestProbability(finding.confidence);
    row.value = finding.value;
    row.is_undetermined = finding.is_undetermined;
    row.cost_ns = finding.cost_ns;
    row.threshold = {Text(finding.threshold.name), Text(finding.threshold.unit), Text(finding.threshold.source),
                     finding.threshold.value};
    row.confidence *= whole;
    if (!facts::IsKnownWithout(shared_.missing, row.code, finding.value, finding.threshold.value)) {
      // The missing work may have filled the time that looks idle.
      row.is_undetermined = true;
      row.severity = std::min(row.severity, Severity::kLow);
      row.confidence = std::min(row.confidence, kSureOfMissing);
      row.cost_ns = 0;
    }
    for (uint32_t i = 0; i < std::min(finding.evidence_count, kMostEvidence); ++i) {
      const Evidence& evidence = finding.evidence[i];
      row.evidence.push_back(
          {evidence.table, evidence.first_row, evidence.rows, evidence.begin_ns, evidence.end_ns, Text(evidence.note)});
    }
    report_.findings.push_back(std::move(row));
  }
  bool IsOver() noexcept override {
    if (was_over_) return true;
    const int64_t asked_ns = CpuNs();
    was_over_ = IsOverAll(options_);
    asking_ns_ += CpuNs() - asked_ns;
    was_over_ = was_over_ || SpentNs() > options_.budget_ns;
    return was_over_;
  }
  // Whether it was told that time is over.
  bool was_over() const { return was_over_; }
  int64_t SpentNs() const { return CpuNs() - begin_ns_ - asking_ns_; }

 private:
  const model::Trace& trace_;
  const model::Indexes& indexes_;
  const AnalyzeOptions& options_;
  const AnalyzerInfo& info_;
  Shared& shared_;
  const int64_t begin_ns_;
  int64_t asking_ns_ = 0;  // in options_.is_over, where incidents are written, too
  bool was_over_ = false;
  AnalyzerReport& report_;
};

// Most severe first, among equals the dearest.
bool IsGraver(const FindingRow& a, const FindingRow& b) {
  return a.severity != b.severity ? a.severity > b.severity : a.cost_ns > b.cost_ns;
}

// Counts repeated findings, later in the order, with the first of the same code, subject and metric.
void LeaveOutRepeats(std::vector<FindingRow>* findings) {
  using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
  std::map<Key, size_t> firsts;
  std::vector<FindingRow> kept;
  kept.reserve(findings->size());  // keys are texts of these
  for (FindingRow& finding : *findings) {
    if (const auto same = firsts.find(Key(finding.code, finding.subject, finding.metric)); same != firsts.end()) {
      ++kept[same->second].repeats;
      continue;
    }
    kept.push_back(std::move(finding));
    firsts.emplace(Key(kept.back().code, kept.back().subject, kept.back().metric), kept.size() - 1);
  }
  *findings = std::move(kept);
}

Status CutOff(int64_t cpu_ns, int64_t budget_ns) {
  if (cpu_ns <= budget_ns) return Status(StatusCode::kResourceExhausted, "cut off: the time for all analyzers is up");
  return base::Error(StatusCode::kResourceExhausted, "cut off: it took %s of CPU time, and its limit is %s",
                     base::Duration(cpu_ns).c_str(), base::Duration(budget_ns).c_str());
}

void RunOne(const model::Trace& trace, const model::Indexes& indexes, const AnalyzeOptions& options, Shared* shared,
            Analyzer* analyzer, AnalyzerReport* report) {
  const AnalyzerInfo info = analyzer->Info();
  report->name = Text(info.name);
  report->title = Text(info.title);
  if (IsOverAll(options)) {
    report->status = Status(StatusCode::kResourceExhausted, "not run: the time for all analyzers is up");
    return;
  }
  Running running(trace, indexes, options, info, shared, report);
  shared->asker = &running;
  try {
    report->status = analyzer->Run(running);
  } catch (const Over&) {  // it was told that time is over: named below
  } catch (const std::bad_alloc&) {
    report->status = Status(StatusCode::kResourceExhausted, "no memory");
  } catch (const std::exception& error) {
    report->status = base::Error(StatusCode::kInternal, "it threw an exception: %s", error.what());
  } catch (...) {
    report->status = Status(StatusCode::kInternal, "it threw an exception");
  }
  report->cpu_ns = running.SpentNs();
  if (running.was_over() || (report->status.ok() && report->cpu_ns > options.budget_ns))
    report->status = CutOff(report->cpu_ns, options.budget_ns);
  if (!report->status.ok()) {
    report->measures.clear();
    report->findings.clear();
  }
  std::stable_sort(report->findings.begin(), report->findings.end(), IsGraver);
  LeaveOutRepeats(&report->findings);
}

bool IsNamed(const std::vector<std::string>& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

constexpr double kMostThreshold = 1e15;  // also for a count

Status Check(const std::vector<std::unique_ptr<Analyzer>>& analyzers, const AnalyzeOptions& options) {
  std::vector<std::string> names, thresholds;
  for (const std::unique_ptr<Analyzer>& analyzer : analyzers) {
    const AnalyzerInfo info = analyzer->Info();
    names.emplace_back(info.name);
    for (uint32_t i = 0; i < info.threshold_count; ++i)
      thresholds.push_back(names.back() + "." + info.thresholds[i].name);
  }
  for (const std::string& name : options.only) {
    if (!IsNamed(names, name.c_str()))
      return base::Error(StatusCode::kInvalidArgument, "only: there is no analyzer %s", name.c_str());
  }
  for (const ThresholdSetting& setting : options.thresholds) {
    if (!IsNamed(thresholds, setting.name.c_str()))
      return base::Error(StatusCode::kInvalidArgument, "thresholds: there is no threshold %s", setting.name.c_str());
    if (!(std::abs(setting.value) <= kMostThreshold))
      return base::Error(StatusCode::kInvalidArgument, "thresholds: %s = %g is not a number from -1e15 to 1e15",
                         setting.name.c_str(), setting.value);
  }
  return Status();
}

}  // namespace
}  // namespace pitot::catalogue

PITOT_NAMESPACE_BEGIN
namespace analyze {

const MeasureRow* AnalysisReport::Find(const std::string& analyzer, const std::string& measure,
                                       const std::string& subject) const {
  for (const AnalyzerReport& report : analyzers) {
    if (report.name != analyzer) continue;
    for (const MeasureRow& row : report.measures) {
      if (row.name == measure && (subject.empty() || row.subject == subject)) return &row;
    }
  }
  return nullptr;
}

std::vector<const FindingRow*> AnalysisReport::Ranked() const {
  std::vector<const FindingRow*> findings;
  for (const AnalyzerReport& report : analyzers) {
    for (const FindingRow& finding : report.findings) findings.push_back(&finding);
  }
  std::stable_sort(findings.begin(), findings.end(),
                   [](const auto* a, const auto* b) { return catalogue::IsGraver(*a, *b); });
  return findings;
}

Status Analyze(const model::Trace& trace, const std::vector<std::unique_ptr<Analyzer>>& analyzers,
               const AnalyzeOptions& options, AnalysisReport* report) noexcept {
  try {
    *report = AnalysisReport();
    if (Status status = catalogue::Check(analyzers, options); !status.ok()) return status;
    report->window_ns = trace.window_end_ns - trace.window_begin_ns;
    const int64_t begin_ns = catalogue::CpuNs();
    const model::Indexes indexes(trace);
    report->index_cpu_ns = catalogue::CpuNs() - begin_ns;
    catalogue::Shared shared;
    shared.damages = facts::FindDamages(trace, facts::QualityLimits());
    shared.missing = facts::FindMissingWork(trace, shared.damages);
    for (const std::unique_ptr<Analyzer>& analyzer : analyzers) {
      if (!options.only.empty() && !catalogue::IsNamed(options.only, analyzer->Info().name)) continue;
      report->analyzers.emplace_back();
      catalogue::RunOne(trace, indexes, options, &shared, analyzer.get(), &report->analyzers.back());
    }
    verdict::MarkContradictions(report);
    catalogue::Calibrate(catalogue::MeasuredPrecision(), report);
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to analyze the trace");
  } catch (...) {
    return Status(StatusCode::kInternal, "the trace could not be analyzed");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
