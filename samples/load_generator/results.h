// SPDX-License-Identifier: Apache-2.0
//
// Sums up a run: a table for people, JSON for programs.
#ifndef SAMPLES_LOAD_GENERATOR_RESULTS_H_
#define SAMPLES_LOAD_GENERATOR_RESULTS_H_

#include <string>

#include "load_generator/load.h"
#include "load_generator/options.h"

namespace load_generator {

// Latencies are those of responses with status 200, with an intended arrival after the warm-up.
//   {"options": {...}, "clock": {begin, measured_from, end: CLOCK_MONOTONIC ns},
//    "requests": {"sent", "ok", "by_status": {"200": n}, "errors": {"Connection": n}}, "throughput_per_s": ...,
//    "latency_ms": {"count", "mean", "p50", "p90", "p95", "p99", "p999", "max"},
//    "send_lag_ms": {"p50", "p99", "max"},          how late the generator itself was
//    "timeline": [{"second", "arrivals", "ok", "p50_ms", "p99_ms", "max_ms"}],
//    "slowest": [{"id", "latency_ms", "status", "second", "intended_ns", "is_big", "is_burst"}],
//    "latencies_ms": [...]}                          with --list-latencies
std::string ToJson(const Options& options, const Run& run);

// Writes the injected faults in the form of the server's fault log, by the server's ids: "bursts" with the number of
// requests at one instant, "bigger_input" with the side of the picture. Their cost is not known beforehand.
//   {"time_ns":812345678901,"request":"00000000000082f1","fault":"bursts","injected_ns":0,"requests":40}
// Requests without an answer have no id and no line.
std::string ToFaultLog(const Options& options, const Run& run);

// Returns a few lines of text.
std::string ToText(const Run& run);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_RESULTS_H_
