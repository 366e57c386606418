// SPDX-License-Identifier: Apache-2.0
//
// Walks the scopes of a thread in one pass, with memory for the open ones only. FlattenThread of pitot/model/index.h
// keeps what is visited here.
#ifndef PITOT_LIB_MODEL_FLATTEN_H_
#define PITOT_LIB_MODEL_FLATTEN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "pitot/model/index.h"
#include "pitot/model/trace.h"

namespace pitot::model {

// Calls visit(event) for the events `first` to `last` - 1 of a thread that has(event) picks, outer scopes before inner
// ones. That is their order in the trace, except for open scopes: an open scope is around those that began with it.
template <class Has, class Visit>
void VisitNested(const Trace& trace, uint32_t first, uint32_t last, const Has& has, const Visit& visit) {
  std::vector<uint32_t> together;  // they begin at one moment
  const auto is_around = [&](uint32_t a, uint32_t b) {
    const auto end_ns_of = [&](uint32_t event) {
      return trace.events.duration_ns[event] == kOpen ? INT64_MAX : trace.EventEnd(event);
    };
    return end_ns_of(a) > end_ns_of(b);
  };
  const auto visit_all = [&] {
    if (!std::is_sorted(together.begin(), together.end(), is_around))
      std::stable_sort(together.begin(), together.end(), is_around);
    for (const uint32_t event : together) visit(event);
    together.clear();
  };
  for (uint32_t event = first; event < last; ++event) {
    if (!has(event)) continue;
    if (!together.empty() && trace.events.begin_ns[together.back()] != trace.events.begin_ns[event]) visit_all();
    together.push_back(event);
  }
  visit_all();
}

// Turns nested scopes into segments, of the innermost scope each.
template <class Visit> class Flattening {
 public:
  // Segments are cut at the ends of `within`.
  Flattening(const Interval& within, const Visit& visit) : within_(within), visit_(visit) {}
  // Scopes come in the order of VisitNested.
  void Begin(int64_t begin_ns, int64_t end_ns, uint32_t event) {
    Advance(begin_ns);
    if (open_.size() == open_.capacity()) DropEnded();
    open_.push_back({end_ns, event});
  }
  void End() {
    Advance(INT64_MAX);
    Tell();
  }

 private:
  struct Open {
    int64_t end_ns;
    uint32_t event;
  };

  void Advance(int64_t to_ns) {
    while (!open_.empty() && now_ns_ < to_ns) {
      const Open top = open_.back();
      if (top.end_ns > now_ns_) {
        const int64_t until_ns = std::min(top.end_ns, to_ns);
        Append(now_ns_, until_ns, top.event);
        now_ns_ = until_ns;
      }
      if (top.end_ns <= now_ns_) open_.pop_back();
    }
    now_ns_ = to_ns;
  }
  // Scopes that overlap without nesting leave ended ones below. They go before `open_` grows.
  void DropEnded() {
    std::erase_if(open_, [&](const Open& open) { return open.end_ns <= now_ns_; });
    open_.reserve(2 * open_.size() + 16);
  }
  void Append(int64_t begin_ns, int64_t end_ns, uint32_t event) {
    if (last_.event == event && last_.end_ns == begin_ns) {
      last_.end_ns = end_ns;
      return;
    }
    Tell();
    last_ = {begin_ns, end_ns, event};
  }
  void Tell() {
    const Segment cut = {std::max(last_.begin_ns, within_.begin_ns), std::min(last_.end_ns, within_.end_ns),
                         last_.event};
    if (cut.begin_ns < cut.end_ns) visit_(cut);
  }

  const Interval within_;
  const Visit& visit_;
  std::vector<Open> open_;  // the last one on top; an ended one stays until it is on top
  int64_t now_ns_ = 0;
  Segment last_;  // may grow
};

// Calls visit(segment) for the segments of FlattenThread, in order.
template <class Visit>
void VisitSegments(const Trace& trace, uint32_t thread, const Interval& within, const Visit& visit) {
  const EventColumns& events = trace.events;
  const auto first = events.begin_ns.begin() + trace.threads[thread].first_event;
  const auto last = std::lower_bound(first, first + trace.threads[thread].event_count, within.end_ns);
  const auto is_in = [&](uint32_t event) {
    return IsScope(trace.sites[events.site[event]].kind) &&
           trace.EventEnd(event) > std::max(events.begin_ns[event], within.begin_ns);
  };
  Flattening flattening(within, visit);
  VisitNested(trace, static_cast<uint32_t>(first - events.begin_ns.begin()),
              static_cast<uint32_t>(last - events.begin_ns.begin()), is_in,
              [&](uint32_t event) { flattening.Begin(events.begin_ns[event], trace.EventEnd(event), event); });
  flattening.End();
}

}  // namespace pitot::model

#endif  // PITOT_LIB_MODEL_FLATTEN_H_
