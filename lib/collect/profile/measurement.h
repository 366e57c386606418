// SPDX-License-Identifier: Apache-2.0
//
// The inside of Measure, one call of ProfileKernels: CUPTI's range profiler on one context, and the launches it
// measures.
//
// CUPTI is used by one thread at a time, and `phase_` says whose turn it is. The caller configures a set of metrics and
// arms it. The thread of the next fitting launch takes it, starts the counters, launches, stops them, and hands it
// back. Other launches are only counted.
#ifndef PITOT_LIB_COLLECT_PROFILE_MEASUREMENT_H_
#define PITOT_LIB_COLLECT_PROFILE_MEASUREMENT_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/semaphore.h"
#include "collect/profile/api.h"
#include "collect/profile/measure.h"
#include "collect/profile/metrics.h"
#include "pitot/collect/profile.h"
#include "pitot/status.h"
#include "trace/launch_hook.h"

namespace pitot::profile {

inline constexpr uint32_t kMostKernels = 4096, kMostShapes = 64, kMostSets = 8;

// A launched kernel. The caller finds its name.
struct Kernel {
  enum State : uint32_t { kEmpty, kNew, kMatched, kOther };
  std::atomic<const void*> key{nullptr};
  std::atomic<uint32_t> state{kEmpty};  // kNew: the members below are there
  trace::KernelHandle handle = trace::KernelHandle::kFunction;
  void* original = nullptr;
  // The caller's.
  void* function = nullptr;
  std::string name;
};

// Like launches of a kernel.
struct Shape {
  Kernel* kernel;
  uint32_t grid[3], block[3];
  uint64_t shared_bytes;
  std::array<uint32_t, kMostSets> samples;  // by set
  uint32_t launches;
  std::vector<std::vector<double>> values;  // by metric of all sets, in their order
};

// A set of metrics, configured.
struct Set {
  std::vector<Metric> metrics;
  size_t first = 0;  // of its metrics, among all
  counters::HostConfig config;
  std::vector<uint8_t> data;
  uint64_t samples = 0, quota = 0;
};

class Measurement {
 public:
  Measurement(const ProfileOptions& options, const Environment& environment);
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;
  ~Measurement() = default;

  // False: a thread hangs in a launch, and the measurement must stay.
  bool Run(Profile* profile, Status* status);

  Measurement* before_ = nullptr;  // of those left behind

  // For the hook.
  bool IsOurs() const noexcept;
  bool BeginLaunch(const trace::Launch& launch) noexcept;  // true: it is measured
  void EndLaunch(int result) noexcept;
  void NoteWork() noexcept;
  void EndFor(trace::Interruption what) noexcept;

 private:
  enum class Phase : uint32_t {
    kCaller,     // the caller's turn
    kArmed,      // for the next fitting launch
    kMeasuring,  // a launch has it
    kMeasured,   // handed back
    kAbandoned,  // the caller has gone: the launch's thread ends CUPTI
  };

  Status Prepare();
  Status FindContext();
  Status Configure(const char* chip);
  bool ConfigureSet(const char* chip, std::vector<Metric> metrics, Set* set);
  Status Loop();
  void Share();
  bool IsDone() const;
  Status Interrupted() const;
  Status Enable();
  Status Begin();
  Status Arm();
  Status Warm();
  Status TakeMeasured();
  Status Decode();
  bool TakeBack() noexcept;
  void Disable() noexcept;
  void Finish() noexcept;
  void Publish() noexcept;
  bool Withdraw() noexcept;
  void NameKernels();
  void NameKernel(Kernel* kernel);
  void Report(Profile* profile);
  Status Failed(const char* function, Result result) const;
  Status TooFew() const;
  Kernel* FindKernel(const trace::Launch& launch) noexcept;
  Shape* FindShape(Kernel* kernel, const trace::Launch& launch) noexcept;
  void NoteShape(const trace::Launch& launch) noexcept;
  bool IsWanted(const Shape& shape) noexcept;
  bool IsMatch(const std::string& name) const;

  const ProfileOptions options_;
  const std::string filter_;
  const Environment environment_;
  const Driver& driver_;
  Api api_{};
  int device_ = 0;
  void* context_ = nullptr;
  bool is_retained_ = false, is_pushed_ = false;
  void* profiler_ = nullptr;
  uint32_t fork_epoch_ = 0;
  std::vector<uint8_t> availability_;
  std::vector<Set> sets_;
  size_t metric_count_ = 0;
  std::string refused_;  // why a set could not be configured

  std::atomic<Phase> phase_{Phase::kCaller};
  std::atomic<trace::Interruption> interruption_{trace::Interruption::kNone};
  std::atomic<bool> has_ended_{false};
  std::atomic<uint64_t> seen_{0}, notes_{0}, captured_{0}, elsewhere_{0}, left_out_{0};
  std::atomic<uint32_t> new_kernels_{0}, matched_names_{0}, seen_shapes_count_{0};
  std::array<std::atomic<uint64_t>, kMostShapes> seen_shapes_{};  // of matching kernels; 0: none
  base::Semaphore wake_, ended_;
  std::unique_ptr<std::array<Kernel, kMostKernels>> kernels_;

  // Used by the one whose turn it is.
  size_t set_ = 0, pass_ = 0;
  Shape* shape_ = nullptr;  // of the passes so far
  std::vector<Shape> shapes_;
  uint32_t refusals_ = 0;      // of shapes in a row
  bool awaits_others_ = true;  // kernels known by name alone, and shapes that were only seen
  size_t enabled_set_ = 0;     // of profiler_
  bool may_warm_ = true, is_warm_ = false;
  uint64_t notes_before_ = 0;
  bool is_disturbed_ = false, is_all_submitted_ = false;
  const char* failed_ = nullptr;  // the function
  Result failure_ = counters::kSuccess;
  uint64_t measured_ = 0, disturbed_ = 0;
};

}  // namespace pitot::profile

#endif  // PITOT_LIB_COLLECT_PROFILE_MEASUREMENT_H_
