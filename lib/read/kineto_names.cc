// SPDX-License-Identifier: Apache-2.0
#include "read/kineto_names.h"

#include <algorithm>
#include <unordered_map>

#include "read/texts.h"

namespace pitot::read {
namespace {

// 'H' or 'D' for a kind of memory in the direction of a copy: "H", "D" (CUDA, ROCm); "M", "H", "D", "S" (Intel's PTI:
// pageable, pinned, device, shared); "Host", "Device" (roctracer). 0 for others.
char SideOf(std::string_view memory) {
  if (memory == "H" || memory == "M" || memory == "Host") return 'H';
  return memory == "D" || memory == "S" || memory == "Device" ? 'D' : '\0';
}

// "HtoD" for "HtoD", "M2D" and "HostToDevice"; "" for others.
std::string DirectionOf(std::string_view kind) {
  for (const std::string_view to : {"to", "To", "2"}) {
    const size_t at = kind.find(to);
    if (at == std::string_view::npos) continue;
    const char from = SideOf(kind.substr(0, at)), into = SideOf(kind.substr(at + to.size()));
    if (from != 0 && into != 0) return std::string(1, from) + "to" + into;
  }
  return "";
}

// A kind of events. Others' tools have those with a general name, too.
struct NamedKind {
  Category category;
  bool is_general = false;
};

const NamedKind* KindOf(std::string_view name) {
  static const std::unordered_map<std::string_view, NamedKind> kinds = {
      {"cpu_op", {Category::kOperator}},
      {"Operator", {Category::kOperator, true}},
      {"user_annotation", {Category::kScope}},
      {"python_function", {Category::kScope}},
      {"collective_comm", {Category::kScope}},
      {"cuda_runtime", {Category::kCall}},
      {"cuda_driver", {Category::kCall}},
      {"hip_runtime", {Category::kCall}},
      {"hip_driver", {Category::kCall}},
      {"xpu_runtime", {Category::kCall}},
      {"xpu_driver", {Category::kCall}},
      {"mtia_runtime", {Category::kCall}},
      {"privateuse1_runtime", {Category::kCall}},
      {"privateuse1_driver", {Category::kCall}},
      {"glow_runtime", {Category::kCall}},
      {"hpu_op", {Category::kCall}},
      {"Runtime", {Category::kCall, true}},
      {"kernel", {Category::kKernel, true}},
      {"Kernel", {Category::kKernel, true}},
      {"mtia_ccp_events", {Category::kKernel}},
      {"gpu_memcpy", {Category::kMemcpy}},
      {"Memcpy", {Category::kMemcpy, true}},
      {"gpu_memset", {Category::kMemset}},
      {"Memset", {Category::kMemset, true}},
      {"cuda_sync", {Category::kSync}},
      {"xpu_sync", {Category::kHostSync}},
      {"overhead", {Category::kOverhead, true}},
      // CUPTI's range profiler runs kernels several times in it.
      {"cuda_profiler_range", {Category::kOverhead}},
      {"gpu_user_annotation", {Category::kUnused}},
      {"cuda_event", {Category::kUnused}},
      {"mtia_insight", {Category::kUnused}},
      {"external_correlation", {Category::kUnused}},
      {"Trace", {Category::kUnused, true}},
      {"cpu_instant_event", {Category::kUnused}},
      {"fwdbwd", {Category::kUnused}},
      {"ac2g", {Category::kUnused}},
      {"async_cpu_to_gpu", {Category::kUnused}},
  };
  const auto found = kinds.find(name);
  return found == kinds.end() ? nullptr : &found->second;
}

}  // namespace

Category CategoryOf(const KinetoEvent& event) {
  if (event.phase != "X") return Category::kUnused;
  const NamedKind* const kind = KindOf(event.category);
  return kind == nullptr ? Category::kUnknown : kind->category;
}

bool IsKinetoKind(std::string_view name, bool has_kineto_argument) {
  const NamedKind* const kind = KindOf(name);
  return kind != nullptr && (has_kineto_argument || !kind->is_general);
}

std::string CopyName(std::string_view name) {
  constexpr std::string_view kPrefix = "Memcpy ", kArrow = " -> ", kRoctracer = "Copy", kRectangle = "2D";
  if (name.starts_with(kRoctracer)) {
    std::string_view kind = name.substr(kRoctracer.size());
    if (kind.ends_with(kRectangle)) kind.remove_suffix(kRectangle.size());
    const std::string direction = DirectionOf(kind);
    return direction.empty() ? std::string(name) : direction;
  }
  const size_t bracket = name.find('('), arrow = name.find(kArrow);
  if (!name.starts_with(kPrefix) || bracket == std::string_view::npos || arrow == std::string_view::npos ||
      arrow < bracket || name.back() != ')')
    return std::string(name);
  std::string_view kind = name.substr(kPrefix.size(), std::max(bracket, kPrefix.size()) - kPrefix.size());
  if (kind.ends_with(' ')) kind.remove_suffix(1);
  const std::string direction = DirectionOf(kind);
  const std::string_view from = name.substr(bracket + 1, arrow - bracket - 1);
  const std::string_view to = name.substr(arrow + kArrow.size(), name.size() - 1 - arrow - kArrow.size());
  return (direction.empty() ? std::string(kind) : direction) + ", " + Lowered(from) + " to " + Lowered(to);
}

std::string WithoutAddresses(std::string_view name) {
  constexpr std::string_view kAt = " at 0x";
  std::string text;
  for (size_t at; (at = name.find(kAt)) != std::string_view::npos;) {
    text.append(name.substr(0, at));
    const size_t end = name.find_first_not_of("0123456789abcdefABCDEF", at + kAt.size());
    name = name.substr(std::min(end, name.size()));
  }
  return text.append(name);
}

std::string_view LabelOf(std::string_view pid) {
  if (pid.empty() || pid[0] != '[') return {};
  return pid.substr(0, pid.find(']') + 1);
}

}  // namespace pitot::read
