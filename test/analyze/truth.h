// SPDX-License-Identifier: Apache-2.0
//
// What a walk found, in the words of the simulator: so that it can be compared with the truth, nanosecond by
// nanosecond.
#ifndef PITOT_TEST_ANALYZE_TRUTH_H_
#define PITOT_TEST_ANALYZE_TRUTH_H_

#include <string>
#include <vector>

#include "pitot/analyze/why.h"
#include "simulator/simulator.h"

namespace pitot::test {

// The segments of `blame`, those joined that say the same to the simulator.
std::vector<simulator::Segment> AsTruth(const model::Trace& trace, const analyze::RequestBlame& blame);

std::string Describe(const std::vector<simulator::Segment>& path);

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_TRUTH_H_
