// SPDX-License-Identifier: Apache-2.0
//
// The tables of costs and the answers of analyzers as texts, to compare a trace with itself after another format.
#ifndef PITOT_TEST_READ_TABLES_H_
#define PITOT_TEST_READ_TABLES_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "pitot/analyze/analyze.h"
#include "pitot/analyze/top.h"

namespace read_test {

// A line for each row, by name. Roundings of percentiles are included.
inline std::vector<std::string> Table(const pitot::model::Trace& trace, pitot::analyze::TopBy by) {
  pitot::analyze::TopOptions options;
  options.by = by;
  pitot::analyze::TopTable table;
  REQUIRE(FindTop(trace, options, &table).ok());
  std::vector<std::string> lines;
  for (const pitot::analyze::TopRow& row : table.rows) {
    std::ostringstream line;
    line << row.name << ": calls " << row.calls << " cut " << row.cut_calls << " self " << row.self_cpu_ns << " wait "
         << row.self_wait_ns << " total " << row.cpu_total_ns << " p50 " << row.cpu_p50_ns << " max " << row.cpu_max_ns
         << " gpu " << row.self_gpu_ns << " " << row.gpu_total_ns << " busy " << row.gpu_busy_ns << " exposed "
         << row.gpu_exposed_ns << " records " << row.gpu_records;
    lines.push_back(line.str());
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

// The measures and findings of all analyzers, a line each.
inline std::vector<std::string> Answers(const pitot::model::Trace& trace) {
  pitot::analyze::AnalysisReport report;
  REQUIRE(Analyze(trace, pitot::analyze::MakeCatalogue(), {}, &report).ok());
  std::vector<std::string> lines;
  for (const pitot::analyze::AnalyzerReport& analyzer : report.analyzers) {
    for (const pitot::analyze::MeasureRow& measure : analyzer.measures) {
      std::ostringstream line;
      line << analyzer.name << " " << measure.name << " " << measure.subject << " " << measure.value << measure.unit;
      lines.push_back(line.str());
    }
    for (const pitot::analyze::FindingRow& finding : analyzer.findings)
      lines.push_back(analyzer.name + " " + finding.code + " " + finding.subject + ": " + finding.summary);
  }
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace read_test

#endif  // PITOT_TEST_READ_TABLES_H_
