// SPDX-License-Identifier: Apache-2.0
//
// An incident on its way through the recorder. One thread has it at a time: the watcher, the writer, then the worker.
#ifndef PITOT_LIB_SESSION_INCIDENT_H_
#define PITOT_LIB_SESSION_INCIDENT_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/appendix.h"
#include "base/causes.h"
#include "governor/report.h"
#include "pitot/extend/collector.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"
#include "session/case_room.h"
#include "session/depth_history.h"
#include "session/firing_queue.h"
#include "snapshot/reserve_parts.h"
#include "snapshot/snapshot.h"

namespace pitot::session {

using base::kManual;

// An incident from its first firing until its files are written.
struct Incident {
  bool is_sample = false;  // not an incident, but a sample for the judge
  uint64_t number = 0;
  std::string cause;
  std::vector<QueuedFiring> firings;
  uint64_t firings_unlisted = 0;
  bool is_of_reserve = false;  // of its cause's budget
  uint64_t again = 0;          // incidents before it with the same verdict
  uint64_t more_like_it = 0;   // events of its firings' kinds since the last incident of its cause: they began none
  uint64_t slow_requests = 0;  // of firings that are not kept any more
  uint64_t window_begin_ticks = 0;
  int64_t latest_due_ns = 0;  // the latest end of a post window
  int64_t due_ns = 0;         // end of the post window
  snapshot::Snapshot snapshot;
  snapshot::Filled filled;  // where the snapshot is
  // For its trace, at most: all rows, and more of collectors with memory beyond the budget. And for the cases before
  // it.
  uint64_t row_bytes = 0, beyond_row_bytes = 0;
  CaseRoom case_room;
  std::vector<Collector*> collectors;
  uint64_t kept = 0;  // number of the collectors' Keep at its copy; 0: they are asked with the next question
  std::unique_ptr<governor::Report> overhead;  // null: nothing governs
  std::vector<DepthChange> depths;             // of its window
};

// The requests of its firings, each counted once.
uint64_t SlowRequests(const Incident& incident) noexcept;
// Frees what only its trace needs. The first firing stays, and the number of requests of all.
void KeepForHooks(Incident* incident) noexcept;

// An incident whose dump is written, to be judged and completed; or a sample.
struct Case {
  std::unique_ptr<Incident> incident;
  std::optional<model::Trace> trace;  // none: it could not be made, or it had to make room for others
  std::string path;                   // "": it is not on disk
  Status written;
  bool is_told = false;       // the host knows of it
  bool is_repeat = false;     // its verdict was there before
  bool is_judged = false;     // it has its verdict, and waits for files or findings
  bool is_complete = false;   // its files are written, as far as they can be
  bool has_findings = false;  // to come
  std::string opening;        // of report.txt
  Status report;              // why report.txt is missing
  bool has_report = false;    // the whole of it
  base::OpeningSize opened;   // of the one that is in report.txt
  bool has_waited = false;    // for its turn
  bool is_displaced = false;  // by newer ones
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_H_
