// SPDX-License-Identifier: Apache-2.0
#include "analyze/facts/gpu_shares.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "analyze/facts/host_work.h"

namespace pitot::facts {

using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

namespace {

// A clock of a device that goes at 1/k of the speed of time while the device does k things, and stands still while it
// does nothing. A thing's share is the clock's time from its beginning to its end.
class SharedClock {
 public:
  explicit SharedClock(const std::vector<Interval>& things) {
    std::vector<int64_t> begins, ends;
    for (const Interval& thing : things) begins.push_back(thing.begin_ns), ends.push_back(thing.end_ns);
    std::sort(begins.begin(), begins.end());
    std::sort(ends.begin(), ends.end());
    FineNs now = 0;
    for (size_t begun = 0, ended = 0; ended < ends.size();) {
      const int64_t at_ns = begun < begins.size() ? std::min(begins[begun], ends[ended]) : ends[ended];
      if (!parts_.empty()) now = Read(parts_.back(), at_ns);
      while (begun < begins.size() && begins[begun] == at_ns) ++begun;
      while (ended < ends.size() && ends[ended] == at_ns) ++ended;
      parts_.push_back({at_ns, begun - ended, now});
    }
  }
  FineNs At(int64_t at_ns) const {
    const auto after =
        std::partition_point(parts_.begin(), parts_.end(), [&](const Part& part) { return part.begin_ns <= at_ns; });
    return after == parts_.begin() ? 0 : Read(*(after - 1), at_ns);
  }

 private:
  struct Part {
    int64_t begin_ns;
    size_t running;
    FineNs read;
  };
  static FineNs Read(const Part& part, int64_t at_ns) {
    return part.running == 0 ? part.read : part.read + Fine(at_ns - part.begin_ns) / part.running;
  }
  std::vector<Part> parts_;
};

// The part of a clock's time within a set.
class ClockWithin {
 public:
  ClockWithin(const SharedClock& clock, const Intervals& set) : clock_(clock), set_(set), before_{0} {
    for (const Interval& interval : set)
      before_.push_back(before_.back() + clock.At(interval.end_ns) - clock.At(interval.begin_ns));
  }
  FineNs At(int64_t at_ns) const {
    const auto after =
        std::partition_point(set_.begin(), set_.end(), [&](const Interval& i) { return i.begin_ns <= at_ns; });
    if (after == set_.begin()) return 0;
    const auto last = after - 1;
    return before_[static_cast<size_t>(last - set_.begin())] + clock_.At(std::min(at_ns, last->end_ns)) -
           clock_.At(last->begin_ns);
  }

 private:
  const SharedClock& clock_;
  const Intervals& set_;
  std::vector<FineNs> before_;  // the sum before each interval
};

}  // namespace

std::vector<int64_t> RoundTogether(const std::vector<FineNs>& parts, const std::vector<int64_t>* whole) {
  const auto fraction = [&](size_t i) { return parts[i] & ((FineNs{1} << kFineBits) - 1); };
  std::vector<int64_t> rounded(parts.size());
  int64_t left_ns = Round(std::accumulate(parts.begin(), parts.end(), FineNs{0}));
  for (size_t i = 0; i < parts.size(); ++i) {
    rounded[i] = static_cast<int64_t>(parts[i] >> kFineBits);
    left_ns -= rounded[i];
  }
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return fraction(a) > fraction(b); });
  // There is room for all: the rest of the parts is at most the rest of the amounts they are parts of.
  for (bool has_room = true; left_ns > 0 && has_room;) {
    has_room = false;
    for (size_t i = 0; i < order.size() && left_ns > 0; ++i) {
      if (whole != nullptr && rounded[order[i]] >= (*whole)[order[i]]) continue;
      ++rounded[order[i]], --left_ns;
      has_room = true;
    }
  }
  return rounded;
}

Interval InWindow(const Trace& trace, uint32_t row) {
  const int64_t begin_ns = std::clamp(trace.gpu.begin_ns[row], trace.window_begin_ns, trace.window_end_ns);
  const int64_t end_ns = trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row];
  return {begin_ns, std::clamp(end_ns, begin_ns, trace.window_end_ns)};
}

bool IsInWindow(const Trace& trace, uint32_t row) {
  const Interval time = InWindow(trace, row);
  const int64_t begin_ns = trace.gpu.begin_ns[row];
  return time.begin_ns < time.end_ns || (begin_ns >= trace.window_begin_ns && begin_ns < trace.window_end_ns);
}

GpuShares FindGpuShares(const Trace& trace) {
  GpuShares shares{std::vector<FineNs>(trace.gpu.size()), std::vector<FineNs>(trace.gpu.size())};
  // By device and, within it, by owner: batches, then requests, then nobody known.
  const auto batches = static_cast<uint32_t>(trace.batches.size());
  const auto requests = static_cast<uint32_t>(trace.requests.size());
  const uint64_t nobody = uint64_t{batches} + requests;
  struct Key {
    uint32_t device;
    uint64_t whom;
    uint32_t row;
    bool operator<(const Key& other) const {
      return std::tie(device, whom, row) < std::tie(other.device, other.whom, other.row);
    }
  };
  std::vector<Key> keys;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const Interval time = InWindow(trace, row);
    if (trace.gpu.kind[row] == model::GpuKind::kSpan || time.begin_ns == time.end_ns) continue;
    const uint32_t call = trace.gpu.call[row];
    const uint32_t batch = call != kNone ? trace.calls.batch[call] : kNone;
    const uint32_t request = call != kNone ? trace.calls.request[call] : kNone;
    const uint64_t whom = batch != kNone ? batch : request != kNone ? uint64_t{batches} + request : nobody;
    keys.push_back({trace.streams[trace.gpu.stream[row]].device, whom, row});
  }
  if (keys.empty()) return shares;
  std::sort(keys.begin(), keys.end());
  const HostWork work(trace);

  for (size_t first = 0; first < keys.size();) {
    size_t last = first;
    std::vector<Interval> things;
    for (; last < keys.size() && keys[last].device == keys[first].device; ++last)
      things.push_back(InWindow(trace, keys[last].row));
    const SharedClock clock(things);
    for (size_t of = first; of < last;) {
      Interval extent = InWindow(trace, keys[of].row);
      size_t next = of;
      for (; next < last && keys[next].whom == keys[of].whom; ++next) {
        const Interval time = InWindow(trace, keys[next].row);
        extent = {std::min(extent.begin_ns, time.begin_ns), std::max(extent.end_ns, time.end_ns)};
      }
      const uint64_t whom = keys[of].whom;
      const Intervals of_batch =
          whom < batches ? work.OfBatch(trace, static_cast<uint32_t>(whom), extent) : Intervals();
      const ClockWithin hidden(clock, whom < batches   ? of_batch
                                      : whom == nobody ? work.OfAll()
                                                       : work.OfRequest(static_cast<uint32_t>(whom - batches)));
      for (; of < next; ++of) {
        const Interval time = InWindow(trace, keys[of].row);
        FineNs& busy = shares.busy[keys[of].row];
        busy = clock.At(time.end_ns) - clock.At(time.begin_ns);
        shares.exposed[keys[of].row] = busy - (hidden.At(time.end_ns) - hidden.At(time.begin_ns));
      }
    }
    first = last;
  }
  return shares;
}

}  // namespace pitot::facts
