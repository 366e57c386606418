// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/gpm.h"

#include <dlfcn.h>

#include <atomic>
#include <cmath>
#include <iterator>

#include "base/loader_lock.h"

namespace pitot::counters {
namespace {

using base::GpuCounter;

constexpr double kMebibyte = 1024 * 1024;

struct GpmCounter {
  uint32_t id;
  GpuCounter counter;
  double unit;
};
constexpr GpmCounter kGpmMetrics[] = {
    {nvml::kGpmSmActive, GpuCounter::kSmActive, 1},
    {nvml::kGpmSmOccupancy, GpuCounter::kSmOccupancy, 1},
    {nvml::kGpmTensorActive, GpuCounter::kTensorActive, 1},
    {nvml::kGpmDramBandwidth, GpuCounter::kDramBandwidth, 1},
    {nvml::kGpmPcieSent, GpuCounter::kPcieSending, kMebibyte},
    {nvml::kGpmPcieReceived, GpuCounter::kPcieReceiving, kMebibyte},
    {nvml::kGpmNvlinkReceived, GpuCounter::kNvlinkReceiving, kMebibyte},
    {nvml::kGpmNvlinkSent, GpuCounter::kNvlinkSending, kMebibyte},
};

std::string NvmlName(nvml::Result result) {
  switch (result) {
    case nvml::kNotSupported:
      return "NOT_SUPPORTED";
    case nvml::kNoPermission:
      return "NO_PERMISSION";
    case nvml::kNotFound:
      return "NOT_FOUND";
    case nvml::kGpuIsLost:
      return "GPU_IS_LOST";
    case nvml::kLibraryDriverMismatch:
      return "LIB_RM_VERSION_MISMATCH (if the driver was upgraded, start the process again)";
    default:
      return "error " + std::to_string(static_cast<int>(result));
  }
}

std::string FailureOf(const char* function, nvml::Result result) {
  return std::string(function) + " answered " + NvmlName(result);
}

// An empty text: all required functions are there.
std::string FindGpm(const std::string& library, GpmApi* api) {
  const base::LoaderUse use;
  void* const handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "cannot load " + library;
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    *function = reinterpret_cast<std::remove_reference_t<decltype(*function)>>(dlsym(handle, name));
    if (*function == nullptr && missing == nullptr) missing = name;
  };
  find("nvmlInit_v2", &api->init);
  find("nvmlShutdown", &api->shutdown);
  find("nvmlDeviceGetHandleByUUID", &api->get_handle);
  find("nvmlGpmQueryDeviceSupport", &api->query_support);
  find("nvmlGpmSampleAlloc", &api->sample_alloc);
  find("nvmlGpmSampleFree", &api->sample_free);
  find("nvmlGpmSampleGet", &api->sample_get);
  find("nvmlGpmMetricsGet", &api->metrics_get);
  if (missing != nullptr) return library + " has no " + missing;
  find("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", &api->get_whole);
  find("nvmlDeviceGetGpuInstanceId", &api->get_instance);
  find("nvmlGpmMigSampleGet", &api->part_sample_get);
  return "";
}

}  // namespace

std::string LoadGpm(const std::string& library, GpmApi* api) {
  if (std::string failure = FindGpm(library, api); !failure.empty()) return failure;
  const nvml::Result result = api->init();
  return result == nvml::kSuccess ? "" : FailureOf("nvmlInit_v2", result);
}

void GpmGpu::Abandon(std::unique_ptr<GpmGpu> gpu) noexcept {
  static constinit std::atomic<GpmGpu*> abandoned{nullptr};
  GpmGpu* const left = gpu.release();
  left->abandoned_before_ = abandoned.exchange(left);
}

std::unique_ptr<GpmGpu> GpmGpu::Open(const GpmApi& api, const std::string& gpu_id, std::string* failure) {
  std::unique_ptr<GpmGpu> gpu(new GpmGpu(api));
  nvml::Result result = api.get_handle(gpu_id.c_str(), &gpu->device_);
  const bool has_parts = api.get_whole != nullptr && api.get_instance != nullptr && api.part_sample_get != nullptr;
  if (result != nvml::kSuccess && has_parts && gpu_id.substr(0, 4) == "GPU-") {
    void* part = nullptr;
    uint32_t instance = 0;
    if (api.get_handle(("MIG-" + gpu_id.substr(4)).c_str(), &part) == nvml::kSuccess &&
        api.get_instance(part, &instance) == nvml::kSuccess) {
      result = api.get_whole(part, &gpu->device_);
      gpu->instance_ = instance;
    }
  }
  const char* function = "nvmlDeviceGetHandleByUUID";
  nvml::GpmSupport support{nvml::kGpmVersion, 0};
  if (result == nvml::kSuccess) {
    function = "nvmlGpmQueryDeviceSupport";
    result = api.query_support(gpu->device_, &support);
    if (result == nvml::kSuccess && support.is_supported == 0) result = nvml::kNotSupported;
  }
  for (void*& snapshot : gpu->snapshots_) {
    if (result != nvml::kSuccess) break;
    function = "nvmlGpmSampleAlloc";
    result = api.sample_alloc(&snapshot);
    if (result != nvml::kSuccess) snapshot = nullptr;
  }
  if (result == nvml::kSuccess) return gpu;
  *failure = FailureOf(function, result);
  return nullptr;
}

GpmGpu::~GpmGpu() {
  for (void* const snapshot : snapshots_) {
    if (snapshot != nullptr) api_.sample_free(snapshot);
  }
}

std::optional<Sample> GpmGpu::Take(int64_t now_ns, std::string* failure) {
  const uint32_t next = 1 - newest_;
  const int64_t before_ns = newest_ns_;
  newest_ns_ = 0;
  nvml::Result result = instance_ ? api_.part_sample_get(device_, *instance_, snapshots_[next])
                                  : api_.sample_get(device_, snapshots_[next]);
  if (result != nvml::kSuccess) {
    *failure = FailureOf("nvmlGpmSampleGet", result);
    return {};
  }
  newest_ = next;
  newest_ns_ = now_ns;
  if (before_ns == 0) return {};
  metrics_->version = nvml::kGpmVersion;
  metrics_->count = std::size(kGpmMetrics);
  metrics_->sample1 = snapshots_[1 - newest_];
  metrics_->sample2 = snapshots_[newest_];
  for (uint32_t i = 0; i < std::size(kGpmMetrics); ++i)
    metrics_->metrics[i] = {kGpmMetrics[i].id, nvml::kNotSupported, 0, {}};
  result = api_.metrics_get(metrics_.get());
  if (result != nvml::kSuccess) {
    newest_ns_ = 0;
    *failure = FailureOf("nvmlGpmMetricsGet", result);
    return {};
  }
  Sample sample = Unmeasured(before_ns, now_ns);
  for (uint32_t i = 0; i < std::size(kGpmMetrics); ++i) {
    const nvml::GpmMetric& metric = metrics_->metrics[i];
    if (metric.result == nvml::kSuccess && std::isfinite(metric.value))
      sample.values[ColumnOf(kGpmMetrics[i].counter)] = static_cast<float>(metric.value * kGpmMetrics[i].unit);
  }
  return sample;
}

}  // namespace pitot::counters
