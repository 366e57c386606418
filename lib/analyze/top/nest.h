// SPDX-License-Identifier: Apache-2.0
//
// Time by nested events of threads: operators, layers or scopes.
#ifndef PITOT_LIB_ANALYZE_TOP_NEST_H_
#define PITOT_LIB_ANALYZE_TOP_NEST_H_

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/top/roof.h"
#include "analyze/top/rows.h"
#include "analyze/top/selection.h"
#include "analyze/top/top_index.h"

namespace pitot::top {

// The recorded time of a thread, unless events were lost: from the begin of its history to the end of the window.
model::Interval KnownOf(const model::Trace& trace, const model::ThreadRow& thread);

class Nest {
 public:
  Nest(const TopIndex& index, const TopOptions& options, const Selection& selection, Rows* rows);
  // Counts everything. O(n log n), and the depth of scopes for each launch.
  void Count();

 private:
  struct Scope {
    int64_t begin_ns, end_ns;  // of its known part
    uint32_t event;
    bool is_cut;
    uint32_t row;
    int64_t gpu_ns;
  };
  bool HasRow(uint32_t event) const;
  void CountThread(uint32_t thread);
  Scope ScopeOf(uint32_t event, const model::Interval& known) const;
  // Counts self_no_calls_ns.
  void CountNoCalls(uint32_t thread);
  // Whether key_averages() has a row of such events.
  bool IsKey(uint32_t event) const;
  // When a thread waited.
  model::Intervals WaitsOf(uint32_t thread) const;
  // How much of the time from now_ns_ to `until_ns` the thread waited.
  int64_t WaitedUntil(int64_t until_ns);
  // Counts time in scopes and outside of waits during which operators were not recorded, on threads that run operators.
  void CountNotRecorded();
  void CountLaunch(uint32_t call);
  void CountGpu(uint32_t gpu_row);
  // By layer: the innermost open scope with the span's name. A span may begin just before its scope does: then it waits
  // in span_.
  void CountSpan(uint32_t gpu_row);
  void AddSpan(uint32_t gpu_row, uint32_t row);
  void LeaveSpan();
  // The operators of the thread that say how many operations they did, in the order of time.
  std::vector<uint32_t> LoadsOf(const model::ThreadRow& thread);
  void CountOperations(uint32_t event);
  bool IsOfOperators(uint32_t gpu_row) const;
  void AddWork(uint32_t gpu_row, uint32_t row);
  void Advance(int64_t to_ns);
  void Push(Scope scope);
  // Takes the times of an ended scope, and of all ended ones in `open_`.
  void Take(const Scope& scope);
  void TakeEnded();

  uint32_t RowOf(uint32_t event);
  model::StringId NameOf(uint32_t event) const;
  // The event's argument at its site's place in `of_sites`; 0 if it has none.
  model::ArgValue ArgumentOf(uint32_t event, const std::vector<uint32_t>& of_sites) const;
  // Rows of the scopes that captured a graph's node, the innermost last. A layer's row includes the layers around it.
  const std::vector<uint32_t>& RowsOfPath(model::StringId path);
  void SeeNames();
  bool IsOperator(std::string_view name) const;
  // The row of GPU work launched outside of everything that has a row.
  uint32_t RowOutside(uint32_t gpu_row);
  bool AreEventsKnown(uint32_t call) const;

  const model::Trace& trace_;
  const TopOptions& options_;
  const Selection& selection_;
  const model::LaunchIndex launches_;
  const model::WaitingCalls waiting_;
  const facts::GpuShares& shares_;
  Rows& rows_;
  const std::vector<uint32_t> first_calls_;
  model::Intervals shallow_;                      // when operators were not recorded
  const bool has_operator_depths_;                // depths are recorded for operators, not for GPUs
  std::vector<model::Intervals> lost_;            // by thread: when events were lost
  std::vector<uint32_t> shapes_, flops_;          // by site: the argument's place, or kNone
  std::vector<bool> is_watch_;                    // by site: a watcher's wait for an interpreter, no work
  bool has_waits_ = false;                        // whether any site is a wait
  std::unordered_map<uint64_t, uint32_t> cache_;  // rows, by name and shapes or by name and the layer around it
  std::unordered_map<model::StringId, std::vector<uint32_t>> paths_;
  struct Seen {
    bool as_operator = false, as_scope = false, as_wait = false;
  };
  std::unordered_map<std::string_view, Seen> names_;  // of events, once a path was met
  bool has_seen_names_ = false;

  // The thread being counted: its scopes that have begun, and how far its time was counted. In `open_` the latest begin
  // is on top; an ended one stays until it is on top.
  uint32_t thread_ = model::kNone;
  std::vector<Scope> open_;
  std::vector<model::Interval> in_scopes_;  // where operators may not have been recorded: when the thread was in scopes
  int64_t now_ns_ = 0;
  model::Intervals waits_;
  size_t wait_ = 0;                                            // the first that may end after now_ns_
  uint32_t span_ = model::kNone, span_around_ = model::kNone;  // the row of the scope around it
  OperatorLoads loads_;
  int64_t operators_until_ns_ = INT64_MIN;  // when the last of the met LoadsOf ends
};

}  // namespace pitot::top

#endif  // PITOT_LIB_ANALYZE_TOP_NEST_H_
