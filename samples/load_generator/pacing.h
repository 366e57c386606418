// SPDX-License-Identifier: Apache-2.0
//
// Sending at the times that were drawn.
#ifndef SAMPLES_LOAD_GENERATOR_PACING_H_
#define SAMPLES_LOAD_GENERATOR_PACING_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "load_generator/options.h"

namespace load_generator {

uint64_t MonotonicNs();
// CLOCK_MONOTONIC.
void SleepUntil(uint64_t ns);

// Throws std::runtime_error when the server does not answer at all.
void CheckServer(const Options& options);

// Calls `send(connection, index)` for each of `at_ns`, ascending, at its time. Each of `concurrency` threads, one a
// connection, takes the next as soon as it is free, and sends it at its time, or at once if that has passed.
void SendAtTheirTimes(std::span<const uint64_t> at_ns, size_t concurrency,
                      const std::function<void(size_t connection, size_t index)>& send);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_PACING_H_
