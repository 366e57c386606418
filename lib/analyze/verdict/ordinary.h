// SPDX-License-Identifier: Apache-2.0
//
// The ordinary time of a trace: docs/reference/why.md#in-the-process.
#ifndef PITOT_LIB_ANALYZE_VERDICT_ORDINARY_H_
#define PITOT_LIB_ANALYZE_VERDICT_ORDINARY_H_

#include <cstdint>
#include <vector>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/learn.h"
#include "pitot/model/trace.h"

namespace pitot::verdict {

// Spreads ids over all of 64 bits, because servers count them up (the finalizer of MurmurHash3).
uint64_t SpreadId(uint64_t id);

class OrdinaryTime {
 public:
  OrdinaryTime(const model::Trace& trace, const LearnOptions& options);
  // Whether something from `begin_ns` to `end_ns` is in it.
  bool Has(int64_t begin_ns, int64_t end_ns) const;

 private:
  bool IsInRamp(int64_t at_ns) const;

  const LearnOptions& options_;
  const int64_t from_ns_, until_ns_, most_ns_;
  const std::vector<int64_t> ramps_;
};

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_ORDINARY_H_
