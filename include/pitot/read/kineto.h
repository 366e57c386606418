// SPDX-License-Identifier: Apache-2.0
//
// Reads traces of PyTorch's profiler (Kineto's dialect of Chrome's JSON, plain or gzip) into the model. All questions
// that a dump can answer can then be asked of these, too. For tools: component `reader`.
//
// Operators become events of kind kOperator; annotations and Python functions become scopes. Calls of the CUDA or HIP
// API become calls; kernels, copies and sets become rows of `gpu`. Allocators' memory and synchronisations become
// counters. A time is the file's `ts`, in exact ns; baseTimeNanoseconds goes to the trace's clock. Data recorded only
// by Pitot (requests, batches, waits) is empty.
#ifndef PITOT_READ_KINETO_H_
#define PITOT_READ_KINETO_H_

#include <stdint.h>

#include <string>

#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// A reader's findings about the file.
struct KinetoReport {
  uint64_t bytes = 0;              // of unpacked JSON
  uint64_t events = 0;             // members of traceEvents
  uint64_t events_unused = 0;      // of kinds without a place in a trace: arrows, marks, annotations on GPUs
  uint64_t events_bad = 0;         // left out: not a JSON object, too deep, or incomplete for their kind
  uint64_t events_not_text = 0;    // not UTF-8: invalid bytes became U+FFFD
  uint64_t events_as_written = 0;  // with backslashes that are not escaped, as in paths of Windows
  uint64_t events_unknown = 0;     // part of events_unused: of kinds that the reader does not know
  std::string unknown_kinds;       // the first few of these
  uint64_t documents = 0;          // one after the other
  // Processes whose work was kept apart: ranks that a tool merged ("[TP00] 5000"), or documents one after the other.
  uint64_t processes = 0;
  // Left out: before 0, after model::kMaxTimeNs, or beyond the limit for all durations together.
  uint64_t times_out_of_range = 0;
  uint64_t durations_negative = 0;   // counted as 0
  uint64_t correlations_shared = 0;  // calls with the id of an earlier call: activities belong to the earlier one
  uint64_t correlations_mixed = 0;   // part of these: the earlier call is another process's
  uint64_t gpu_unlinked = 0;         // rows of `gpu` whose call is not in the file
  uint64_t names_unused = 0;         // of threads without events
  bool is_gzip = false;
  bool complete = false;     // the file ends where its JSON does
  bool says_losses = false;  // Pitot's files say what was lost
  // GPU work that was set aside: without a time, or with a duration that other records exclude.
  uint64_t gpu_no_time = 0, gpu_impossible = 0;
  uint64_t host_no_time = 0;           // what threads did at time 0, long before all else: left out
  uint64_t launches_without_work = 0;  // calls whose GPU work is not in the file; 0 if they are fewer than one of 100

  // Problems of the file, for people; "" if there are none.
  PITOT_EXPORT std::string Problems() const;
};

// Fills `trace`. Ok for a complete file, whatever its content. kDataLoss for one that is cut off or has events that are
// not JSON; the trace then holds the readable part. kNotFound, kIoError. kInvalidArgument if it is not such a trace:
// also a list without "traceEvents" of which no event can be read.
// kResourceExhausted. Never crashes on any input. Limits: 500 levels of nesting, 64 MiB an event.
// Threads: any.
// Cost: one pass over the text, and O(n log n) of the rows if they are not in order. Memory is that of the trace's
//   columns, as much again for one column at a time, and a few MiB.
PITOT_EXPORT Status ReadKineto(const std::string& path, model::Trace* trace, KinetoReport* report) noexcept;
PITOT_EXPORT Status ParseKineto(const void* data, uint64_t size, model::Trace* trace, KinetoReport* report) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_READ_KINETO_H_
