// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk_threads.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "analyze/blame/mixed_work.h"
#include "analyze/facts/host_work.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

using facts::FirstCalls;
using facts::Patience;

// Divides calls into pieces without overlap; within nested calls the piece belongs to the innermost.
std::vector<Piece> FlattenCalls(const Trace& trace, uint32_t first, uint32_t last) {
  std::vector<Piece> pieces;
  std::vector<std::pair<int64_t, uint32_t>> open;  // end and row, the innermost last
  int64_t now_ns = INT64_MIN;
  const auto advance = [&](int64_t to_ns) {
    while (!open.empty() && now_ns < to_ns) {
      const auto [end_ns, call] = open.back();
      const int64_t until_ns = std::min(end_ns, to_ns);
      if (until_ns > now_ns) pieces.push_back({now_ns, until_ns, kNone, call});
      now_ns = std::max(now_ns, until_ns);
      if (end_ns <= now_ns) open.pop_back();
    }
    now_ns = to_ns;
  };
  for (uint32_t call = first; call < last; ++call) {
    advance(trace.calls.begin_ns[call]);
    if (const int64_t end_ns = trace.CallEnd(call); end_ns > now_ns) open.emplace_back(end_ns, call);
  }
  advance(INT64_MAX);
  return pieces;
}

// Calls are innermost; the scopes around them keep the rest.
std::vector<Piece> Overlay(const std::vector<model::Segment>& scopes, const std::vector<Piece>& calls) {
  std::vector<Piece> pieces;
  pieces.reserve(scopes.size() + 2 * calls.size());
  auto call = calls.begin();
  for (const model::Segment& scope : scopes) {
    int64_t at_ns = pieces.empty() ? scope.begin_ns : std::max(scope.begin_ns, pieces.back().end_ns);
    for (; call != calls.end() && call->begin_ns < scope.end_ns && at_ns < scope.end_ns; ++call) {
      if (call->begin_ns > at_ns) pieces.push_back({at_ns, call->begin_ns, scope.event, kNone});
      pieces.push_back(*call);
      if (call->end_ns > scope.begin_ns) pieces.back().event = scope.event;
      at_ns = std::max(at_ns, call->end_ns);
    }
    if (at_ns < scope.end_ns) pieces.push_back({at_ns, scope.end_ns, scope.event, kNone});
  }
  for (; call != calls.end(); ++call) pieces.push_back(*call);
  return pieces;
}

// Which of `pieces` are calls or scopes.
std::vector<uint32_t> CodeOf(const Trace& trace, const std::vector<Piece>& pieces) {
  std::vector<uint32_t> code;
  for (uint32_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = pieces[i];
    const bool is_scope = piece.event != kNone && trace.sites[trace.events.site[piece.event]].kind != SiteKind::kWait;
    if (piece.call != kNone || is_scope) code.push_back(i);
  }
  return code;
}

}  // namespace

// ---- Memberships

Memberships::Memberships(const Trace& trace) : starts_(trace.requests.size() + 1) {
  for (const model::MemberRow& member : trace.members) {
    if (member.request == kNone || member.batch == kNone) continue;
    const model::BatchRow& batch = trace.batches[member.batch];
    const int64_t leave_ns = member.leave_ns != 0 ? member.leave_ns : trace.BatchEnd(batch);
    rows_.push_back({member.request, member.batch, member.join_ns, leave_ns, leave_ns, GivenWork(member)});
  }
  std::stable_sort(rows_.begin(), rows_.end(), [](const Membership& a, const Membership& b) {
    return a.request != b.request ? a.request < b.request : a.join_ns < b.join_ns;
  });
  for (size_t i = 1; i < rows_.size(); ++i) {
    if (rows_[i].request == rows_[i - 1].request)
      rows_[i].latest_leave_ns = std::max(rows_[i].leave_ns, rows_[i - 1].latest_leave_ns);
  }
  for (const Membership& row : rows_) ++starts_[row.request + 1];
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
}

// ---- Tenures

