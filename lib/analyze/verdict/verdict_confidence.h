// SPDX-License-Identifier: Apache-2.0
//
// How often causes like one are true: docs/reference/why.md lists the factors.
#ifndef PITOT_LIB_ANALYZE_VERDICT_VERDICT_CONFIDENCE_H_
#define PITOT_LIB_ANALYZE_VERDICT_VERDICT_CONFIDENCE_H_

#include <cstdint>

#include "analyze/blame/index_data.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Longer than usual parts of a request that say how long, not why.
struct Unexplained {
  int64_t unknown_ns = 0;
  int64_t slept_ns = 0;     // of these, sleep: its time and place are known, its reason is not
  int64_t unseen_ns = 0;    // of these, code that may be a wait for a GPU
  int64_t doubted_ns = 0;   // of these, recorded waits that may have been for something else
  int64_t positive_ns = 0;  // of all such parts
  int64_t wake_up_ns = 0;   // as late as threads of such requests wake up, but for 2 of 100
  double ShareOf(int64_t ns) const {
    return positive_ns == 0 ? 0 : static_cast<double>(ns) / static_cast<double>(positive_ns);
  }
  double Share() const { return ShareOf(unknown_ns); }
};

// How much of recorded waits may have been for something else: for a CPU,
// for the interpreter, or to wake up.
struct OtherWaits {
  int64_t cpu_ns = 0;          // their run-queue delay of that time, without the proved part
  int64_t interpreter_ns = 0;  // while another thread had it, or may have had it unseen
  int64_t wake_up_ns = 0;      // after what they waited for
  int64_t all_ns() const { return cpu_ns + interpreter_ns + wake_up_ns; }
};
OtherWaits FindOtherWaits(const blame::Index& index, const RequestBlame& blame, Blame part, int64_t wake_up_ns);

// Fills `confidence` and `unsure` of a cause; `by_chance` is how often the test names a normal request's part. Reads
// the baseline's facts in `verdict`, and the part, excess and share of `cause`.
void FindConfidence(const blame::Index& index, const RequestBlame& blame, const VerdictOptions& options,
                    const Verdict& verdict, const Unexplained& unexplained, double by_chance, Cause* cause) noexcept;

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_VERDICT_CONFIDENCE_H_
