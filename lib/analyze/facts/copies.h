// SPDX-License-Identifier: Apache-2.0
//
// The kinds of copies, by the names that collectors and readers give them: "pageable to device", "HtoD, pageable to
// device". And the work that a copy comes after.
#ifndef PITOT_LIB_ANALYZE_FACTS_COPIES_H_
#define PITOT_LIB_ANALYZE_FACTS_COPIES_H_

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "analyze/facts/patience.h"
#include "pitot/extend/analyzer.h"
#include "pitot/model/index.h"
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

// When the GPU had done what a row came after: a copy cannot begin earlier. Earlier work is that of its stream. For a
// copy to the host it is all that the device did until the copy began, because the default stream waits for others.
class EarlierWork {
 public:
  explicit EarlierWork(const model::Trace& trace) : trace_(trace), busy_(trace.devices.size()) {}
  // To be called for each row, in order. INT64_MIN: nothing came before. Spans are no work of their own.
  int64_t EndBefore(uint32_t row) {
    if (trace_.gpu.stream[row] != stream_) stream_ = trace_.gpu.stream[row], end_ns_ = INT64_MIN;
    const int64_t before_ns = end_ns_;
    if (trace_.gpu.kind[row] != model::GpuKind::kSpan)
      end_ns_ = std::max(end_ns_, trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]);
    return std::max(before_ns, EndOnDevice(row));
  }

 private:
  int64_t EndOnDevice(uint32_t row) {
    const uint32_t device = trace_.streams[stream_].device;
    if (trace_.gpu.kind[row] != model::GpuKind::kMemcpy || device >= busy_.size() || DirectionOf(trace_, row) != "DtoH")
      return INT64_MIN;
    if (!busy_[device].has_value()) busy_[device] = DeviceBusy(trace_, device);
    const model::Intervals& busy = *busy_[device];
    const int64_t begin_ns = trace_.gpu.begin_ns[row];
    const auto after = std::partition_point(busy.begin(), busy.end(),
                                            [&](const model::Interval& of) { return of.begin_ns < begin_ns; });
    return after == busy.begin() ? INT64_MIN : std::min((after - 1)->end_ns, begin_ns);
  }

  const model::Trace& trace_;
  std::vector<std::optional<model::Intervals>> busy_;  // by device, made on first use
  uint32_t stream_ = model::kNone;
  int64_t end_ns_ = INT64_MIN;
};

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_COPIES_H_
