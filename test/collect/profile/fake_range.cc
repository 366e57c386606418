// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's range profiler over a script. It has none of the activity and callback API: a profile that wants one fails to
// load it.
#include "collect/profile/fake_range.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#define EXPORT extern "C" [[gnu::visibility("default")]]

namespace {

using fakes::FakeRange;
using pitot::counters::Result;
using namespace pitot::profile;
namespace counters = pitot::counters;

FakeRange* State() {
  static FakeRange* const state = new FakeRange;
  return state;
}

struct Host {
  std::vector<std::string> metrics;
  bool is_broken = false;  // the real one answers nothing after an unknown metric
};
// As CUPTI 13.0: it keeps the passes of its first configuration, and how many are done.
struct Profiler {
  uint8_t* data = nullptr;
  size_t passes = 0, pass = 0;
  bool is_broken = false;
};
struct Config {
  size_t passes;
};
struct Data {
  size_t ranges, passes;
};

// One call: counted, failed as in the script.
template <class Work> Result Call(const char* name, Work work) {
  FakeRange& state = *State();
  const std::lock_guard lock(state.mutex);
  ++state.calls_of[name];
  if (++state.calls == state.fail_at_call) return state.fail_with;
  if (const auto found = state.results.find(name); found != state.results.end()) return found->second;
  return work(state);
}

// As on an H100.
size_t PassesOf(const std::string& metric) {
  if (metric.rfind("sm__throughput", 0) == 0) return 8;
  return metric.rfind("lts__", 0) == 0 ? 2 : 1;
}

}  // namespace

EXPORT FakeRange* fake_range() { return State(); }

