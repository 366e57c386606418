// SPDX-License-Identifier: Apache-2.0
//
// A libcupti.so for tests whose range profiler follows a script. Tests reach the script through the one function that
// it exports in addition to CUPTI's.
#ifndef PITOT_TEST_COLLECT_PROFILE_FAKE_RANGE_H_
#define PITOT_TEST_COLLECT_PROFILE_FAKE_RANGE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collect/profile/abi.h"

namespace fakes {

namespace counters = pitot::counters;

// Everything under `mutex`. It is recursive: a callback may look.
struct FakeRange {
  std::recursive_mutex mutex;

  std::map<std::string, counters::Result> results;  // by function, until erased
  uint64_t fail_at_call = 0;                        // the one with this number, from 1 on, fails
  counters::Result fail_with = counters::kUnknown;
  std::set<std::string> unknown;        // metrics refused by the chip
  std::function<void()> on_start;       // in cuptiRangeProfilerStart, without the mutex
  size_t kernels_of_others = 0;         // in each range
  bool breaks_by_empty_passes = false;  // such a profiler gives no values
  std::function<double(const std::string& metric)> value = [](const std::string&) { return 50.0; };

  // Observations.
  uint64_t calls = 0;
  std::map<std::string, uint64_t> calls_of;
  int enabled = 0, hosts = 0;
  bool is_started = false;
  std::vector<const void*> kernels;               // launched in the sample so far, one a pass
  std::vector<std::vector<const void*>> samples;  // the decoded ones

  // A kernel is launched. Returns how often it runs.
  size_t Launch(const void* kernel) {
    const std::lock_guard lock(mutex);
    if (!is_started) return 1;
    kernels.push_back(kernel);
    return is_replaying ? passes : 1;
  }
  size_t passes = 0;  // of the configuration
  bool is_replaying = false;

  // Restores the state after loading.
  void Reset() {
    const std::lock_guard lock(mutex);
    results.clear();
    fail_at_call = 0;
    unknown.clear();
    on_start = nullptr;
    kernels_of_others = 0;
    breaks_by_empty_passes = false;
    value = [](const std::string&) { return 50.0; };
    calls = 0;
    calls_of.clear();
    enabled = hosts = 0;
    is_started = false;
    kernels.clear();
    samples.clear();
  }
};

}  // namespace fakes

extern "C" fakes::FakeRange* fake_range();

#endif  // PITOT_TEST_COLLECT_PROFILE_FAKE_RANGE_H_
