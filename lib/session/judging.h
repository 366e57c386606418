// SPDX-License-Identifier: Apache-2.0
//
// Verdicts: the judge is heard about each incident whose dump is on disk, and about samples taken between incidents.
// Each call has a budget of CPU time.
#ifndef PITOT_LIB_SESSION_JUDGING_H_
#define PITOT_LIB_SESSION_JUDGING_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "pitot/extend/judge.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"
#include "session/cpu_throttle.h"
#include "session/failures_in_a_row.h"
#include "session/folding.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/incident_counts.h"
#include "session/incident_files.h"
#include "session/lifetime.h"
#include "session/sample_pace.h"

namespace pitot::session {

class Judging {
 public:
  // All outlive it.
  Judging(const Lifetime* lifetime, HostCalls* host, CpuThrottle* throttle, IncidentFiles* files,
          IncidentCounts* counts)
      : lifetime_(*lifetime), host_(*host), throttle_(*throttle), files_(*files), counts_(*counts) {}

  // Adds a judge; the last one added counts. Threads: any.
  Status Add(std::unique_ptr<Judge> judge) noexcept PITOT_EXCLUDES(mutex_);

  // The watcher's. The extent of a sample that is due now, if one is; it counts as taken.
  struct SampleSize {
    uint32_t window_ms, most_bytes;
  };
  std::optional<SampleSize> TakeSampleIfDue(int64_t now_ns) noexcept PITOT_EXCLUDES(mutex_);

  // Threads: any, at normal priority.
  bool HasJudge() noexcept PITOT_EXCLUDES(mutex_);
  // Adds what the judge had learned by now. Threads: any, at normal priority. May throw bad_alloc.
  void AddNorms(model::Trace* trace) PITOT_EXCLUDES(mutex_);

  // The rest is called by the worker.
  using Reason = IncidentCounts::Count IncidentCounts::*;
  using IsAwaited = std::function<bool()>;  // whether an incident waits for its verdict

  // Judges an incident with a trace, and completes it, unless it repeats one before and a verdict is awaited.
  void JudgeNow(Case* judged, const IsAwaited& is_awaited) noexcept PITOT_EXCLUDES(mutex_);
  // Adds findings to a judged incident with a trace. False: a verdict was awaited meanwhile, and this is to be called
  // again.
  bool AddFindings(Case* judged, const IsAwaited& is_awaited) noexcept PITOT_EXCLUDES(mutex_);
  // Says in place of a verdict why there is none; with a judge, it is counted.
  void GiveUp(Case* unjudged, const Status& why, Reason reason) noexcept PITOT_EXCLUDES(mutex_);
  // Has the judge learn from a sample, made by `make_trace`, which may throw.
  void Learn(const std::function<model::Trace()>& make_trace, const IsAwaited& is_awaited) noexcept
      PITOT_EXCLUDES(mutex_);

 private:
  class Call;
  using Norms = std::shared_ptr<const model::Trace>;  // has nothing else; null: none
  struct AddedJudge {
    std::shared_ptr<Judge> judge;  // null: none
    JudgeNeeds needs;
    Norms norms;
  };

  AddedJudge GetJudge() noexcept PITOT_EXCLUDES(mutex_);
  bool AreFindingsDue() noexcept PITOT_EXCLUDES(mutex_);
  static Norms AskForNorms(Judge* judge) noexcept;
  // At normal priority. Null, or of a judge that was replaced: the last ones stay.
  void Keep(const Judge* of, Norms norms) noexcept PITOT_EXCLUDES(mutex_);
  void Fold(const std::string& kind, int64_t excess_ns, Case* judged);

  const Lifetime& lifetime_;
  HostCalls& host_;
  CpuThrottle& throttle_;
  IncidentFiles& files_;
  IncidentCounts& counts_;

  base::Mutex mutex_;
  AddedJudge judge_ PITOT_GUARDED_BY(mutex_);
  SamplePace sample_pace_ PITOT_GUARDED_BY(mutex_);

  // Used by the worker only.
  FailuresInARow failed_;
  Folding folding_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_JUDGING_H_
