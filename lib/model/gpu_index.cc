// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "base/call_class.h"
#include "model/graph_work.h"
#include "model/losses.h"
#include "model/recorded.h"
#include "pitot/model/classes.h"
#include "pitot/model/index.h"

PITOT_NAMESPACE_BEGIN
namespace model {
namespace {

Interval GpuInterval(const Trace& trace, uint32_t row) {
  return {trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]};
}

bool IsSpan(const Trace& trace, uint32_t row) { return trace.gpu.kind[row] == GpuKind::kSpan; }

// The recorded GPU activities of a batch or request, and the spans around them.
struct Worked {
  std::vector<Interval> rows, spans;
  // Spans stand in for rows if most rows may be missing.
  bool IsByEvents(bool is_mostly_recorded) const { return !spans.empty() && (rows.empty() || !is_mostly_recorded); }
  Intervals Take(bool is_by_events) {
    if (is_by_events) rows.insert(rows.end(), spans.begin(), spans.end());
    return Union(std::move(rows));
  }
};

// The GPU rows that belong to a batch, or to a request outside of batches.
struct Owned {
  std::vector<Interval> rows, graphs;  // all but spans; among them whole graphs, which hide kernels
};

// The devices on which batches, and requests outside of batches, did their work. Losses on other devices do not concern
// them.
class WorkedOn {
 public:
  static constexpr uint64_t kAny = ~uint64_t{0};

  explicit WorkedOn(const Trace& trace) : batches_(trace.batches.size()), requests_(trace.requests.size()) {
    std::unordered_map<uint32_t, uint64_t> graphs;  // an executable graph may run on several devices
    const auto device_of = [&](uint32_t row) {
      const uint32_t device = trace.streams[trace.gpu.stream[row]].device;
      return device < 63 ? uint64_t{1} << device : kAny;
    };
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.graph[row] != 0) graphs[trace.gpu.graph[row]] |= device_of(row);
    }
    std::vector<uint64_t> calls(trace.calls.size());
    for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
      if (trace.gpu.call[row] == kNone || IsSpan(trace, row)) continue;
      const uint32_t graph = trace.gpu.graph[row];
      calls[trace.gpu.call[row]] |= graph != 0 ? graphs[graph] : device_of(row);
    }
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      const uint32_t batch = trace.calls.batch[call], request = trace.calls.request[call];
      if (batch == kNone && request == kNone) continue;
      // Its GPU activities are missing and may have been on any device.
      if (calls[call] == 0 && IsSubmission(trace.strings[trace.calls.name[call]])) calls[call] = kAny;
      (batch != kNone ? batches_[batch] : requests_[request]) |= calls[call];
    }
  }
  // Rows of devices as bits. 0: none is known.
  uint64_t Batch(uint32_t batch) const { return batches_[batch]; }
  uint64_t Request(uint32_t request) const { return requests_[request]; }

 private:
  std::vector<uint64_t> batches_, requests_;
};

// The part of a set that lies in `interval`. Cost: O(log n) plus the size of the result.
Intervals Within(const Intervals& set, const Interval& interval) {
  const auto first = std::partition_point(set.begin(), set.end(),
                                          [&](const Interval& other) { return other.end_ns <= interval.begin_ns; });
  Intervals within;
  for (auto at = first; at != set.end() && at->begin_ns < interval.end_ns; ++at)
    within.push_back({std::max(at->begin_ns, interval.begin_ns), std::min(at->end_ns, interval.end_ns)});
  return within;
}

