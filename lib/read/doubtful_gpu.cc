// SPDX-License-Identifier: Apache-2.0
#include "read/doubtful_gpu.h"

#include <algorithm>
#include <string_view>

#include "base/call_class.h"
#include "model/graph_work.h"
#include "pitot/model/index.h"
#include "pitot/model/intervals.h"

namespace pitot::read {
namespace {

using model::Interval;
using model::kNone;
using model::Trace;

constexpr int64_t kSecond = 1'000'000'000, kHour = 3600 * kSecond;
constexpr int64_t kFarNs = 10 * kSecond;  // from the host's records; queued work may begin seconds later
constexpr int64_t kGrainNs = 5'000;       // of clocks and whole microseconds
constexpr int64_t kLongNs = 100'000'000;  // a shorter kernel may be the longest part of a small trace
constexpr uint32_t kMostLooked = 64;      // later rows of a stream
constexpr uint64_t kOneOfQueue = 10;      // fewer of so many rows are no queue
constexpr uint64_t kOnePart = 50;         // of this many rows may overlap on a stream that is otherwise serial

// Calls that wait for a stream or a device, by beginning.
class Waits {
 public:
  void Add(Interval wait) { waits_.push_back(wait); }
  void Prepare() {
    std::sort(waits_.begin(), waits_.end(),
              [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
    for (size_t i = waits_.size(); i-- > 1;) waits_[i - 1].end_ns = std::min(waits_[i - 1].end_ns, waits_[i].end_ns);
  }
  // When all work launched before `at_ns` had ended at the latest.
  int64_t EndAfter(int64_t at_ns) const {
    const auto wait =
        std::partition_point(waits_.begin(), waits_.end(), [&](const Interval& w) { return w.begin_ns < at_ns; });
    return wait == waits_.end() ? INT64_MAX : wait->end_ns;
  }

 private:
  std::vector<Interval> waits_;
};

class Doubter {
 public:
  Doubter(const Trace& trace, std::vector<Doubt>* doubts) : trace_(trace), doubts_(*doubts) {
    const auto take = [&](const auto& columns) {
      for (uint32_t row = 0; row < columns.size(); ++row) {
        if (columns.begin_ns[row] == 0) continue;  // it may have no time either
        host_.begin_ns = std::min(host_.begin_ns, columns.begin_ns[row]);
        host_.end_ns = std::max(host_.end_ns, columns.begin_ns[row] + columns.duration_ns[row]);
      }
    };
    take(trace.events);
    take(trace.calls);
  }

  void FindTimeless() {
    const Interval core = Core();
    if (core.end_ns < core.begin_ns) return;
    const int64_t far_ns = std::max(kFarNs, core.end_ns - core.begin_ns);
    std::vector<uint64_t> rows(trace_.devices.size() + 1), far(trace_.devices.size() + 1);
    const auto is_far = [&](uint32_t row) {
      return BeginNs(row) < core.begin_ns - far_ns || BeginNs(row) > core.end_ns + far_ns;
    };
    const auto device_of = [&](uint32_t row) {
      return std::min<size_t>(trace_.streams[trace_.gpu.stream[row]].device, trace_.devices.size());
    };
    const bool are_calls_first = AreCallsFirst();
    const auto is_unset = [&](uint32_t row) {
      if (BeginNs(row) != 0 || core.begin_ns <= 0) return false;
      return core.begin_ns > kHour || trace_.gpu.duration_ns[row] == 0 || (are_calls_first && WasBeforeItsCall(row));
    };
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (doubts_[row] == Doubt::kNone && is_unset(row)) doubts_[row] = Doubt::kNoTime;
      if (doubts_[row] != Doubt::kNone) continue;
      ++rows[device_of(row)];
      far[device_of(row)] += is_far(row) ? 1 : 0;
    }
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      const size_t device = device_of(row);
      if (doubts_[row] == Doubt::kNone && 2 * far[device] <= rows[device] && is_far(row)) doubts_[row] = Doubt::kNoTime;
    }
  }

