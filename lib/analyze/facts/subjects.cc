// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/subjects.h"

#include <set>

namespace pitot::facts {

std::vector<uint32_t> DevicesAtWork(const model::Trace& trace) {
  std::vector<bool> has_operations(trace.streams.size());
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] != model::GpuKind::kSpan) has_operations[trace.gpu.stream[row]] = true;
  }
  std::set<uint32_t> devices;
  for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
    if (has_operations[stream]) devices.insert(trace.streams[stream].device);
  }
  return {devices.begin(), devices.end()};
}

}  // namespace pitot::facts
