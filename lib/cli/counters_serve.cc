// SPDX-License-Identifier: Apache-2.0
#include "cli/counters_serve.h"

#include <pwd.h>
#include <signal.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/timer.h"
#include "cli/command.h"
#include "cli/files.h"
#include "collect/counters/sampler.h"

namespace pitot::cli {
namespace {

constexpr int kNice = 10;
constexpr uint64_t kHistoryBytes = 64 << 10;  // nobody reads it

std::optional<uint32_t> UserNamed(const std::string& name) {
  if (name.empty()) return geteuid();
  uint32_t number = 0;
  if (absl::SimpleAtoi(name, &number)) return number;
  const passwd* const found = getpwnam(name.c_str());
  return found != nullptr ? std::optional<uint32_t>(found->pw_uid) : std::nullopt;
}

// What is known of a GPU, in a line.
std::string TextOf(const counters::Gpu& gpu, const counters::GpuState& state, uint32_t user) {
  std::string text = absl::StrCat(gpu.id.empty() ? absl::StrCat("GPU ", gpu.ordinal) : gpu.id, " (", gpu.name, "): ");
  if (!state.not_recorded.empty()) return text + "not sampled: " + state.not_recorded;
  if (!state.not_shared.empty()) return text + "not shared: " + state.not_shared;
  if (state.interval_us == 0) return text + "not sampled yet";
  if (!state.sampled_by.empty()) return text + "sampled by " + state.sampled_by;
  return absl::StrCat(text, "sampled every ", state.interval_us, " us for processes of user ", user);
}

}  // namespace

int ServeCounters(const ServeOptions& options) {
  const std::optional<uint32_t> user = UserNamed(options.user);
  if (!user) {
    Complain(absl::StrCat("--user: there is no user ", options.user));
    return kUsage;
  }
  if (*user != geteuid() && geteuid() != 0) {
    Complain("--user: only root can sample for another user");
    return kUsage;
  }
  // Threads of the driver inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  if (const Status used = counters::UseAllGpus(); !used.ok()) {
    Complain(used.message());
    return kNothingFound;
  }
  setpriority(PRIO_PROCESS, 0, kNice);

  counters::Environment environment;
  environment.timer = std::make_shared<base::SystemTimer>();
  environment.find_gpus = counters::FindGpus;
  environment.cpu_ns = [] { return base::ClockNs(CLOCK_THREAD_CPUTIME_ID); };
  environment.realtime_offset_ns = [] { return base::ClockNs(CLOCK_REALTIME) - base::ClockNs(CLOCK_MONOTONIC); };
  environment.is_needed = [] { return false; };  // it has no work of its own: its readers ask
  environment.shared_directory = options.directory;
  environment.shared_user = user;
  counters::History history(kHistoryBytes);
  counters::Sampler sampler({options.cupti, options.interval_us, 2}, environment, &history);
  std::map<uint32_t, std::string> told;
  int exit_code = kDone;
  for (;;) {
    sampler.Round(counters::RoundFor::kTime);
    sampler.Visit([&](const counters::Gpu& gpu, const counters::GpuState& state) {
      std::string text = TextOf(gpu, state, *user);
      if (told[gpu.ordinal] == text) return;
      Print(text + "\n");
      fflush(stdout);
      told[gpu.ordinal] = std::move(text);
    });
    if (!sampler.IsAnyAllowed()) {
      Complain("no GPU can be sampled here; the lines above say why");
      exit_code = kNothingFound;
      break;
    }
    const timespec round{0, counters::kRoundNs};
    if (sigtimedwait(&signals, nullptr, &round) > 0) break;
  }
  sampler.Close();
  return exit_code;
}

}  // namespace pitot::cli
