// SPDX-License-Identifier: Apache-2.0
//
// Stats: what the recorder holds, has lost and costs. A plain copy.
#ifndef PITOT_STATS_H_
#define PITOT_STATS_H_

#include <stdint.h>

#include "pitot/depth.h"
#include "pitot/export.h"

PITOT_NAMESPACE_BEGIN

// What the memory budget is split into, bytes. The parts add up to it.
struct MemorySplit {
  uint64_t rings;
  uint64_t requests_and_names;
  uint64_t snapshot_reserve;  // the most that one incident holds of the rings
  uint64_t analysis_arena;    // what turning a full reserve into files may take; what would take more is left out
};

// What recording at a depth costs the host's work against kScopes, percent, with the 95 % interval.
struct Overhead {
  bool is_known;  // false: not enough was measured, and the rest says nothing
  double percent, low_percent, high_percent;
};

// How deep collectors record, and what that costs, measured on the live traffic (docs/reference/governor.md).
struct DepthStats {
  Depth depth;        // at present
  char state[96];     // in words: "holding graphs; measuring kernels"; "" without a collector or at a fixed depth
  Overhead cost;      // of what was recorded in the last ten minutes or so, on the mean of what works take
  Overhead mean[4];   // of each depth, by its number, on the mean; of kScopes none
  Overhead p99[4];    // on the 99th percentile
  uint64_t works[4];  // batches (requests where there are none) that these rest on, at that depth or at kScopes where
                      // they are fewer; older ones count less, and those before a change that was noticed not at all
  double armed_percent;  // of the time, in which all was recorded because a request was slow
  uint64_t works_lost;   // ended so many at once that not all were counted
};

struct Stats {
  MemorySplit memory;
  uint64_t collector_bytes;       // held by collectors that say it (Collector::HeldBytes), beside `memory`
  uint64_t ring_bytes_used;       // reserved by rings of threads, living or gone
  uint64_t address_bytes_parked;  // mapped but empty: rings of a former recorder that their threads may still touch
  uint32_t threads_recording;
  uint32_t threads_retired;  // exited, their rings still readable
  // The shortest and the median history that a living thread's ring holds, ms: how long ago it wrote the oldest event
  // that is still there (to about a sixth). 0: no data yet.
  uint64_t history_shortest_ms;
  uint64_t history_median_ms;

  uint64_t events_recorded;  // by all threads since Start
  uint64_t requests_begun;
  uint64_t requests_finished;
  uint64_t requests_abandoned;
  uint64_t requests_open;

  // Losses since Start. Overwritten events are the ring's nature and are listed per thread in each incident.
  uint64_t threads_refused;          // found no ring
  uint64_t events_refused;           // of those threads; of BeginScope and NVTX's pushes within 62 open scopes
  uint64_t requests_refused;         // more than max_open_requests
  uint64_t names_refused;            // the name table was full
  uint64_t labels_folded;            // became "(other)", routes included
  uint64_t details_refused;          // stages, sizes and labels beyond a request's limit
  uint64_t scopes_closed_elsewhere;  // on another thread than they began on; not recorded
  uint64_t scopes_misnested;         // closed out of order, or opened under a former recorder; recorded

  uint64_t triggers_fired;
  uint64_t incidents_written;
  uint64_t incidents_suppressed;  // firings that began or joined none: no budget, or too many at once
  uint64_t incidents_failed;      // could not be written; the log callback says why, of a row of the 1st, 2nd, 4th, ...
  uint64_t files_failed;          // missing from incidents: refused by a serializer, or the disk was full
  uint64_t verdicts_given;        // incidents judged
  uint64_t verdicts_failed;       // not judged, or not in time; report.txt and the log callback say why
  uint64_t samples_learned;       // by the judge, between incidents
  uint64_t samples_failed;        // likewise, and not learned

  // Cost of recording since Start: events times their calibrated cost, against the process's CPU time; and the CPU time
  // of Pitot's own threads. Percent of the process's CPU time; negative: unknown, as while no recorder runs.
  double recording_cpu_percent = -1;
  double own_threads_cpu_percent = -1;
  double scope_cost_ns;  // calibrated at Start

  DepthStats depth;
};

PITOT_NAMESPACE_END

#endif  // PITOT_STATS_H_
