// SPDX-License-Identifier: Apache-2.0
//
// What a public BlameIndex holds.
#ifndef PITOT_LIB_ANALYZE_INDEX_DATA_H_
#define PITOT_LIB_ANALYZE_INDEX_DATA_H_

#include "analyze/walk.h"
#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct BlameIndex::Data {
  Data(const model::Trace& trace, const BlameOptions& options) : index(trace, options) {}
  const Index index;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_INDEX_DATA_H_
