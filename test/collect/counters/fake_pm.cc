// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's functions of PM sampling over a script. It has none of the activity and callback API: a collector that wants
// one fails to load it.
#include "collect/counters/fake_pm.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using fakes::FakePm;
using namespace pitot::counters;

FakePm* New() {
  auto* const state = new FakePm;
  // For programs under test: FAKE_PM_FORBIDS=1 refuses all sampling.
  if (getenv("FAKE_PM_FORBIDS") != nullptr) state->results["cuptiPmSamplingEnable"] = kInsufficientPrivileges;
  return state;
}
FakePm* State() {
  static FakePm* const state = New();  // outlives threads hanging in it
  return state;
}

struct Host {
  std::vector<std::string> metrics;
  bool is_broken = false;  // the real one answers nothing after a metric that it does not know
};
struct SamplerObject {
  size_t device = 0;
  uint64_t resets = 0;  // of the device, before it
  uint64_t interval_ns = 0;
  bool is_started = false;
  int64_t begin_ns = 0;  // of the next sample
};
// All objects not given back yet. A failed call leaves its object here, as the real one does.
struct Objects {
  std::set<Host*> hosts;
  std::set<SamplerObject*> samplers;
};
Objects& Made() {
  static auto* const objects = new Objects;
  return *objects;
}
// The decoder's memory.
struct Data {
  uint32_t most, count;
  int64_t begin_ns[1];  // of samples
};

// No allocation fails meanwhile.
class Untouched {
 public:
  explicit Untouched(int* until_failure)
      : until_failure_(until_failure), kept_(until_failure != nullptr ? std::exchange(*until_failure, -1) : -1) {}
  ~Untouched() {
    if (until_failure_ != nullptr) *until_failure_ = kept_;
  }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;

 private:
  int* const until_failure_;
  const int kept_;
};

// One call: counted, failed or hanging as in the script.
template <class Work> Result Call(const char* name, Work work) {
  FakePm& state = *State();
  std::unique_lock lock(state.mutex);
  const Untouched untouched(state.until_failure);
  ++state.calls;
  if (state.is_capturing) state.in_a_capture.insert(name);
  const uint64_t number = ++state.calls_of[name];
  if (state.hang_in == name) {
    state.is_hanging = true;
    state.changed.wait(lock, [&] { return state.hang_in != name; });
    state.is_hanging = false;
  }
  if (state.all_fail_with != kSuccess) return state.all_fail_with;
  if (const auto once = state.fail_once.find(name); once != state.fail_once.end() && once->second == number)
    return kUnknown;
  if (const auto found = state.results.find(name); found != state.results.end()) return found->second;
  return work(state);
}

// A call for a device, unless that is lost.
template <class Work> Result CallFor(const char* name, size_t device, Work work) {
  return Call(name, [&](FakePm& state) { return state.lost.count(device) != 0 ? kUnknown : work(state); });
}

// A call with a sampler, unless its device is lost or was reset.
template <class Work> Result CallWith(const char* name, void* sampler, Work work) {
  SamplerObject& object = *static_cast<SamplerObject*>(sampler);
  return CallFor(name, object.device, [&](FakePm& state) {
    return state.resets[object.device] != object.resets ? kInvalidOperation : work(state, object);
  });
}

}  // namespace

EXPORT FakePm* fake_pm() { return State(); }

EXPORT Result cuptiGetVersion(uint32_t* version) {
  *version = 28;
  return kSuccess;
}

