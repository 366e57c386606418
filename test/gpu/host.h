// SPDX-License-Identifier: Apache-2.0
//
// A host with a real GPU, and questions to its traces.
#ifndef PITOT_TEST_GPU_HOST_H_
#define PITOT_TEST_GPU_HOST_H_

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/work.h"
#include "pitot/collect/cupti.h"
#include "session/host.h"

namespace gpu {

// CUDA is not touched before the collector is added, so the Status of Add tells whether there is a GPU.
struct GpuHost : session_test::Host {
  explicit GpuHost(pitot::Depth depth) {
    options.depth = depth;
    options.memory_budget_bytes = 512 << 20;
    options.max_ring_bytes = 16 << 20;
    options.pre_window_ms = 60'000;
  }
  // False: there are not so many GPUs, and this was reported.
  bool StartOrSkip(pitot::CuptiOptions cupti = {}, int devices = 1,
                   pitot::CuptiAttach attach = pitot::CuptiAttach::kAtStart) {
    REQUIRE(Start());
    cupti.attach = attach;
    const pitot::Status status = recorder.Add(pitot::MakeCuptiCollector(cupti));
    if (CountDevices() == 0) {
      WARN("skipped, there is no GPU: " << status.message());
      return false;
    }
    if (CountDevices() < devices) {
      WARN("skipped, it takes " << devices << " GPUs, there are " << CountDevices());
      return false;
    }
    INFO(status.message());
    REQUIRE(status.ok());
    return true;
  }
  pitot::model::Trace Incident() {
    REQUIRE(TriggerAndFlush());
    REQUIRE(pitot::model::FindInconsistency(traces().back()) == "");
    return traces().back();
  }
};

inline std::string_view Name(const pitot::model::Trace& trace, uint32_t gpu) {
  return trace.strings[trace.gpu.name[gpu]];
}
inline bool Has(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

inline std::vector<uint32_t> Kernels(const pitot::model::Trace& trace, std::string_view part) {
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < trace.gpu.size(); ++i) {
    if (trace.gpu.kind[i] == pitot::model::GpuKind::kKernel && Has(Name(trace, i), part)) rows.push_back(i);
  }
  return rows;
}

// The value of an incident's attribute; 0 without it.
inline uint64_t Count(const pitot::model::Trace& trace, std::string_view key) {
  for (const auto& attribute : trace.attributes) {
    if (trace.strings[attribute.key] == key) return std::stoull(std::string(trace.strings[attribute.value]));
  }
  return 0;
}

inline void Say(const pitot::model::Trace& trace) {
  for (const auto& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key.substr(0, 5) == "cupti" || key.substr(0, 11) == "cuda_events")
      std::printf("%s: %s\n", std::string(key).c_str(), std::string(trace.strings[attribute.value]).c_str());
  }
  for (const auto& loss : trace.gpu_losses)
    std::printf("lost: %s, %llu records\n", std::string(trace.strings[loss.reason]).c_str(),
                static_cast<unsigned long long>(loss.records));
}

}  // namespace gpu

#endif  // PITOT_TEST_GPU_HOST_H_
