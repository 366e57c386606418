// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk_signs.h"

#include <algorithm>

#include "analyze/blame/walk_waits.h"

namespace pitot::blame {

using model::kNone;

Signs::OnThread& Signs::On(uint32_t thread) {
  const auto [row, is_new] = rows_.emplace(thread, static_cast<uint32_t>(threads_.size()));
  if (is_new) threads_.push_back({thread, {}, {}, {}, {}});
  return threads_[row->second];
}

void Signs::Build() {
  if (is_built_) return;
  is_built_ = true;
  if (request_ == kNone) return;
  uint32_t order = 0;
  const auto see = [&](uint32_t thread, int64_t at_ns) {
    const auto [first, is_new] = first_ns_.emplace(thread, at_ns);
    if (!is_new) first->second = std::min(first->second, at_ns);
  };
  const auto* const end = memberships_.end(request_);
  for (const auto* in = memberships_.begin(request_); in != end; ++in, ++order) {
    patience_.Count();
    const uint32_t thread = trace_.batches[in->batch].thread;
    if (thread == kNone) continue;
    see(thread, in->join_ns);
    deeds_.push_back({in->leave_ns, in->join_ns, thread, true});
    On(thread).batches.push_back({in->join_ns, in->leave_ns, 0, order});
  }
  for (const uint32_t event : requests_.Events(request_)) {
    patience_.Count();
    const uint32_t thread = trace_.events.thread[event];
    const int64_t begin_ns = trace_.events.begin_ns[event], end_ns = trace_.EventEnd(event);
    see(thread, begin_ns);
    if (trace_.sites[trace_.events.site[event]].kind != SiteKind::kWait)
      deeds_.push_back({end_ns, begin_ns, thread, false});
    // A thread waiting for a queue has nothing to do with the request any more, whatever its context says.
    WaitArgs args;
    if (!ReadWait(trace_, event, &args) || args.kind != WaitKind::kQueue)
      On(thread).events.push_back({begin_ns, end_ns, 0, order});
    ++order;
  }
  const model::RequestIndex::Range handoffs = requests_.Handoffs(request_);
  for (uint32_t i = 0; i < handoffs.size(); ++i) {
    const model::HandoffRow& handoff = trace_.handoffs[handoffs.first[i]];
    if (handoff.from_thread != kNone) On(handoff.from_thread).sent.emplace_back(handoff.enqueue_ns, i);
    if (handoff.to_thread != kNone && handoff.take_ns != 0)
      On(handoff.to_thread).earliest_take.emplace_back(i, handoff.take_ns);
  }
  std::reverse(deeds_.begin(), deeds_.end());
  std::stable_sort(deeds_.begin(), deeds_.end(), [](const Deed& a, const Deed& b) { return a.end_ns < b.end_ns; });
  for (OnThread& on : threads_) {
    for (std::vector<Span>* spans : {&on.batches, &on.events}) {
      std::stable_sort(spans->begin(), spans->end(),
                       [](const Span& a, const Span& b) { return a.begin_ns < b.begin_ns; });
      int64_t latest_ns = INT64_MIN;
      for (Span& span : *spans) span.latest_end_ns = latest_ns = std::max(latest_ns, span.end_ns);
    }
    int64_t earliest_ns = INT64_MAX;
    for (auto take = on.earliest_take.rbegin(); take != on.earliest_take.rend(); ++take)
      take->second = earliest_ns = std::min(earliest_ns, take->second);
  }
}

int64_t Signs::FirstOn(uint32_t thread) {
  Build();
  const auto first = first_ns_.find(thread);
  return first != first_ns_.end() ? first->second : INT64_MAX;
}

// Whether its last hand-over from or to the thread by then went from there.
bool Signs::HadSentOn(uint32_t thread, int64_t at_ns) const {
  const auto row = rows_.find(thread);
  if (row == rows_.end()) return false;
  const OnThread& on = threads_[row->second];
  const auto after =
      std::partition_point(on.sent.begin(), on.sent.end(), [&](const auto& sent) { return sent.first <= at_ns; });
  if (after == on.sent.begin()) return false;
  const uint32_t last = (after - 1)->second;
  const auto take = std::partition_point(on.earliest_take.begin(), on.earliest_take.end(),
                                         [&](const auto& one) { return one.first < last; });
  return take == on.earliest_take.end() || take->second > at_ns;
}

Sign Signs::LastDone(uint32_t but, int64_t after_ns, int64_t by_ns, uint32_t owner) {
  Build();
  auto deed = std::partition_point(deeds_.begin(), deeds_.end(), [&](const Deed& one) { return one.end_ns <= by_ns; });
  while (deed != deeds_.begin() && (deed - 1)->end_ns > after_ns) {
    --deed;
    patience_.Count();
    if (deed->thread == but || (owner != 0 && trace_.threads[deed->thread].number != owner)) continue;
    if (deed->is_batch || !HadSentOn(deed->thread, deed->begin_ns)) return {deed->thread, deed->end_ns};
  }
  return {kNone, after_ns};
}

Sign Signs::LastSeen(uint32_t but, int64_t by_ns) {
  Build();
  Sign last;
  uint32_t order = 0;  // of `last`; on a tie the first of its batches wins, then of its events
  for (const OnThread& on : threads_) {
    if (on.thread == but) continue;
    for (const std::vector<Span>* spans : {&on.batches, &on.events}) {
      patience_.Count();
      const auto after =
          std::partition_point(spans->begin(), spans->end(), [&](const Span& span) { return span.begin_ns < by_ns; });
      if (after == spans->begin()) continue;
      const int64_t at_ns = std::min((after - 1)->latest_end_ns, by_ns);
      const auto first =
          std::partition_point(spans->begin(), after, [&](const Span& span) { return span.latest_end_ns < at_ns; });
      if (at_ns < last.at_ns || (at_ns == last.at_ns && (last.thread == kNone || first->order > order))) continue;
      last = {on.thread, at_ns};
      order = first->order;
    }
  }
  return last;
}

}  // namespace pitot::blame
