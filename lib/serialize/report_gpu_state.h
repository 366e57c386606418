// SPDX-License-Identifier: Apache-2.0
//
// A report's lines on the state of GPUs over the window: clocks, power, and throttle reasons (docs/guide/nvml.md).
#ifndef PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_
#define PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/columns.h"
#include "base/gpu_counters.h"
#include "pitot/model/trace.h"

namespace pitot::report {

class GpuState {
 public:
  // `trace` must outlive this.
  explicit GpuState(const model::Trace& trace);
  bool IsKnown() const { return !gpus_.empty(); }
  // A few lines for each GPU.
  void Write(base::Lines* lines) const;

 private:
  using Counters = std::map<std::string, uint32_t>;  // rows of counters, by the part of their names after the GPU's

  std::string Usual(const Counters& of, base::GpuCounter counter, const char* shown) const;
  void Clocks(const Counters& of, base::Lines* lines) const;

  const model::Trace& trace_;
  std::map<std::string, Counters> gpus_;  // "GPU 0 (NVIDIA H100)"
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_
