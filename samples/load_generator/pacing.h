// SPDX-License-Identifier: Apache-2.0
//
// Sends at the drawn times.
#ifndef SAMPLES_LOAD_GENERATOR_PACING_H_
#define SAMPLES_LOAD_GENERATOR_PACING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "load_generator/options.h"

namespace load_generator {

uint64_t MonotonicNs();
// Sleeps until a time of CLOCK_MONOTONIC.
void SleepUntil(uint64_t ns);

// Throws std::runtime_error if the server does not answer at all.
void CheckServer(const Options& options);

// Calls `send(connection, index)` for each time in `at_ns`, in ascending order. There are `concurrency` threads with
// one connection each. A free thread takes the next time, and sends then, or at once if the time has passed.
void SendAtTheirTimes(std::span<const uint64_t> at_ns, size_t concurrency,
                      const std::function<void(size_t connection, size_t index)>& send);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_PACING_H_
