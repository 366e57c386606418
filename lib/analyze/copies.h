// SPDX-License-Identifier: Apache-2.0
//
// What copies are, by the names that collectors and readers give them: "HtoD, pageable to device".
#ifndef PITOT_LIB_ANALYZE_COPIES_H_
#define PITOT_LIB_ANALYZE_COPIES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// "HtoD".
inline std::string_view DirectionOf(const model::Trace& trace, uint32_t gpu_row) {
  const std::string_view name = trace.strings[trace.gpu.name[gpu_row]];
  return name.substr(0, name.find_first_of(", "));
}
// Between host and device, either way.
inline bool IsTransfer(const model::Trace& trace, uint32_t gpu_row) {
  const std::string_view direction = DirectionOf(trace, gpu_row);
  return direction == "HtoD" || direction == "DtoH";
}
inline bool IsPageable(const model::Trace& trace, uint32_t gpu_row) {
  return trace.strings[trace.gpu.name[gpu_row]].find("pageable") != std::string_view::npos;
}
// Rows of copies on a device, by stream and beginning.
inline std::vector<uint32_t> CopiesOf(const model::Trace& trace, uint32_t device) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == model::GpuKind::kMemcpy && trace.streams[trace.gpu.stream[row]].device == device)
      rows.push_back(row);
  }
  return rows;
}
inline model::Interval TimeOf(const model::Trace& trace, uint32_t gpu_row) {
  return {trace.gpu.begin_ns[gpu_row], trace.gpu.begin_ns[gpu_row] + trace.gpu.duration_ns[gpu_row]};
}

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_COPIES_H_
