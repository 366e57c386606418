// SPDX-License-Identifier: Apache-2.0
//
// NVML's functions over a script. FAKE_NVML_OLD has only the required ones, like old drivers.
#include "collect/nvml/fake_nvml.h"

#include <cstdio>
#include <cstring>

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using fakes::FakeGpu;
using fakes::FakeNvml;
using namespace pitot::nvml;

FakeNvml* State() {
  static FakeNvml* const state = new FakeNvml;  // outlives threads hanging in it
  return state;
}

// Handles point at one of these.
[[maybe_unused]] char g_handles[128];

// One call: counted, failed or hanging as in the script.
class Call {
 public:
  Call(const char* name, Device device) : lock_(State()->mutex), device_(device) {
    FakeNvml& state = *State();
    ++state.calls;
    ++state.calls_of[name];
    Take(name);
    const bool fails = state.calls == state.fail_at_call;
    if (state.hang_in == name) {
      state.is_hanging = true;
      state.changed.wait(lock_, [&] { return state.hang_in != name; });
      state.is_hanging = false;
    }
    const auto of_all = state.results.find(name);
    const auto of_one = state.results.find(std::string(name) + "@" + std::to_string(index()));
    const auto lost = state.results.find("lost@" + std::to_string(index()));
    if (device_ != nullptr && index() >= state.gpus.size()) result_ = kInvalidArgument;
    if (of_all != state.results.end()) result_ = of_all->second;
    if (device_ != nullptr && of_one != state.results.end()) result_ = of_one->second;
    if (device_ != nullptr && lost != state.results.end()) result_ = lost->second;
    if (fails) result_ = state.fail_with;
  }

  size_t index() const { return device_ != nullptr ? static_cast<size_t>(static_cast<char*>(device_) - g_handles) : 0; }
  FakeGpu& gpu() const { return State()->gpus[index()]; }
  static void Take(const std::string& what) {
    const auto found = State()->takes_ns.find(what);
    if (found != State()->takes_ns.end()) State()->pass(found->second);
  }
  // The result, after `work` if it is success.
  template <class Work> Result Then(Work work) {
    if (result_ == kSuccess) work();
    return result_;
  }

 private:
  std::unique_lock<std::mutex> lock_;
  Device device_;
  Result result_ = kSuccess;
};

[[maybe_unused]] Result Copy(const std::string& from, char* to, unsigned int bytes) {
  if (from.size() >= bytes) return kInsufficientSize;
  std::memcpy(to, from.c_str(), from.size() + 1);
  return kSuccess;
}

}  // namespace

EXPORT FakeNvml* fake_nvml() { return State(); }

#ifndef FAKE_NVML_EMPTY
EXPORT Result nvmlInit_v2() {
  return Call("nvmlInit_v2", nullptr).Then([] { ++State()->inits; });
}
EXPORT Result nvmlShutdown() {
  Call call("nvmlShutdown", nullptr);
  --State()->inits;
  return call.Then([] {});
}
EXPORT Result nvmlDeviceGetCount_v2(unsigned int* count) {
  return Call("nvmlDeviceGetCount_v2", nullptr).Then([&] { *count = static_cast<unsigned>(State()->gpus.size()); });
}
EXPORT Result nvmlDeviceGetHandleByIndex_v2(unsigned int index, Device* device) {
  return Call("nvmlDeviceGetHandleByIndex_v2", &g_handles[index]).Then([&] { *device = &g_handles[index]; });
}
#endif

