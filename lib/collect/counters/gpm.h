// SPDX-License-Identifier: Apache-2.0
//
// NVML's GPM: coarse counters of one GPU for a process that may not sample it through CUPTI. NVML is opened at run
// time; the numbers are those of nvml.h. A test compares them with the declarations of pitot::nvml.
#ifndef PITOT_LIB_COLLECT_COUNTERS_GPM_H_
#define PITOT_LIB_COLLECT_COUNTERS_GPM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "collect/counters/metrics.h"

namespace pitot::counters {

enum NvmlResult : int {
  kNvmlSuccess = 0,
  kNvmlNotSupported = 3,
  kNvmlNoPermission = 4,
  kNvmlNotFound = 6,
};

struct GpmMetric {
  uint32_t id;
  NvmlResult result;
  double value;
  const char* names[3];
};
struct GpmMetricsGet {
  uint32_t version, count;
  void *before, *after;    // samples
  GpmMetric metrics[512];  // more than any library knows
};
struct GpmSupport {
  uint32_t version, is_supported;
};

// The last three may be null: drivers without parts of GPUs.
struct GpmApi {
  NvmlResult (*init)();
  NvmlResult (*shutdown)();
  NvmlResult (*get_handle)(const char* uuid, void** device);
  NvmlResult (*query_support)(void* device, GpmSupport* support);
  NvmlResult (*sample_alloc)(void** sample);
  NvmlResult (*sample_free)(void* sample);
  NvmlResult (*sample_get)(void* device, void* sample);
  NvmlResult (*metrics_get)(GpmMetricsGet* metrics);
  NvmlResult (*get_whole)(void* part, void** device);
  NvmlResult (*get_instance)(void* part, uint32_t* instance);
  NvmlResult (*part_sample_get)(void* device, uint32_t instance, void* sample);
};

// Opens and initialises NVML; it is never unloaded. Why it cannot be used; empty: it can.
std::string LoadGpm(const std::string& library, GpmApi* api);

// GPM renews its values every 100 ms. Asked sooner it answers 0, which is no value.
inline constexpr uint32_t kGpmIntervalUs = 101'000;

// Two snapshots of a GPU; the counters are those between them. Belongs to one thread.
class GpmGpu {
 public:
  // Null: it cannot be sampled, and why.
  static std::unique_ptr<GpmGpu> Open(const GpmApi& api, const std::string& gpu_id, std::string* failure);
  ~GpmGpu();
  GpmGpu(const GpmGpu&) = delete;
  GpmGpu& operator=(const GpmGpu&) = delete;

  // CLOCK_MONOTONIC ns of the newest snapshot; 0: none.
  int64_t newest_ns() const { return newest_ns_; }
  // Takes a snapshot. Returns the sample since the one before; nothing for the first, and if it failed: `failure` says
  // why.
  std::optional<Sample> Take(int64_t now_ns, std::string* failure);

 private:
  explicit GpmGpu(const GpmApi& api) : api_(api) {}

  const GpmApi& api_;
  void* device_ = nullptr;
  std::optional<uint32_t> instance_;  // of a part of a GPU
  void* snapshots_[2] = {nullptr, nullptr};
  uint32_t newest_ = 0;
  int64_t newest_ns_ = 0;
  const std::unique_ptr<GpmMetricsGet> metrics_ = std::make_unique<GpmMetricsGet>();
};

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_GPM_H_
