// SPDX-License-Identifier: Apache-2.0
//
// Reads traces that PyTorch's profiler wrote (Kineto's dialect of Chrome's JSON, plain or gzip) into the model, so that
// everything that answers questions to a dump answers them to these. For tools: component `reader`.
//
// Operators become events of kind kOperator, annotations and Python functions scopes, calls of the CUDA or HIP API
// calls, kernels, copies and sets rows of `gpu`; memory that allocators gave out, and synchronisations, become
// counters. A time is the file's `ts`, in exact ns; baseTimeNanoseconds goes to the trace's clock. What Pitot alone
// records (requests, batches, waits) is empty.
#ifndef PITOT_READ_KINETO_H_
#define PITOT_READ_KINETO_H_

#include <stdint.h>

#include <string>

#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN

// What a reader found besides the trace.
struct KinetoReport {
  uint64_t bytes = 0;                // of JSON, unpacked
  uint64_t events = 0;               // members of traceEvents
  uint64_t events_unused = 0;        // of kinds that a trace has no place for: arrows, marks, annotations on GPUs
  uint64_t events_bad = 0;           // no JSON object, too deep, or without what its kind must have: left out
  uint64_t events_not_text = 0;      // not UTF-8: what was not is U+FFFD
  uint64_t times_out_of_range = 0;   // before 0 or after model::kMaxTimeNs, or all of them longer: left out
  uint64_t durations_negative = 0;   // taken for 0
  uint64_t correlations_shared = 0;  // calls that have the id of an earlier one: what ran is the earlier one's
  uint64_t gpu_unlinked = 0;         // rows of `gpu` whose call is not in the file
  uint64_t names_unused = 0;         // of threads that did nothing
  bool is_gzip = false;
  bool complete = false;  // the file ends where its JSON does

  // What is wrong with it, for people; "" if nothing is.
  PITOT_EXPORT std::string Problems() const;
};

// Fills `trace`. Ok for a whole file, what is in it or not; kDataLoss, with the trace filled as far as it goes, for one
// that is cut off or has events that are no JSON; kNotFound, kIoError; kInvalidArgument for what is no such trace;
// kResourceExhausted. Never crashes on any input. Nothing may be nested more than 500 deep; an event may take 64 MiB.
// Threads: any. Cost: one pass over the text, and O(n log n) of the rows where they are not in order; memory is the
// trace's columns, as much again of one column at a time, and a few MiB.
PITOT_EXPORT Status ReadKineto(const std::string& path, model::Trace* trace, KinetoReport* report) noexcept;
PITOT_EXPORT Status ParseKineto(const void* data, uint64_t size, model::Trace* trace, KinetoReport* report) noexcept;

PITOT_NAMESPACE_END

#endif  // PITOT_READ_KINETO_H_
