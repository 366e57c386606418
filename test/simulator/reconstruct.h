// SPDX-License-Identifier: Apache-2.0
//
// Proof that the events suffice: finds what each request's time was spent on from a trace alone, in the simplest way
// that is exact where nothing was lost. Not an analyzer: it knows how the simulator's servers are instrumented.
#ifndef PITOT_TEST_SIMULATOR_RECONSTRUCT_H_
#define PITOT_TEST_SIMULATOR_RECONSTRUCT_H_

#include <vector>

#include "pitot/model/trace.h"
#include "simulator/simulator.h"

namespace simulator {

// For each row of trace.requests, the tiling of its latency; empty for those that did not end.
std::vector<std::vector<Segment>> Reconstruct(const pitot::model::Trace& trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_RECONSTRUCT_H_
