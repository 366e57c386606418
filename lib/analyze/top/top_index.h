// SPDX-License-Identifier: Apache-2.0
//
// The common index of all tables of where a trace's time went, made once for them.
#ifndef PITOT_LIB_ANALYZE_TOP_TOP_INDEX_H_
#define PITOT_LIB_ANALYZE_TOP_TOP_INDEX_H_

#include "analyze/facts/gpu_shares.h"
#include "analyze/top/namespace.h"
#include "pitot/analyze/top.h"
#include "pitot/model/index.h"

namespace pitot::top {

// O(n log n), most of a table's cost. The trace must outlive this.
struct TopIndex {
  explicit TopIndex(const model::Trace& from)
      : trace(from), requests(from), shares(facts::FindGpuShares(from)), coverage(from), operators(from) {}
  const model::Trace& trace;
  const model::RequestIndex requests;
  const facts::GpuShares shares;
  const model::CoverageIndex coverage;
  const model::OperatorTimes operators;
};
// Like FindTop of pitot/analyze/top.h, but throws std::bad_alloc.
Status FindTop(const TopIndex& index, const TopOptions& options, TopTable* table);

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_TOP_INDEX_H_
