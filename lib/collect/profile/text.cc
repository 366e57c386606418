// SPDX-License-Identifier: Apache-2.0
//
// Profiles for people: a table, and a comparison of two.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

#include "pitot/collect/profile.h"

namespace pitot::profile {
namespace {

using Value = std::optional<double>;

template <class... Args> std::string Print(const char* format, Args... args) {
  char text[512];
  std::snprintf(text, sizeof text, format, args...);
  return text;
}

std::string Percent(const Value& value, const char* of = "") {
  return value ? Print("%.1f %%%s", *value, of) : "not measured";
}
std::string Time(const Value& ns) {
  if (!ns) return "not measured";
  return *ns >= 1e6 ? Print("%.3g ms", *ns / 1e6) : Print("%.4g us", *ns / 1e3);
}
std::string Bytes(const Value& bytes) {
  if (!bytes) return "not measured";
  return *bytes >= 1e6   ? Print("%.4g MB", *bytes / 1e6)
         : *bytes >= 1e3 ? Print("%.4g KB", *bytes / 1e3)
                         : Print("%.0f bytes", *bytes);
}

const char* NameOf(OccupancyLimit limit) {
  switch (limit) {
    case OccupancyLimit::kUnknown:
      return "";
    case OccupancyLimit::kRegisters:
      return "registers";
    case OccupancyLimit::kSharedMemory:
      return "shared memory";
    case OccupancyLimit::kThreads:
      return "threads";
    case OccupancyLimit::kBlocks:
      return "blocks";
  }
  return "";
}

// ", limited by registers (168 a thread)".
std::string LimitText(const KernelProfile& kernel) {
  if (kernel.limited_by == OccupancyLimit::kUnknown) return "";
  std::string text = std::string(", limited by ") + NameOf(kernel.limited_by);
  if (kernel.limited_by == OccupancyLimit::kRegisters && kernel.registers_per_thread)
    text += Print(" (%u a thread)", *kernel.registers_per_thread);
  if (kernel.limited_by == OccupancyLimit::kSharedMemory && kernel.static_shared_bytes) {
    const double bytes = static_cast<double>(kernel.dynamic_shared_bytes + *kernel.static_shared_bytes);
    text += Print(" (%.1f KiB a block)", bytes / 1024);
  }
  return text;
}

std::string KernelText(const KernelProfile& kernel) {
  std::string text = kernel.name + "\n";
  text += Print("  launch      grid %ux%ux%u, block %ux%ux%u, %llu bytes of dynamic shared memory; %u measured\n",
                kernel.grid[0], kernel.grid[1], kernel.grid[2], kernel.block[0], kernel.block[1], kernel.block[2],
                static_cast<unsigned long long>(kernel.dynamic_shared_bytes), kernel.launches);
  text += "  time        " + Time(kernel.duration_ns) + "\n";
  text += "  occupancy   achieved " + Percent(kernel.achieved_occupancy_percent) + ", possible " +
          (kernel.theoretical_occupancy_percent ? Percent(kernel.theoretical_occupancy_percent) : "unknown") +
          LimitText(kernel);
  text += (kernel.waves ? Print("; %.2f waves of blocks\n", *kernel.waves) : "\n");
  text += "  L2 hits     " + Percent(kernel.l2_hit_percent) + "\n";
  text += "  DRAM        " + Percent(kernel.dram_percent, " of its peak") + "; read " + Bytes(kernel.dram_read_bytes) +
          ", written " + Bytes(kernel.dram_written_bytes) + "\n";
  text += "  tensor      " + Percent(kernel.tensor_percent, " of the time") + "\n";
  text += "  SMs         " + Percent(kernel.sm_percent, " of their peak") + "\n";
  return text;
}

struct Compared {
  const char* name;
  Value KernelProfile::*value;
};
constexpr Compared kCompared[] = {
    {"possible occupancy", &KernelProfile::theoretical_occupancy_percent},
    {"achieved occupancy", &KernelProfile::achieved_occupancy_percent},
    {"hits in L2", &KernelProfile::l2_hit_percent},
    {"use of DRAM", &KernelProfile::dram_percent},
    {"use of tensor cores", &KernelProfile::tensor_percent},
    {"use of the SMs", &KernelProfile::sm_percent},
};

std::string TimesText(const std::string& name, const KernelProfile& kernel, const std::string& other_name,
                      const KernelProfile& other) {
  if (!kernel.duration_ns || !other.duration_ns || *kernel.duration_ns <= 0 || *other.duration_ns <= 0) return "";
  const bool is_slower = *kernel.duration_ns >= *other.duration_ns;
  const double slow = std::max(*kernel.duration_ns, *other.duration_ns);
  const double fast = std::min(*kernel.duration_ns, *other.duration_ns);
  return Print("%s takes %.2f times as long as %s (", (is_slower ? name : other_name).c_str(), slow / fast,
               (is_slower ? other_name : name).c_str()) +
         Time(slow) + " and " + Time(fast) + "). ";
}

std::string Compare(const std::string& name, const KernelProfile& kernel, const std::string& other_name,
                    const KernelProfile& other) {
  std::string text = TimesText(name, kernel, other_name, other);
  const Compared* most = nullptr;
  double difference = 0;
  for (const Compared& compared : kCompared) {
    if (!(kernel.*compared.value) || !(other.*compared.value)) continue;
    const double points = std::fabs(*(kernel.*compared.value) - *(other.*compared.value));
    if (points > difference) most = &compared, difference = points;
  }
  if (most == nullptr) return text + "No metric was measured of both.";
  text += std::string("They differ most in ") + most->name + ": " + name + " " + Percent(kernel.*most->value) + ", " +
          other_name + " " + Percent(other.*most->value) + ".";
  const auto limit = [&](const std::string& of, const KernelProfile& which) {
    if (!which.theoretical_occupancy_percent) return;
    text +=
        " " + of + ": " + Percent(which.theoretical_occupancy_percent) + " occupancy possible" + LimitText(which) + ".";
  };
  limit(name, kernel);
  limit(other_name, other);
  return text;
}

}  // namespace
}  // namespace pitot::profile

PITOT_NAMESPACE_BEGIN

std::string ProfileText(const Profile& profile) noexcept {
  try {
    std::string text;
    for (const KernelProfile& kernel : profile.kernels) text += profile::KernelText(kernel);
    const auto number = [](uint64_t count) { return static_cast<unsigned long long>(count); };
    text += profile::Print(
        "%llu launches seen, %llu measured, %llu disturbed, %llu captured, %llu elsewhere, %llu left out\n",
        number(profile.launches_seen), number(profile.launches_measured), number(profile.launches_disturbed),
        number(profile.launches_captured), number(profile.launches_elsewhere), number(profile.launches_left_out));
    return text;
  } catch (...) {
    return {};
  }
}

std::string CompareProfiles(const char* name, const Profile& profile, const char* other_name,
                            const Profile& other) noexcept {
  try {
    if (profile.kernels.empty()) return std::string("No kernel of ") + name + " was measured.";
    if (other.kernels.empty()) return std::string("No kernel of ") + other_name + " was measured.";
    return profile::Compare(name, profile.kernels.front(), other_name, other.kernels.front());
  } catch (...) {
    return {};
  }
}

PITOT_NAMESPACE_END
