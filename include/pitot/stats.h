// SPDX-License-Identifier: Apache-2.0
//
// Stats: memory, losses and cost of the recorder. A plain copy.
#ifndef PITOT_STATS_H_
#define PITOT_STATS_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// The parts of the memory budget, bytes. They add up to it. A judge and collectors take theirs from the parts for
// incidents when they are added: from the reserve, the arena and judging.
struct MemorySplit {
  uint64_t rings;
  uint64_t requests_and_names;
  uint64_t snapshot_reserve;  // for copies of the rings: one incident gets half of what is free
  uint64_t analysis_arena;    // for making the trace of a copy, and its dump; what has no room is left out
  uint64_t judging;           // traces whose files and verdicts are still missing, and the judge's work on one
  uint64_t learned;           // what a judge remembers (Judge::LimitMemory); 0: there is no judge
  uint64_t collectors;        // held by collectors: at most half of what rings, requests and names leave
  uint64_t own;               // Pitot's threads and small tables
};

// Cost of recording at a depth, for the host's work, compared with kScopes: percent, with the 95 % interval.
struct Overhead {
  bool is_known;  // false: too little was measured, and the rest is invalid
  double percent, low_percent, high_percent;
};

// How deep collectors record, and its cost, measured on the live traffic (docs/reference/governor.md).
struct DepthStats {
  Depth depth;     // the current one
  char state[96];  // in words: "holding graphs; measuring kernels"; "" without a collector or at a fixed depth
  // The cost of the depths used in the last ten minutes or so, on the mean duration of work.
  Overhead cost;
  Overhead mean[4];  // by depth, on the mean duration; none for kScopes
  Overhead p99[4];   // on the 99th percentile
  // Number of batches (without batches, requests) behind these, at that depth or at kScopes, whichever is fewer. Older
  // ones count less, and those before a detected change not at all.
  uint64_t works[4];
  double armed_percent;  // share of the time in which everything was recorded because a request was slow
  uint64_t works_lost;   // too many ended at once to count all
};

struct Stats {
  MemorySplit memory;
  uint64_t collector_bytes;       // held by collectors (Collector::HeldBytes). Above memory.collectors: on top of it
  uint64_t ring_bytes_used;       // reserved by rings of threads, running or exited
  uint64_t address_bytes_parked;  // mapped but empty: rings of a former recorder that their threads may still touch
  uint32_t threads_recording;
  uint32_t threads_retired;  // exited, and no other thread has taken over the ring
  // The shortest and the median history in the rings of running threads, ms: the age of the oldest event that is still
  // there (to about a sixth). 0: no data yet.
  uint64_t history_shortest_ms;
  uint64_t history_median_ms;

  uint64_t events_recorded;  // by all threads since Start
  uint64_t requests_begun;
  uint64_t requests_finished;
  uint64_t requests_abandoned;
  uint64_t requests_open;

  // Losses since Start. Overwritten events are normal for rings, and are listed per thread in each incident.
  uint64_t threads_refused;          // without a ring
  uint64_t events_refused;           // of those threads; and of BeginScope and NVTX's pushes within 62 open scopes
  uint64_t requests_refused;         // more than max_open_requests
  uint64_t names_refused;            // the name table was full
  uint64_t labels_folded;            // became "(other)", including routes and reasons
  uint64_t details_refused;          // stages, sizes, labels and ids beyond a request's limit
  uint64_t scopes_closed_elsewhere;  // closed on another thread than they began on; not recorded
  uint64_t scopes_misnested;         // closed out of order, or opened under a former recorder; recorded

  uint64_t triggers_fired;
  uint64_t incidents_written;
  uint64_t incidents_folded;      // written, and removed: others with the same verdict stay, and count them
  uint64_t incidents_suppressed;  // firings that neither began nor joined one: no budget, or too many at once
  // Could not be written. The log callback gives the reason; of failures in a row for the 1st, 2nd, 4th, 8th and so on.
  uint64_t incidents_failed;
  uint64_t files_failed;     // missing from incidents: the serializer failed, the disk was full, or no time was left
  uint64_t verdicts_given;   // incidents judged
  uint64_t verdicts_failed;  // not judged, or not in time; report.txt and the log callback say why
  // Among these: too many newer incidents were waiting; the judge spent its budget; the recorder stopped. The rest is
  // its error.
  uint64_t verdicts_displaced;
  uint64_t verdicts_cut_off;
  uint64_t verdicts_stopped;
  // Judged incidents whose findings about the whole window were added, and those that lack them: newer incidents
  // waited, or there was no time. report.txt says so.
  uint64_t findings_added;
  uint64_t findings_left_out;
  uint64_t samples_learned;  // by the judge, between incidents
  uint64_t samples_failed;   // likewise, but not learned

  // Cost since Start, percent of the process's CPU time: events times their calibrated cost, and the CPU time of
  // Pitot's own threads. Negative: unknown, for example while no recorder runs.
  double recording_cpu_percent = -1;
  double own_threads_cpu_percent = -1;
  double scope_cost_ns;  // calibrated at Start

  DepthStats depth;
};

PITOT_NAMESPACE_END

#endif  // PITOT_STATS_H_