// When a device did nothing.
class IdleTimes {
 public:
  explicit IdleTimes(Intervals busy) : busy_(std::move(busy)), before_{0} {
    for (const Interval& interval : busy_) before_.push_back(before_.back() + interval.end_ns - interval.begin_ns);
  }
  // A moment, found once. Asked in order of time, each is near the one before.
  struct Place {
    int64_t at_ns = INT64_MIN;
    size_t next = 0;  // the first interval that begins at or after it
  };
  void Find(int64_t at_ns, Place* place) const {
    if (at_ns == place->at_ns) return;
    const auto is_before = [at_ns](const Interval& interval) { return interval.begin_ns < at_ns; };
    constexpr size_t kNear = 16;
    const size_t from = at_ns > place->at_ns ? place->next : 0, near = std::min(from + kNear, busy_.size());
    const bool is_near = near == busy_.size() || !is_before(busy_[near]);
    const auto first = busy_.begin() + static_cast<std::ptrdiff_t>(from);
    const auto last = is_near ? busy_.begin() + static_cast<std::ptrdiff_t>(near) : busy_.end();
    *place = {at_ns, static_cast<size_t>(std::partition_point(first, last, is_before) - busy_.begin())};
  }
  // How long until then; before its first work for ever.
  int64_t Before(const Place& place) const {
    return place.next == 0 ? INT64_MAX : std::max<int64_t>(0, place.at_ns - busy_[place.next - 1].end_ns);
  }
  int64_t Between(const Place& begin, const Place& end) const {
    return end.at_ns - begin.at_ns - (BusyUntil(end) - BusyUntil(begin));
  }

 private:
  int64_t BusyUntil(const Place& place) const {
    const size_t next = place.next;
    return before_[next] - (next == 0 ? 0 : std::max<int64_t>(0, busy_[next - 1].end_ns - place.at_ns));
  }

  Intervals busy_;
  std::vector<int64_t> before_;  // the sum before each interval
};

// The time that a request spent in a batch.
struct Membership {
  int64_t begin_ns;
  int64_t end_ns;
  uint32_t request;  // its place among the batch's requests, by id
};

// A member's part of a batch's time: whole ns, and units of 2^-32 ns.
struct Portion {
  int64_t ns = 0;
  uint64_t fraction = 0;
};

// Divides `ns` equally between `members`.
void Divide(int64_t ns, const std::vector<uint32_t>& members, std::vector<Portion>* parts) {
  const auto count = static_cast<int64_t>(members.size());
  for (const uint32_t member : members) {
    (*parts)[member].ns += ns / count;
    (*parts)[member].fraction += (static_cast<uint64_t>(ns % count) << 32) / members.size();
  }
}

// Rounds the parts to whole ns, `total_ns` in all.
void Round(int64_t total_ns, std::vector<Portion>* parts) {
  int64_t left_ns = total_ns;
  for (Portion& part : *parts) {
    part.ns += static_cast<int64_t>(part.fraction >> 32);
    part.fraction &= UINT32_MAX;
    left_ns -= part.ns;
  }
  std::vector<uint32_t> order(parts->size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [&](uint32_t a, uint32_t b) { return (*parts)[a].fraction > (*parts)[b].fraction; });
  // The fractions were rounded down, so that up to one ns for each part may be left.
  for (size_t i = 0; left_ns > 0; i = i + 1 == order.size() ? 0 : i + 1, --left_ns) ++(*parts)[order[i]].ns;
}

// A request joins or leaves a batch.
struct MembershipEdge {
  int64_t at_ns;
  uint32_t request;
  int step;  // 1: joins, -1: leaves
};

// Sorted by time.
std::vector<MembershipEdge> EdgesOf(const std::vector<Membership>& memberships) {
  std::vector<MembershipEdge> edges;
  for (const Membership& membership : memberships) {
    if (membership.end_ns <= membership.begin_ns) continue;
    edges.push_back({membership.begin_ns, membership.request, 1});
    edges.push_back({membership.end_ns, membership.request, -1});
  }
  std::sort(edges.begin(), edges.end(),
            [](const MembershipEdge& a, const MembershipEdge& b) { return a.at_ns < b.at_ns; });
  return edges;
}

