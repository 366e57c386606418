// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/subjects.h"

#include <set>

namespace pitot::facts {
namespace {

// Compares ASCII letters without case; `lower` has no capitals.
bool Is(std::string_view text, std::string_view lower) {
  return std::equal(text.begin(), text.end(), lower.begin(), lower.end(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? static_cast<char>(a - 'A' + 'a') : a) == b; });
}

}  // namespace

bool IsCompiling(std::string_view overhead) { return Is(overhead, "driver compiler") || Is(overhead, "compiling ptx"); }
bool IsLoading(std::string_view overhead) {
  return Is(overhead, "module loading") || Is(overhead, "runtime triggered module loading") ||
         Is(overhead, "lazy function loading");
}
bool IsQueueing(std::string_view overhead) { return Is(overhead, "command buffer full"); }

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
