// SPDX-License-Identifier: Apache-2.0
//
// The budget is a bound: a process at full load lives in a control group that has room for the budget and 4 MiB.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "fakes/child.h"
#include "fakes/memory_group.h"
#include "fakes/not_run.h"
#include "fakes/scale.h"
#include "fakes/temp_directory.h"
#include "pitot/analyze/judge.h"
#include "pitot/collect/host.h"
#include "pitot/pitot.h"

namespace {

using std::chrono::milliseconds;

constexpr uint64_t kBeyondBytes = 4 << 20;  // the allocator's own pages, stacks, tables of the kernel
constexpr int kThreads = 32;
constexpr uint64_t kIncidents = 12;
constexpr unsigned kPatienceSeconds = 300;  // it takes 6 of them on a quiet machine

// With pages of a black box in a tmpfs; without those of other files, which are the program and its libraries.
uint64_t ResidentBytes() {
  uint64_t bytes = 0;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("RssAnon:", 0) == 0 || line.rfind("RssShmem:", 0) == 0)
      bytes += std::stoull(line.substr(line.find(':') + 1)) * 1024;
  }
  return bytes;
}

struct Load {
  std::atomic<bool> begun{false}, over{false};
  std::atomic<int> slow{0};  // requests that are to be slow
};

void Handle(Load* load) {
  pitot::Request request = pitot::Request::Begin("/work");
  request.Stage("work");
  {
    PITOT_SCOPE("handle");
    for (int i = 0; i < 1000; i += 3) {
      PITOT_SCOPE("outer");
      PITOT_SCOPE("middle");
      PITOT_SCOPE("inner");
    }
    if (load->slow.load() > 0 && load->slow.fetch_sub(1) > 0) {
      PITOT_SCOPE("look up");
      std::this_thread::sleep_for(milliseconds(100));
    }
  }
  request.Finish(pitot::Outcome::kOk);
}

// Its file is memory.
class BoxDirectory {
 public:
  BoxDirectory() : path_("/dev/shm/pitot_memory_limit_test_" + std::to_string(getpid())) {}
  ~BoxDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  BoxDirectory(const BoxDirectory&) = delete;
  BoxDirectory& operator=(const BoxDirectory&) = delete;
  const std::string& path() const { return path_; }
  bool HasBox() const { return !fakes::NamesIn(path_).empty(); }

 private:
  const std::string path_;
};

// A server that fills its rings, has a judge and the host collector, and begins an incident as soon as the dump of the
// one before is on disk: those that wait for their verdict fill their room. `box` is null for no black box. 0: it lived
// in the memory that its budget promises.
int Serve(uint64_t budget_bytes, const fakes::MemoryGroup* group, const BoxDirectory* box) {
  const fakes::TempDirectory directory;
  Load load;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&load] {
      while (!load.begun) std::this_thread::sleep_for(milliseconds(1));
      while (!load.over) Handle(&load), std::this_thread::sleep_for(milliseconds(5));
    });
  }
  const uint64_t before = ResidentBytes();
  if (group != nullptr && !group->Enter(budget_bytes + kBeyondBytes)) return fakes::kCannotRun;
  pitot::Options options;
  options.incident_directory = directory.path().c_str();
  if (box != nullptr) options.black_box_directory = box->path().c_str();
  options.memory_budget_bytes = budget_bytes;
  options.max_incidents_per_cause_and_hour = 1000;
  options.worker_cpu_percent = 100;
  options.max_ring_bytes = 1 << 18;
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  if (box != nullptr && !box->HasBox()) return fakes::kCannotRun;
  pitot::WhyJudgeOptions why;
  why.warm_up_ms = 0;
  why.sample_every_ms = 500;
  HOLDS(recorder.Add(pitot::MakeHostCollector({})).ok());
  HOLDS(recorder.Add(pitot::MakeWhyJudge(why)).ok());
  HOLDS(recorder.Add(pitot::MakeLatencyTrigger({.above_ms = 90, .cool_down_ms = 1})).ok());
  load.begun = true;
  uint64_t most = 0;
  for (uint64_t incident = 0; incident < kIncidents; ++incident) {
    load.slow = 1;
    while (recorder.Stats().incidents_written <= incident) {
      most = std::max(most, ResidentBytes());
      std::this_thread::sleep_for(milliseconds(5));
    }
  }
  load.over = true;
  for (std::thread& thread : threads) thread.join();
  HOLDS(recorder.Flush(60'000).ok());
  const pitot::Stats stats = recorder.Stats();
  std::fprintf(
      stderr, "budget %.0f MiB%s: %.1f MiB resident at most, %.1f MiB of rings, %llu incidents, %llu verdicts\n",
      static_cast<double>(budget_bytes) / (1 << 20), box != nullptr ? ", black box" : "",
      static_cast<double>(most - before) / (1 << 20), static_cast<double>(stats.ring_bytes_used) / (1 << 20),
      static_cast<unsigned long long>(stats.incidents_written), static_cast<unsigned long long>(stats.verdicts_given));
  HOLDS(stats.incidents_written >= kIncidents);
  HOLDS(stats.verdicts_given >= 1);
  HOLDS(most - before <= budget_bytes + kBeyondBytes);
  return 0;
}

// Each in a process of its own, with memory used by nothing else.
void CheckBudgets(const fakes::MemoryGroup& group, const BoxDirectory* box) {
  for (const uint64_t mebibytes : {12, 64}) {
    INFO("a budget of " << mebibytes << " MiB");
    const uint64_t bytes = mebibytes << 20;
    const auto serve = [&] { return Serve(bytes, group.Exists() ? &group : nullptr, box); };
    const int result = fakes::WaitForChild(fakes::StartChild(serve, kPatienceSeconds));
    if (result == fakes::kCannotRun)
      NOT_RUN("the control group takes no limit, or /dev/shm no black box");
    else
      CHECK(result == 0);
  }
}

}  // namespace

TEST_CASE("a process at full load lives in a control group with room for its budget and 4 MiB", "[memory_limit]") {
  if (fakes::kThreadSanitizer || fakes::kAddressSanitizer) {
    NOT_RUN("a sanitizer takes memory of its own");
    return;
  }
  const fakes::MemoryGroup group;
  if (!group.Exists()) WARN("no limit is set: this user may not make a control group; pages are counted nevertheless");
  SECTION("without a black box") { CheckBudgets(group, nullptr); }
  SECTION("with a black box") {
    const BoxDirectory box;
    CheckBudgets(group, &box);
  }
}