// Divides a batch's busy time between `count` requests.
std::vector<Portion> ShareOut(const Intervals& busy, const std::vector<Membership>& memberships, size_t count) {
  std::vector<Portion> parts(count);
  if (count == 0) return parts;
  const std::vector<MembershipEdge> edges = EdgesOf(memberships);
  std::vector<uint32_t> all(count), times(count), present;  // how many times each is a member now, and the members
  for (uint32_t i = 0; i < count; ++i) all[i] = i;
  size_t edge = 0;
  int64_t together_ns = 0;  // of the present members, not divided yet
  const auto divide = [&] {
    if (together_ns != 0) Divide(together_ns, present.empty() ? all : present, &parts);
    together_ns = 0;
  };
  const auto pass = [&](int64_t until_ns) {
    if (edge < edges.size() && edges[edge].at_ns <= until_ns) divide();
    for (; edge < edges.size() && edges[edge].at_ns <= until_ns; ++edge) {
      const uint32_t request = edges[edge].request;
      if (edges[edge].step > 0) {
        if (times[request]++ == 0) present.push_back(request);
      } else if (--times[request] == 0) {
        present.erase(std::find(present.begin(), present.end(), request));
      }
    }
  };
  for (const Interval& interval : busy) {
    for (int64_t now_ns = interval.begin_ns; now_ns < interval.end_ns;) {
      pass(now_ns);
      const int64_t until_ns = edge < edges.size() ? std::min(edges[edge].at_ns, interval.end_ns) : interval.end_ns;
      together_ns += until_ns - now_ns;
      now_ns = until_ns;
    }
  }
  divide();
  Round(TotalNs(busy), &parts);
  return parts;
}

}  // namespace

LaunchIndex::LaunchIndex(const Trace& trace) {
  starts_.assign(trace.calls.size() + 1, 0);
  for (const uint32_t call : trace.gpu.call) {
    if (call != kNone) ++starts_[call + 1];
  }
  for (size_t i = 1; i < starts_.size(); ++i) starts_[i] += starts_[i - 1];
  rows_.resize(starts_.back());
  std::vector<uint32_t> next(starts_.begin(), starts_.end() - 1);
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (const uint32_t call = trace.gpu.call[row]; call != kNone) rows_[next[call]++] = row;
  }
}

WaitingCalls::WaitingCalls(const Trace& trace) : waits_(trace.calls.size()) {
  std::unordered_map<StringId, bool> names;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) {
    const auto [known, is_new] = names.try_emplace(trace.calls.name[call]);
    if (is_new) {
      const base::CallClass call_class = base::CallClassOf(trace.strings[trace.calls.name[call]]);
      known->second = base::IsSynchronization(call_class) || call_class == base::CallClass::kBlockingCopy;
    }
    waits_[call] = known->second || trace.calls.stream[call] != kNone;
  }
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    // A graph's launch does not wait for the copies in it.
    if (trace.gpu.call[row] != kNone && IsPageableCopy(trace, row) && !IsOfGraph(trace, row))
      waits_[trace.gpu.call[row]] = true;
  }
}

bool IsPageableCopy(const Trace& trace, uint32_t row) {
  return trace.gpu.kind[row] == GpuKind::kMemcpy &&
         trace.strings[trace.gpu.name[row]].find("pageable") != std::string_view::npos;
}

bool IsNobodys(const Trace& trace, uint32_t row) {
  const uint32_t call = trace.gpu.call[row];
  const bool is_owned = call != kNone && (trace.calls.batch[call] != kNone || trace.calls.request[call] != kNone);
  return !is_owned && !IsSpan(trace, row);
}

Intervals StreamBusy(const Trace& trace, uint32_t stream) {
  const StreamRow& of = trace.streams[stream];
  std::vector<Interval> intervals;
  intervals.reserve(of.event_count);
  for (uint32_t row = of.first_event; row < of.first_event + of.event_count; ++row) {
    if (!IsSpan(trace, row)) intervals.push_back(GpuInterval(trace, row));
  }
  return Union(std::move(intervals));
}

