// SPDX-License-Identifier: Apache-2.0
//
// Collect: measures chosen kernels with the GPU's hardware counters while the process serves: occupancy and its limit,
// hits in L2, the share of DRAM, tensor cores and SMs. docs/guide/profile_kernels.md says what it costs and needs.
//
//   pitot::Profile profile;
//   pitot::ProfileOptions options;
//   options.kernel = "FusedAttention";
//   if (pitot::ProfileKernels(recorder, options, &profile).ok()) Print(pitot::ProfileText(profile));
//
// Nothing runs twice unless the host asks for it: metrics that need several passes take as many launches.
#ifndef PITOT_COLLECT_PROFILE_H_
#define PITOT_COLLECT_PROFILE_H_

#include <stdint.h>

#include <optional>
#include <string>
#include <vector>

#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

class Recorder;

enum class ProfileReplay : uint8_t {
  kNone = 0,    // each launch runs once, and is one pass
  kKernel = 1,  // CUPTI saves the GPU's memory and runs each measured launch once a pass. The results stay the same.
};

enum class ProfileMetrics : uint8_t {
  kBasic = 0,  // all but sm_percent; the fewest launches a sample
  kAll = 1,    // several times as many (docs/lab/profile_kernels.md)
};

struct ProfileOptions {
  // Kernels with this text in their name, compiled or C++. Null or "": every kernel. The string is used during the
  // call.
  const char* kernel = nullptr;
  // Launches to measure, of all these kernels together, 1 to 100,000.
  uint32_t launches = 33;
  // How long to wait for them, ms, 1 to 600,000.
  uint32_t timeout_ms = 10'000;
  ProfileReplay replay = ProfileReplay::kNone;
  ProfileMetrics metrics = ProfileMetrics::kAll;
  // CUDA's ordinal of the GPU.
  uint32_t device = 0;
  // The file of CUPTI (12.6 or later); null: the copy in this process, otherwise the one for its CUDA.
  const char* library = nullptr;
  // Pauses the recorder's counter collector, which uses the same hardware, and resumes it. False: the host has paused
  // it.
  bool pauses_counters = true;
};

// What allows no more blocks on an SM.
enum class OccupancyLimit : uint8_t { kUnknown = 0, kRegisters = 1, kSharedMemory = 2, kThreads = 3, kBlocks = 4 };

// Launches of one kernel with one grid, block and shared memory. They are taken to be alike: passes of one metric come
// from different launches. A value that was not measured is empty, never 0. Measured values are medians.
struct KernelProfile {
  std::string name;  // "void at::native::reduce_kernel<512>(...)", as compiled if that is not a C++ name
  uint32_t grid[3] = {}, block[3] = {};
  uint64_t dynamic_shared_bytes = 0;
  uint32_t launches = 0;  // measured

  std::optional<uint32_t> registers_per_thread, static_shared_bytes;
  std::optional<double> theoretical_occupancy_percent;  // of the SM's warps, if its blocks are full
  OccupancyLimit limited_by = OccupancyLimit::kUnknown;
  std::optional<double> waves;  // the grid's blocks, by those that the GPU holds at a time

  std::optional<double> duration_ns;
  std::optional<double> achieved_occupancy_percent;
  std::optional<double> l2_hit_percent;  // hits and sectors are of different launches; 100 at most
  std::optional<double> dram_percent;    // of its peak throughput
  std::optional<double> dram_read_bytes, dram_written_bytes;
  std::optional<double> tensor_percent;  // of the time in which tensor cores could work
  std::optional<double> sm_percent;      // the busiest part of the SMs
};

struct Profile {
  std::vector<KernelProfile> kernels;  // longest launch first
  uint64_t launches_seen = 0;          // by this process, of any work, during the call
  uint64_t launches_measured = 0;
  // Measured and not used: another thread enqueued work meanwhile, or another kernel was in the range.
  uint64_t launches_disturbed = 0;
  uint64_t launches_captured = 0;   // into a graph: the first one ends the profile
  uint64_t launches_elsewhere = 0;  // of the kernels, on another GPU or context: not measured
  uint64_t launches_left_out = 0;   // more than 64 shapes, or more than 4,096 kernels
};

// Measures launches of the process while it makes them, and returns once there are enough. Needs a recorder with
// MakeCudaCallCollector, which sees the launches.
// Threads: any, one call at a time; not the thread that launches the kernels, which would wait for itself. The thread
// of
//   a measured launch starts and stops CUPTI's counters around it. No other thread waits, except one that captures a
//   graph or resets the device: that ends the profile, and goes on once CUPTI has let go, after 2 s at most.
// Errors: kInvalidArgument names the option. kNotRunning: the recorder. kAlreadyRunning: another call. kUnavailable: no
//   collector of calls, no permission, another profiler, too few launches in time, a graph's capture, a reset of the
//   device, or CUPTI failed; the message says which, and what to do. kNotFound: no CUPTI, no CUDA, or no context on the
//   GPU. kResourceExhausted: no memory. `profile` has what was measured before the error, unless a launch hangs.
// Lifetime: nothing runs afterwards. CUPTI stays loaded.
// Cost: docs/guide/profile_kernels.md. Launches stay a little dearer for the life of the process. Never calls CUPTI's
//   activity or callback API.
PITOT_EXPORT Status ProfileKernels(Recorder& recorder, const ProfileOptions& options, Profile* profile) noexcept;

// A table for people, some lines a kernel. Empty if there is no memory.
PITOT_EXPORT std::string ProfileText(const Profile& profile) noexcept;

// Sentences on how the longest kernel of one profile differs from that of another: time, the metric that differs most,
// and what limits occupancy. Names stand for the profiles: "fused", "SDPA". Empty if there is no memory.
PITOT_EXPORT std::string CompareProfiles(const char* name, const Profile& profile, const char* other_name,
                                         const Profile& other) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_COLLECT_PROFILE_H_
