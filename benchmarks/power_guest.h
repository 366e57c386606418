// SPDX-License-Identifier: Apache-2.0
//
// Shared by the parts of pitot_power_guest: the memory for their notes of recorded numbers, and the recorder's options.
#ifndef PITOT_BENCHMARKS_POWER_GUEST_H_
#define PITOT_BENCHMARKS_POWER_GUEST_H_

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <string>

#include "base/clock.h"
#include "pitot/pitot.h"

namespace power_guest {

inline constexpr int kThreads = 4, kLives = 64, kNoted = 64;
inline constexpr uint64_t kSlotBytes = 64 << 10;

enum class State : uint32_t { kNone, kStarting, kRecording, kStopping, kKilled, kEnded };
inline constexpr const char* kStates[] = {"none", "starting", "recording", "stopping", "killed", "ended"};

// What a process has recorded: tools/power_loss does not look into it.
struct Progress {
  std::atomic<uint64_t> begun, done, done_ns;
  std::atomic<uint64_t> longest_ns;  // of a request with its event
};
struct Life {
  std::atomic<int64_t> pid;
  std::atomic<State> state;
  std::atomic<uint64_t> start_ns;
  Progress threads[kThreads];
};
// tools/power_loss reads `lives_begun`, `noted` and `names`.
struct Shared {
  std::atomic<uint32_t> lives_begun;
  std::atomic<uint32_t> noted;
  char names[kNoted][64];  // of incidents that were reported as written
  Life lives[kLives];      // the one with number n is at n % kLives
};
static_assert(sizeof(Shared) <= kSlotBytes);

inline Shared* MapShared(const char* path, uint64_t slot) {
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  void* const at =
      fd < 0 ? MAP_FAILED
             : mmap(nullptr, kSlotBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(slot * kSlotBytes));
  if (at == MAP_FAILED) {
    std::perror(path);
    _exit(2);
  }
  return static_cast<Shared*>(at);
}

inline uint64_t NowNs() { return static_cast<uint64_t>(pitot::base::ClockNs(CLOCK_MONOTONIC)); }

// An event with this sum is one that was recorded; any other was put together from pieces of several.
inline uint64_t SumOf(uint64_t thread, uint64_t number, uint64_t ns) {
  uint64_t sum = (thread + 1) * 0x9e3779b97f4a7c15 ^ number;
  sum = (sum ^ sum >> 30) * 0xbf58476d1ce4e5b9 ^ ns;
  return (sum ^ sum >> 27) * 0x94d049bb133111eb;
}

inline pitot::Options OptionsFor(const std::string& disk) {
  static std::string boxes, incidents;
  boxes = disk + "/boxes";
  incidents = disk + "/incidents";
  pitot::Options options;
  options.memory_budget_bytes = 16 << 20;
  options.black_box_directory = boxes.c_str();
  options.incident_directory = incidents.c_str();
  options.process_name = "power_guest";
  options.pre_window_ms = 300;
  options.post_window_ms = 20;
  options.max_incidents_per_cause_and_hour = 1000;
  options.max_incidents_kept = 1000;
  return options;
}

inline std::atomic<bool> g_ends = false;

inline void RecordForEver(uint64_t thread, Progress* progress, unsigned pause_us) {
  pitot::SetThreadName(("numbered " + std::to_string(thread)).c_str());
  for (uint64_t number = 1; !g_ends.load(std::memory_order_relaxed); ++number) {
    pitot::Request request = pitot::Request::Begin("/numbered");
    const uint64_t ns = NowNs();
    progress->begun.store(number);
    PITOT_INSTANT("numbered", thread, number, ns, SumOf(thread, number, ns));
    progress->done_ns.store(ns);
    progress->done.store(number);
    request.Finish(pitot::Outcome::kOk);
    progress->longest_ns.store(std::max(progress->longest_ns.load(), NowNs() - ns));
    if (number % 16 == 0) usleep(pause_us);
  }
}

// A recorder's warnings and errors, counted and printed.
struct Logged {
  std::atomic<uint64_t> warnings, errors;
};

inline void LogTo(Logged* logged, pitot::Options* options) {
  options->log_context = logged;
  options->log = [](void* context, pitot::LogLevel level, const char* message) {
    auto* const to = static_cast<Logged*>(context);
    if (level == pitot::LogLevel::kInfo) return;
    ++(level == pitot::LogLevel::kError ? to->errors : to->warnings);
    std::printf("@log %s %s\n", level == pitot::LogLevel::kError ? "error" : "warning", message);
  };
}

// Records with a black box on a disk, runs `fail` to make it fail, and goes on. The process ends by SIGKILL or by Stop.
// Prints its observations, and how it ended.
int Endure(const std::string& disk, const std::string& incidents, Shared* shared, const char* fail, bool is_killed);

}  // namespace power_guest

#endif  // PITOT_BENCHMARKS_POWER_GUEST_H_
