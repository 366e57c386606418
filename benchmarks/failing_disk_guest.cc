// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "pitot/pitot.h"
#include "power_guest.h"
#include "trace/bus_guard.h"
#include "trace/rings.h"

namespace power_guest {
namespace {

constexpr uint64_t kLongestWaitNs = 60'000'000'000;

struct Incidents {
  std::atomic<uint64_t> whole{0}, failed{0};
};

void CountIncident(void* context, const pitot::IncidentInfo& incident) {
  auto* const count = static_cast<Incidents*>(context);
  ++(incident.status.ok() ? count->whole : count->failed);
}

// Each thread records this many more. Returns how many did.
int CountThatGoOn(const Life& life, uint64_t more) {
  uint64_t goals[kThreads];
  for (int i = 0; i < kThreads; ++i) goals[i] = life.threads[i].done.load() + more;
  int count = 0;
  for (const uint64_t until_ns = NowNs() + kLongestWaitNs; NowNs() < until_ns && count < kThreads; usleep(10'000)) {
    count = 0;
    for (int i = 0; i < kThreads; ++i) count += life.threads[i].done.load() >= goals[i] ? 1 : 0;
  }
  return count;
}

double TakeLongestMs(Life* life) {
  uint64_t longest_ns = 0;
  for (Progress& progress : life->threads) longest_ns = std::max(longest_ns, progress.longest_ns.exchange(0));
  return static_cast<double>(longest_ns) * 1e-6;
}

// Rings of new threads, one that grows, and names beyond the bytes that are allocated for them.
void NeedRoom(int round) {
  for (int i = 0; i < 8; ++i) {
    std::thread([] {
      pitot::SetThreadName("new");
      for (int n = 0; n < 1000; ++n) PITOT_INSTANT("on a new thread", n);
    }).join();
  }
  std::thread([] {
    pitot::SetThreadName("hot");
    for (int n = 0; n < 100'000; ++n) PITOT_INSTANT("on a hot thread", n);
  }).join();
  for (int i = 0; i < 400; ++i) pitot::Intern((std::to_string(1000 * round + i) + std::string(200, 'n')).c_str());
}

[[noreturn]] void Work(const std::string& disk, const std::string& incidents, Life* life, const char* fail,
                       bool is_killed) {
  Logged logged{};
  Incidents counts;
  pitot::Options options = OptionsFor(disk);
  options.incident_directory = incidents.c_str();
  LogTo(&logged, &options);
  pitot::Recorder recorder = pitot::Recorder::Start(options);
  pitot::Hooks hooks;
  hooks.context = &counts;
  hooks.on_incident = CountIncident;
  if (!recorder.status().ok() || !recorder.SetHooks(hooks).ok()) _exit(3);
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i)
    threads.emplace_back(RecordForEver, i, &life->threads[i], 500 + 500 * static_cast<unsigned>(i));
  CountThatGoOn(*life, 500);
  const bool had_incident = recorder.Trigger("before").ok() && recorder.Flush(60'000).ok() && counts.whole == 1;
  CountThatGoOn(*life, 500);
  const double longest_before_ms = TakeLongestMs(life);
  std::fflush(stdout);

  const int is_unable = std::system(fail);  // the threads record meanwhile
  for (int round = 0; round < 4; ++round) NeedRoom(round);
  const uint64_t events = recorder.Stats().events_recorded;
  const int going_on = CountThatGoOn(*life, 1000);
  const bool is_counted = recorder.Stats().events_recorded >= events + 4000;
  const double longest_after_ms = TakeLongestMs(life);
  const bool is_fired = recorder.Trigger("after").ok();
  const bool is_flushed = recorder.Flush(60'000).ok();
  const pitot::Stats stats = recorder.Stats();
  double stop_ms = 0;
  if (!is_killed) {
    g_ends.store(true);
    for (std::thread& thread : threads) thread.join();
    const uint64_t begin_ns = NowNs();
    recorder.Stop();
    stop_ms = static_cast<double>(NowNs() - begin_ns) * 1e-6;
  }
  std::printf(
      "@saw {\"unable\": %d, \"incident_before\": %d, \"going_on\": %d, \"counted\": %d, \"fired\": %d, \"flushed\": "
      "%d, "
      "\"whole\": %llu, \"failed\": %llu, \"files_failed\": %llu, \"pages_lost\": %llu, \"rings_outside\": %u, "
      "\"longest_before_ms\": %.1f, \"longest_after_ms\": %.1f, \"stop_ms\": %.1f, \"warnings\": %llu, "
      "\"errors\": %llu}\n",
      is_unable, had_incident ? 1 : 0, going_on, is_counted ? 1 : 0, is_fired ? 1 : 0, is_flushed ? 1 : 0,
      static_cast<unsigned long long>(counts.whole.load()), static_cast<unsigned long long>(counts.failed.load()),
      static_cast<unsigned long long>(stats.files_failed), static_cast<unsigned long long>(pitot::trace::PagesLost()),
      pitot::trace::CountRings().outside_box, longest_before_ms, longest_after_ms, stop_ms,
      static_cast<unsigned long long>(logged.warnings.load()), static_cast<unsigned long long>(logged.errors.load()));
  std::fflush(stdout);
  if (is_killed) kill(getpid(), SIGKILL);
  _exit(0);
}

}  // namespace

int Endure(const std::string& disk, const std::string& incidents, Shared* shared, const char* fail, bool is_killed) {
  Life& life = shared->lives[0];
  life.state.store(State::kRecording);
  life.start_ns.store(NowNs());
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) Work(disk, incidents, &life, fail, is_killed);
  life.pid.store(child);
  shared->lives_begun.store(1);
  int status = 0;
  waitpid(child, &status, 0);
  life.state.store(is_killed ? State::kKilled : State::kEnded);
  std::printf("@ended %d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  return 0;
}

}  // namespace power_guest
