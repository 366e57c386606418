// SPDX-License-Identifier: Apache-2.0
//
// Hooks: the recorder's notifications to the host.
#ifndef PITOT_HOOKS_H_
#define PITOT_HOOKS_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// An incident as the host sees it. Strings live for the call.
struct IncidentInfo {
  uint64_t number;         // counts from 1 in this recorder
  const char* cause;       // from the firing that began it: "latency /classify"
  const char* detail;      // likewise: "71.3 ms, above p99.9 = 31.2 ms of 1,203 requests of its size"
  const char* directory;   // absolute; null if incidents are not kept on disk or writing failed
  uint64_t slow_requests;  // requests that joined it, each counted once; of the first 256 firings
  uint64_t first_request;  // id of the request that began it; 0: none
  // Ok, or the reason why nothing is on disk; with a directory, the reason why a file or the verdict is missing.
  Status status;
  // Earlier incidents with the same verdict, for on_verdict. The first, the worst and this one stay on disk. The others
  // are removed and counted (Stats::incidents_folded).
  uint64_t again;
  const char* verdict;  // the opening of report.txt, for on_verdict; "" before that, and without a judge
};

// Called on Pitot's threads, one call at a time. They may take their time: later incidents are copied meanwhile and
// wait. A slow on_incident delays the next dumps, and a slow on_verdict the next verdicts. They must not throw and must
// not call Recorder::Stop. Null: not called.
struct Hooks {
  // The incident is on disk with its dump, or could not be written: see IncidentInfo::status. Its other files are added
  // after that. (An incident without memory for its copy is only logged and counted.)
  void (*on_incident)(void* context, const IncidentInfo& incident) = nullptr;
  // The incident was judged, and its files are on disk: report.txt opens with the verdict, or with the reason for its
  // absence. Findings about the whole window are added to the reports later, when no incident waits for its verdict.
  // In a storm, a repeat no worse than an earlier incident with its verdict gets its other files later, too. Until then
  // it has the dump, verdict.json, and a report.txt of the verdict alone. Without a judge (Recorder::Add of a Judge)
  // this comes with the last file.
  void (*on_verdict)(void* context, const IncidentInfo& incident) = nullptr;
  void* context = nullptr;
};

PITOT_NAMESPACE_END

#endif  // PITOT_HOOKS_H_
