// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/contexts.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analyze/facts/arguments.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

class LeftOvers {
 public:
  LeftOvers(const Trace& trace, const model::RequestIndex& requests)
      : trace_(trace), requests_(requests), has_work_for_none_(trace.batches.size()) {
    const auto add = [&](uint32_t batch, uint32_t thread, uint32_t request) {
      if (request == kNone && IsOfBatch(batch, thread)) has_work_for_none_[batch] = true;
    };
    for (uint32_t event = 0; event < trace.events.size(); ++event)
      add(trace.events.batch[event], trace.events.thread[event], trace.events.request[event]);
    for (uint32_t call = 0; call < trace.calls.size(); ++call)
      add(trace.calls.batch[call], trace.calls.thread[call], trace.calls.request[call]);
  }

  // Whether the thread began the request, or sent it to itself, and did nothing of the batch for nobody: then that
  // request is its context all the time.
  bool MayBe(uint32_t request, uint32_t batch, uint32_t thread) const {
    if (request == kNone || !IsOfBatch(batch, thread) || has_work_for_none_[batch]) return false;
    const model::RequestRow& row = trace_.requests[request];
    const model::RequestIndex::Range handoffs = requests_.Handoffs(request);
    if (handoffs.size() == 0) return row.begin_thread == thread && row.begin_known;
    return std::any_of(handoffs.begin(), handoffs.end(), [&](uint32_t one) {
      const model::HandoffRow& handoff = trace_.handoffs[one];
      return handoff.from_thread == thread && handoff.to_thread == thread && handoff.batch != kNone &&
             handoff.enqueue_ns <= trace_.batches[batch].begin_ns;
    });
  }

  // By event: the outermost scope around it, or itself, of the same batch and request.
  std::vector<uint32_t> FindOutermost() const {
    std::vector<uint32_t> outermost(trace_.events.size());
    std::vector<uint32_t> open;
    for (uint32_t event = 0; event < trace_.events.size(); ++event) {
      while (!open.empty() && !Holds(open.back(), event)) open.pop_back();
      outermost[event] = !open.empty() && IsSameContext(open.back(), event) ? outermost[open.back()] : event;
      open.push_back(event);
    }
    return outermost;
  }

 private:
  bool IsOfBatch(uint32_t batch, uint32_t thread) const {
    return batch != kNone && thread != kNone && trace_.batches[batch].thread == thread;
  }
  bool Holds(uint32_t outer, uint32_t inner) const {
    return trace_.events.thread[outer] == trace_.events.thread[inner] &&
           trace_.EventEnd(outer) > trace_.events.begin_ns[inner];
  }
  bool IsSameContext(uint32_t a, uint32_t b) const {
    return trace_.events.batch[a] == trace_.events.batch[b] && trace_.events.request[a] == trace_.events.request[b];
  }

  const Trace& trace_;
  const model::RequestIndex& requests_;
  std::vector<bool> has_work_for_none_;  // by batch
};

// Scopes of a batch that its thread had for several requests, each for its own.
class ScopesForEach {
 public:
  void Add(uint32_t batch, model::StringId name, uint32_t request) {
    const auto [at, is_new] = of_.try_emplace({batch, name}, request);
    if (!is_new && at->second != request) at->second = kNone;
  }
  bool Has(uint32_t batch, model::StringId name) const {
    const auto at = of_.find({batch, name});
    return at != of_.end() && at->second == kNone;
  }

 private:
  std::map<std::pair<uint32_t, model::StringId>, uint32_t> of_;  // kNone: several
};

std::vector<bool> FindEventsLeft(const Trace& trace, const LeftOvers& left_overs) {
  const std::vector<uint32_t> outermost = left_overs.FindOutermost();
  ScopesForEach for_each;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t batch = trace.events.batch[event], request = trace.events.request[event];
    if (batch != kNone && request != kNone && outermost[event] == event)
      for_each.Add(batch, facts::EventNameId(trace, event), request);
  }
  std::vector<bool> is_left(trace.events.size());
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    const uint32_t batch = trace.events.batch[event];
    is_left[event] = left_overs.MayBe(trace.events.request[event], batch, trace.events.thread[event]) &&
                     !for_each.Has(batch, facts::EventNameId(trace, outermost[event]));
  }
  return is_left;
}

// Calls of such a request, unless they are in one of its own scopes.
std::vector<bool> FindCallsLeft(const Trace& trace, const LeftOvers& left_overs,
                                const std::vector<bool>& is_event_left) {
  std::vector<bool> is_left(trace.calls.size());
  uint32_t thread = kNone;
  std::vector<model::Segment> scopes;  // of that thread
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const uint32_t request = trace.calls.request[call], batch = trace.calls.batch[call];
    const int64_t at_ns = trace.calls.begin_ns[call];
    if (!left_overs.MayBe(request, batch, trace.calls.thread[call])) continue;
    if (std::exchange(thread, trace.calls.thread[call]) != trace.calls.thread[call])
      scopes = model::FlattenThread(trace, thread);
    const auto after =
        std::partition_point(scopes.begin(), scopes.end(), [&](const auto& scope) { return scope.begin_ns <= at_ns; });
    const uint32_t event = after != scopes.begin() && (after - 1)->end_ns > at_ns ? (after - 1)->event : kNone;
    is_left[call] = event == kNone || trace.events.request[event] != request || trace.events.batch[event] != batch ||
                    is_event_left[event];
  }
  return is_left;
}

}  // namespace

Contexts::Contexts(const Trace& trace, const model::RequestIndex& requests) : trace_(trace) {
  const LeftOvers left_overs(trace, requests);
  is_event_left_ = FindEventsLeft(trace, left_overs);
  is_call_left_ = FindCallsLeft(trace, left_overs, is_event_left_);
}

}  // namespace pitot::blame