  // Rows of one stream are next to each other.
  void FindOverlong() {
    for (uint32_t first = 0, last = 0; first < trace_.gpu.size(); first = last) {
      while (last < trace_.gpu.size() && trace_.gpu.stream[last] == trace_.gpu.stream[first]) ++last;
      OfStream(first, last);
    }
  }

  void FindBeyondWaits() {
    on_stream_.resize(trace_.streams.size());
    on_device_.resize(trace_.devices.size());
    TakeWaits();
    TakeWaitingCopies();
    for (Waits& waits : on_stream_) waits.Prepare();
    for (Waits& waits : on_device_) waits.Prepare();
    std::vector<uint32_t> beyond;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (IsBeyondWait(row)) beyond.push_back(row);
    }
    if (2 * beyond.size() > trace_.gpu.size()) return;  // then the waits are not what they seem
    for (const uint32_t row : beyond) doubts_[row] = Doubt::kDuration;
  }

  void FindBeyondTrace() {
    Interval rest = host_;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (doubts_[row] == Doubt::kNoTime) continue;
      rest.begin_ns = std::min(rest.begin_ns, BeginNs(row));
      rest.end_ns = std::max(rest.end_ns, BeginNs(row));
    }
    int64_t rest_ns = 0;  // nothing, or nothing that has a length, is no measure
    if (rest.end_ns <= rest.begin_ns || __builtin_sub_overflow(rest.end_ns, rest.begin_ns, &rest_ns)) return;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      const int64_t ns = trace_.gpu.duration_ns[row];
      if (doubts_[row] == Doubt::kNone && ns >= kLongNs && ns / 10 > rest_ns) doubts_[row] = Doubt::kDuration;
    }
  }

 private:
  int64_t BeginNs(uint32_t row) const { return trace_.gpu.begin_ns[row]; }
  int64_t EndNs(uint32_t row) const { return trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]; }

  bool WasBeforeItsCall(uint32_t row) const {
    const uint32_t call = trace_.gpu.call[row];
    return call != kNone && EndNs(row) < trace_.calls.begin_ns[call];
  }
  // Otherwise the GPU's clock is early.
  bool AreCallsFirst() const {
    uint64_t early = 0;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) early += WasBeforeItsCall(row) ? 1 : 0;
    return 2 * early <= trace_.gpu.size();
  }

  // When the host recorded; without its records, when most of the GPU's work began.
  Interval Core() const {
    if (host_.begin_ns <= host_.end_ns) return host_;
    std::vector<int64_t> begins;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (doubts_[row] == Doubt::kNone && BeginNs(row) != 0) begins.push_back(BeginNs(row));
    }
    if (begins.empty()) return host_;
    std::sort(begins.begin(), begins.end());
    return {begins[begins.size() / 10], begins[begins.size() - 1 - begins.size() / 10]};
  }

  bool IsOfOneLaunch(uint32_t a, uint32_t b) const {
    const uint32_t call = trace_.gpu.call[a], graph = trace_.gpu.graph[a];
    return call == trace_.gpu.call[b] && (call != kNone || (graph != 0 && graph == trace_.gpu.graph[b]));
  }
  // Whether `least` later rows of its stream begin and end while this one goes on. The branches of a graph may.
  bool Holds(uint32_t row, uint32_t last, uint32_t least) const {
    uint32_t held = 0;
    for (uint32_t next = row + 1; next < last && next - row <= kMostLooked && BeginNs(next) < EndNs(row); ++next) {
      held += doubts_[next] == Doubt::kNone && BeginNs(next) > BeginNs(row) && trace_.gpu.duration_ns[next] > 0 &&
              EndNs(next) < EndNs(row) && !IsOfOneLaunch(row, next);
      if (held == least) return true;
    }
    return false;
  }
  // Whether so many of `count` rows come one after the other that they are a queue of their own under the same number.
  bool IsQueue(const std::vector<uint32_t>& rows, uint64_t count) const {
    if (rows.size() * kOneOfQueue <= count) return false;
    for (size_t i = 1; i < rows.size(); ++i) {
      if (BeginNs(rows[i]) < EndNs(rows[i - 1])) return false;
    }
    return true;
  }
  void OfStream(uint32_t first, uint32_t last) {
    std::vector<uint32_t> overlong;
    for (uint32_t row = first; row < last; ++row) {
      if (doubts_[row] == Doubt::kNone && Holds(row, last, 2)) overlong.push_back(row);
    }
    if (overlong.empty() || 2 * overlong.size() > last - first || IsQueue(overlong, last - first)) return;
    for (const uint32_t row : overlong) doubts_[row] = Doubt::kDuration;
    uint64_t overlapping = 0;
    for (uint32_t row = first; row < last; ++row) overlapping += doubts_[row] == Doubt::kNone && Holds(row, last, 1);
    if (overlapping * kOnePart <= last - first) return;
    // Work overlaps on it anyway: it is several queues under one number.
    for (const uint32_t row : overlong) doubts_[row] = Doubt::kNone;
  }

  // Calls that wait for all earlier work of a stream or device. An event may be of an earlier moment.
  void TakeWaits() {
    const bool is_only_device = trace_.devices.size() == 1, is_only_stream = trace_.streams.size() == 1;
    for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
      const std::string_view name = trace_.strings[trace_.calls.name[call]];
      const base::CallClass of = base::CallClassOf(name);
      if (!base::IsSynchronization(of) || name.find("Event") != std::string_view::npos) continue;
      const Interval wait = {trace_.calls.begin_ns[call], trace_.CallEnd(call)};
      const bool is_of_device = of == base::CallClass::kDeviceSync;
      const uint32_t stream = trace_.calls.stream[call], device = trace_.calls.device[call];
      if (device != kNone || (is_of_device && is_only_device)) {
        on_device_[device != kNone ? device : 0].Add(wait);
      } else if (stream != kNone || (!is_of_device && is_only_stream)) {
        on_stream_[stream != kNone ? stream : 0].Add(wait);
      }
    }
  }
  // Copies to pageable memory return once they are done, and they begin after earlier work of their stream.
  void TakeWaitingCopies() {
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      const uint32_t call = trace_.gpu.call[row];
      if (call == kNone || model::IsOfGraph(trace_, row) || doubts_[row] != Doubt::kNone) continue;
      const std::string_view name = trace_.strings[trace_.gpu.name[row]];
      if (trace_.gpu.kind[row] == model::GpuKind::kMemcpy && name.find("DtoH") != std::string_view::npos &&
          IsPageableCopy(trace_, row))
        on_stream_[trace_.gpu.stream[row]].Add({trace_.calls.begin_ns[call], trace_.CallEnd(call)});
    }
  }
  bool IsBeyondWait(uint32_t row) const {
    const uint32_t call = trace_.gpu.call[row], stream = trace_.gpu.stream[row];
    if (call == kNone || doubts_[row] != Doubt::kNone) return false;
    const int64_t launched_ns = trace_.CallEnd(call);
    const uint32_t device = trace_.streams[stream].device;
    int64_t end_ns = on_stream_[stream].EndAfter(launched_ns);
    if (device < on_device_.size()) end_ns = std::min(end_ns, on_device_[device].EndAfter(launched_ns));
    if (end_ns == INT64_MAX) return false;
    const int64_t most_ns = end_ns - trace_.calls.begin_ns[call];
    return trace_.gpu.duration_ns[row] > most_ns + kGrainNs + most_ns / 100;
  }

  const Trace& trace_;
  std::vector<Doubt>& doubts_;
  Interval host_{INT64_MAX, INT64_MIN};
  std::vector<Waits> on_stream_, on_device_;
};

}  // namespace

void FindDoubts(const Trace& trace, bool are_launches_sure, std::vector<Doubt>* doubts) {
  Doubter doubter(trace, doubts);
  doubter.FindTimeless();
  doubter.FindOverlong();
  if (are_launches_sure) doubter.FindBeyondWaits();
  doubter.FindBeyondTrace();
}

}  // namespace pitot::read
