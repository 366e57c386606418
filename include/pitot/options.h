// SPDX-License-Identifier: Apache-2.0
//
// Options: everything that can be chosen when the recorder starts. A plain aggregate; each field has a default, a unit
// and a reason. Recorder::Start copies it, checks all of it, and names the field that is wrong.
#ifndef PITOT_OPTIONS_H_
#define PITOT_OPTIONS_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// Which clock stamps events.
enum class ClockSource : uint8_t {
  kAuto = 0,            // the CPU's cycle counter where it is invariant, else the operating system's clock
  kCycleCounter = 1,    // refuse to start where the counter is not invariant
  kOperatingSystem = 2  // clock_gettime(CLOCK_MONOTONIC): about 1.7 times the cost, right everywhere
};

// How loud a message to the host is.
enum class LogLevel : uint8_t { kInfo = 0, kWarning = 1, kError = 2 };

// Takes a message of the library; `message` lives for the call only. Called from Pitot's own threads and from the
// thread that calls Recorder functions, never from a recording macro. It must not call Pitot.
using LogFunction = void (*)(void* context, LogLevel level, const char* message);

struct Options {
  // Where incidents go. On a full disk the older ones stay; a new one has the files that fit, the report first. Must
  // exist or be creatable (one level); null or "" keeps no incident on disk: triggers still
  // fire and hooks are called with no files.
  const char* incident_directory = nullptr;
  // Named in every incident and trace; null: the executable's name.
  const char* process_name = nullptr;

  // Everything Pitot may hold, bytes. Split as Recorder::Stats says: half for rings, the rest for requests and names,
  // the snapshot reserve (the events of one incident, 16 bytes each and 8 for each argument) and the analysis arena
  // (what the worker needs to write those: three times as much and five of the largest rings; of what would need more
  // the oldest is left out and counted). At least 4 MiB, and
  // enough that max_open_requests (512 bytes each) and names (1 MiB) take three eighths of it: 8 MiB by default.
  uint64_t memory_budget_bytes = 64ull << 20;
  // The largest and the smallest ring of one thread, bytes, powers of two, 4 KiB to 64 MiB, and at most a
  // quarter of memory_budget_bytes; each takes 4 KiB more for
  // its header. A thread gets the largest that leaves room for 11 more such and half of the rings' budget for the
  // smallest: by default 2,000 threads at once have one. When the budget is spent, the ring of the thread that exited
  // first is reused; a thread that finds none is counted and records nothing until one is free.
  uint64_t max_ring_bytes = 1ull << 20;
  uint64_t min_ring_bytes = 4096;
  // Requests that may be open at once, 16 to 65,536. One more is served unrecorded and counted.
  uint32_t max_open_requests = 4096;

  // The clock that stamps events.
  ClockSource clock = ClockSource::kAuto;

  // How much history an incident holds before and after its trigger unless the trigger says otherwise, ms.
  // pre: 1 to 3,600,000 (what the rings still hold of it); post: 0 to 60,000.
  uint32_t pre_window_ms = 5000;
  uint32_t post_window_ms = 100;

  // Budgets of incidents: per cause (a trigger on a route) and hour, and of the directory in number and bytes, where
  // the oldest are removed first. Each at least 1. The newest incident stays, however large it is.
  uint32_t max_incidents_per_cause_and_hour = 12;
  uint32_t max_incidents_kept = 64;
  uint64_t max_incident_directory_bytes = 1ull << 30;

  // How deep collectors record. kAuto: as deep as the overhead allows that is measured on the live traffic, and all of
  // it where a request is slow. Another depth is held whatever it costs.
  Depth depth = Depth::kAuto;
  // What recording may cost with kAuto, percent of the mean and of the 99th percentile of what the host's work takes,
  // 0.1 to 100.
  double overhead_budget_percent = 1;

  // CPU share that everything after copying the rings may take, percent of one CPU, 1 to 100: a token bucket.
  uint32_t worker_cpu_percent = 25;

  // Where messages go; null: nowhere.
  LogFunction log = nullptr;
  void* log_context = nullptr;

  // Defaults overlaid with PITOT_INCIDENT_DIRECTORY, PITOT_PROCESS_NAME, PITOT_MEMORY_BUDGET_BYTES,
  // PITOT_MAX_RING_BYTES, PITOT_MAX_OPEN_REQUESTS, PITOT_PRE_WINDOW_MS, PITOT_POST_WINDOW_MS, PITOT_CLOCK (auto,
  // cycle_counter, operating_system) and PITOT_DEPTH (auto, scopes, graphs, kernels, ops). A value that does not parse
  // becomes one that Start refuses by name. (PITOT_OFF=1 is obeyed by Start itself, whatever the options say.)
  // Lifetime: the strings point into the environment.
  PITOT_EXPORT static Options FromEnvironment() noexcept;
};

PITOT_NAMESPACE_END

#endif  // PITOT_OPTIONS_H_
