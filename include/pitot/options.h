// SPDX-License-Identifier: Apache-2.0
//
// Options: all choices for the start of the recorder. A plain aggregate; each field has a default, a unit and a reason.
// Recorder::Start copies it, checks all of it, and names an invalid field.
#ifndef PITOT_OPTIONS_H_
#define PITOT_OPTIONS_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// Which clock stamps events.
enum class ClockSource : uint8_t {
  kAuto = 0,            // the CPU's cycle counter if it is invariant, otherwise the operating system's clock
  kCycleCounter = 1,    // refuses to start if the counter is not invariant
  kOperatingSystem = 2  // clock_gettime(CLOCK_MONOTONIC): costs more, correct everywhere
};

// Severity of a message to the host.
enum class LogLevel : uint8_t { kInfo = 0, kWarning = 1, kError = 2 };

// Takes a message of the library; `message` lives for the call only. Called from Pitot's own threads and from threads
// that call Recorder functions, never from a recording macro. It must not call Pitot.
using LogFunction = void (*)(void* context, LogLevel level, const char* message);

// The language of the host's calls of Pitot.
enum class Language : uint8_t { kCpp = 0, kC = 1, kPython = 2 };

// Which ends of the process Pitot handles. Each ends with the same status as without Pitot.
enum class Ends : uint8_t {
  kNone = 0,      // installs nothing
  kShutdown = 1,  // exit() and, where it has the default action, SIGTERM: what fired is written
  kCrash = 2,     // fatal signals and std::terminate are noted; on abort() and std::terminate what fired is written
  kAll = 3
};

struct Options {
  // Where incidents are stored. It must exist or be creatable (one level). If the disk is full, older incidents stay,
  // and a new one has the files that fit. Null or "" stores no incidents: triggers still fire, and hooks are called
  // without files.
  const char* incident_directory = nullptr;
  // Start refuses a directory to which others may write: one of another user (but root), one that every user may write
  // to, such as /tmp or an emptyDir of Kubernetes, or a link of another user. True: it is used, with a warning. A
  // folder inside is better, for Start creates it for its own user alone.
  bool accept_unsafe_directory = false;
  // Where the black box lies: a file of this process with its rings, open requests and names, mapped shared, which
  // outlives it. So a crash, an OOM kill or `kill -9` loses nothing that was recorded. `pitot recover --post-mortem`,
  // or the next recorder with the same two directories, makes an incident of it. Best on a tmpfs: "/dev/shm/server",
  // which must have twice the room that is needed. In a folder on a disk it also outlives the machine, but writing
  // pages back may hold up recording threads. It is created if missing (one level). If it cannot be, the recorder runs
  // without, and says so once. Null or "": none.
  const char* black_box_directory = nullptr;
  // Appears in every incident and trace; null: the executable's name.
  const char* process_name = nullptr;

  // Limit for all of Pitot's memory, bytes. Stats::memory shows how it is split. A quarter is for rings. The rest is
  // for requests and names, incidents, what a judge remembers, and collectors. A judge and collectors take their part
  // from incidents when they are added. An incident holds events, 16 bytes each, plus 8 for each argument, as far as
  // its parts have room: by default 8.4 MiB of them, 4.8 with a judge and the host collector. Its oldest part is left
  // out and counted. At least 4 MiB, and enough that max_open_requests (512 bytes each) and names (1 MiB) take at most
  // three eighths: 8 MiB by default. Collectors with more than half of what rings, requests and names leave are on top
  // of it, and a message says so: by default CUPTI's. Triggers and libraries are, too.
  uint64_t memory_budget_bytes = 128ull << 20;
  // The largest and the smallest ring that a thread begins with, bytes: powers of two, 4 KiB to 64 MiB, and at most a
  // quarter of memory_budget_bytes. Each takes another 4 KiB for its header. A thread gets the largest ring that leaves
  // room for 11 more of its size and half of the rings' budget for the smallest. By default 2,000 threads at once get
  // one. A thread may get the ring that another one left when it exited. That one's records stay until they are
  // overwritten. A thread without a ring is counted, and records nothing until one is free.
  uint64_t max_ring_bytes = 1ull << 20;
  uint64_t min_ring_bytes = 4096;
  // A ring of 64 KiB and more grows up to this while it holds less than pre_window_ms and post_window_ms, bytes: a
  // power of two, 4 KiB to 64 MiB. More than a quarter of memory_budget_bytes counts as that, and max_ring_bytes or
  // less lets no ring grow. A ring takes at most two thirds of what is left in the rings' budget, apart from the half
  // for the smallest: by default it gets 8 MiB, next to ten other threads 4. Each ring takes this much address space,
  // and memory only as it grows.
  uint64_t max_grown_ring_bytes = 16ull << 20;
  // Requests that can be open at once, 16 to 65,536. Further requests are served unrecorded and counted.
  uint32_t max_open_requests = 4096;

