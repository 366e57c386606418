// SPDX-License-Identifier: Apache-2.0
//
// Traces made by hand, for tests of all readers of traces.
#ifndef PITOT_TEST_SERIALIZE_SAMPLE_TRACE_H_
#define PITOT_TEST_SERIALIZE_SAMPLE_TRACE_H_

#include <stdint.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::test {

// The request and batch rows of an event's context.
struct Context {
  uint32_t request = model::kNone;
  uint32_t batch = model::kNone;
};

// Builds a trace from events in any order; Finish sorts them. Threads and sites are numbered as they are added.
// Requests and batches must be added in order of their begin, members by batch and join.
class TraceMaker {
 public:
  model::Trace trace;  // for fields without a function below

  model::StringId String(std::string_view text) { return trace.strings.Add(text); }
  uint32_t Thread(std::string_view name);
  uint32_t Site(SiteKind kind, std::string_view name, const std::vector<std::pair<std::string, ArgType>>& args = {});
  // "wait", with the arguments of PITOT_WAIT: kind, resource, owner's thread and request.
  uint32_t WaitSite();
  void Event(uint32_t thread, uint32_t site, int64_t begin_ns, int64_t duration_ns, Context context = {},
             const std::vector<model::ArgValue>& args = {});
  uint32_t Request(uint64_t id, std::string_view route, int64_t begin_ns, int64_t duration_ns);
  uint32_t Batch(uint64_t id, std::string_view executor, uint32_t thread, int64_t begin_ns, int64_t duration_ns);
  void Member(uint32_t batch, uint32_t request, int64_t join_ns, int64_t leave_ns = 0);
  // Add calls ordered by thread (kNone last) and begin.
  void Call(uint32_t thread, std::string_view name, int64_t begin_ns, int64_t duration_ns, Context context = {},
            uint32_t stream = model::kNone);
  // Add GPU rows ordered by stream and begin.
  void Gpu(uint32_t stream, model::GpuKind kind, std::string_view name, int64_t begin_ns, int64_t duration_ns,
           uint32_t call, uint32_t shape = model::kNone, uint64_t bytes = 0, uint32_t graph = 0, uint32_t node = 0);
  // Sorts events and sets the ranges of threads, batches and streams.
  model::Trace Finish();
};

// Every kind of row and of argument, about 30 events: two requests in one batch, one of them slow; waits, counters,
// misnested and open scopes, a GPU, losses, a firing.
model::Trace SampleTrace();

// Consistent rows of all kinds, drawn with `seed`; about `events` events.
model::Trace RandomTrace(uint32_t seed, uint32_t events);

// The trace of a busy server: 8 threads, and nested scopes in the contexts of requests. `args_percent` of the events
// have an argument.
model::Trace LargeTrace(uint32_t events, uint32_t args_percent = 0);

}  // namespace pitot::test

#endif  // PITOT_TEST_SERIALIZE_SAMPLE_TRACE_H_
