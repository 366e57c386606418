// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/index.h"

#include <algorithm>

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

struct Scope {
  int64_t begin_ns;
  int64_t end_ns;
  uint32_t event;
};

// Groups the rows 0 to `size` - 1 by key. Afterwards rows[starts[k]] to rows[starts[k + 1] - 1] have key k, in order.
// Rows whose `key(row)` is kNone are in none of the groups.
template <class Key>
void Group(size_t size, size_t keys, const Key& key, std::vector<uint32_t>* rows, std::vector<uint32_t>* starts) {
  starts->assign(keys + 1, 0);
  for (uint32_t row = 0; row < size; ++row) {
    if (const uint32_t k = key(row); k != kNone) ++(*starts)[k + 1];
  }
  for (size_t k = 0; k < keys; ++k) (*starts)[k + 1] += (*starts)[k];
  rows->resize(starts->back());
  std::vector<uint32_t> next(starts->begin(), starts->end() - 1);
  for (uint32_t row = 0; row < size; ++row) {
    if (const uint32_t k = key(row); k != kNone) (*rows)[next[k]++] = row;
  }
}

// The scopes of one thread between two moments, outer scopes before inner ones.
std::vector<Scope> ScopesOf(const Trace& trace, const ThreadRow& thread, int64_t begin_ns, int64_t end_ns) {
  std::vector<Scope> scopes;
  scopes.reserve(thread.event_count);
  const uint32_t last = thread.first_event + thread.event_count;
  for (uint32_t event = thread.first_event; event < last; ++event) {
    if (trace.events.begin_ns[event] >= end_ns) break;  // events are sorted by begin
    if (!IsScope(trace.sites[trace.events.site[event]].kind)) continue;
    const Scope scope{trace.events.begin_ns[event], trace.EventEnd(event), event};
    if (scope.end_ns > std::max(scope.begin_ns, begin_ns)) scopes.push_back(scope);
  }
  // An open scope is around the scopes that began with it, even if the window ends before they do.
  const auto end_ns_of = [&](const Scope& scope) {
    return trace.events.duration_ns[scope.event] == kOpen ? INT64_MAX : scope.end_ns;
  };
  const auto before = [&](const Scope& a, const Scope& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : end_ns_of(a) > end_ns_of(b);
  };
  // Events have this order, except for open scopes.
  if (!std::is_sorted(scopes.begin(), scopes.end(), before)) std::stable_sort(scopes.begin(), scopes.end(), before);
  return scopes;
}

void Append(int64_t begin_ns, int64_t end_ns, uint32_t event, std::vector<Segment>* segments) {
  if (!segments->empty() && segments->back().event == event && segments->back().end_ns == begin_ns) {
    segments->back().end_ns = end_ns;
  } else {
    segments->push_back({begin_ns, end_ns, event});
  }
}

std::vector<Segment> Flatten(const std::vector<Scope>& scopes) {
  std::vector<Segment> segments;
  segments.reserve(2 * scopes.size());
  // Begun scopes, the last one on top. A scope that has ended stays until it is on top.
  std::vector<Scope> open;
  int64_t now_ns = 0;
  const auto advance = [&](int64_t to_ns) {
    while (!open.empty() && now_ns < to_ns) {
      const Scope& top = open.back();
      if (top.end_ns > now_ns) {
        const int64_t until_ns = std::min(top.end_ns, to_ns);
        Append(now_ns, until_ns, top.event, &segments);
        now_ns = until_ns;
      }
      if (top.end_ns <= now_ns) open.pop_back();
    }
    now_ns = to_ns;
  };
  for (const Scope& scope : scopes) {
    advance(scope.begin_ns);
    open.push_back(scope);
  }
  advance(INT64_MAX);
  return segments;
}

}  // namespace

std::vector<Segment> FlattenThread(const Trace& trace, uint32_t thread, int64_t begin_ns, int64_t end_ns) {
  std::vector<Segment> segments = Flatten(ScopesOf(trace, trace.threads[thread], begin_ns, end_ns));
  std::erase_if(segments, [&](const Segment& s) { return s.end_ns <= begin_ns || s.begin_ns >= end_ns; });
  if (!segments.empty()) {
    segments.front().begin_ns = std::max(segments.front().begin_ns, begin_ns);
    segments.back().end_ns = std::min(segments.back().end_ns, end_ns);
  }
  return segments;
}

ThreadFlatten::ThreadFlatten(const Trace& trace) {
  threads_.reserve(trace.threads.size());
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) threads_.push_back(FlattenThread(trace, thread));
}

uint32_t ThreadFlatten::Find(uint32_t thread, int64_t at_ns) const {
  const std::vector<Segment>& segments = threads_[thread];
  const auto after = std::upper_bound(segments.begin(), segments.end(), at_ns,
                                      [](int64_t at, const Segment& segment) { return at < segment.begin_ns; });
  return after == segments.begin() ? kNone : static_cast<uint32_t>(after - segments.begin() - 1);
}

RequestIndex::RequestIndex(const Trace& trace) {
  const EventColumns& events = trace.events;
  const size_t requests = trace.requests.size();
  const auto of_request = [&](uint32_t event) {
    const uint32_t row = events.request[event];
    if (row == kNone) return kNone;
    const RequestRow& request = trace.requests[row];
    const bool overlaps =
        events.begin_ns[event] <= trace.RequestEnd(request) && trace.EventEnd(event) >= request.begin_ns;
    return overlaps ? row : kNone;
  };
  Group(events.size(), requests, of_request, &events_, &event_starts_);
  Group(
      events.size(), trace.batches.size(), [&](uint32_t event) { return events.batch[event]; }, &batch_events_,
      &batch_event_starts_);
  Group(
      trace.handoffs.size(), requests, [&](uint32_t row) { return trace.handoffs[row].request; }, &handoffs_,
      &handoff_starts_);
  Group(
      trace.asyncs.size(), requests, [&](uint32_t row) { return trace.asyncs[row].request; }, &asyncs_, &async_starts_);
  Group(
      trace.tokens.size(), requests, [&](uint32_t row) { return trace.tokens[row].request; }, &tokens_, &token_starts_);

  // A request may join a batch more than once. The last batch counted for a request shows that.
  std::vector<uint32_t> last_batch(requests, kNone);
  std::vector<bool> first_join(trace.members.size());
  for (size_t row = 0; row < trace.members.size(); ++row) {
    const MemberRow& member = trace.members[row];
    if (member.request == kNone || last_batch[member.request] == member.batch) continue;
    last_batch[member.request] = member.batch;
    first_join[row] = true;
  }
  Group(
      trace.members.size(), requests,
      [&](uint32_t row) { return first_join[row] ? trace.members[row].request : kNone; }, &batches_, &batch_starts_);
  for (uint32_t& row : batches_) row = trace.members[row].batch;

  rows_.reserve(requests);
  for (uint32_t row = 0; row < requests; ++row) rows_.emplace(trace.requests[row].id, row);
}

uint32_t RequestIndex::Row(uint64_t id) const {
  const auto found = rows_.find(id);
  return found == rows_.end() ? kNone : found->second;
}

}  // namespace model
PITOT_NAMESPACE_END
