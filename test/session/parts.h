// SPDX-License-Identifier: Apache-2.0
//
// For tests of the session's parts, each without a recorder around it and without its threads. Clocks stand still.
#ifndef PITOT_TEST_SESSION_PARTS_H_
#define PITOT_TEST_SESSION_PARTS_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "base/timer.h"
#include "fakes/log.h"
#include "fakes/temp_directory.h"
#include "session/cpu_throttle.h"
#include "session/host.h"
#include "session/host_calls.h"
#include "session/incident_counts.h"
#include "session/incident_files.h"
#include "session/lifetime.h"
#include "session/options.h"

namespace session_test {

inline constexpr int64_t kMs = 1'000'000, kSecond = 1'000'000'000;

// A clock that jumps to the end of each wait.
class JumpTimer final : public pitot::base::Timer {
 public:
  int64_t NowNs() noexcept override { return now_ns; }
  void WaitUntil(int64_t at_ns) noexcept override {
    waited_ns += at_ns - now_ns;
    now_ns = at_ns;
  }
  void Wake() noexcept override {}

  int64_t now_ns = 1000 * kSecond;
  int64_t waited_ns = 0;
};

// CPU time of the worker.
inline int64_t cpu_ns = 0;
inline int64_t CpuClock() noexcept { return cpu_ns; }

// The parts upstream of all others, of a running recorder.
struct Parts {
  // Without a directory, incidents are not kept on disk.
  explicit Parts(bool keeps_incidents = false, uint32_t cpu_percent = 100) {
    options.values = SmallOptions();
    log.Listen(&options.values);
    if (keeps_incidents) options.incident_directory = directory.path();
    cpu_ns = 0;
    throttle = std::make_unique<pitot::session::CpuThrottle>(cpu_percent, &lifetime, &timer, CpuClock);
    files = std::make_unique<pitot::session::IncidentFiles>(&options, &lifetime, &host, throttle.get(), &counts);
    lifetime.Begin();
  }

  fakes::TempDirectory directory;
  fakes::Log log;
  pitot::session::OwnedOptions options;
  pitot::session::Lifetime lifetime;
  pitot::session::HostCalls host{&options.values, &lifetime};
  pitot::session::IncidentCounts counts;
  JumpTimer timer;
  std::unique_ptr<pitot::session::CpuThrottle> throttle;
  std::unique_ptr<pitot::session::IncidentFiles> files;
};

inline pitot::session::QueuedFiring QueuedFiring(const char* cause, uint64_t at_ticks = 0, uint64_t request = 0) {
  pitot::Firing firing;
  firing.cause = cause;
  firing.detail = "it was slow";
  firing.request = request;
  pitot::session::QueuedFiring queued;
  queued.Set(firing, at_ticks, at_ticks);
  return queued;
}

inline std::unique_ptr<pitot::session::Incident> MakeIncident(uint64_t number) {
  auto incident = std::make_unique<pitot::session::Incident>();
  incident->number = number;
  incident->cause = "slow";
  incident->firings.push_back(QueuedFiring("slow", 0, number));
  return incident;
}

}  // namespace session_test

#endif  // PITOT_TEST_SESSION_PARTS_H_
