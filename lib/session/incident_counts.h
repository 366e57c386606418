// SPDX-License-Identifier: Apache-2.0
//
// Counts of firings, incidents and verdicts, as in Stats. Each part of the recorder counts its own.
#ifndef PITOT_LIB_SESSION_INCIDENT_COUNTS_H_
#define PITOT_LIB_SESSION_INCIDENT_COUNTS_H_

#include <atomic>
#include <cstdint>

#include "pitot/stats.h"

namespace pitot::session {

// Threads: any.
struct IncidentCounts {
  using Count = std::atomic<uint64_t>;
  Count triggers_fired{0}, incidents_written{0}, incidents_folded{0}, incidents_suppressed{0}, incidents_failed{0},
      files_failed{0}, verdicts_given{0}, verdicts_failed{0}, verdicts_displaced{0}, verdicts_cut_off{0},
      verdicts_stopped{0}, findings_added{0}, findings_left_out{0}, samples_learned{0}, samples_failed{0};

  // A verdict is missing, for that reason.
  void AddNoVerdict(Count IncidentCounts::*reason) noexcept {
    Add(&verdicts_failed);
    Add(&(this->*reason));
  }
  static void Add(Count* count, uint64_t more = 1) noexcept { count->fetch_add(more, std::memory_order_relaxed); }
  void CopyTo(Stats* stats) const noexcept {
    stats->triggers_fired = triggers_fired.load();
    stats->incidents_written = incidents_written.load();
    stats->incidents_folded = incidents_folded.load();
    stats->incidents_suppressed = incidents_suppressed.load();
    stats->incidents_failed = incidents_failed.load();
    stats->files_failed = files_failed.load();
    stats->verdicts_given = verdicts_given.load();
    stats->verdicts_failed = verdicts_failed.load();
    stats->verdicts_displaced = verdicts_displaced.load();
    stats->verdicts_cut_off = verdicts_cut_off.load();
    stats->verdicts_stopped = verdicts_stopped.load();
    stats->findings_added = findings_added.load();
    stats->findings_left_out = findings_left_out.load();
    stats->samples_learned = samples_learned.load();
    stats->samples_failed = samples_failed.load();
  }
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_COUNTS_H_
