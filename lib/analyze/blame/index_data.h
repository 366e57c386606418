// SPDX-License-Identifier: Apache-2.0
//
// The contents of a public BlameIndex, and the one that analyzers share.
#ifndef PITOT_LIB_ANALYZE_BLAME_INDEX_DATA_H_
#define PITOT_LIB_ANALYZE_BLAME_INDEX_DATA_H_

#include <new>

#include "analyze/blame/namespace.h"
#include "analyze/blame/walk.h"
#include "analyze/facts/patience.h"
#include "pitot/analyze/why.h"
#include "pitot/extend/analyzer.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BlameIndex::Data {
  Data(const model::Trace& trace, const BlameOptions& options) : index(trace, options) {}
  const blame::Index index;
};

}  // namespace analyze
PITOT_NAMESPACE_END

namespace pitot::blame {

// The index shared by the analyzers. Throws Over or std::bad_alloc if it could not be made.
inline const Index& SharedIndex(Analysis& analysis) {
  const BlameIndex* const made = analysis.blame_index();
  if (made != nullptr) return made->data()->index;
  if (analysis.IsOver()) throw facts::Over{};
  throw std::bad_alloc();
}

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_INDEX_DATA_H_