  // The clock that stamps events.
  ClockSource clock = ClockSource::kAuto;

  // Default history before and after the trigger in an incident, ms; a trigger can set its own. pre: 1 to 3,600,000 (as
  // far as the rings still hold it); post: 0 to 60,000. The post window ends early if a ring would overwrite more than
  // an eighth of itself meanwhile.
  uint32_t pre_window_ms = 5000;
  uint32_t post_window_ms = 100;

  // Limits for incidents: number per cause (a trigger on a route) and hour, a quarter of which is for verdicts that are
  // new, if there is a judge; number and bytes in the directory. Each at least 1. If there are too many, the cause with
  // most incidents loses first; of these, repeats of a verdict do, before its newest, its worst and its first, and what
  // stays gets sparser with age. The newest incident stays, whatever its size.
  uint32_t max_incidents_per_cause_and_hour = 12;
  uint32_t max_incidents_kept = 64;
  uint64_t max_incident_directory_bytes = 1ull << 30;

  // Whether each incident has a trace.pftrace. It is about four times as large as the dump, from which `pitot convert`
  // makes the same.
  bool perfetto_file = false;

  // How deep collectors record. kAuto: as deep as the overhead measured on the live traffic allows, and everything when
  // a request is slow. Any other depth is kept, whatever it costs.
  Depth depth = Depth::kAuto;
  // Limit for the cost of recording with kAuto, percent of both the mean and the 99th percentile of the duration of the
  // host's work, 0.1 to 100.
  double overhead_budget_percent = 1;

  // CPU share of all work after copying the rings, percent of one CPU, 1 to 100: a token bucket, which saves up to a
  // second of CPU time. Dumps are written at once, up to a second ahead of it, and the rest waits until the share has
  // paid for them. Verdicts come next; findings get what verdicts leave. An incident with 300,000 GPU records takes
  // 0.1 to 0.2 s, so the default pays for one a second or more.
  uint32_t worker_cpu_percent = 25;

  // Ends of the process that are handled: without a handler, incidents not yet written are lost. Handlers that were
  // installed before come after Pitot's; later ones are left alone.
  Ends handle_ends = Ends::kNone;
  // How long such an end may be held up for incidents to be written, ms, 1 to 60,000: less than what the supervisor
  // grants between SIGTERM and SIGKILL.
  uint32_t end_grace_ms = 3000;

  // Advice in incidents names calls of this language. The bindings set it.
  Language language = Language::kCpp;

  // Receives messages; null: no one does.
  LogFunction log = nullptr;
  void* log_context = nullptr;

  // Returns the defaults, overlaid with PITOT_INCIDENT_DIRECTORY, PITOT_BLACK_BOX_DIRECTORY, PITOT_PROCESS_NAME,
  // PITOT_MEMORY_BUDGET_BYTES, PITOT_MAX_RING_BYTES, PITOT_MAX_OPEN_REQUESTS, PITOT_PRE_WINDOW_MS,
  // PITOT_POST_WINDOW_MS, PITOT_CLOCK (auto, cycle_counter, operating_system) and PITOT_DEPTH (auto, scopes, graphs,
  // kernels, ops). A value that does not parse becomes one that Start refuses by name. (PITOT_OFF=1 is obeyed by Start
  // itself, whatever the options.) Lifetime: the strings point into the environment.
  PITOT_EXPORT static Options FromEnvironment() noexcept;
};

PITOT_NAMESPACE_END

#endif  // PITOT_OPTIONS_H_
