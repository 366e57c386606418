// SPDX-License-Identifier: Apache-2.0
//
// Shared by the fuzzers of readers of other tools' traces. Any bytes must read as a consistent trace or as an error,
// and a trace must be fit for every question and every writer.
#ifndef PITOT_TEST_FUZZ_READER_H_
#define PITOT_TEST_FUZZ_READER_H_

#include <string>

#include "fuzz/fuzz.h"
#include "fuzz/questions.h"
#include "fuzz/writers.h"
#include "pitot/analyze/analyze.h"
#include "pitot/model/index.h"
#include "read/formats.h"

namespace fuzz {

inline int CheckRead(const pitot::Status& status, const pitot::model::Trace& trace) {
  Require(status.code() != pitot::StatusCode::kInternal, "reading", status.message());
  Require(FindInconsistency(trace).empty(), "the trace", FindInconsistency(trace).c_str());
  const pitot::model::ThreadFlatten flatten(trace);
  const pitot::model::CoverageIndex coverage(trace);
  AskWhy(trace);
  AskTop(trace);
  AskDiff(trace);
  pitot::analyze::AnalysisReport answers;
  const pitot::Status analyzed = Analyze(trace, pitot::analyze::MakeCatalogue(), {}, &answers);
  Require(analyzed.ok(), "analyzing", analyzed.message());
  for (const pitot::analyze::AnalyzerReport& analyzer : answers.analyzers)
    Require(analyzer.status.ok(), analyzer.name.c_str(), analyzer.status.message());
  WriteAll(trace);
  return 0;
}

inline int ReadAs(const pitot::read::Format& format, const uint8_t* data, size_t size) {
  pitot::model::Trace trace;
  pitot::TraceReport report;
  return CheckRead(pitot::read::ParseAs(format, data, size, &trace, &report), trace);
}

}  // namespace fuzz

#endif  // PITOT_TEST_FUZZ_READER_H_
