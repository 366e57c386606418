// SPDX-License-Identifier: Apache-2.0
//
// The tree of blame: where a cause is a wait for somebody else, what of that one's time was unusual
// (docs/reference/why.md#the-chain-to-the-root).
#ifndef PITOT_LIB_ANALYZE_VERDICT_TREE_H_
#define PITOT_LIB_ANALYZE_VERDICT_TREE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Fills the tree, the root and the load. Leaves them empty if the time is over (BlameOptions::is_over). O(batches +
// requests), and at most 33 walks for each culprit. Throws std::bad_alloc.
void FindTree(const blame::Index& index, const RequestBlame& blame, Verdict* verdict);
// Fills the stage. O(requests).
void FindStage(const blame::Index& index, const RequestBlame& blame, Verdict* verdict);

// ---- tree_text.cc
// The stage and the tree, in whole lines; each may be "". The tree is, if no cause is a wait for somebody.
std::string StageText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns);
std::string TreeText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_TREE_H_