Intervals DeviceBusy(const Trace& trace, uint32_t device) {
  std::vector<Interval> intervals;
  for (uint32_t stream = 0; stream < trace.streams.size(); ++stream) {
    if (trace.streams[stream].device != device) continue;
    Intervals busy = StreamBusy(trace, stream);
    if (intervals.empty())
      intervals = std::move(busy);
    else
      intervals.insert(intervals.end(), busy.begin(), busy.end());
  }
  return Union(std::move(intervals));
}

// Work that a stream was told to hold back: until an event, or a value in memory. Rows by stream, in order.
class HeldBack {
 public:
  explicit HeldBack(const Trace& trace) : trace_(trace), gates_(trace.threads.size() + 1) {
    std::unordered_map<StringId, bool> names;
    for (uint32_t call = 0; call < trace.calls.size(); ++call) {
      const auto [known, is_new] = names.try_emplace(trace.calls.name[call]);
      if (is_new) known->second = IsGate(trace.strings[trace.calls.name[call]]);
      if (known->second) gates_[ThreadOf(call)].push_back(trace.calls.begin_ns[call]);
    }
  }
  // Whether the row waited for that, or for one that did. To be called for each row with a call.
  bool Has(uint32_t row) {
    const uint32_t call = trace_.gpu.call[row];
    const int64_t launched_ns = trace_.calls.begin_ns[call];
    if (trace_.gpu.stream[row] != stream_) stream_ = trace_.gpu.stream[row], since_ns_ = INT64_MIN, is_held_ = false;
    const std::vector<int64_t>& gates = gates_[ThreadOf(call)];
    const auto gate = std::upper_bound(gates.begin(), gates.end(), launched_ns);
    is_held_ = (gate != gates.begin() && *(gate - 1) > since_ns_) || (is_held_ && launched_ns < end_ns_);
    since_ns_ = launched_ns;
    end_ns_ = trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row];
    return is_held_;
  }

 private:
  size_t ThreadOf(uint32_t call) const { return std::min<size_t>(trace_.calls.thread[call], trace_.threads.size()); }
  static bool IsGate(std::string_view call) {
    const std::string_view name = base::WithoutVendor(call);
    return name.starts_with("StreamWait") || name.starts_with("StreamBatchMemOp");
  }

  const Trace& trace_;
  std::vector<std::vector<int64_t>> gates_;  // by thread, in order; the last: unknown
  uint32_t stream_ = kNone;
  int64_t since_ns_ = INT64_MIN, end_ns_ = INT64_MIN;  // launch and end of the row before
  bool is_held_ = false;
};

LaunchLag FindLaunchLag(const Trace& trace, uint32_t device, int64_t begin_ns, int64_t end_ns, int64_t late_ns) {
  LaunchLag lag;
  std::optional<HeldBack> held_back;
  if (late_ns > 0) held_back.emplace(trace);
  const IdleTimes idle(late_ns > 0 ? DeviceBusy(trace, device) : Intervals());
  IdleTimes::Place launch, begin;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const int64_t at_ns = trace.gpu.begin_ns[row];
    const uint32_t call = trace.gpu.call[row];
    if (call == kNone || IsSpan(trace, row) || at_ns < begin_ns || at_ns >= end_ns ||
        trace.streams[trace.gpu.stream[row]].device != device)
      continue;
    const int64_t launched_ns = trace.calls.begin_ns[call], lag_ns = at_ns - launched_ns;
    lag.smallest_ns = lag.rows == 0 ? lag_ns : std::min(lag.smallest_ns, lag_ns);
    lag.early += lag_ns < 0;
    ++lag.rows;
    if (late_ns <= 0 || held_back->Has(row) || lag_ns < late_ns) continue;
    idle.Find(launched_ns, &launch);
    idle.Find(at_ns, &begin);
    const bool was_idle = std::min(idle.Before(begin), lag_ns) >= late_ns;
    lag.waited_for_nothing += was_idle || 2 * idle.Between(launch, begin) >= lag_ns;
  }
  return lag;
}

