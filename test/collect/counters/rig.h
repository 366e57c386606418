// SPDX-License-Identifier: Apache-2.0
//
// The counter collector over a fake CUPTI and a clock that steps from round to round.
#ifndef PITOT_TEST_COLLECT_COUNTERS_RIG_H_
#define PITOT_TEST_COLLECT_COUNTERS_RIG_H_

#include <dlfcn.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "collect/counters/collector.h"
#include "collect/counters/fake_pm.h"
#include "fakes/counter_builder.h"
#include "fakes/step_timer.h"

namespace fakes {

// CLOCK_REALTIME is this far ahead in tests.
inline constexpr int64_t kAheadNs = 1'700'000'000'000'000'000;

inline bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// A collector's output: samples by device and counter, oldest first.
class CounterTrace final : public CounterBuilder {
 public:
  using Samples = std::vector<std::pair<int64_t, double>>;

  uint32_t AddText(const char* text) override {
    texts.push_back(text);
    return static_cast<uint32_t>(texts.size() - 1);
  }
  uint32_t AddDevice(const pitot::GpuDevice& device) override {
    devices[device.ordinal] = texts.at(device.name);
    uuids[device.ordinal] = texts.at(device.uuid);
    return device.ordinal;
  }
  uint32_t AddCounter(uint32_t device, const char* name, const char*) override {
    rows.push_back({device, name});
    return static_cast<uint32_t>(rows.size() - 1);
  }
  void AddSample(uint32_t counter, int64_t at_ns, double value) override {
    Samples& of = samples[rows.at(counter)];
    if (!of.empty()) is_newest_first = is_newest_first && at_ns <= of.front().first;
    of.insert(of.begin(), {at_ns, value});
  }
  void AddAttribute(const char* key, const char* value) override { attributes[key] = value; }

  Samples Of(const char* name, uint32_t device = 0) const {
    const auto found = samples.find({device, name});
    return found != samples.end() ? found->second : Samples();
  }

  // An attribute of a GPU, by the end of its key; "": it has none.
  std::string Attribute(const char* key, uint32_t gpu = 0) const {
    const auto found = attributes.find("counters." + std::to_string(gpu) + "." + key);
    return found != attributes.end() ? found->second : "";
  }
  std::string NotRecorded(uint32_t gpu = 0) const { return Attribute("not_recorded", gpu); }
  uint64_t Lost(uint32_t gpu = 0) const {
    const std::string lost = Attribute("lost_samples", gpu);
    return lost.empty() ? 0 : std::stoull(lost);
  }

  std::vector<std::string> texts;
  std::map<uint32_t, std::string> devices, uuids;
  std::vector<std::pair<uint32_t, std::string>> rows;
  std::map<std::pair<uint32_t, std::string>, Samples> samples;
  std::map<std::string, std::string> attributes;
  bool is_newest_first = true;
};

// The script is as after loading. Nothing is started, and nothing shared.
class Rig {
 public:
  Rig() : Rig(Open()) {
    fake->Reset();
    fake->realtime_ns = [timer = timer] { return timer->NowNs() + kAheadNs; };
  }
  // Another process with the same GPU, on a clock of its own.
  explicit Rig(Rig* first) : Rig(first->fake) { environment.shared_directory = first->environment.shared_directory; }
  ~Rig() {
    if (collector != nullptr) collector->Stop();
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;

  pitot::Status Start() {
    collector = pitot::counters::MakeCollector(options, environment);
    const pitot::Status started = collector->Start();
    if (started.ok()) REQUIRE(timer->AwaitIdle());
    return started;
  }
  template <class Work> void Script(Work work) {
    const std::lock_guard lock(fake->mutex);
    work(*fake);
    fake->changed.notify_all();
  }
  template <class Value> Value Seen(Value FakePm::*member) {
    const std::lock_guard lock(fake->mutex);
    return fake->*member;
  }
  // The trace of the last `ns`, asked for once `after_ns` have passed: samples of others come later.
  CounterTrace AskBack(int64_t ns, int64_t after_ns = 0) {
    collector->Keep(timer->NowNs() - ns, pitot::KeepFor::kIncident);
    if (after_ns != 0) REQUIRE(timer->Pass(after_ns));
    CounterTrace trace;
    collector->AddTo(trace);
    return trace;
  }

  std::shared_ptr<StepTimer> timer = std::make_shared<StepTimer>();
  FakePm* const fake;
  std::vector<counters::Gpu> gpus{{0, "NVIDIA H100"}};
  double cpu_share = 0.01;
  pitot::CounterOptions options;
  counters::Environment environment;
  std::unique_ptr<pitot::Collector> collector;

 private:
  explicit Rig(FakePm* pm) : fake(pm) {
    options.library = PITOT_TEST_FAKE_PM;
    environment.timer = timer;
    environment.find_gpus = [this] {
      const std::lock_guard lock(fake->mutex);
      return gpus;
    };
    environment.cpu_ns = [this] {
      const std::lock_guard lock(fake->mutex);
      return static_cast<int64_t>(static_cast<double>(timer->NowNs()) * cpu_share);
    };
    environment.realtime_offset_ns = [] { return kAheadNs; };
  }
  static FakePm* Open() {
    void* const handle = dlopen(PITOT_TEST_FAKE_PM, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<FakePm* (*)()>(dlsym(handle, "fake_pm"))();
  }
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_COUNTERS_RIG_H_
