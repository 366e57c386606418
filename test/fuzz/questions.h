// SPDX-License-Identifier: Apache-2.0
//
// Questions to a trace read from any bytes: the causes of its slow requests, its largest costs, and its changes since
// another trace. Sums must add up, and no row may crash.
#ifndef PITOT_TEST_FUZZ_QUESTIONS_H_
#define PITOT_TEST_FUZZ_QUESTIONS_H_

#include <stdint.h>

#include <string>

#include "fuzz/fuzz.h"
#include "pitot/analyze/diff.h"
#include "pitot/analyze/judge.h"
#include "pitot/analyze/top.h"
#include "pitot/analyze/verdict.h"

namespace fuzz {

// Walks and judges the first eight requests.
inline void AskWhy(const pitot::model::Trace& trace) {
  namespace analyze = pitot::analyze;
  analyze::Judgement judgement;
  for (uint32_t row = 0; row < trace.requests.size() && row < 8; ++row) {
    const pitot::Status status = JudgeRequest(trace, row, nullptr, &judgement);
    const bool is_whole = status.ok() || status.code() == pitot::StatusCode::kNotFound;
    Require(is_whole, "judging", status.message());
    if (!status.ok()) continue;
    const analyze::RequestBlame& blame = judgement.blame;
    const analyze::Verdict& v = judgement.verdict;
    Require(blame.blame.Total() == blame.end_ns - blame.begin_ns, "blame", "does not add up to the latency");
    int64_t sum_ns = v.typical_ns + v.common_ns + v.rest_ns;
    for (const analyze::Cause& cause : v.causes) sum_ns += cause.excess_ns;
    Require(v.level == analyze::Baseline::Level::kNone || sum_ns == v.latency_ns, "the verdict", "does not add up");
    Require(!VerdictText(judgement.index, blame, v).empty(), "the verdict", "has no words");
    Require(!VerdictJson(judgement.index, blame, v).empty(), "the verdict", "has no JSON");
  }
}

// One table of costs: its rows add up to its totals.
inline void AskTopBy(const pitot::model::Trace& trace, const pitot::analyze::TopOptions& options) {
  pitot::analyze::TopTable table;
  const pitot::Status status = FindTop(trace, options, &table);
  Require(status.ok(), "top", status.message());
  int64_t cpu_ns = 0, wait_ns = 0, gpu_ns = 0, busy_ns = 0, exposed_ns = 0;
  for (const pitot::analyze::TopRow& row : table.rows) {
    const bool waits_within = row.self_wait_ns >= 0 && row.self_wait_ns <= row.self_cpu_ns;
    Require(waits_within && row.self_cpu_ns <= row.cpu_total_ns, "top",
            "a row's waiting or self time exceeds its total");
    Require(row.self_no_calls_ns >= 0 &&
                (options.by != pitot::analyze::TopBy::kOperator || row.self_no_calls_ns <= row.self_cpu_ns),
            "top", "a row's self time without calls exceeds its self time");
    Require(row.gpu_exposed_ns >= 0 && row.gpu_exposed_ns <= row.gpu_busy_ns, "top", "exposed time was not busy");
    // A request's GPU time counts devices that work for it at the same time once.
    Require(row.gpu_busy_ns <= row.self_gpu_ns || options.by == pitot::analyze::TopBy::kRequest, "top",
            "a row's busy time exceeds its GPU time");
    cpu_ns += row.self_cpu_ns, wait_ns += row.self_wait_ns, gpu_ns += row.self_gpu_ns;
    busy_ns += row.gpu_busy_ns, exposed_ns += row.gpu_exposed_ns;
  }
  Require(cpu_ns == table.cpu_ns && wait_ns == table.wait_ns && gpu_ns == table.gpu_ns &&
              busy_ns == table.gpu_busy_ns && exposed_ns == table.gpu_exposed_ns,
          "top", "rows do not add up");
}

// Tables of the trace, by shape if shapes apply, and of its first request.
inline void AskTop(const pitot::model::Trace& trace) {
  using pitot::analyze::TopBy;
  for (const TopBy by : {TopBy::kOperator, TopBy::kKernel, TopBy::kLayer, TopBy::kScope, TopBy::kRequest}) {
    pitot::analyze::TopOptions options;
    options.by = by;
    options.finds_no_calls = true;
    AskTopBy(trace, options);
    options.groups_by_shape = by != TopBy::kLayer && by != TopBy::kRequest;
    if (options.groups_by_shape) AskTopBy(trace, options);
    options.request_id = trace.requests.empty() ? 0 : trace.requests.front().id;
    if (options.request_id != 0) AskTopBy(trace, options);
  }
}

// The changes from `before` to `after`: rows add up to their tables, effects to rows.
inline void AskDiffOf(const pitot::model::Trace& before, const pitot::model::Trace& after) {
  namespace analyze = pitot::analyze;
  analyze::Diff diff;
  const pitot::Status status = FindDiff(before, after, {}, &diff);
  Require(status.ok(), "diff", status.message());
  Require(diff.within_ns + diff.between_ns == diff.after_latency_ns - diff.before_latency_ns, "diff",
          "changes within and between do not add up");
  for (const analyze::DiffTable& table : diff.tables) {
    int64_t before_ns = 0, after_ns = 0;
    for (const analyze::DiffRow& row : table.rows) {
      before_ns += row.before_ns, after_ns += row.after_ns;
      Require(row.count_effect_ns + row.duration_effect_ns == row.after_ns - row.before_ns, table.name.c_str(),
              "effects do not add up to their row");
      Require(row.p >= 0 && row.p <= 1, table.name.c_str(), "p is not a probability");
    }
    Require(before_ns == table.before_ns && after_ns == table.after_ns, table.name.c_str(), "rows do not add up");
  }
}

// Compares an empty trace with it, it with itself, and it with an empty trace.
inline void AskDiff(const pitot::model::Trace& trace) {
  const pitot::model::Trace nothing;
  AskDiffOf(nothing, trace);
  AskDiffOf(trace, trace);
  AskDiffOf(trace, nothing);
}

}  // namespace fuzz

#endif  // PITOT_TEST_FUZZ_QUESTIONS_H_