#if !defined(FAKE_NVML_EMPTY) && !defined(FAKE_NVML_OLD)
EXPORT Result nvmlSystemGetDriverVersion(char* text, unsigned int bytes) {
  Call call("nvmlSystemGetDriverVersion", nullptr);
  Result copied = kSuccess;
  const Result result = call.Then([&] { copied = Copy(State()->driver_version, text, bytes); });
  return result != kSuccess ? result : copied;
}
EXPORT Result nvmlDeviceGetName(Device device, char* text, unsigned int bytes) {
  return Call("nvmlDeviceGetName", device).Then([&] { Copy("NVIDIA Fake 80GB", text, bytes); });
}
EXPORT Result nvmlDeviceGetUUID(Device device, char* text, unsigned int bytes) {
  Call call("nvmlDeviceGetUUID", device);
  return call.Then([&] { Copy("GPU-0000000" + std::to_string(call.index()), text, bytes); });
}
EXPORT Result nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  return Call("nvmlDeviceGetPciInfo_v3", device).Then([&] { Copy("00000000:1B:00.0", info->bus_id, 32); });
}
EXPORT Result nvmlDeviceGetUtilizationRates(Device device, Utilization* to) {
  Call call("nvmlDeviceGetUtilizationRates", device);
  return call.Then([&] { *to = {call.gpu().utilization, call.gpu().memory_utilization}; });
}
EXPORT Result nvmlDeviceGetMemoryInfo(Device device, Memory* to) {
  Call call("nvmlDeviceGetMemoryInfo", device);
  return call.Then([&] {
    const FakeGpu& gpu = call.gpu();
    *to = {gpu.memory_total, gpu.memory_total - gpu.memory_used, gpu.memory_used};
  });
}
EXPORT Result nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned int* count, ProcessInfo* to) {
  Call call("nvmlDeviceGetComputeRunningProcesses_v2", device);
  Result result = kSuccess;
  const Result called = call.Then([&] {
    const auto& processes = call.gpu().processes;
    if (processes.size() > *count) result = kInsufficientSize;
    *count = static_cast<unsigned>(processes.size());
    if (result == kSuccess && !processes.empty())
      std::memcpy(to, processes.data(), processes.size() * sizeof(ProcessInfo));
  });
  return called != kSuccess ? called : result;
}
EXPORT Result nvmlDeviceGetClockInfo(Device device, int clock, unsigned int* mhz) {
  Call call(clock == kClockSm ? "nvmlDeviceGetClockInfo(SM)" : "nvmlDeviceGetClockInfo(MEM)", device);
  return call.Then([&] { *mhz = clock == kClockSm ? call.gpu().sm_clock : call.gpu().memory_clock; });
}
EXPORT Result nvmlDeviceGetPowerUsage(Device device, unsigned int* to) {
  Call call("nvmlDeviceGetPowerUsage", device);
  return call.Then([&] { *to = call.gpu().power_milliwatts; });
}
EXPORT Result nvmlDeviceGetTemperature(Device device, int, unsigned int* to) {
  Call call("nvmlDeviceGetTemperature", device);
  return call.Then([&] { *to = call.gpu().temperature; });
}
// Under its older name.
EXPORT Result nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* to) {
  Call call("reasons", device);
  return call.Then([&] { *to = call.gpu().reasons; });
}
EXPORT Result nvmlDeviceGetFieldValues(Device device, int count, FieldValue* values) {
  Call call("nvmlDeviceGetFieldValues", device);
  return call.Then([&] {
    for (int i = 0; i < count; ++i) {
      const std::string name = "field " + std::to_string(values[i].field);
      ++State()->calls_of[name];
      Call::Take(name);
      const auto found = call.gpu().fields.find(values[i].field);
      values[i].result = found != call.gpu().fields.end() ? kSuccess : kNotSupported;
      if (found == call.gpu().fields.end()) continue;
      values[i].value_type = found->second.type;
      if (found->second.type == kUnsignedInt) {
        values[i].value.as_unsigned_int = static_cast<unsigned int>(found->second.value);
      } else {
        values[i].value.as_unsigned_long_long = found->second.value;
      }
    }
  });
}
EXPORT Result nvmlDeviceGetTotalEccErrors(Device device, int error, int, unsigned long long* to) {
  Call call("nvmlDeviceGetTotalEccErrors", device);
  return call.Then([&] { *to = error == kCorrected ? call.gpu().ecc_corrected : call.gpu().ecc_uncorrected; });
}
EXPORT Result nvmlEventSetCreate(EventSet* set) {
  return Call("nvmlEventSetCreate", nullptr).Then([&] {
    ++State()->event_sets;
    *set = State();
  });
}
EXPORT Result nvmlEventSetFree(EventSet) {
  Call call("nvmlEventSetFree", nullptr);
  --State()->event_sets;
  return call.Then([] {});
}
EXPORT Result nvmlEventSetWait_v2(EventSet, EventData* data, unsigned int) {
  Call call("nvmlEventSetWait_v2", nullptr);
  auto& events = State()->events;
  const bool is_empty = events.empty();
  const Result result = call.Then([&] {
    if (is_empty) return;
    *data = events.front();
    data->device = &g_handles[reinterpret_cast<uintptr_t>(data->device)];  // tests give an index
    events.erase(events.begin());
  });
  return result == kSuccess && is_empty ? kTimeout : result;
}
EXPORT Result nvmlDeviceRegisterEvents(Device device, unsigned long long, EventSet) {
  return Call("nvmlDeviceRegisterEvents", device).Then([] {});
}
// By the names of nvmlDeviceGetUUID; "MIG-" in place of "GPU-" is a part of that GPU.
EXPORT Result nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  *device = nullptr;
  const Result result = Call("nvmlDeviceGetHandleByUUID", nullptr).Then([&] {
    for (size_t i = 0; i < State()->gpus.size(); ++i) {
      const std::string name = (State()->gpus[i].has_parts ? "MIG-0000000" : "GPU-0000000") + std::to_string(i);
      if (name == uuid) *device = &g_handles[i];
    }
  });
  return result == kSuccess && *device == nullptr ? kNotFound : result;
}
EXPORT Result nvmlDeviceGetDeviceHandleFromMigDeviceHandle(Device part, Device* device) {
  return Call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", part).Then([&] { *device = part; });
}
EXPORT Result nvmlDeviceGetGpuInstanceId(Device part, unsigned int* instance) {
  return Call("nvmlDeviceGetGpuInstanceId", part).Then([&] { *instance = 7; });
}
EXPORT Result nvmlGpmMigSampleGet(Device device, unsigned int instance, GpmSample sample) {
  if (instance != 7) return kInvalidArgument;
  return Call("nvmlGpmMigSampleGet", device).Then([&] { *static_cast<Device*>(sample) = device; });
}
EXPORT Result nvmlGpmQueryDeviceSupport(Device device, GpmSupport* support) {
  Call call("nvmlGpmQueryDeviceSupport", device);
  return call.Then([&] { support->is_supported = call.gpu().has_gpm; });
}
EXPORT Result nvmlGpmSampleAlloc(GpmSample* sample) {
  return Call("nvmlGpmSampleAlloc", nullptr).Then([&] {
    ++State()->gpm_samples;
    *sample = new Device(nullptr);
  });
}
EXPORT Result nvmlGpmSampleFree(GpmSample sample) {
  Call call("nvmlGpmSampleFree", nullptr);
  --State()->gpm_samples;
  delete static_cast<Device*>(sample);
  return call.Then([] {});
}
EXPORT Result nvmlGpmSampleGet(Device device, GpmSample sample) {
  return Call("nvmlGpmSampleGet", device).Then([&] { *static_cast<Device*>(sample) = device; });
}
EXPORT Result nvmlGpmMetricsGet(GpmMetricsGet* metrics) {
  Device const device = *static_cast<Device*>(metrics->sample2);
  if (metrics->version != kGpmVersion || metrics->sample1 == metrics->sample2 || device == nullptr ||
      *static_cast<Device*>(metrics->sample1) != device)
    return kInvalidArgument;
  Call call("nvmlGpmMetricsGet", device);
  return call.Then([&] {
    for (unsigned int i = 0; i < metrics->count; ++i) {
      const auto found = call.gpu().gpm.find(metrics->metrics[i].id);
      metrics->metrics[i].result = found != call.gpu().gpm.end() ? kSuccess : kNotSupported;
      if (found != call.gpu().gpm.end()) metrics->metrics[i].value = found->second;
    }
  });
}
#endif
