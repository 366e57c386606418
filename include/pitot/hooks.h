// SPDX-License-Identifier: Apache-2.0
//
// Hooks: how the recorder tells the host that something happened.
#ifndef PITOT_HOOKS_H_
#define PITOT_HOOKS_H_

#include <stdint.h>

#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// An incident as the host sees it. Strings live for the call.
struct IncidentInfo {
  uint64_t number;         // counts from 1 in this recorder
  const char* cause;       // of the firing that began it: "latency /classify"
  const char* detail;      // likewise: "71.3 ms, above p99.9 = 31.2 ms of 1,203 requests of its size"
  const char* directory;   // absolute; null if incidents are not kept on disk or writing failed
  uint64_t slow_requests;  // that joined it, each once; those of the first 256 firings
  uint64_t first_request;  // id of the one that began it; 0: none
  Status status;           // ok; why nothing is on disk; or, beside a directory, why a file or the verdict is missing
  const char* verdict;     // with on_verdict what report.txt opens with; "" before, and where nothing judges
};

// Called on Pitot's worker thread, one call at a time. They may take their time (the next incident is copied
// meanwhile and waits; what fires after it becomes one more), must not throw and must not call Recorder::Stop. Null:
// not called.
struct Hooks {
  // The incident's files are on disk, or could not be written: IncidentInfo::status says which. (One for which there
  // was no memory to copy it is only logged and counted.)
  void (*on_incident)(void* context, const IncidentInfo& incident) = nullptr;
  // It was judged: report.txt opens with the verdict, or with why there is none. Where nothing judges
  // (Recorder::Add of a Judge) it follows at once.
  void (*on_verdict)(void* context, const IncidentInfo& incident) = nullptr;
  void* context = nullptr;
};

PITOT_NAMESPACE_END

#endif  // PITOT_HOOKS_H_
