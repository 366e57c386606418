// SPDX-License-Identifier: Apache-2.0
//
// The result of a walk in the words of the simulator, for a comparison with the truth, nanosecond by nanosecond.
#ifndef PITOT_TEST_ANALYZE_TRUTH_H_
#define PITOT_TEST_ANALYZE_TRUTH_H_

#include <string>
#include <vector>

#include "pitot/analyze/why.h"
#include "simulator/simulator.h"

namespace pitot::test {

// The segments of `blame`; neighbours that are the same to the simulator are joined.
std::vector<simulator::Segment> AsTruth(const model::Trace& trace, const analyze::RequestBlame& blame);

std::string Describe(const std::vector<simulator::Segment>& path);

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_TRUTH_H_