void Tenures::Flatten() {
  std::stable_sort(all_.begin(), all_.end(), [](const Tenure& a, const Tenure& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Tenure> flat;
  std::vector<size_t> open;  // the one with the latest begin is last; those before it may be over
  int64_t now_ns = INT64_MIN;
  const auto advance = [&](int64_t to_ns) {
    for (; !open.empty() && now_ns < to_ns; open.pop_back()) {
      const Tenure& tenure = all_[open.back()];
      const int64_t until_ns = std::min(tenure.end_ns, to_ns);
      if (until_ns > now_ns) flat.push_back({now_ns, until_ns, tenure.row});
      now_ns = std::max(now_ns, until_ns);
      if (tenure.end_ns > to_ns) break;
    }
    now_ns = to_ns;
  };
  for (size_t i = 0; i < all_.size(); ++i) {
    advance(all_[i].begin_ns);
    open.push_back(i);
  }
  advance(INT64_MAX);
  all_ = std::move(flat);
}

uint32_t Tenures::At(int64_t at_ns, int64_t* until_ns) const {
  const auto after = std::upper_bound(all_.begin(), all_.end(), at_ns,
                                      [](int64_t at, const Tenure& tenure) { return at < tenure.begin_ns; });
  if (after != all_.end()) *until_ns = std::min(*until_ns, after->begin_ns);
  if (after == all_.begin() || (after - 1)->end_ns <= at_ns) return kNone;
  *until_ns = std::min(*until_ns, (after - 1)->end_ns);
  return (after - 1)->row;
}

// ---- Threads

namespace {

// The ends of one request's memberships by thread: the latest among those joined in some time.
class Results {
 public:
  // O(n log n). Rows without a thread are left out.
  Results(const Trace& trace, const Membership* begin, const Membership* end) {
    for (const Membership* in = begin; in != end; ++in) {
      if (const uint32_t thread = trace.batches[in->batch].thread; thread != kNone)
        joins_.emplace_back(thread, in->join_ns, in->leave_ns);
    }
    std::sort(joins_.begin(), joins_.end());
    // A tree: each node has the latest of its two children, 2 i and 2 i + 1.
    latest_ns_.resize(2 * joins_.size(), INT64_MIN);
    for (size_t i = 0; i < joins_.size(); ++i) latest_ns_[joins_.size() + i] = std::get<2>(joins_[i]);
    for (size_t i = joins_.size(); i-- > 1;) latest_ns_[i] = std::max(latest_ns_[2 * i], latest_ns_[2 * i + 1]);
  }
  // INT64_MIN: it joined none from `from_ns` to `to_ns`. O(log n).
  int64_t LatestNs(uint32_t thread, int64_t from_ns, int64_t to_ns) const {
    const auto first = std::lower_bound(joins_.begin(), joins_.end(), Join(thread, from_ns, INT64_MIN));
    const auto after = std::upper_bound(joins_.begin(), joins_.end(), Join(thread, to_ns, INT64_MAX));
    int64_t latest_ns = INT64_MIN;
    size_t i = joins_.size() + static_cast<size_t>(first - joins_.begin());
    for (size_t end = joins_.size() + static_cast<size_t>(after - joins_.begin()); i < end; i /= 2, end /= 2) {
      if (i % 2 == 1) latest_ns = std::max(latest_ns, latest_ns_[i++]);
      if (end % 2 == 1) latest_ns = std::max(latest_ns, latest_ns_[--end]);
    }
    return latest_ns;
  }

 private:
  using Join = std::tuple<uint32_t, int64_t, int64_t>;  // thread, when it joined, when it left
  std::vector<Join> joins_;
  std::vector<int64_t> latest_ns_;
};

}  // namespace

Threads::Threads(const Trace& trace, const model::RequestIndex& requests, const Memberships& memberships,
                 Patience* patience)
    : trace_(trace),
      index_(requests),
      memberships_(memberships),
      batches_(trace.threads.size()),
      requests_(trace.threads.size()),
      accepted_ns_(trace.requests.size(), INT64_MAX) {
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const uint32_t request = trace.calls.request[call];
    if (request != kNone && trace.calls.thread[call] == trace.requests[request].begin_thread)
      accepted_ns_[request] = std::min(accepted_ns_[request], trace.calls.begin_ns[call]);
  }
  for (uint32_t request = 0; request < trace.requests.size(); ++request) FindAccepted(request);
  const std::vector<uint32_t> calls = FirstCalls(trace);
  pieces_.reserve(trace.threads.size());
  code_.reserve(trace.threads.size());
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    patience->Count(trace.threads[thread].event_count + calls[thread + 1] - calls[thread]);
    pieces_.push_back(
        Overlay(model::FlattenThread(trace, thread), FlattenCalls(trace, calls[thread], calls[thread + 1])));
    code_.push_back(CodeOf(trace, pieces_.back()));
  }
  for (uint32_t row = 0; row < trace.batches.size(); ++row) {
    const model::BatchRow& batch = trace.batches[row];
    if (batch.thread == kNone) continue;
    batches_[batch.thread].Add(batch.begin_ns, trace.BatchEnd(batch), row);
  }
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    patience->Count();
    AddStays(row, patience);
  }
  for (Tenures& tenures : batches_) tenures.Flatten();
  for (Tenures& tenures : requests_) tenures.Flatten();
}

