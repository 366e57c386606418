// SPDX-License-Identifier: Apache-2.0
#include "read/missing_work.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/call_class.h"
#include "base/gpu_loss_reason.h"
#include "pitot/model/intervals.h"

namespace pitot::read {
namespace {

using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr uint64_t kOneOf = 100;         // fewer of so many launches may have failed
constexpr uint64_t kLeastVariants = 4;   // fewer launches do not show that parts differ
constexpr size_t kMostStretches = 1000;  // more become one

enum Kind : uint32_t { kKernel, kGraph, kKinds };

// A launch, with the driver's call inside the runtime's.
struct Launch {
  uint32_t call = 0;
  int64_t begin_ns = 0, end_ns = 0;
  Kind kind = kKernel;
  bool has_work = false;
};

class Finder {
 public:
  Finder(Trace* trace, const std::vector<bool>& had_work) : trace_(*trace) {
    has_work_ = had_work;
    has_work_.resize(trace_.calls.size());
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      if (const uint32_t call = trace_.gpu.call[row]; call != kNone) {
        has_work_[call] = true;
      } else {
        without_call_.push_back(trace_.gpu.begin_ns[row]);
      }
    }
    std::sort(without_call_.begin(), without_call_.end());
    TakeCalls();
  }

  MissingWork Find() {
    std::vector<const Launch*> missing = WithoutWork();
    LeaveOutUnlinked(&missing);
    MissingWork found;
    for (const Kind kind : {kKernel, kGraph}) {
      std::vector<Interval> stretches;
      const auto all = static_cast<uint64_t>(
          std::count_if(launches_.begin(), launches_.end(), [&](const Launch& launch) { return launch.kind == kind; }));
      for (const Launch* launch : missing) {
        if (launch->kind == kind) stretches.push_back({launch->begin_ns, Next(*launch)});
      }
      if (stretches.empty() || stretches.size() * kOneOf < all) continue;
      found.launches += stretches.size();
      Add(kind == kGraph ? base::kGraphWithoutWork : base::kLaunchWithoutWork, std::move(stretches),
          std::vector<uint64_t>(), &found);
    }
    FindGraphsInPart(&found);
    return found;
  }

 private:
  // Calls are by thread and begin.
  void TakeCalls() {
    std::unordered_map<model::StringId, base::CallClass> classes;
    std::vector<Interval> captures;
    std::unordered_map<uint32_t, int64_t> capture_begins;  // by thread
    for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
      const model::StringId id = trace_.calls.name[call];
      const std::string_view name = trace_.strings[id];
      const auto [known, is_new] = classes.try_emplace(id);
      if (is_new) known->second = base::CallClassOf(name);
      const uint32_t thread = trace_.calls.thread[call];
      const int64_t begin_ns = trace_.calls.begin_ns[call], end_ns = trace_.CallEnd(call);
      if (known->second == base::CallClass::kLaunch) {
        const bool is_inside = !launches_.empty() && trace_.calls.thread[launches_.back().call] == thread &&
                               begin_ns < launches_.back().end_ns;
        if (!is_inside)
          launches_.push_back({call, begin_ns, end_ns, base::IsGraphLaunch(name) ? kGraph : kKernel, false});
        launches_.back().has_work = launches_.back().has_work || has_work_[call];
      } else if (name.find("StreamBeginCapture") != std::string_view::npos) {
        capture_begins[thread] = begin_ns;
      } else if (name.find("StreamEndCapture") != std::string_view::npos) {
        const auto begun = capture_begins.find(thread);
        captures.push_back({begun == capture_begins.end() ? INT64_MIN : begun->second, end_ns});
        if (begun != capture_begins.end()) capture_begins.erase(begun);
      }
    }
    for (const auto& [thread, begin_ns] : capture_begins) captures.push_back({begin_ns, INT64_MAX});
    captures_ = model::Union(std::move(captures));
    for (const Launch& launch : launches_) begins_.push_back(launch.begin_ns);
    std::sort(begins_.begin(), begins_.end());
  }

  bool IsCaptured(int64_t at_ns) const {
    const auto after =
        std::partition_point(captures_.begin(), captures_.end(), [&](const Interval& c) { return c.end_ns <= at_ns; });
    return after != captures_.end() && after->begin_ns <= at_ns;
  }

