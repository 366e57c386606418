// SPDX-License-Identifier: Apache-2.0
//
// Kinds of rows to take out of a trace, to compare the answers without them. The rest of the trace stays consistent.
#ifndef PITOT_TEST_ANALYZE_ABLATIONS_H_
#define PITOT_TEST_ANALYZE_ABLATIONS_H_

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::test {

struct Ablation {
  const char* name;
  const char* what;
  std::function<void(model::Trace*)> drop;
};

template <class Keep> void KeepGpu(model::Trace* trace, const Keep& keep) {
  const model::GpuColumns old = std::move(trace->gpu);
  trace->gpu = {};
  for (model::StreamRow& stream : trace->streams) {
    const uint32_t first = stream.first_event, last = first + stream.event_count;
    stream.first_event = trace->gpu.size();
    stream.event_count = 0;
    for (uint32_t i = first; i < last; ++i) {
      if (!keep(old.kind[i], i)) continue;
      model::GpuColumns& to = trace->gpu;
      to.begin_ns.push_back(old.begin_ns[i]);
      to.duration_ns.push_back(old.duration_ns[i]);
      to.kind.push_back(old.kind[i]);
      to.stream.push_back(old.stream[i]);
      to.name.push_back(old.name[i]);
      to.call.push_back(old.call[i]);
      to.shape.push_back(old.shape[i]);
      to.bytes.push_back(old.bytes[i]);
      to.graph.push_back(old.graph[i]);
      to.node.push_back(old.node[i]);
      to.scope_path.push_back(old.scope_path[i]);
      ++stream.event_count;
    }
  }
}

template <class Keep> void KeepEvents(model::Trace* trace, const Keep& keep) {
  const model::EventColumns old = std::move(trace->events);
  trace->events = {};
  for (model::ThreadRow& thread : trace->threads) {
    const uint32_t first = thread.first_event, last = first + thread.event_count;
    thread.first_event = trace->events.size();
    thread.event_count = 0;
    for (uint32_t i = first; i < last; ++i) {
      if (!keep(old.site[i])) continue;
      trace->events.begin_ns.push_back(old.begin_ns[i]);
      trace->events.duration_ns.push_back(old.duration_ns[i]);
      trace->events.site.push_back(old.site[i]);
      trace->events.thread.push_back(old.thread[i]);
      trace->events.request.push_back(old.request[i]);
      trace->events.batch.push_back(old.batch[i]);
      trace->events.args.push_back(old.args[i]);
      ++thread.event_count;
    }
  }
}

inline void DropGpu(model::Trace* trace) {
  KeepGpu(trace, [](model::GpuKind, uint32_t) { return false; });
}
inline void DropBatches(model::Trace* trace) {
  trace->batches.clear();
  trace->members.clear();
  for (auto* column : {&trace->events.batch, &trace->calls.batch})
    std::fill(column->begin(), column->end(), model::kNone);
  for (model::HandoffRow& row : trace->handoffs) row.batch = model::kNone;
}

inline const std::vector<Ablation>& Ablations() {
  using model::kNone;
  using model::Trace;
  static const auto clear = [](std::vector<uint32_t>* column) { std::fill(column->begin(), column->end(), kNone); };
  static const std::vector<Ablation> all = {
      {"gpu", "operations of GPUs", DropGpu},
      {"kernels5", "every twentieth kernel",
       [](Trace* t) {
         KeepGpu(t, [](model::GpuKind kind, uint32_t i) { return kind != GpuKind::kKernel || i % 20 != 7; });
       }},
      {"calls", "calls, and what they launched", [](Trace* t) { DropGpu(t), t->calls = {}; }},
      {"syncs", "what synchronisations waited for", [](Trace* t) { clear(&t->calls.stream), clear(&t->calls.device); }},
      {"launches", "which call launched what", [](Trace* t) { clear(&t->gpu.call); }},
      {"callers", "whom calls were for", [](Trace* t) { clear(&t->calls.request), clear(&t->calls.batch); }},
      {"handoffs", "hand-overs", [](Trace* t) { t->handoffs.clear(); }},
      {"waits", "waits",
       [](Trace* t) { KeepEvents(t, [&](uint32_t site) { return t->sites[site].kind != SiteKind::kWait; }); }},
      {"scopes", "scopes",
       [](Trace* t) { KeepEvents(t, [&](uint32_t site) { return !model::IsScope(t->sites[site].kind); }); }},
      {"events", "scopes and waits", [](Trace* t) { KeepEvents(t, [](uint32_t) { return false; }); }},
      {"batches", "batches", DropBatches},
      {"contexts", "whom events were for", [](Trace* t) { clear(&t->events.request), clear(&t->events.batch); }},
      {"counters", "counters", [](Trace* t) { t->counters.clear(), t->samples = {}; }},
      {"labels", "labels",
       [](Trace* t) {
         for (model::RequestRow& row : t->requests) row.labels.clear();
       }},
  };
  return all;
}

}  // namespace pitot::test

#endif  // PITOT_TEST_ANALYZE_ABLATIONS_H_
