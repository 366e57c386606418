// SPDX-License-Identifier: Apache-2.0
//
// A libnvidia-ml.so for tests: answers from its script. The library is built from fake_nvml.cc; tests reach the script
// through the one function it exports in addition to NVML's.
#ifndef PITOT_TEST_COLLECT_NVML_FAKE_NVML_H_
#define PITOT_TEST_COLLECT_NVML_FAKE_NVML_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "collect/nvml/abi.h"

namespace fakes {

namespace nvml = pitot::nvml;

struct FakeGpu {
  unsigned int utilization = 50, memory_utilization = 20;
  unsigned long long memory_used = 3ull << 30, memory_total = 80ull << 30;
  unsigned int sm_clock = 1980, memory_clock = 2619, power_milliwatts = 350'500, temperature = 61;
  unsigned long long reasons = 0;
  unsigned long long ecc_corrected = 0, ecc_uncorrected = 0;
  struct Field {
    unsigned long long value = 0;
    int type = nvml::kUnsignedLongLong;
  };
  std::map<unsigned int, Field> fields;  // others are not supported
  std::vector<nvml::ProcessInfo> processes;
  bool has_gpm = false, has_parts = false;
  std::map<unsigned int, double> gpm;  // others are not supported
};

// Everything under `mutex`.
struct FakeNvml {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<FakeGpu> gpus{1};
  std::string driver_version = "580.65.06";

  // Results by function, until erased; with "@1" behind the name, of one GPU.
  std::map<std::string, nvml::Result> results;
  uint64_t fail_at_call = 0;  // the one with this number, from 1 on, fails
  nvml::Result fail_with = nvml::kUnknown;
  std::string hang_in;  // this function does not return while it is named here
  std::vector<nvml::EventData> events;
  std::map<std::string, int64_t> takes_ns;  // time taken by calls of these functions, or by "field 270"; others take 0
  std::function<void(int64_t ns)> pass;     // lets this much time go by

  // Observations.
  uint64_t calls = 0;
  std::map<std::string, uint64_t> calls_of;
  int inits = 0;  // less shutdowns
  int event_sets = 0, gpm_samples = 0;
  bool is_hanging = false;
  long hanging_thread = 0;

  // Restores the state after loading, except for what is open.
  void Reset() {
    const std::lock_guard lock(mutex);
    gpus.assign(1, {});
    driver_version = "580.65.06";
    results.clear();
    fail_at_call = 0;
    fail_with = nvml::kUnknown;
    hang_in.clear();
    events.clear();
    takes_ns.clear();
    pass = nullptr;
    calls = 0;
    calls_of.clear();
    inits = event_sets = gpm_samples = 0;
  }
};

}  // namespace fakes

extern "C" fakes::FakeNvml* fake_nvml();

#endif  // PITOT_TEST_COLLECT_NVML_FAKE_NVML_H_
