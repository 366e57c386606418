// SPDX-License-Identifier: Apache-2.0
//
// Values of all GPUs: the newest samples, in a ring of fixed size, and the reasons for missing ones. The sampling
// thread writes, Keep copies a window under the same lock, and AddTo reads the copy.
#ifndef PITOT_LIB_COLLECT_NVML_HISTORY_H_
#define PITOT_LIB_COLLECT_NVML_HISTORY_H_

#include <stdint.h>

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "collect/nvml/abi.h"
#include "collect/nvml/counters.h"
#include "pitot/extend/collector.h"
#include "trace/last_rows.h"

namespace pitot::nvml {

// A series' value from a moment on. No initialisers, so memory stays untouched until it is written.
struct Sample {
  int64_t at_ns;  // when it was read; never before the preceding sample of any series
  double value;
  uint32_t series;  // device * kCounterCount + counter
  uint32_t age_us;  // it holds from this long before it was read
};

struct Failure {
  Result result = kSuccess;  // the last error; kSuccess: it never failed
  uint32_t count = 0;
  bool is_failing = false;
  bool is_final = false;  // not asked again
};

// A call above this twice in a row is made once a second, until it is faster again.
inline constexpr int64_t kDearNs = 250'000;

struct DeviceState {
  int64_t lost_at_ns = 0;  // 0: it is there
  Failure failures[kSourceCount];
  int64_t took_ns[kSourceCount] = {};  // the shorter of the last two calls; 0: none, or GPM or XIDs
};

struct DeviceInfo {
  std::string name, uuid, pci_bus_id;
};

// An unchanged value is written again after this time, so that a window finds each value nearby.
inline constexpr int64_t kRepeatNs = 1'000'000'000;
// A sample this old says nothing about a window's beginning any more.
inline constexpr int64_t kStaleNs = 5 * kRepeatNs / 2;

class History {
 public:
  // Throws when out of memory.
  History(uint64_t memory_bytes, uint32_t rate_hz);

  // Called by the sampling thread, before all others.
  void SetDevices(std::vector<DeviceInfo> devices, uint32_t devices_left_out, std::string driver_version);

  // Called by the sampling thread.
  void Calling(uint32_t device, Source source, int64_t now_ns) noexcept {
    call_.store(device << 8 | static_cast<uint32_t>(source), std::memory_order_relaxed);
    call_since_ns_.store(now_ns, std::memory_order_release);
  }
  void Returned() noexcept { call_since_ns_.store(0, std::memory_order_release); }
  void Commit(uint32_t device, std::span<const Sample> samples, const DeviceState& state) noexcept;
  void EndRound(int64_t took_ns, uint64_t missed_before) noexcept;

  // Copies the samples from `begin_ns` on, and each counter's value before that.
  void Keep(int64_t begin_ns, int64_t now_ns) noexcept;
  // Never at the same time as Keep.
  void AddTo(TraceBuilder& trace) const;

 private:
  struct Totals {
    uint64_t rounds = 0, missed = 0;
    int64_t took_ns = 0, longest_ns = 0;
  };

  struct Kept {
    int64_t begin_ns = 0, end_ns = 0;
    int64_t overwritten_until_ns = 0;  // samples of the window are missing up to here; 0: none
    size_t count = 0;
    Totals totals;
    int64_t silent_ns = 0;  // how long the driver has not answered
    uint32_t silent_call = 0;
  };

  const Sample& At(uint64_t position) const PITOT_REQUIRES(mutex_) { return ring_[position % capacity_]; }
  void KeepSamples() PITOT_REQUIRES(mutex_);
  void AddSamples(TraceBuilder& trace) const;
  void AddAttributes(TraceBuilder& trace) const;
  std::string Explain(const DeviceState& state, Source source) const;
  static std::string ExplainTimes(const DeviceState& state);

  const size_t capacity_;  // samples
  const uint32_t rate_hz_;
  std::atomic<int64_t> call_since_ns_{0};
  std::atomic<uint32_t> call_{0};

  std::vector<trace::LastCounter> last_;  // by series; the sampling thread's

  base::Mutex mutex_;
  std::unique_ptr<Sample[]> ring_ PITOT_GUARDED_BY(mutex_);
  uint64_t written_ PITOT_GUARDED_BY(mutex_) = 0;  // samples ever written
  // The newest overwritten one of each series; at_ns 0: none.
  std::vector<Sample> overwritten_ PITOT_GUARDED_BY(mutex_);
  std::vector<DeviceState> states_ PITOT_GUARDED_BY(mutex_);
  Totals totals_ PITOT_GUARDED_BY(mutex_);

  // Written once, by SetDevices.
  std::vector<DeviceInfo> devices_;
  uint32_t devices_left_out_ = 0;
  std::string driver_version_;

  // For Keep and AddTo.
  Kept kept_;
  std::unique_ptr<Sample[]> kept_samples_;
  std::vector<uint8_t> is_carried_;  // by series
  std::vector<DeviceState> kept_states_;
};

}  // namespace pitot::nvml

#endif  // PITOT_LIB_COLLECT_NVML_HISTORY_H_