GpuTime::GpuTime(const Trace& trace) : GpuTime(trace, CoverageIndex(trace)) {}

GpuTime::GpuTime(const Trace& trace, const CoverageIndex& coverage)
    : batches_(trace.batches.size()),
      requests_(trace.requests.size()),
      requests_by_events_(trace.requests.size()),
      by_events_(trace.batches.size()),
      shares_(trace.batches.size()) {
  std::vector<Worked> of_batches(trace.batches.size()), of_requests(trace.requests.size());
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const uint32_t call = trace.gpu.call[row];
    if (call == kNone) continue;
    const uint32_t batch = trace.calls.batch[call], request = trace.calls.request[call];
    if (batch == kNone && request == kNone) continue;
    Worked& worked = batch != kNone ? of_batches[batch] : of_requests[request];
    (IsSpan(trace, row) ? worked.spans : worked.rows).push_back(GpuInterval(trace, row));
  }
  for (uint32_t request = 0; request < trace.requests.size(); ++request) {
    const bool is_by_events = of_requests[request].IsByEvents(coverage.IsOwnMostlyRecorded(request));
    requests_[request] = TotalNs(of_requests[request].Take(is_by_events));
    if (is_by_events) requests_by_events_[request] = requests_[request];
  }

  std::vector<Membership> memberships;
  std::vector<uint32_t> members;
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
    by_events_[batch] = of_batches[batch].IsByEvents(coverage.IsMostlyRecorded(batch));
    const Intervals busy = of_batches[batch].Take(by_events_[batch]);
    batches_[batch] = TotalNs(busy);
    members.clear();
    memberships.clear();
    const uint32_t first = trace.batches[batch].first_member, last = first + trace.batches[batch].member_count;
    for (uint32_t row = first; row < last; ++row) members.push_back(trace.members[row].request);
    const auto key = [&](uint32_t request) { return std::pair(trace.requests[request].id, request); };
    const auto by_id = [&](uint32_t a, uint32_t b) { return key(a) < key(b); };
    std::sort(members.begin(), members.end(), by_id);
    members.erase(std::unique(members.begin(), members.end()), members.end());
    for (uint32_t row = first; row < last; ++row) {
      const MemberRow& member = trace.members[row];
      const auto at = std::lower_bound(members.begin(), members.end(), member.request, by_id);
      memberships.push_back({member.join_ns, member.leave_ns != 0 ? member.leave_ns : INT64_MAX,
                             static_cast<uint32_t>(at - members.begin())});
    }
    const std::vector<Portion> parts = ShareOut(busy, memberships, members.size());
    for (size_t i = 0; i < members.size(); ++i) {
      shares_[batch].push_back({members[i], parts[i].ns});
      requests_[members[i]] += parts[i].ns;
      if (by_events_[batch]) requests_by_events_[members[i]] += parts[i].ns;
    }
  }
}

// The records of a trace that tell how completely a time was recorded.
class CoverageIndex::Evidence {
 public:
  explicit Evidence(const Trace& trace)
      : trace_(trace), worked_on_(trace), of_batches_(trace.batches.size()), of_requests_(trace.requests.size()) {
    TakeDepths();
    TakeGpuWork();
    TakeLosses();
  }

  // The owned work is handed over: ask once for each row.
  Times OfBatch(uint32_t row) {
    const BatchRow& batch = trace_.batches[row];
    return Find({batch.begin_ns, trace_.BatchEnd(batch)}, std::move(of_batches_[row]), worked_on_.Batch(row),
                {batch.thread});
  }
  // For the request's own time; its batches have times of their own.
  Times OfRequest(uint32_t row) {
    const RequestRow& request = trace_.requests[row];
    const Interval ran{request.begin_ns, trace_.RequestEnd(request)};
    Times times =
        Find(ran, std::move(of_requests_[row]), worked_on_.Request(row), {request.begin_thread, request.end_thread});
    // A thread's lost events may include a request's joining of a batch.
    const bool has_batches = !trace_.batches.empty() || !trace_.handoffs.empty();
    if (has_batches && !Within(events_lost_, ran).empty()) times.is_told = false;
    return times;
  }

