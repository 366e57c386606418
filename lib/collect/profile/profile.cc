// SPDX-License-Identifier: Apache-2.0
#include "pitot/collect/profile.h"

#include "base/message.h"
#include "base/one_in_process.h"
#include "collect/profile/measure.h"
#include "pitot/recorder.h"
#include "trace/launch_hook.h"

namespace pitot::profile {
namespace {

using base::Error;

// The range profiler of a process has one user.
constinit base::OneInProcess g_only;

Status CheckOptions(const ProfileOptions& options, const Profile* profile) {
  if (profile == nullptr) return Status(StatusCode::kInvalidArgument, "null in place of a Profile");
  if (options.launches == 0 || options.launches > 100'000)
    return Error(StatusCode::kInvalidArgument, "ProfileOptions::launches is %u; it must be 1 to 100000",
                 options.launches);
  if (options.timeout_ms == 0 || options.timeout_ms > 600'000)
    return Error(StatusCode::kInvalidArgument, "ProfileOptions::timeout_ms is %u; it must be 1 to 600000",
                 options.timeout_ms);
  if (options.replay > ProfileReplay::kKernel)
    return Status(StatusCode::kInvalidArgument, "ProfileOptions::replay is not a ProfileReplay");
  if (options.metrics > ProfileMetrics::kAll)
    return Status(StatusCode::kInvalidArgument, "ProfileOptions::metrics is not a ProfileMetrics");
  return {};
}

}  // namespace

Status MeasureBesideCounters(Recorder& recorder, const ProfileOptions& options, const Environment& environment,
                             Profile* profile) {
  if (options.pauses_counters) {
    if (Status status = recorder.Pause("counters"); !status.ok()) {
      (void)recorder.Resume("counters");
      return status;
    }
  }
  Status status;
  try {
    status = Measure(options, environment, profile);
  } catch (...) {
    status = Status(StatusCode::kResourceExhausted, "no memory to profile kernels");
  }
  if (!options.pauses_counters) return status;
  Status resumed = recorder.Resume("counters");
  return status.ok() ? resumed : status;
}

namespace {

Status ProfileAlone(Recorder& recorder, const ProfileOptions& options, Profile* profile) {
  if (!trace::g_are_launches_seen.load(std::memory_order_acquire))
    return Status(StatusCode::kUnavailable,
                  "launches are not seen: add MakeCudaCallCollector to the recorder, or resume it");
  if (trace::g_captures.load() > 0)
    return Status(StatusCode::kUnavailable,
                  "the server captures a graph, and profiling would break it: call again once it is captured");
  Environment environment;
  if (Status status = FindDriver(&environment.driver); !status.ok()) return status;
  return MeasureBesideCounters(recorder, options, environment, profile);
}

}  // namespace
}  // namespace pitot::profile

PITOT_NAMESPACE_BEGIN

Status ProfileKernels(Recorder& recorder, const ProfileOptions& options, Profile* profile) noexcept {
  if (Status status = profile::CheckOptions(options, profile); !status.ok()) return status;
  *profile = {};
  if (Status status = recorder.status(); !status.ok()) return status;
  if (!profile::g_only.Take())
    return Status(StatusCode::kAlreadyRunning, "this process profiles kernels already: call again once it is done");
  Status status;
  try {
    status = profile::ProfileAlone(recorder, options, profile);
  } catch (...) {
    status = Status(StatusCode::kResourceExhausted, "no memory to profile kernels");
  }
  profile::g_only.GiveBack();
  return status;
}

PITOT_NAMESPACE_END
