// SPDX-License-Identifier: Apache-2.0
//
// Makes the built-in judge with the clock of its warm-up; the public factory passes CLOCK_MONOTONIC.
#ifndef PITOT_LIB_ANALYZE_JUDGE_MAKE_JUDGE_H_
#define PITOT_LIB_ANALYZE_JUDGE_MAKE_JUDGE_H_

#include <memory>
#include <vector>

#include "analyze/judge/namespace.h"
#include "base/clock.h"
#include "pitot/analyze/judge.h"

namespace pitot::judge {

std::unique_ptr<Judge> MakeJudge(const WhyJudgeOptions& options, std::vector<std::unique_ptr<Analyzer>> analyzers,
                                 base::ClockFunction clock) noexcept;

}  // namespace pitot::judge

#endif  // PITOT_LIB_ANALYZE_JUDGE_MAKE_JUDGE_H_