 private:
  void TakeDepths() {
    std::vector<Interval> scopes, deeper, graphs, kernels;
    for (const DepthRow& row : trace_.depths) {
      const Interval time{row.begin_ns, row.end_ns};
      (row.depth == Depth::kScopes ? scopes : deeper).push_back(time);
      if (row.depth >= Depth::kKernels) kernels.push_back(time);
      if (row.depth == Depth::kGraphs) graphs.push_back(time);
    }
    const Intervals shallow = Union(std::move(scopes)), deep = Union(std::move(deeper));
    // Where processes differ, the least counts. Whether a request's process has any records is then unknown.
    at_graphs_ = Difference(Union(std::move(graphs)), shallow);
    at_kernels_ = Difference(Difference(Union(std::move(kernels)), at_graphs_), shallow);
    told_ = Difference(shallow, deep);
    for (const Interval& time : Difference(deep, shallow)) told_.push_back(time);
    told_ = Union(std::move(told_));
  }

  // Divides rows among batches, requests outside of batches, and nobody.
  void TakeGpuWork() {
    std::vector<Interval> nobodys, without_call;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (IsSpan(trace_, row)) continue;
      const uint32_t call = trace_.gpu.call[row];
      const uint32_t batch = call != kNone ? trace_.calls.batch[call] : kNone;
      const uint32_t request = call != kNone ? trace_.calls.request[call] : kNone;
      if (batch == kNone && request == kNone) {
        if (!at_graphs_.empty()) nobodys.push_back(GpuInterval(trace_, row));  // without graphs it makes no difference
        if (call == kNone) without_call.push_back(GpuInterval(trace_, row));
        continue;
      }
      Owned& owned = batch != kNone ? of_batches_[batch] : of_requests_[request];
      owned.rows.push_back(GpuInterval(trace_, row));
      if (trace_.gpu.kind[row] == GpuKind::kGraph) owned.graphs.push_back(GpuInterval(trace_, row));
    }
    nobodys_ = Union(std::move(nobodys));
    without_call_ = Union(std::move(without_call));
  }

  // If a thread's events were lost, its calls were, and the work they caused is unattributed.
  void TakeLosses() {
    events_lost_of_.resize(trace_.threads.size());
    std::vector<Interval> any;
    for (const LossRow& loss : trace_.losses) {
      if (!IsOfEvents(loss.reason)) continue;
      any.push_back({loss.begin_ns, loss.end_ns});
      if (loss.thread != kNone) events_lost_of_[loss.thread].push_back({loss.begin_ns, loss.end_ns});
    }
    events_lost_ = Union(std::move(any));
  }

  // The times when GPU records of these devices were lost.
  const Intervals& GpuLost(uint64_t devices) {
    const auto [found, is_new] = gpu_lost_.try_emplace(devices);
    if (!is_new) return found->second;
    std::vector<Interval> rows;
    for (const GpuLossRow& loss : trace_.gpu_losses) {
      const bool is_other = loss.device < kAnyDevice && (devices >> loss.device & 1) == 0;
      if (!is_other) rows.push_back({loss.begin_ns, loss.end_ns});
    }
    return found->second = Union(std::move(rows));
  }

  // The times when any of these threads lost events.
  Intervals EventsLost(std::initializer_list<uint32_t> threads) const {
    std::vector<Interval> lost;
    for (const uint32_t thread : threads) {
      if (thread != kNone) lost.insert(lost.end(), events_lost_of_[thread].begin(), events_lost_of_[thread].end());
    }
    return Union(std::move(lost));
  }

  Times Find(Interval ran, Owned owned, uint64_t devices, std::initializer_list<uint32_t> threads) {
    Times times;
    if (ran.end_ns <= ran.begin_ns) return times;
    times.ran_ns = ran.end_ns - ran.begin_ns;
    times.is_told = !Within(told_, ran).empty();
    const Intervals no_calls = EventsLost(threads), deep = Within(at_kernels_, ran);
    // Its devices are known only from all of its calls together.
    const bool has_all = TotalNs(deep) == times.ran_ns && Within(events_lost_, ran).empty();
    if (has_all) times.devices = devices;
    const bool has_calls = has_all && devices != 0;
    const Intervals missing = Within(GpuLost(has_calls ? devices : WorkedOn::kAny), ran);
    // If some of its calls are missing, work without a call may be its own.
    const Intervals recorded = Difference(deep, missing);
    const Intervals by_kernel = has_calls ? recorded : Difference(recorded, Within(without_call_, ran));
    // Only launches of graphs have their calls there: other GPU work is unattributed, and may be anybody's.
    const Intervals all_graphs = Difference(Difference(Within(at_graphs_, ran), missing), by_kernel);
    const Intervals nobodys = Within(nobodys_, ran), by_graph = Difference(all_graphs, nobodys);
    owned.graphs.insert(owned.graphs.end(), no_calls.begin(), no_calls.end());
    const int64_t by_kernel_ns = TotalNs(Difference(by_kernel, no_calls));
    times.recorded_ns = by_kernel_ns + TotalNs(Difference(by_graph, no_calls));
    times.covered_ns = by_kernel_ns + TotalNs(Difference(by_graph, Union(std::move(owned.graphs))));
    times.worked_ns = TotalNs(Union(std::move(owned.rows)));
    times.nobodys_ns = TotalNs(Intersection(all_graphs, nobodys));
    return times;
  }

  const Trace& trace_;
  const WorkedOn worked_on_;
  std::vector<Owned> of_batches_, of_requests_;
  Intervals told_, at_kernels_, at_graphs_;            // the times with a depth, and those at these depths
  Intervals nobodys_, without_call_;                   // GPU work without a batch or request; without a call
  Intervals events_lost_;                              // of any thread
  std::vector<std::vector<Interval>> events_lost_of_;  // by thread
  std::map<uint64_t, Intervals> gpu_lost_;             // by set of devices
};

