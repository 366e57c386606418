// SPDX-License-Identifier: Apache-2.0
//
// Proof that the events suffice: finds the causes of each request's time from a trace alone, in the simplest way that
// is exact without losses. Not an analyzer: it knows how the simulator's servers are instrumented.
#ifndef PITOT_TEST_SIMULATOR_RECONSTRUCT_H_
#define PITOT_TEST_SIMULATOR_RECONSTRUCT_H_

#include <vector>

#include "pitot/model/trace.h"
#include "simulator/simulator.h"

namespace simulator {

// For each row of trace.requests, the tiling of its latency; empty for requests without an end.
std::vector<std::vector<Segment>> Reconstruct(const pitot::model::Trace& trace);

}  // namespace simulator

#endif  // PITOT_TEST_SIMULATOR_RECONSTRUCT_H_
