// SPDX-License-Identifier: Apache-2.0
#include "model/recorded.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

namespace pitot::model {

Depth DepthOf(const Trace& trace, int64_t begin_ns, int64_t end_ns) {
  const std::vector<DepthRow>& rows = trace.depths;
  if (rows.empty()) return trace.calls.size() != 0 || trace.gpu.size() != 0 ? Depth::kKernels : Depth::kScopes;
  auto row =
      std::partition_point(rows.begin(), rows.end(), [&](const DepthRow& one) { return one.begin_ns <= begin_ns; });
  if (row == rows.begin()) return Depth::kScopes;
  if (begin_ns >= end_ns) return Depth::kOps;
  for (--row; row != rows.begin() && row[-1].begin_ns == row->begin_ns;) --row;
  Depth depth = Depth::kOps;
  int64_t told_ns = begin_ns;
  for (; row != rows.end() && row->begin_ns < end_ns && row->begin_ns <= told_ns; ++row) {
    depth = std::min(depth, row->depth);
    told_ns = std::max(told_ns, row->end_ns);
  }
  return told_ns < end_ns ? Depth::kScopes : depth;
}

bool AreWaitsRecorded(const Trace& trace) {
  bool are_seen = false;
  for (const Attribute& attribute : trace.attributes) {
    const std::string_view key = trace.strings[attribute.key];
    if (key == "cuda_calls.not_recorded") return false;
    are_seen |= key == "cuda_calls.libraries" || key == "cuda_calls.looked_up";
  }
  return are_seen;
}

bool HasGpu(const Trace& trace) {
  return !trace.devices.empty() || !trace.streams.empty() || trace.gpu.size() != 0 || !trace.depths.empty();
}

bool IsDamagedDump(const Trace& trace) {
  return std::any_of(trace.losses.begin(), trace.losses.end(),
                     [](const LossRow& loss) { return loss.reason == LossReason::kDamaged; });
}

bool HasGpuWork(const Trace& trace) {
  const auto is_deep = [](const DepthRow& row) { return row.depth != Depth::kScopes; };
  const auto is_work = [](GpuKind kind) { return kind != GpuKind::kSpan; };
  return std::any_of(trace.depths.begin(), trace.depths.end(), is_deep) ||
         std::any_of(trace.gpu.kind.begin(), trace.gpu.kind.end(), is_work);
}

bool IsGpuWorkRecorded(const Trace& trace, int64_t begin_ns, int64_t end_ns) {
  return DepthOf(trace, begin_ns, end_ns) != Depth::kScopes && HasGpuWork(trace);
}

Intervals RecordedIn(const Trace& trace, Interval time) {
  if (trace.depths.empty()) return Union({time});
  std::vector<Interval> deep;
  for (const DepthRow& row : trace.depths) {
    if (row.depth != Depth::kScopes) deep.push_back({row.begin_ns, row.end_ns});
  }
  return Intersection(Union({time}), Union(std::move(deep)));
}

std::vector<bool> AreRequestsRecorded(const Trace& trace) {
  std::vector<bool> are(trace.requests.size(), HasGpuWork(trace));
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const RequestRow& request = trace.requests[row];
    are[row] = are[row] && DepthOf(trace, request.begin_ns, trace.RequestEnd(request)) != Depth::kScopes;
  }
  return are;
}

std::string WhyRefused(const Trace& trace, std::string_view collector) {
  constexpr std::string_view kRefused = "refused: ";
  const std::string_view why = trace.AttributeOf(collector);
  return std::string(why.substr(0, kRefused.size()) == kRefused ? why.substr(kRefused.size()) : why);
}

std::string WhyNoKernels(const Trace& trace) {
  const auto attribute = [&](std::string_view key) { return std::string(trace.AttributeOf(key)); };
  if (std::string why = attribute("cupti.not_recorded"); !why.empty()) return why;
  const auto is_kernel = [](GpuKind kind) { return kind == GpuKind::kKernel || kind == GpuKind::kGraph; };
  const bool has_kernels = std::any_of(trace.gpu.kind.begin(), trace.gpu.kind.end(), is_kernel);
  if (has_kernels || IsDamagedDump(trace)) return {};
  std::string opencl = attribute("opencl.not_recorded");
  if (attribute("cupti.version").empty()) {
    if (std::string why = WhyRefused(trace, "collector.cupti"); !why.empty()) return why;
    if (std::string why = WhyRefused(trace, "collector.opencl"); !why.empty()) return why;
    if (!opencl.empty()) return opencl;
    const bool has_spans = trace.gpu.size() != 0 && trace.depths.empty();
    return has_spans ? "no collector for kernels was added; to record kernels: pitot::MakeCuptiCollector" : "";
  }
  const auto is_deep = [](const DepthRow& row) { return row.depth != Depth::kScopes; };
  if (trace.depths.empty() || std::any_of(trace.depths.begin(), trace.depths.end(), is_deep)) return opencl;
  const std::string depth = attribute("depth.of_window");
  return "the depth was " + (depth.empty() ? "scopes" : depth) +
         "; to record kernels: Options::depth or Recorder::SetDepth";
}

}  // namespace pitot::model