Piece Threads::Before(uint32_t thread, int64_t at_ns) const {
  if (thread == kNone) return {INT64_MIN, at_ns, kNone, kNone};
  const std::vector<Piece>& pieces = pieces_[thread];
  const auto after = std::lower_bound(pieces.begin(), pieces.end(), at_ns,
                                      [](const Piece& piece, int64_t at) { return piece.begin_ns < at; });
  if (after == pieces.begin()) return {INT64_MIN, at_ns, kNone, kNone};
  const Piece& piece = *(after - 1);
  if (piece.end_ns >= at_ns) return piece;
  return {piece.end_ns, at_ns, kNone, kNone};
}

Piece Threads::At(uint32_t thread, int64_t at_ns) const {
  if (thread == kNone) return {at_ns, INT64_MAX, kNone, kNone};
  const std::vector<Piece>& pieces = pieces_[thread];
  const auto after = std::upper_bound(pieces.begin(), pieces.end(), at_ns,
                                      [](int64_t at, const Piece& piece) { return at < piece.begin_ns; });
  const int64_t next_ns = after == pieces.end() ? INT64_MAX : after->begin_ns;
  if (after == pieces.begin()) return {at_ns, next_ns, kNone, kNone};
  const Piece& piece = *(after - 1);
  if (piece.end_ns > at_ns) return piece;
  return {piece.end_ns, next_ns, kNone, kNone};
}

int64_t Threads::CodeFromNs(uint32_t thread, int64_t at_ns) const {
  const std::vector<Piece>& pieces = pieces_[thread];
  const auto code = std::partition_point(code_[thread].begin(), code_[thread].end(),
                                         [&](uint32_t piece) { return pieces[piece].begin_ns < at_ns; });
  return code == code_[thread].end() ? INT64_MAX : pieces[*code].begin_ns;
}

void Threads::FindAccepted(uint32_t request) {
  const uint32_t thread = trace_.requests[request].begin_thread;
  int64_t& accepted_ns = accepted_ns_[request];
  for (const uint32_t event : index_.Events(request)) {
    if (trace_.events.thread[event] == thread && model::IsScope(trace_.sites[trace_.events.site[event]].kind))
      accepted_ns = std::min(accepted_ns, trace_.events.begin_ns[event]);
  }
  for (const uint32_t handoff : index_.Handoffs(request)) {
    if (trace_.handoffs[handoff].from_thread != thread) continue;
    accepted_ns = std::min(accepted_ns, trace_.handoffs[handoff].enqueue_ns);
    break;
  }
  for (const Membership* in = memberships_.begin(request); in != memberships_.end(request); ++in) {
    if (trace_.batches[in->batch].thread == thread) accepted_ns = std::min(accepted_ns, in->join_ns);
  }
}

int64_t Threads::AcceptedNs(uint32_t request, int64_t by_ns) const {
  return std::max(std::min(by_ns, accepted_ns_[request]), trace_.requests[request].begin_ns);
}

// Gives the request each thread from its arrival there until it goes on elsewhere. A thread that sends it and has it
// again without taking it waits for it meanwhile, and stays its own all the time.
void Threads::AddStays(uint32_t request, Patience* patience) {
  const model::RequestRow& row = trace_.requests[request];
  const int64_t end_ns = trace_.RequestEnd(row);
  const auto stay = [&](uint32_t thread, int64_t begin_ns, int64_t until_ns) {
    if (thread != kNone) requests_[thread].Add(begin_ns, until_ns, request);
  };
  uint32_t thread = row.begin_thread;
  int64_t at_ns = AcceptedNs(request, end_ns);
  const auto handoffs = index_.Handoffs(request);
  std::optional<Results> results;
  for (const uint32_t* h = handoffs.begin(); h != handoffs.end(); ++h) {
    patience->Count();
    const model::HandoffRow& handoff = trace_.handoffs[*h];
    if (thread == handoff.from_thread) stay(thread, at_ns, handoff.enqueue_ns);
    if (handoff.take_ns == 0) return;
    thread = handoff.to_thread;
    at_ns = handoff.take_ns;
    const bool is_last = h + 1 == handoffs.end();
    const uint32_t next = is_last ? row.end_thread : trace_.handoffs[h[1]].from_thread;
    const int64_t next_ns = is_last ? end_ns : trace_.handoffs[h[1]].enqueue_ns;
    if (next == thread || next == kNone) continue;
    if (!results.has_value()) {
      patience->Count(static_cast<uint64_t>(memberships_.end(request) - memberships_.begin(request)));
      results.emplace(trace_, memberships_.begin(request), memberships_.end(request));
    }
    stay(thread, at_ns, std::max(at_ns, results->LatestNs(thread, at_ns, next_ns)));
    const uint32_t* sent = h;
    for (; sent != handoffs.begin() && trace_.handoffs[*sent].from_thread != next; --sent) patience->Count();
    thread = next;
    at_ns = trace_.handoffs[*sent].from_thread == next ? trace_.handoffs[*sent].enqueue_ns : next_ns;
  }
  stay(thread, at_ns, end_ns);
}

}  // namespace pitot::blame
