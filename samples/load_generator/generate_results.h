// SPDX-License-Identifier: Apache-2.0
//
// Sums up a run of prompts: a line for people, JSON for programs.
#ifndef SAMPLES_LOAD_GENERATOR_GENERATE_RESULTS_H_
#define SAMPLES_LOAD_GENERATOR_GENERATE_RESULTS_H_

#include <string>

#include "load_generator/generate.h"
#include "load_generator/options.h"

namespace load_generator {

// Times are those of requests that got all their tokens, with an intended arrival after the warm-up. Each has {"count",
// "mean", "p50", "p90", "p95", "p99", "p999", "max"}:
//   "ttft_ms"         to the first token, from the intended time of sending
//   "gap_ms"          between tokens, of all requests
//   "longest_gap_ms"  of each request
//   "total_ms"
// Also "options", "clock" and "send_lag_ms", as for pictures; "requests": {"sent", "ok", "left", "by_status",
// "errors"}; "throughput_per_s", "tokens_per_s"; and "slowest" by total: [{"id", "total_ms", "ttft_ms",
// "longest_gap_ms", "prompt_length", "tokens", "intended_ns", "is_long", "is_burst"}].
std::string ToJson(const Options& options, const GenerateRun& run);

// As for pictures: "bursts", and "bigger_input" with the length of the prompt.
std::string ToFaultLog(const Options& options, const GenerateRun& run);

std::string ToText(const GenerateRun& run);

}  // namespace load_generator

#endif  // SAMPLES_LOAD_GENERATOR_GENERATE_RESULTS_H_
