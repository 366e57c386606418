// SPDX-License-Identifier: Apache-2.0
//
// The process that samples each GPU now, by the shared files of pitot::counters: for `pitot counters` and
// `pitot doctor`.
#ifndef PITOT_LIB_CLI_COUNTERS_NOW_H_
#define PITOT_LIB_CLI_COUNTERS_NOW_H_

#include <cstdint>
#include <string>
#include <vector>

#include "collect/counters/shared_file.h"

namespace pitot::cli {

enum class Sampling { kNow, kReleased, kSilent, kNot, kUnreadable };

struct GpuNow {
  std::string id;  // "GPU-5c0f..."
  Sampling sampling = Sampling::kNot;
  counters::SharedView view;
  int64_t realtime_ns = 0;  // of the look
};

// The GPUs that a process of this user has sampled. Cost: some us for each.
std::vector<GpuNow> LookAtCounters(const std::string& directory);
GpuNow LookAtCounters(const std::string& directory, const std::string& id);

// "GPU-5c0f... is sampled by process 1234 (server), every 4 ms; its newest sample is 0.2 s old".
std::string TextOf(const GpuNow& gpu);
// From one moment to another, at least 0. A moment of a file may be any number.
double Seconds(int64_t from_ns, int64_t to_ns);
// "sampling", "released", "silent", "ended", "unreadable".
const char* NameOf(Sampling sampling);

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_COUNTERS_NOW_H_
