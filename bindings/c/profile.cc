// SPDX-License-Identifier: Apache-2.0
#include "pitot/collect/profile.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "convert.h"
#include "handle.h"
#include "pitot/c.h"

struct pitot_profile {
  pitot::Profile profile;
};

namespace pitot::c {
namespace {

static_assert(PITOT_PROFILE_REPLAY_NONE == static_cast<int>(ProfileReplay::kNone));
static_assert(PITOT_PROFILE_REPLAY_KERNEL == static_cast<int>(ProfileReplay::kKernel));
static_assert(PITOT_PROFILE_METRICS_BASIC == static_cast<int>(ProfileMetrics::kBasic));
static_assert(PITOT_PROFILE_METRICS_ALL == static_cast<int>(ProfileMetrics::kAll));
static_assert(PITOT_OCCUPANCY_LIMIT_UNKNOWN == static_cast<int>(OccupancyLimit::kUnknown));
static_assert(PITOT_OCCUPANCY_LIMIT_REGISTERS == static_cast<int>(OccupancyLimit::kRegisters));
static_assert(PITOT_OCCUPANCY_LIMIT_SHARED_MEMORY == static_cast<int>(OccupancyLimit::kSharedMemory));
static_assert(PITOT_OCCUPANCY_LIMIT_THREADS == static_cast<int>(OccupancyLimit::kThreads));
static_assert(PITOT_OCCUPANCY_LIMIT_BLOCKS == static_cast<int>(OccupancyLimit::kBlocks));

pitot_profile_options ToC(const ProfileOptions& from) noexcept {
  pitot_profile_options to{};
  to.launches = from.launches;
  to.kernel = from.kernel;
  to.timeout_ms = from.timeout_ms;
  to.replay = static_cast<pitot_profile_replay>(from.replay);
  to.metrics = static_cast<pitot_profile_metrics>(from.metrics);
  to.device = from.device;
  to.library = from.library;
  to.pauses_counters = from.pauses_counters;
  return to;
}

Status FromC(const pitot_profile_options& from, ProfileOptions* to) noexcept {
  if (from.reserved != 0) return Status(StatusCode::kInvalidArgument, "pitot_profile_options::reserved must be 0");
  // Values outside the C++ enumerations become one that is refused by name.
  const auto number = [](int32_t value) { return static_cast<uint8_t>(value >= 0 && value < 255 ? value : 255); };
  to->launches = from.launches;
  to->kernel = from.kernel;
  to->timeout_ms = from.timeout_ms;
  to->replay = static_cast<ProfileReplay>(number(from.replay));
  to->metrics = static_cast<ProfileMetrics>(number(from.metrics));
  to->device = from.device;
  to->library = from.library;
  to->pauses_counters = from.pauses_counters != 0;
  return {};
}

template <class Value> int64_t WholeOf(const std::optional<Value>& value) noexcept {
  return value ? static_cast<int64_t>(*value) : -1;
}

pitot_kernel_profile ToC(const KernelProfile& from) noexcept {
  pitot_kernel_profile to{};
  to.launches = from.launches;
  to.name = from.name.c_str();
  std::copy_n(from.grid, 3, to.grid);
  std::copy_n(from.block, 3, to.block);
  to.dynamic_shared_bytes = from.dynamic_shared_bytes;
  to.registers_per_thread = WholeOf(from.registers_per_thread);
  to.static_shared_bytes = WholeOf(from.static_shared_bytes);
  to.limited_by = static_cast<pitot_occupancy_limit>(from.limited_by);
  to.theoretical_occupancy_percent = from.theoretical_occupancy_percent.value_or(-1);
  to.waves = from.waves.value_or(-1);
  to.duration_ns = from.duration_ns.value_or(-1);
  to.achieved_occupancy_percent = from.achieved_occupancy_percent.value_or(-1);
  to.l2_hit_percent = from.l2_hit_percent.value_or(-1);
  to.dram_percent = from.dram_percent.value_or(-1);
  to.dram_read_bytes = from.dram_read_bytes.value_or(-1);
  to.dram_written_bytes = from.dram_written_bytes.value_or(-1);
  to.tensor_percent = from.tensor_percent.value_or(-1);
  to.sm_percent = from.sm_percent.value_or(-1);
  return to;
}

pitot_profile_counts CountsOf(const Profile& from) noexcept {
  pitot_profile_counts to{};
  to.kernels = static_cast<uint32_t>(from.kernels.size());
  to.launches_seen = from.launches_seen;
  to.launches_measured = from.launches_measured;
  to.launches_disturbed = from.launches_disturbed;
  to.launches_captured = from.launches_captured;
  to.launches_elsewhere = from.launches_elsewhere;
  to.launches_left_out = from.launches_left_out;
  return to;
}

// Whether a caller has room for a struct that is given to it.
template <class Struct> bool HasRoom(const Struct* to) noexcept {
  return to != nullptr && to->size >= sizeof to->size && to->size <= kLargestStruct;
}

size_t Write(const std::string& from, char* text, size_t text_size) noexcept {
  if (text != nullptr && text_size != 0) text[from.copy(text, text_size - 1)] = '\0';
  return from.size();
}

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

void pitot_profile_options_init(pitot_profile_options* options, size_t size) {
  Give(ToC(ProfileOptions()), options, size);
}

pitot_status pitot_profile_kernels(pitot_recorder* recorder, const pitot_profile_options* options,
                                   pitot_profile** profile, char* message, size_t message_size) {
  const auto say = [&](const Status& status) { return Say(status, message, message_size); };
  if (profile == nullptr) return say(Status(StatusCode::kInvalidArgument, "profile must not be NULL"));
  *profile = nullptr;
  if (recorder == nullptr) return say(NotStarted());
  pitot_profile_options values = ToC(ProfileOptions());
  if (Status s = Take(options, &values); !s.ok()) return say(s);
  ProfileOptions cpp;
  if (Status s = FromC(values, &cpp); !s.ok()) return say(s);
  std::unique_ptr<pitot_profile> made(new (std::nothrow) pitot_profile);
  if (made == nullptr) return say(Status(StatusCode::kResourceExhausted, "no memory for a profile"));
  const Status status = ProfileKernels(recorder->recorder, cpp, &made->profile);
  if (status.code() != StatusCode::kInvalidArgument) *profile = made.release();
  return say(status);
}

void pitot_profile_free(pitot_profile* profile) { delete profile; }

pitot_status pitot_profile_count(const pitot_profile* profile, pitot_profile_counts* counts, char* message,
                                 size_t message_size) {
  if (!HasRoom(counts))
    return Say(Status(StatusCode::kInvalidArgument, "pitot_profile_counts::size must be sizeof(pitot_profile_counts)"),
               message, message_size);
  Give(profile != nullptr ? CountsOf(profile->profile) : pitot_profile_counts{}, counts, counts->size);
  return Say(Status(), message, message_size);
}

pitot_status pitot_profile_kernel(const pitot_profile* profile, uint32_t number, pitot_kernel_profile* kernel,
                                  char* message, size_t message_size) {
  if (!HasRoom(kernel))
    return Say(Status(StatusCode::kInvalidArgument, "pitot_kernel_profile::size must be sizeof(pitot_kernel_profile)"),
               message, message_size);
  if (profile == nullptr || number >= profile->profile.kernels.size())
    return Say(Status(StatusCode::kNotFound, "the profile has fewer kernels"), message, message_size);
  Give(ToC(profile->profile.kernels[number]), kernel, kernel->size);
  return Say(Status(), message, message_size);
}

size_t pitot_profile_text(const pitot_profile* profile, char* text, size_t text_size) {
  return Write(profile != nullptr ? ProfileText(profile->profile) : std::string(), text, text_size);
}

size_t pitot_profile_compare(const char* name, const pitot_profile* profile, const char* other_name,
                             const pitot_profile* other, char* text, size_t text_size) {
  if (profile == nullptr || other == nullptr) return Write({}, text, text_size);
  const auto known = [](const char* it) { return it != nullptr ? it : ""; };
  return Write(CompareProfiles(known(name), profile->profile, known(other_name), other->profile), text, text_size);
}

}  // extern "C"
