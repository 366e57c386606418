// SPDX-License-Identifier: Apache-2.0
//
// A libcupti.so for tests that samples counters by its script. Tests reach the script through the one function that it
// exports in addition to CUPTI's.
#ifndef PITOT_TEST_COLLECT_COUNTERS_FAKE_PM_H_
#define PITOT_TEST_COLLECT_COUNTERS_FAKE_PM_H_

#include <time.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collect/counters/abi.h"

namespace fakes {

namespace counters = pitot::counters;

// Everything under `mutex`.
struct FakePm {
  std::mutex mutex;
  std::condition_variable changed;

  std::map<std::string, counters::Result> results;  // by function, until erased
  std::map<std::string, uint64_t> fail_once;        // by function: the number of its call, from 1 on
  counters::Result all_fail_with = counters::kSuccess;
  std::set<size_t> lost;          // devices: all that concerns them fails
  std::string hang_in;            // this function does not return while it is named here
  std::set<std::string> unknown;  // metrics that the chip refuses
  size_t most_in_a_pass = 100;    // metrics
  int64_t start_takes_ns = 0;     // until the first sample begins
  uint64_t megahertz = 0;         // of a chip that samples by its clock alone; 0: by time alone
  counters::Result refuses_time_with = counters::kNotSupported;
  size_t most_kept = 1'000'000;                // samples in the hardware buffer, the newest
  std::function<int64_t()> realtime_ns = [] {  // now
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
  };
  // The value of a metric in a sample that begins at a moment.
  std::function<double(const std::string& metric, int64_t begin_ns)> value = [](const std::string&, int64_t) {
    return 50.0;
  };

  // The allocations of the one calling thread that succeed before one fails; the library's own are not among them.
  int* until_failure = nullptr;

  // Observations.
  uint64_t calls = 0;
  std::map<std::string, uint64_t> calls_of;
  std::vector<std::string> metrics;            // last configured
  uint64_t interval_ns = 0;                    // of the last configuration
  size_t data_bytes = 0, most_data_bytes = 0;  // of the memory to decode into, the last and the largest
  int sampling = 0, enabled = 0, hosts = 0;
  std::set<size_t> held;               // devices: one sampler at a time
  bool is_capturing = false;           // a graph
  std::set<std::string> in_a_capture;  // functions that were called meanwhile
  bool is_hanging = false;

  // Resets a device: its samplers are gone, and what is done with them fails.
  void ResetDevice(size_t device) {
    ++resets[device];
    if (held.erase(device) != 0) --enabled, --sampling;
  }
  std::map<size_t, uint64_t> resets;

  // Restores the state after loading.
  void Reset() {
    const std::lock_guard lock(mutex);
    results.clear();
    fail_once.clear();
    all_fail_with = counters::kSuccess;
    lost.clear();
    resets.clear();
    is_capturing = false;
    in_a_capture.clear();
    hang_in.clear();
    unknown.clear();
    most_in_a_pass = 100;
    most_kept = 1'000'000;
    megahertz = 0;
    start_takes_ns = 0;
    refuses_time_with = counters::kNotSupported;
    value = [](const std::string&, int64_t) { return 50.0; };
    until_failure = nullptr;
    calls = 0;
    calls_of.clear();
    metrics.clear();
    interval_ns = 0;
    data_bytes = most_data_bytes = 0;
    sampling = enabled = hosts = 0;
    held.clear();
  }
};

// All of CUPTI that the collector uses.
inline constexpr const char* kPmFunctions[] = {
    "cuptiProfilerInitialize",
    "cuptiDeviceGetChipName",
    "cuptiPmSamplingGetCounterAvailability",
    "cuptiProfilerHostInitialize",
    "cuptiProfilerHostDeinitialize",
    "cuptiProfilerHostConfigAddMetrics",
    "cuptiProfilerHostGetConfigImageSize",
    "cuptiProfilerHostGetConfigImage",
    "cuptiProfilerHostGetNumOfPasses",
    "cuptiPmSamplingEnable",
    "cuptiPmSamplingSetConfig",
    "cuptiPmSamplingGetCounterDataSize",
    "cuptiPmSamplingCounterDataImageInitialize",
    "cuptiPmSamplingStart",
    "cuptiPmSamplingStop",
    "cuptiPmSamplingDisable",
    "cuptiPmSamplingDecodeData",
    "cuptiPmSamplingGetCounterDataInfo",
    "cuptiPmSamplingCounterDataGetSampleInfo",
    "cuptiProfilerHostEvaluateToGpuValues",
};

}  // namespace fakes

extern "C" fakes::FakePm* fake_pm();

#endif  // PITOT_TEST_COLLECT_COUNTERS_FAKE_PM_H_
