// SPDX-License-Identifier: Apache-2.0
#include "pitot/model/index.h"

#include <algorithm>

#include "model/flatten.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

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

}  // namespace

std::vector<Segment> FlattenThread(const Trace& trace, uint32_t thread, int64_t begin_ns, int64_t end_ns) {
  std::vector<Segment> segments;
  VisitSegments(trace, thread, {begin_ns, end_ns}, [&](const Segment& segment) { segments.push_back(segment); });
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
