// SPDX-License-Identifier: Apache-2.0
//
// A server played by a test: any number of threads on one, a clock that stands still, and a recording of both.
#ifndef PITOT_TEST_FAKES_VIRTUAL_SERVER_H_
#define PITOT_TEST_FAKES_VIRTUAL_SERVER_H_

#include <catch2/catch.hpp>
#include <cstdint>

#include "fakes/recording.h"
#include "fakes/virtual_clock.h"
#include "pitot/model/trace.h"

namespace fakes {

// The begin of its clock.
inline constexpr int64_t kStartNs = 1'000'000'000;

// The calling thread is the server's first thread.
struct VirtualServer {
  explicit VirtualServer(const RecordingOptions& options = {}) : recording(options) { threads.Become(0); }
  // Checks that the trace is consistent.
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