EXPORT Result cuptiGetResultString(Result result, const char** text) {
  *text = result == kHardwareBusy    ? "CUPTI_ERROR_HARDWARE_BUSY"
          : result == kNotCompatible ? "CUPTI_ERROR_NOT_COMPATIBLE"
                                     : "CUPTI_ERROR_OTHER";
  return kSuccess;
}
EXPORT Result cuptiProfilerInitialize(InitializeParams*) {
  return Call("cuptiProfilerInitialize", [](FakePm&) { return kSuccess; });
}
EXPORT Result cuptiDeviceGetChipName(ChipNameParams* params) {
  return CallFor("cuptiDeviceGetChipName", params->device, [&](FakePm&) {
    params->chip = "GH100";
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingGetCounterAvailability(AvailabilityParams* params) {
  return CallFor("cuptiPmSamplingGetCounterAvailability", params->device, [&](FakePm& state) {
    if (state.held.count(params->device) != 0) return kHardwareBusy;
    params->image_bytes = 16;
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostInitialize(HostInitializeParams* params) {
  return Call("cuptiProfilerHostInitialize", [&](FakePm& state) {
    if (params->type != kPmSampling) return kInvalidParameter;
    ++state.hosts;
    params->host = *Made().hosts.insert(new Host).first;
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostDeinitialize(HostDeinitializeParams* params) {
  return Call("cuptiProfilerHostDeinitialize", [&](FakePm& state) {
    --state.hosts;
    Made().hosts.erase(static_cast<Host*>(params->host));
    delete static_cast<Host*>(params->host);
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostConfigAddMetrics(AddMetricsParams* params) {
  return Call("cuptiProfilerHostConfigAddMetrics", [&](FakePm& state) {
    Host& host = *static_cast<Host*>(params->host);
    for (size_t i = 0; i < params->count; ++i) {
      if (state.unknown.count(params->metrics[i]) != 0) host.is_broken = true;
      host.metrics.push_back(params->metrics[i]);
    }
    if (host.is_broken) return kUnknown;
    state.metrics = host.metrics;
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetConfigImageSize(ConfigSizeParams* params) {
  return Call("cuptiProfilerHostGetConfigImageSize", [&](FakePm&) {
    params->bytes = sizeof(size_t);
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetConfigImage(ConfigImageParams* params) {
  return Call("cuptiProfilerHostGetConfigImage", [&](FakePm&) {
    const size_t count = static_cast<Host*>(params->host)->metrics.size();
    std::memcpy(params->image, &count, sizeof count);
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetNumOfPasses(PassesParams* params) {
  return Call("cuptiProfilerHostGetNumOfPasses", [&](FakePm& state) {
    size_t count = 0;
    std::memcpy(&count, params->image, sizeof count);
    params->passes = count <= state.most_in_a_pass ? 1 : 2;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingEnable(EnableParams* params) {
  return CallFor("cuptiPmSamplingEnable", params->device, [&](FakePm& state) {
    if (!state.held.insert(params->device).second) return kHardwareBusy;
    ++state.enabled;
    params->sampler = *Made().samplers.insert(new SamplerObject{params->device, state.resets[params->device]}).first;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingSetConfig(SetConfigParams* params) {
  return CallWith("cuptiPmSamplingSetConfig", params->sampler, [&](FakePm& state, SamplerObject& object) {
    if (params->append != kKeepLatest) return kInvalidParameter;
    if (params->trigger == kByTime && state.megahertz != 0) return state.refuses_time_with;
    if (params->trigger != kByTime && state.megahertz == 0) return kInvalidParameter;
    state.interval_ns = state.megahertz == 0 ? params->interval : params->interval * 1'000 / state.megahertz;
    object.interval_ns = state.interval_ns;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingGetCounterDataSize(DataSizeParams* params) {
  return CallWith("cuptiPmSamplingGetCounterDataSize", params->sampler, [&](FakePm&, SamplerObject&) {
    params->bytes = sizeof(Data) + (params->most_samples - 1) * sizeof(int64_t);
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingCounterDataImageInitialize(DataInitializeParams* params) {
  return CallWith("cuptiPmSamplingCounterDataImageInitialize", params->sampler, [&](FakePm& state, SamplerObject&) {
    Data* const data = reinterpret_cast<Data*>(params->data);
    state.data_bytes = params->bytes;
    state.most_data_bytes = std::max(state.most_data_bytes, params->bytes);
    data->most = static_cast<uint32_t>((params->bytes - sizeof(Data)) / sizeof(int64_t) + 1);
    data->count = 0;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingStart(SamplerParams* params) {
  return CallWith("cuptiPmSamplingStart", params->sampler, [&](FakePm& state, SamplerObject& object) {
    object.is_started = true;
    object.begin_ns = state.realtime_ns() + state.start_takes_ns;
    ++state.sampling;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingStop(SamplerParams* params) {
  return CallWith("cuptiPmSamplingStop", params->sampler, [&](FakePm& state, SamplerObject& object) {
    if (std::exchange(object.is_started, false)) --state.sampling;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingDisable(SamplerParams* params) {
  return CallWith("cuptiPmSamplingDisable", params->sampler, [&](FakePm& state, SamplerObject& object) {
    --state.enabled;
    if (object.is_started) --state.sampling;
    state.held.erase(object.device);
    Made().samplers.erase(&object);
    delete &object;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingDecodeData(DecodeParams* params) {
  return CallWith("cuptiPmSamplingDecodeData", params->sampler, [&](FakePm& state, SamplerObject& object) {
    Data* const data = reinterpret_cast<Data*>(params->data);
    const int64_t now_ns = state.realtime_ns(), interval_ns = static_cast<int64_t>(object.interval_ns);
    const int64_t due = (now_ns - object.begin_ns) / interval_ns, most = static_cast<int64_t>(state.most_kept);
    if (due > most) object.begin_ns += (due - most) * interval_ns;
    params->stop_reason = kEndOfRecords;
    for (; object.begin_ns + interval_ns <= now_ns; object.begin_ns += interval_ns) {
      if (data->count == data->most) {  // as on an H200: what has no room is lost
        params->stop_reason = kCounterDataFull;
        continue;
      }
      data->begin_ns[data->count++] = object.begin_ns;
    }
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingGetCounterDataInfo(DataInfoParams* params) {
  return Call("cuptiPmSamplingGetCounterDataInfo", [&](FakePm&) {
    const Data* const data = reinterpret_cast<const Data*>(params->data);
    params->completed = params->populated = data->count;
    params->total = data->most;
    return kSuccess;
  });
}
EXPORT Result cuptiPmSamplingCounterDataGetSampleInfo(SampleInfoParams* params) {
  return CallWith("cuptiPmSamplingCounterDataGetSampleInfo", params->sampler, [&](FakePm&, SamplerObject& object) {
    const int64_t begin_ns = reinterpret_cast<const Data*>(params->data)->begin_ns[params->index];
    params->begin_ns = static_cast<uint64_t>(begin_ns);
    params->end_ns = static_cast<uint64_t>(begin_ns) + object.interval_ns;
    return kSuccess;
  });
}
EXPORT Result cuptiProfilerHostEvaluateToGpuValues(EvaluateParams* params) {
  return Call("cuptiProfilerHostEvaluateToGpuValues", [&](FakePm& state) {
    const int64_t begin_ns = reinterpret_cast<const Data*>(params->data)->begin_ns[params->index];
    for (size_t i = 0; i < params->count; ++i) params->values[i] = state.value(params->metrics[i], begin_ns);
    return kSuccess;
  });
}
