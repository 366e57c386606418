// SPDX-License-Identifier: Apache-2.0
#include "read/join_devices.h"

#include <string_view>
#include <unordered_map>

#include "base/gpu_uuid.h"

namespace pitot::read {
namespace {

using model::Trace;

// NVML's attribute is "NVIDIA H100, GPU-5c0f..., PCI 00000000:01:00.0". It numbers the machine's GPUs in an order of
// its own, so it tells of a process's GPU only if there is one. Instances of a GPU (MIG) share its UUID.
std::string UuidOfOnlyGpu(const Trace& trace,
                          const std::unordered_map<std::string_view, std::string_view>& attributes) {
  constexpr std::string_view kUuid = "GPU-";
  const auto only = attributes.find("nvml.0");
  if (trace.devices.size() != 1 || only == attributes.end() || attributes.count("nvml.1") != 0 ||
      attributes.count("nvml.devices_left_out") != 0 ||
      trace.strings[trace.devices[0].name].find(" MIG ") != std::string_view::npos)
    return "";
  const size_t begin = only->second.find(kUuid);
  if (begin == std::string_view::npos) return "";
  return std::string(only->second.substr(begin, only->second.find(',', begin) - begin));
}

}  // namespace

std::vector<std::string> UuidsOf(const Trace& trace) {
  std::unordered_map<std::string_view, std::string_view> attributes;
  for (const model::Attribute& row : trace.attributes)
    attributes.emplace(trace.strings[row.key], trace.strings[row.value]);
  std::vector<std::string> uuids;
  for (const model::DeviceRow& device : trace.devices) {
    const auto uuid = attributes.find(base::GpuUuidKey(device.ordinal));
    uuids.emplace_back(uuid != attributes.end() ? uuid->second : std::string_view());
  }
  if (uuids.size() == 1 && uuids[0].empty()) uuids[0] = UuidOfOnlyGpu(trace, attributes);
  return uuids;
}

}  // namespace pitot::read
