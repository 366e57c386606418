// SPDX-License-Identifier: Apache-2.0
//
// A server that a test plays: as many threads as it likes on one, a clock that stands still, and a recording of both.
#ifndef PITOT_TEST_FAKES_VIRTUAL_SERVER_H_
#define PITOT_TEST_FAKES_VIRTUAL_SERVER_H_

#include <catch2/catch.hpp>
#include <cstdint>

#include "fakes/recording.h"
#include "fakes/virtual_clock.h"
#include "pitot/model/trace.h"

namespace fakes {

// When its clock begins.
inline constexpr int64_t kStartNs = 1'000'000'000;

// The calling thread is its first.
struct VirtualServer {
  explicit VirtualServer(const RecordingOptions& options = {}) : recording(options) { threads.Become(0); }
  // A consistent one.
  pitot::model::Trace Trace(uint64_t window_begin_ticks = 0) const {
    pitot::model::Trace trace = recording.Trace(window_begin_ticks);
    CHECK(pitot::model::FindInconsistency(trace) == "");
    return trace;
  }

  VirtualClock clock{kStartNs};
  Recording recording;
  VirtualThreads threads;
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_VIRTUAL_SERVER_H_
