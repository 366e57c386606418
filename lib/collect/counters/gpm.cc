// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/gpm.h"

#include <dlfcn.h>

#include <cmath>
#include <iterator>

#include "base/loader_lock.h"

namespace pitot::counters {
namespace {

using base::GpuCounter;

constexpr uint32_t kGpmVersion = 1;  // of the structures
constexpr double kMebibyte = 1024 * 1024;

struct GpmCounter {
  uint32_t id;
  GpuCounter counter;
  double unit;
};
constexpr GpmCounter kGpmMetrics[] = {
    {2, GpuCounter::kSmActive, 1},
    {3, GpuCounter::kSmOccupancy, 1},
    {5, GpuCounter::kTensorActive, 1},
    {10, GpuCounter::kDramBandwidth, 1},
    {20, GpuCounter::kPcieSending, kMebibyte},
    {21, GpuCounter::kPcieReceiving, kMebibyte},
    {60, GpuCounter::kNvlinkReceiving, kMebibyte},
    {61, GpuCounter::kNvlinkSending, kMebibyte},
};

std::string NvmlName(NvmlResult result) {
  switch (result) {
    case kNvmlNotSupported:
      return "NOT_SUPPORTED";
    case kNvmlNoPermission:
      return "NO_PERMISSION";
    case kNvmlNotFound:
      return "NOT_FOUND";
    default:
      return "error " + std::to_string(static_cast<int>(result));
  }
}

std::string FailureOf(const char* function, NvmlResult result) {
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
  const NvmlResult result = api->init();
  return result == kNvmlSuccess ? "" : FailureOf("nvmlInit_v2", result);
}

std::unique_ptr<GpmGpu> GpmGpu::Open(const GpmApi& api, const std::string& gpu_id, std::string* failure) {
  std::unique_ptr<GpmGpu> gpu(new GpmGpu(api));
  NvmlResult result = api.get_handle(gpu_id.c_str(), &gpu->device_);
  const bool has_parts = api.get_whole != nullptr && api.get_instance != nullptr && api.part_sample_get != nullptr;
  if (result != kNvmlSuccess && has_parts && gpu_id.substr(0, 4) == "GPU-") {
    void* part = nullptr;
    uint32_t instance = 0;
    if (api.get_handle(("MIG-" + gpu_id.substr(4)).c_str(), &part) == kNvmlSuccess &&
        api.get_instance(part, &instance) == kNvmlSuccess) {
      result = api.get_whole(part, &gpu->device_);
      gpu->instance_ = instance;
    }
  }
  const char* function = "nvmlDeviceGetHandleByUUID";
  GpmSupport support{kGpmVersion, 0};
  if (result == kNvmlSuccess) {
    function = "nvmlGpmQueryDeviceSupport";
    result = api.query_support(gpu->device_, &support);
    if (result == kNvmlSuccess && support.is_supported == 0) result = kNvmlNotSupported;
  }
  for (void*& snapshot : gpu->snapshots_) {
    if (result != kNvmlSuccess) break;
    function = "nvmlGpmSampleAlloc";
    result = api.sample_alloc(&snapshot);
    if (result != kNvmlSuccess) snapshot = nullptr;
  }
  if (result == kNvmlSuccess) return gpu;
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
  NvmlResult result = instance_ ? api_.part_sample_get(device_, *instance_, snapshots_[next])
                                : api_.sample_get(device_, snapshots_[next]);
  if (result != kNvmlSuccess) {
    *failure = FailureOf("nvmlGpmSampleGet", result);
    return {};
  }
  newest_ = next;
  newest_ns_ = now_ns;
  if (before_ns == 0) return {};
  metrics_->version = kGpmVersion;
  metrics_->count = std::size(kGpmMetrics);
  metrics_->before = snapshots_[1 - newest_];
  metrics_->after = snapshots_[newest_];
  for (uint32_t i = 0; i < std::size(kGpmMetrics); ++i)
    metrics_->metrics[i] = {kGpmMetrics[i].id, kNvmlNotSupported, 0, {}};
  result = api_.metrics_get(metrics_.get());
  if (result != kNvmlSuccess) {
    newest_ns_ = 0;
    *failure = FailureOf("nvmlGpmMetricsGet", result);
    return {};
  }
  Sample sample = Unmeasured(before_ns, now_ns);
  for (uint32_t i = 0; i < std::size(kGpmMetrics); ++i) {
    const GpmMetric& metric = metrics_->metrics[i];
    if (metric.result == kNvmlSuccess && std::isfinite(metric.value))
      sample.values[ColumnOf(kGpmMetrics[i].counter)] = static_cast<float>(metric.value * kGpmMetrics[i].unit);
  }
  return sample;
}

}  // namespace pitot::counters
