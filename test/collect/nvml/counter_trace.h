// SPDX-License-Identifier: Apache-2.0
//
// A trace readable by tests: counters and attributes by their names.
#ifndef PITOT_TEST_COLLECT_NVML_COUNTER_TRACE_H_
#define PITOT_TEST_COLLECT_NVML_COUNTER_TRACE_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fakes/counter_builder.h"
#include "pitot/extend/collector.h"

namespace fakes {

// A collector's output, readable.
class Trace final : public CounterBuilder {
 public:
  struct CounterSamples {
    std::string unit;
    std::vector<std::pair<int64_t, double>> samples;
    double last() const { return samples.back().second; }
    std::vector<double> values() const {
      std::vector<double> all;
      for (const auto& sample : samples) all.push_back(sample.second);
      return all;
    }
  };

  uint32_t AddCounter(uint32_t device, const char* name, const char* unit) override {
    has_device = has_device || device != pitot::kNoRow;
    has_duplicate = has_duplicate || counters.count(name) != 0;
    names.push_back(name);
    counters[name].unit = unit;
    return static_cast<uint32_t>(names.size() - 1);
  }
  void AddSample(uint32_t counter, int64_t at_ns, double value) override {
    counters.at(names.at(counter)).samples.emplace_back(at_ns, value);
  }
  void AddAttribute(const char* key, const char* value) override {
    has_duplicate = has_duplicate || attributes.count(key) != 0;
    attributes[key] = value;
  }

  bool Has(const std::string& name, int gpu = 0) const { return counters.count(Full(name, gpu)) != 0; }
  const CounterSamples& Of(const std::string& name, int gpu = 0) const { return counters.at(Full(name, gpu)); }
  size_t sample_count() const {
    size_t count = 0;
    for (const auto& [name, counter] : counters) count += counter.samples.size();
    return count;
  }

  std::vector<std::string> names;
  std::map<std::string, CounterSamples> counters;
  std::map<std::string, std::string> attributes;
  bool has_device = false, has_duplicate = false;

 private:
  static std::string Full(const std::string& name, int gpu) {
    return "GPU " + std::to_string(gpu) + " (NVIDIA Fake 80GB): " + name;
  }
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_NVML_COUNTER_TRACE_H_
