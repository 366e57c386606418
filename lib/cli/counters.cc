// SPDX-License-Identifier: Apache-2.0
#include <time.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/columns.h"
#include "cli/command.h"
#include "cli/command_line.h"
#include "cli/counters_now.h"
#include "cli/counters_serve.h"
#include "cli/files.h"
#include "collect/counters/sampler.h"

namespace pitot::cli {
namespace {

using nlohmann::ordered_json;

constexpr const char* kNobody = "no process of this user samples a GPU with pitot::counters";

struct CountersOptions {
  std::string action;
  int64_t release_s = 60;
  double patience_s = 5;
  std::string directory = counters::kSharedDirectory;
  bool json = false;
  ServeOptions serve;
};

ordered_json JsonOf(const GpuNow& gpu) {
  ordered_json document;
  document["gpu"] = gpu.id;
  document["state"] = NameOf(gpu.sampling);
  if (gpu.view.is_there) {
    document["pid"] = gpu.view.sampler.pid;
    document["process"] = gpu.view.sampler.name;
    document["interval_us"] = gpu.view.interval_us;
    if (gpu.view.newest_end_ns != 0) document["newest_sample_age_s"] = Seconds(gpu.view.newest_end_ns, gpu.realtime_ns);
  }
  if (gpu.sampling == Sampling::kReleased) {
    document["released_for_s"] = Seconds(gpu.realtime_ns, gpu.view.release_until_ns);
    document["asked_by_pid"] = gpu.view.asked_by.pid;
  }
  if (!gpu.view.failure.empty()) document["failure"] = gpu.view.failure;
  return document;
}

int PrintStatus(const CountersOptions& options) {
  const std::vector<GpuNow> gpus = LookAtCounters(options.directory);
  if (options.json) {
    ordered_json document;
    document["gpus"] = ordered_json::array();
    for (const GpuNow& gpu : gpus) document["gpus"].push_back(JsonOf(gpu));
    Print(document.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
  } else {
    base::Lines lines(WrapWidth(base::kColumns));
    for (const GpuNow& gpu : gpus) lines.AddWrapped(0, "", TextOf(gpu));
    Print(lines.text());
  }
  const bool is_any =
      std::any_of(gpus.begin(), gpus.end(), [](const GpuNow& gpu) { return gpu.sampling == Sampling::kNow; });
  if (gpus.empty()) Complain(kNobody);
  return is_any ? kDone : kNothingFound;
}

// Waits until the GPU's sampler has let go of it. Returns the last look.
GpuNow AwaitRelease(const CountersOptions& options, const std::string& id, int64_t until_ns) {
  for (;;) {
    GpuNow gpu = LookAtCounters(options.directory, id);
    const bool is_held = gpu.sampling == Sampling::kNow || gpu.sampling == Sampling::kSilent;
    if (!is_held || base::ClockNs(CLOCK_MONOTONIC) >= until_ns) return gpu;
    const timespec pause{0, 20'000'000};
    nanosleep(&pause, nullptr);
  }
}

int Release(const CountersOptions& options) {
  const int64_t now_ns = base::ClockNs(CLOCK_REALTIME);
  const int64_t until_ns = now_ns + options.release_s * 1'000'000'000;
  const counters::Process self = counters::ThisProcess();
  std::vector<GpuNow> asked;
  int exit_code = kDone;
  for (GpuNow& gpu : LookAtCounters(options.directory)) {
    const counters::SharedFile file(options.directory, gpu.id);
    if (const std::string failure = file.AskForRelease(self, now_ns, until_ns); !failure.empty()) {
      Complain(failure);
      exit_code = kNothingFound;
    } else {
      asked.push_back(std::move(gpu));
    }
  }
  if (asked.empty() && exit_code == kDone) Complain(kNobody);
  if (options.release_s == 0) {
    for (const GpuNow& gpu : asked) Print(absl::StrCat(gpu.id, " may be sampled again\n"));
    return exit_code;
  }
  const int64_t patience_ns = base::ClockNs(CLOCK_MONOTONIC) + static_cast<int64_t>(options.patience_s * 1e9);
  for (const GpuNow& before : asked) {
    const GpuNow gpu = AwaitRelease(options, before.id, patience_ns);
    if (gpu.sampling == Sampling::kReleased) {
      Print(before.sampling == Sampling::kNow
                ? absl::StrFormat("%s was released by %s for %d s\n", gpu.id, counters::TextOf(gpu.view.sampler),
                                  options.release_s)
                : absl::StrFormat("%s was not sampled, and will not be for %d s\n", gpu.id, options.release_s));
    } else {
      Complain(absl::StrCat("not released: ", TextOf(gpu)));
      exit_code = kNothingFound;
    }
  }
  return exit_code;
}

}  // namespace

void AddCounters(CommandLine& line) {
  auto options = std::make_shared<CountersOptions>();
  const Command command =
      line.Command("counters", "Tells which process samples a GPU's counters, has it released, or samples for others");
  command
      .Add("action", &options->action,
           "status: the sampling process of each GPU. release: ask this user's processes to give their GPUs away, and "
           "wait until they have. serve: sample all GPUs for a user's processes, which may not do it themselves")
      .Required()
      .OneOf({"status", "release", "serve"});
  command.Add("--for", &options->release_s, "release: seconds until they sample again; 0: at once")
      .Whole(0, counters::kLongestReleaseNs / 1'000'000'000)
      .ShowDefault();
  command.Add("--user", &options->serve.user, "serve: a user's name or number; the caller if it is left out");
  command
      .Add("--interval", &options->serve.interval_us,
           "serve: us between samples; 0: 4000, and more if that costs 2 % of a CPU")
      .ZeroOr(counters::kLeastIntervalUs, counters::kMostIntervalUs);
  command.Add("--cupti", &options->serve.cupti, "serve: the file of CUPTI");
  // Hidden: for tests.
  command.Add("--directory", &options->directory).HideFromHelp();
  command.Add("--patience", &options->patience_s).HideFromHelp().Number(0.01, 3600);
  command.AddFlag("--json", &options->json, "status: for programs, docs/reference/cli.md");
  command.Footer(
      "Another profiler can run then: pitot counters release --for 120 && ncu ...\n"
      "Exit codes: 1 of status: no GPU is sampled; of release: a GPU was not released; of serve: no GPU can be "
      "sampled. See `pitot --help` for others.");
  command.Run([options] {
    if (options->action == "status") return PrintStatus(*options);
    if (options->action == "release") return Release(*options);
    options->serve.directory = options->directory;
    return ServeCounters(options->serve);
  });
}

}  // namespace pitot::cli