EXPORT Result cuptiGetVersion(uint32_t* version) {
  *version = 28;
  return counters::kSuccess;
}
EXPORT Result cuptiGetResultString(Result result, const char** text) {
  *text = result == counters::kHardwareBusy ? "CUPTI_ERROR_HARDWARE_BUSY" : "CUPTI_ERROR_OTHER";
  return counters::kSuccess;
}
EXPORT Result cuptiProfilerInitialize(counters::InitializeParams*) {
  return Call("cuptiProfilerInitialize", [](FakeRange&) { return counters::kSuccess; });
}
EXPORT Result cuptiDeviceGetChipName(counters::ChipNameParams* params) {
  return Call("cuptiDeviceGetChipName", [&](FakeRange&) {
    params->chip = "GH100";
    return counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerGetCounterAvailability(ContextAvailabilityParams* params) {
  return Call("cuptiProfilerGetCounterAvailability", [&](FakeRange&) {
    params->image_bytes = 16;
    return counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerHostInitialize(counters::HostInitializeParams* params) {
  return Call("cuptiProfilerHostInitialize", [&](FakeRange& state) {
    if (params->type != kRangeProfiler) return counters::kInvalidParameter;
    ++state.hosts;
    params->host = new Host;
    return counters::kSuccess;
  });
}
// Freed even if the call is scripted to fail, as cuptiRangeProfilerDisable.
EXPORT Result cuptiProfilerHostDeinitialize(counters::HostDeinitializeParams* params) {
  FakeRange& state = *State();
  const std::lock_guard lock(state.mutex);
  --state.hosts;
  delete static_cast<Host*>(params->host);
  return Call("cuptiProfilerHostDeinitialize", [](FakeRange&) { return counters::kSuccess; });
}
EXPORT Result cuptiProfilerHostConfigAddMetrics(counters::AddMetricsParams* params) {
  return Call("cuptiProfilerHostConfigAddMetrics", [&](FakeRange& state) {
    Host& host = *static_cast<Host*>(params->host);
    for (size_t i = 0; i < params->count; ++i) {
      if (state.unknown.count(params->metrics[i]) != 0) host.is_broken = true;
      host.metrics.emplace_back(params->metrics[i]);
    }
    return host.is_broken ? counters::kInvalidParameter : counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetConfigImageSize(counters::ConfigSizeParams* params) {
  return Call("cuptiProfilerHostGetConfigImageSize", [&](FakeRange&) {
    params->bytes = sizeof(Config);
    return counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetConfigImage(counters::ConfigImageParams* params) {
  return Call("cuptiProfilerHostGetConfigImage", [&](FakeRange&) {
    Config config{0};
    for (const std::string& metric : static_cast<Host*>(params->host)->metrics)
      config.passes = std::max(config.passes, PassesOf(metric));
    std::memcpy(params->image, &config, sizeof config);
    return counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerHostGetNumOfPasses(counters::PassesParams* params) {
  return Call("cuptiProfilerHostGetNumOfPasses", [&](FakeRange&) {
    Config config{};
    std::memcpy(&config, params->image, sizeof config);
    params->passes = config.passes;
    return counters::kSuccess;
  });
}
EXPORT Result cuptiProfilerHostEvaluateToGpuValues(counters::EvaluateParams* params) {
  return Call("cuptiProfilerHostEvaluateToGpuValues", [&](FakeRange& state) {
    Data data{};
    std::memcpy(&data, params->data, sizeof data);
    for (size_t i = 0; i < params->count; ++i)
      params->values[i] = data.passes >= PassesOf(params->metrics[i]) ? state.value(params->metrics[i]) : NAN;
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerEnable(RangeEnableParams* params) {
  return Call("cuptiRangeProfilerEnable", [&](FakeRange& state) {
    if (state.enabled != 0) return counters::kHardwareBusy;
    ++state.enabled;
    params->profiler = new Profiler;
    return counters::kSuccess;
  });
}
// Disabled even if the call is scripted to fail, as nothing else could be done about it.
EXPORT Result cuptiRangeProfilerDisable(RangeParams* params) {
  FakeRange& state = *State();
  const std::lock_guard lock(state.mutex);
  --state.enabled;
  state.is_started = false;
  delete static_cast<Profiler*>(params->profiler);
  return Call("cuptiRangeProfilerDisable", [](FakeRange&) { return counters::kSuccess; });
}
EXPORT Result cuptiRangeProfilerGetCounterDataSize(RangeDataSizeParams* params) {
  return Call("cuptiRangeProfilerGetCounterDataSize", [&](FakeRange&) {
    params->bytes = sizeof(Data);
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerCounterDataImageInitialize(RangeDataInitializeParams* params) {
  return Call("cuptiRangeProfilerCounterDataImageInitialize", [&](FakeRange&) {
    std::memset(params->data, 0, params->bytes);
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerSetConfig(RangeConfigParams* params) {
  return Call("cuptiRangeProfilerSetConfig", [&](FakeRange& state) {
    if (params->range != kAutoRange || state.is_started) return counters::kInvalidOperation;
    Config config{};
    std::memcpy(&config, params->config, sizeof config);
    Profiler& profiler = *static_cast<Profiler*>(params->profiler);
    profiler.data = params->data;
    if (profiler.passes == 0) profiler.passes = config.passes;
    state.passes = config.passes;
    state.is_replaying = params->replay == kKernelReplay;
    state.kernels.clear();
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerStart(RangeParams*) {
  std::function<void()> on_start;
  const Result result = Call("cuptiRangeProfilerStart", [&](FakeRange& state) {
    if (std::exchange(state.is_started, true)) return counters::kInvalidOperation;
    on_start = state.on_start;
    return counters::kSuccess;
  });
  if (on_start) on_start();
  return result;
}
EXPORT Result cuptiRangeProfilerStop(RangeStopParams* params) {
  return Call("cuptiRangeProfilerStop", [&](FakeRange& state) {
    if (!std::exchange(state.is_started, false)) return counters::kInvalidOperation;
    Profiler& profiler = *static_cast<Profiler*>(params->profiler);
    if (state.kernels.size() <= profiler.pass && state.breaks_by_empty_passes) profiler.is_broken = true;
    if (!state.is_replaying) profiler.pass = (profiler.pass + 1) % profiler.passes;
    params->pass = profiler.pass;
    params->is_all_submitted = state.is_replaying || profiler.pass == 0 ? 1 : 0;
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerDecodeData(RangeDecodeParams* params) {
  return Call("cuptiRangeProfilerDecodeData", [&](FakeRange& state) {
    Profiler& profiler = *static_cast<Profiler*>(params->profiler);
    const bool is_whole =
        !profiler.is_broken && profiler.pass == 0 && (state.is_replaying || state.kernels.size() == state.passes);
    const Data data{1 + state.kernels_of_others, is_whole ? state.passes : 0};
    std::memcpy(profiler.data, &data, sizeof data);
    params->dropped = 0;
    state.samples.push_back(state.kernels);
    return counters::kSuccess;
  });
}
EXPORT Result cuptiRangeProfilerGetCounterDataInfo(RangeDataInfoParams* params) {
  return Call("cuptiRangeProfilerGetCounterDataInfo", [&](FakeRange&) {
    Data data{};
    std::memcpy(&data, params->data, sizeof data);
    params->ranges = data.ranges;
    return counters::kSuccess;
  });
}