CoverageIndex::CoverageIndex(const Trace& trace)
    : has_gpu_(pitot::model::HasGpu(trace)), is_damaged_(IsDamagedDump(trace)) {
  Evidence evidence(trace);
  batches_.reserve(trace.batches.size());
  for (uint32_t row = 0; row < trace.batches.size(); ++row) batches_.push_back(evidence.OfBatch(row));
  requests_.reserve(trace.requests.size());
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    requests_.push_back(evidence.OfRequest(row));
    devices_.push_back(requests_[row].devices);
  }
  for (const MemberRow& member : trace.members) {
    const uint64_t devices = batches_[member.batch].devices;
    devices_[member.request] |= devices != 0 ? devices : WorkedOn::kAny;
  }
  for (uint64_t& devices : devices_) devices = devices != 0 ? devices : WorkedOn::kAny;
}

KernelCoverage CoverageIndex::Of(const RequestIndex& index, uint32_t request) const {
  KernelCoverage coverage;
  bool is_told = false;
  const auto add = [&](const Times& times) {
    coverage.covered_ns += times.covered_ns;
    coverage.ran_ns += times.ran_ns;
    is_told |= times.is_told;
  };
  for (const uint32_t batch : index.Batches(request)) add(batches_[batch]);
  if (index.Batches(request).size() == 0) add(requests_[request]);
  coverage.is_known = is_told && !is_damaged_;
  return coverage;
}

}  // namespace model
PITOT_NAMESPACE_END
