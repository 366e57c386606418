// SPDX-License-Identifier: Apache-2.0
//
// Judges by a kept baseline, or by one from the trace itself.
#ifndef PITOT_LIB_ANALYZE_VERDICT_TWO_BASELINES_H_
#define PITOT_LIB_ANALYZE_VERDICT_TWO_BASELINES_H_

#include <cstdint>
#include <utility>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/judgement.h"

namespace pitot::verdict {

// Finds the verdict on the judgement's blame: by `kept` (null: nothing is kept) if it knows enough of the same route
// and size. Otherwise by it or by what `learn(&baseline)` adds, whichever is nearer, then larger. Without time to
// learn, `kept` has to do.
template <class Learn>
Status FindByEither(const Baseline* kept, int64_t now_ns, const Learn& learn, Judgement* judgement) noexcept {
  const VerdictOptions options;
  const auto find = [&](const Baseline& baseline, Verdict* verdict) {
    return FindVerdict(judgement->index, judgement->blame, baseline, now_ns, options, verdict);
  };
  Verdict by_kept;
  if (kept != nullptr) {
    if (Status status = find(*kept, &by_kept); !status.ok()) return status;
    by_kept.is_baseline_kept = by_kept.level != Baseline::Level::kNone;
  }
  if (by_kept.level != Baseline::Level::kCell || by_kept.baseline_size < options.least_many) {
    Baseline others;
    Verdict by_others;
    Status status = learn(&others);
    if (status.ok()) status = find(others, &by_others);
    if (!status.ok() && by_kept.level == Baseline::Level::kNone) return status;
    const auto rank = [](const Verdict& verdict) {
      const auto level = static_cast<int64_t>(verdict.level);
      return std::make_pair(level == 0 ? 4 : level, -int64_t{verdict.baseline_size});
    };
    const bool is_kept_nearer = !status.ok() || (kept != nullptr && rank(by_kept) <= rank(by_others));
    judgement->verdict = std::move(is_kept_nearer ? by_kept : by_others);
    return Status();
  }
  judgement->verdict = std::move(by_kept);
  return Status();
}

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_TWO_BASELINES_H_