  // Launches later than this may have work that began after the last record.
  int64_t LateFrom() const {
    int64_t launched_ns = INT64_MIN, lag_ns = 0, last_ns = INT64_MIN;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      last_ns = std::max(last_ns, trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row]);
      const uint32_t call = trace_.gpu.call[row];
      if (call == kNone || trace_.calls.begin_ns[call] <= launched_ns) continue;
      launched_ns = trace_.calls.begin_ns[call];
      lag_ns = std::max<int64_t>(0, trace_.gpu.begin_ns[row] - launched_ns);
    }
    if (launched_ns == INT64_MIN) return INT64_MAX;
    // The window ends where the host stopped recording; a queue that was still full ends with the GPU's records.
    const int64_t end_ns = trace_.window_end_ns;
    const int64_t queued_ns = last_ns + lag_ns >= end_ns ? launched_ns : end_ns - lag_ns;
    return std::max(launched_ns, queued_ns);
  }

  std::vector<const Launch*> WithoutWork() const {
    const int64_t late_ns = LateFrom();
    std::vector<const Launch*> missing;
    for (const Launch& launch : launches_) {
      if (!launch.has_work && launch.begin_ns < late_ns && !IsCaptured(launch.begin_ns)) missing.push_back(&launch);
    }
    std::sort(missing.begin(), missing.end(),
              [](const Launch* a, const Launch* b) { return a->begin_ns < b->begin_ns; });
    return missing;
  }

  // One thing without a call for each launch before it.
  void LeaveOutUnlinked(std::vector<const Launch*>* missing) const {
    auto next = without_call_.begin();
    std::vector<const Launch*> left;
    for (const Launch* launch : *missing) {
      next = std::lower_bound(next, without_call_.end(), launch->begin_ns);
      if (next == without_call_.end()) {
        left.push_back(launch);
      } else {
        ++next;
      }
    }
    *missing = std::move(left);
  }

  // The begin of the next launch of any thread, otherwise the window's end.
  int64_t Next(const Launch& launch) const {
    const auto next = std::upper_bound(begins_.begin(), begins_.end(), launch.begin_ns);
    return std::max(launch.end_ns, next == begins_.end() ? trace_.window_end_ns : *next);
  }

  // Consecutive stretches become one row. `records`: for each stretch; empty: one each.
  void Add(std::string_view reason, std::vector<Interval> stretches, const std::vector<uint64_t>& records,
           MissingWork* found) {
    const model::StringId id = trace_.strings.Add(reason);
    std::vector<size_t> order(stretches.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return stretches[a].begin_ns < stretches[b].begin_ns; });
    size_t rows = 0;
    for (const size_t i : order) {
      const Interval& stretch = stretches[i];
      const bool goes_on = rows != 0 && (rows == kMostStretches || stretch.begin_ns <= found->losses.back().end_ns);
      if (!goes_on) {
        found->losses.push_back({kNone, id, stretch.begin_ns, stretch.end_ns, 0, kNone});
        ++rows;
      }
      model::GpuLossRow& row = found->losses.back();
      row.end_ns = std::max(row.end_ns, stretch.end_ns);
      row.records += records.empty() ? 1 : records[i];
    }
  }

  // The work of a graph's launch.
  struct GraphWork {
    uint32_t graph = 0;  // 0: the file does not say
    uint64_t records = 0;
    std::vector<model::StringId> names;  // sorted; of launches without a graph's id
  };
  std::unordered_map<uint32_t, GraphWork> WorkOfGraphs() const {
    std::unordered_map<uint32_t, GraphWork> work;  // by call
    std::vector<bool> is_graph(trace_.calls.size());
    for (const Launch& launch : launches_) is_graph[launch.call] = launch.kind == kGraph;
    for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
      const uint32_t call = trace_.gpu.call[row];
      if (call == kNone || !is_graph[call] || trace_.gpu.kind[row] == model::GpuKind::kGraph) continue;
      GraphWork& of = work[call];
      ++of.records;
      if (trace_.gpu.graph[row] != 0) {
        of.graph = trace_.gpu.graph[row];
      } else {
        of.names.push_back(trace_.gpu.name[row]);
      }
    }
    for (auto& [call, of] : work) std::sort(of.names.begin(), of.names.end());
    return work;
  }

  // How much work the launches without a graph's id have at most, all together; 0 if they do not show that it is the
  // same work. A graph has the same work each time, and so has another one. What is left of it by chance differs.
  static uint64_t FullWithoutId(const std::unordered_map<uint32_t, GraphWork>& work) {
    std::unordered_map<model::StringId, uint64_t> most;  // how often each name comes
    std::set<std::vector<model::StringId>> variants;
    uint64_t launches = 0, full = 0;
    for (const auto& [call, of] : work) {
      if (of.graph != 0) continue;
      ++launches;
      variants.insert(of.names);
      for (size_t first = 0, last = 0; first < of.names.size(); first = last) {
        while (last < of.names.size() && of.names[last] == of.names[first]) ++last;
        uint64_t& times = most[of.names[first]];
        times = std::max<uint64_t>(times, last - first);
      }
    }
    if (variants.size() < kLeastVariants || 2 * variants.size() < launches) return 0;
    for (const auto& [name, times] : most) full += times;
    return full;
  }

  // Launches of a graph have as much work each. The last may be cut by the window.
  void FindGraphsInPart(MissingWork* found) {
    const std::unordered_map<uint32_t, GraphWork> work = WorkOfGraphs();
    std::unordered_map<uint32_t, uint64_t> most;  // by graph
    uint32_t last = kNone;
    for (const auto& [call, of] : work) {
      uint64_t& records = most[of.graph];
      records = std::max(records, of.records);
      if (last == kNone || trace_.calls.begin_ns[call] > trace_.calls.begin_ns[last]) last = call;
    }
    most[0] = FullWithoutId(work);
    std::vector<Interval> stretches;
    std::vector<uint64_t> records;
    for (const Launch& launch : launches_) {
      const auto done = work.find(launch.call);
      if (done == work.end() || launch.call == last) continue;
      const uint64_t full = most[done->second.graph];
      if (2 * done->second.records >= full) continue;
      stretches.push_back({launch.begin_ns, Next(launch)});
      records.push_back(full - done->second.records);
    }
    if (stretches.empty() || stretches.size() * kOneOf < work.size()) return;
    Add(base::kGraphInPart, std::move(stretches), records, found);
  }

  Trace& trace_;
  std::vector<bool> has_work_;         // by call
  std::vector<int64_t> without_call_;  // when such work began
  std::vector<Launch> launches_;       // by thread and begin
  std::vector<int64_t> begins_;        // of launches
  Intervals captures_;
};

}  // namespace

MissingWork FindMissingWork(Trace* trace, const std::vector<bool>& had_work) { return Finder(trace, had_work).Find(); }

}  // namespace pitot::read
