// SPDX-License-Identifier: Apache-2.0
#include "cli/counters_now.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"

namespace pitot::cli {
namespace {

constexpr double kRestingS = 3;  // a sampler at work fetches samples twice a second

}  // namespace

double Seconds(int64_t from_ns, int64_t to_ns) {
  return std::max((static_cast<double>(to_ns) - static_cast<double>(from_ns)) / 1e9, 0.0);
}

GpuNow LookAtCounters(const std::string& directory, const std::string& id) {
  GpuNow gpu{id, Sampling::kNot, counters::SharedFile(directory, id).Look(), base::ClockNs(CLOCK_REALTIME)};
  const counters::SharedView& view = gpu.view;
  if (!view.failure.empty()) {
    gpu.sampling = Sampling::kUnreadable;
  } else if (counters::IsSampling(view, gpu.realtime_ns)) {
    gpu.sampling = Sampling::kNow;
  } else if (view.is_there && view.state == counters::SharedState::kSampling && counters::IsRunning(view.sampler)) {
    gpu.sampling = Sampling::kSilent;
  } else if (counters::IsReleaseAsked(view, gpu.realtime_ns)) {
    gpu.sampling = Sampling::kReleased;
  }
  return gpu;
}

std::vector<GpuNow> LookAtCounters(const std::string& directory) {
  std::vector<GpuNow> gpus;
  for (const std::string& id : counters::FindShared(directory)) gpus.push_back(LookAtCounters(directory, id));
  return gpus;
}

std::string TextOf(const GpuNow& gpu) {
  const counters::SharedView& view = gpu.view;
  const std::string sampler = counters::TextOf(view.sampler);
  switch (gpu.sampling) {
    case Sampling::kNow: {
      const double age_s = Seconds(view.newest_end_ns, gpu.realtime_ns);
      const std::string age = view.newest_end_ns == 0 ? "no process has needed a sample yet"
                              : age_s > kRestingS ? absl::StrFormat("no process has needed a sample for %.0f s", age_s)
                                                  : absl::StrFormat("its newest sample is %.1f s old", age_s);
      return absl::StrFormat("%s is sampled by %s, every %g ms; %s", gpu.id, sampler, view.interval_us / 1e3, age);
    }
    case Sampling::kReleased:
      return absl::StrFormat("%s is given away for another %.0f s: %s asked for it", gpu.id,
                             Seconds(gpu.realtime_ns, view.release_until_ns), counters::TextOf(view.asked_by));
    case Sampling::kSilent:
      return absl::StrFormat("%s may be sampled by %s, which has given no sign of life for %.0f s", gpu.id, sampler,
                             Seconds(view.heartbeat_ns, gpu.realtime_ns));
    case Sampling::kNot:
      return gpu.id + " is not sampled" + (view.is_there ? "; " + sampler + " was the last to sample it" : "");
    case Sampling::kUnreadable:
      break;
  }
  return gpu.id + ": " + view.failure;
}

const char* NameOf(Sampling sampling) {
  switch (sampling) {
    case Sampling::kNow:
      return "sampling";
    case Sampling::kReleased:
      return "released";
    case Sampling::kSilent:
      return "silent";
    case Sampling::kNot:
      return "ended";
    case Sampling::kUnreadable:
      break;
  }
  return "unreadable";
}

}  // namespace pitot::cli
