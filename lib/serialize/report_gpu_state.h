// SPDX-License-Identifier: Apache-2.0
//
// What a report says of the state that GPUs were in over the window: clocks, power, what held the clocks
// (docs/guide/nvml.md).
#ifndef PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_
#define PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_

#include <cstdint>
#include <map>
#include <string>

#include "base/columns.h"
#include "pitot/model/trace.h"

namespace pitot::report {

class GpuState {
 public:
  // The trace must outlive it.
  explicit GpuState(const model::Trace& trace);
  bool IsKnown() const { return !gpus_.empty(); }
  // A few lines for each GPU.
  void Write(base::Lines* lines) const;

 private:
  using Counters = std::map<std::string, uint32_t>;  // row of counters, by the part of its name after the GPU's

  std::string Usual(const Counters& of, const char* counter, const char* shown) const;
  void Clocks(const Counters& of, base::Lines* lines) const;

  const model::Trace& trace_;
  std::map<std::string, Counters> gpus_;  // "GPU 0 (NVIDIA H100)"
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_GPU_STATE_H_
