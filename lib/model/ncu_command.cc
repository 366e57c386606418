// SPDX-License-Identifier: Apache-2.0
#include "model/ncu_command.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "model/kernel_name.h"

namespace pitot::model {
namespace {

bool IsWord(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// A regular expression for exactly this text, which is harmless within single quotes.
std::string Exactly(std::string_view text) {
  std::string regex = "^";
  for (const char c : text) {
    if (c == '\'' || static_cast<unsigned char>(c) < ' ') {
      regex += '.';
    } else if (std::string_view(R"(\^$.|?*+()[]{}/)").find(c) != std::string_view::npos) {
      regex.append(1, '\\').append(1, c);
    } else {
      regex += c;
    }
  }
  return regex + "$";
}

}  // namespace

bool CanNcuMeasure(const Trace& trace, uint32_t gpu_row) {
  if (trace.gpu.kind[gpu_row] != GpuKind::kKernel) return false;
  const uint32_t device = trace.streams[trace.gpu.stream[gpu_row]].device;
  return device >= trace.devices.size() || trace.strings[trace.devices[device].name].substr(0, 3) != "AMD";
}

StringId LongestKernel(const Trace& trace) {
  std::unordered_map<StringId, int64_t> times;
  StringId longest = 0;
  int64_t most_ns = -1;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (CanNcuMeasure(trace, row)) times[trace.gpu.name[row]] += trace.gpu.duration_ns[row];
  }
  for (const auto& [name, ns] : times) {
    if (name != 0 && (ns > most_ns || (ns == most_ns && name < longest))) most_ns = ns, longest = name;
  }
  return longest;
}

std::string NcuCommand(const Trace& trace, StringId kernel) {
  uint64_t launches = 0;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row)
    launches += trace.gpu.kind[row] == GpuKind::kKernel && trace.gpu.name[row] == kernel;
  const uint64_t each = std::max<uint64_t>(1, trace.batches.empty() ? 1 : launches / trace.batches.size());
  const uint64_t skip = std::min(10 * each, launches / 2), count = std::min<uint64_t>(each, 10);

  // Demanglers differ in blanks and aliases. So a name is compared as compiled, or without its scopes and arguments.
  constexpr size_t kMostLetters = 120;
  const std::string_view name = trace.strings[kernel];
  const bool is_compiled = name.size() <= kMostLetters && std::all_of(name.begin(), name.end(), [](char c) {
                             return IsWord(c) || c == '$' || c == '.';
                           });
  std::string brief = is_compiled ? std::string(name) : ReadKernelName(name).brief;
  if (const size_t scope = brief.rfind("::"); !is_compiled && scope != std::string::npos) brief.erase(0, scope + 2);
  return "pitot counters release --for 600; ncu --target-processes all --set roofline --section Occupancy --section "
         "LaunchStats --clock-control none "
         "--cache-control none --kernel-name-base " +
         std::string(is_compiled ? "mangled" : "function") + " --kernel-name 'regex:" + Exactly(brief) +
         "' --launch-skip " + std::to_string(skip) + " --launch-count " + std::to_string(count) + " PROGRAM";
}

}  // namespace pitot::model
