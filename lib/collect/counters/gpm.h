// SPDX-License-Identifier: Apache-2.0
//
// NVML's GPM: coarse counters of one GPU for a process that may not sample it through CUPTI. NVML is opened at run
// time.
#ifndef PITOT_LIB_COLLECT_COUNTERS_GPM_H_
#define PITOT_LIB_COLLECT_COUNTERS_GPM_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/nvml_gpm.h"
#include "collect/counters/metrics.h"

namespace pitot::counters {

// The last three may be null: drivers without parts of GPUs.
struct GpmApi {
  nvml::Result (*init)();
  nvml::Result (*shutdown)();
  nvml::Result (*get_handle)(const char* uuid, void** device);
  nvml::Result (*query_support)(void* device, nvml::GpmSupport* support);
  nvml::Result (*sample_alloc)(void** sample);
  nvml::Result (*sample_free)(void* sample);
  nvml::Result (*sample_get)(void* device, void* sample);
  nvml::Result (*metrics_get)(nvml::GpmMetricsGet* metrics);
  nvml::Result (*get_whole)(void* part, void** device);
  nvml::Result (*get_instance)(void* part, uint32_t* instance);
  nvml::Result (*part_sample_get)(void* device, uint32_t instance, void* sample);
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
  // Leaves it behind, without a call of NVML: the process exits. It stays reachable, so that checkers of leaks say
  // nothing.
  static void Abandon(std::unique_ptr<GpmGpu> gpu) noexcept;
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
  GpmGpu* abandoned_before_ = nullptr;
  const std::unique_ptr<nvml::GpmMetricsGet> metrics_ = std::make_unique<nvml::GpmMetricsGet>();
};

}  // namespace pitot::counters

#endif  // PITOT_LIB_COLLECT_COUNTERS_GPM_H_
