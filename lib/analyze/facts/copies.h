// SPDX-License-Identifier: Apache-2.0
//
// The kinds of copies, by the names that collectors and readers give them: "pageable to device", "HtoD, pageable to
// device". And the work that a copy comes after.
#ifndef PITOT_LIB_ANALYZE_FACTS_COPIES_H_
#define PITOT_LIB_ANALYZE_FACTS_COPIES_H_

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "analyze/facts/patience.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/intervals.h"
#include "pitot/model/trace.h"

namespace pitot::facts {

// "HtoD" for either form; the name's first word where it has no direction.
inline std::string_view DirectionOf(std::string_view name) {
  const std::string_view first = name.substr(0, name.find_first_of(", "));
  const size_t to = name.find(" to ");
  if (to == std::string_view::npos || name.find(',') < to) return first;
  const auto is_host = [](std::string_view memory) { return memory == "pageable" || memory == "pinned"; };
  const auto is_device = [](std::string_view memory) { return memory == "device" || memory == "array"; };
  const std::string_view from = name.substr(0, to), into = name.substr(to + 4);
  if (is_host(from) && is_device(into)) return "HtoD";
  if (is_device(from) && is_host(into)) return "DtoH";
  if (is_device(from) && is_device(into)) return "DtoD";
  return is_host(from) && is_host(into) ? "HtoH" : first;
}
inline std::string_view DirectionOf(const model::Trace& trace, uint32_t gpu_row) {
  return DirectionOf(trace.strings[trace.gpu.name[gpu_row]]);
}
// Whether the row is a copy between host and device, either way.
inline bool IsTransfer(const model::Trace& trace, uint32_t gpu_row) {
  const std::string_view direction = DirectionOf(trace, gpu_row);
  return direction == "HtoD" || direction == "DtoH";
}
// Rows of copies on a device, by stream and beginning. Throws Over.
inline std::vector<uint32_t> CopiesOf(Analysis& analysis, uint32_t device) {
  const model::Trace& trace = analysis.trace();
  std::vector<uint32_t> rows;
  for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
    if (trace.gpu.kind[row] == model::GpuKind::kMemcpy && trace.streams[trace.gpu.stream[row]].device == device)
      rows.push_back(row);
  }
  return rows;
}
inline model::Interval TimeOf(const model::Trace& trace, uint32_t gpu_row) {
  return {trace.gpu.begin_ns[gpu_row], trace.gpu.begin_ns[gpu_row] + trace.gpu.duration_ns[gpu_row]};
}

// When the stream of a row had done what came before it: a copy cannot begin earlier.
class EarlierWork {
 public:
  // To be called for each row, in order. INT64_MIN: nothing came before. Spans are no work of their own.
  int64_t EndBefore(const model::Trace& trace, uint32_t row) {
    if (trace.gpu.stream[row] != stream_) stream_ = trace.gpu.stream[row], end_ns_ = INT64_MIN;
    const int64_t before_ns = end_ns_;
    if (trace.gpu.kind[row] != model::GpuKind::kSpan)
      end_ns_ = std::max(end_ns_, trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]);
    return before_ns;
  }

 private:
  uint32_t stream_ = model::kNone;
  int64_t end_ns_ = INT64_MIN;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_COPIES_H_
