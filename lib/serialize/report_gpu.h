// SPDX-License-Identifier: Apache-2.0
//
// The GPU part of a report: the GPU time of each request, and the activities and the state of each device.
#ifndef PITOT_LIB_SERIALIZE_REPORT_GPU_H_
#define PITOT_LIB_SERIALIZE_REPORT_GPU_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/columns.h"
#include "model/kernel_name.h"
#include "pitot/model/index.h"
#include "pitot/model/trace.h"
#include "serialize/report_gpu_parts.h"
#include "serialize/report_gpu_state.h"

namespace pitot::report {

class GpuReport {
 public:
  // Both must outlive the report.
  GpuReport(const model::Trace& trace, const model::RequestIndex& index);

  // GPU time and kernel coverage of a request. "" if the trace has no GPU data.
  std::string OfRequest(uint32_t request) const;
  // A request's time divided between host and GPUs. "" if GPUs did nothing for it.
  std::string PartsOf(uint32_t request) const;
  // The coverage of a framework's operators, and why some are missing. "" if all are there, or are not recorded at all.
  std::string OperatorsOf(uint32_t request) const;
  // Writes the section, unless it is empty. `during` names the report's requests between two moments: " 1) 2)".
  void Write(const std::function<std::string(int64_t begin_ns, int64_t end_ns)>& during, base::Lines* lines);

 private:
  using During = std::function<std::string(int64_t begin_ns, int64_t end_ns)>;

  std::string Text(model::StringId id) const { return std::string(trace_.strings[id]); }
  std::string At(int64_t ns) const;
  // And its context: "7 (context 1)".
  std::string StreamNumber(uint32_t stream) const;
  std::string ThreadName(uint32_t thread) const;
  std::string Attribute(std::string_view key) const { return std::string(trace_.AttributeOf(key)); }
  // The batches that CUDA events timed; nullopt if they timed nothing at all.
  std::optional<uint64_t> BatchesTimed() const;
  std::string WhyNotTimed() const;
  // The parts of the window in which the device's activities were recorded.
  model::Intervals RecordedOf(uint32_t device) const;
  int64_t NobodysNs(uint32_t request) const;
  // Streams of the device with activities other than spans.
  uint64_t StreamsUsed(uint32_t device) const;
  // The device's name, and how busy it was.
  std::string DeviceHead(uint32_t device, const model::Intervals& busy, const model::Intervals& recorded) const;
  void Device(uint32_t device, const During& during, base::Lines* lines);
  void Kernels(uint32_t device, base::Lines* lines);
  void Copies(uint32_t device, base::Lines* lines);
  void Spans(uint32_t device, base::Lines* lines);
  void Waits(const During& during, base::Lines* lines) const;
  void Profiles(const During& during, base::Lines* lines) const;
  void Overheads(base::Lines* lines) const;
  std::string LossName(const model::GpuLossRow& loss) const;
  void Losses(const During& during, base::Lines* lines) const;

  const model::Trace& trace_;
  const model::RequestIndex& index_;
  const model::CoverageIndex coverage_;
  const model::GpuTime time_;
  const model::OperatorTimes operator_times_;
  const GpuPartsIndex parts_;
  const GpuState state_;
  const std::string why_no_kernels_;
  model::Intervals deep_;  // parts of the window in which GPU activities were recorded, including lost ones
};

}  // namespace pitot::report

#endif  // PITOT_LIB_SERIALIZE_REPORT_GPU_H_
