// SPDX-License-Identifier: Apache-2.0
//
// The namespace of this room. It sees the public names of pitot::analyze.
#ifndef PITOT_LIB_ANALYZE_JUDGE_NAMESPACE_H_
#define PITOT_LIB_ANALYZE_JUDGE_NAMESPACE_H_

#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {}
PITOT_NAMESPACE_END

namespace pitot::judge {
using namespace analyze;
}

#endif  // PITOT_LIB_ANALYZE_JUDGE_NAMESPACE_H_
