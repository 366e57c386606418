// SPDX-License-Identifier: Apache-2.0
//
// The files of incidents: the serializers, and the directory they are written to, within its quota. The dump comes
// first: with it, an incident is on disk. The other files are added to it one by one.
#ifndef PITOT_LIB_SESSION_INCIDENT_FILES_H_
#define PITOT_LIB_SESSION_INCIDENT_FILES_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"
#include "session/cpu_throttle.h"
#include "session/failures_in_a_row.h"
#include "session/folding.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/incident_counts.h"
#include "session/incident_directory.h"
#include "session/lifetime.h"
#include "session/options.h"

namespace pitot::session {

class IncidentFiles {
 public:
  // All outlive it.
  IncidentFiles(const OwnedOptions* options, const Lifetime* lifetime, const HostCalls* host, CpuThrottle* throttle,
                IncidentCounts* counts)
      : options_(*options), lifetime_(*lifetime), host_(*host), throttle_(*throttle), counts_(*counts) {}

  // Called first: opens the directory, and adds the built-in serializers. May throw bad_alloc.
  Status OpenDirectory();
  Status AddBuiltIns() PITOT_EXCLUDES(mutex_);

  // Adds a serializer, or replaces the one for the same file. Threads: any.
  Status Add(std::unique_ptr<Serializer> serializer) noexcept PITOT_EXCLUDES(mutex_);

  // False: incidents are not kept on disk. Threads: any; it does not change after OpenDirectory.
  bool AreKept() const { return are_kept_; }

  // The writer's. Writes the dump of an incident, which is then on disk, and sets `path`. May throw bad_alloc;
  // AbandonDump must follow.
  Status WriteDump(const Incident& incident, const model::Trace& trace, Throttle* throttle, std::string* path)
      PITOT_EXCLUDES(mutex_);
  void AbandonDump() noexcept { directory_.Abandon(); }
  // Writes a report.txt that only says `why` the incident has no more than its dump.
  void NoteDropped(const Case& it, const Status& why, Throttle* throttle) noexcept;

  // Counts an incident's files other than the dump as missing: they are not going to be written. Threads: any.
  void CountOthersMissing(const Case& it) noexcept PITOT_EXCLUDES(mutex_);

  // The rest is called by the worker.
  // Writes a file of each other serializer, unless that was done. If there is no dump, the incident is on disk with
  // these, and has its path then. Counts and logs how it went. `written` becomes the reason why a file is missing.
  void Complete(Case* incident) noexcept PITOT_EXCLUDES(mutex_);

  // Adds a file to a written incident, or replaces one. May throw bad_alloc.
  Status AddLater(const std::string& path, Serializer* serializer, const model::Trace& trace) {
    return later_.AddLater(path, serializer, trace, &throttle_);
  }
  // Writes a report.txt that has only `text`, for an incident without a trace.
  Status WriteShortReport(const std::string& path, std::string_view text) noexcept;
  // The directory may have been removed, and made again. Called first for each incident.
  void Reopen() noexcept;
  // Has report.txt of a written incident open with `opening`, in place of the one before, and completes the incident:
  // now, or by a later call of Complete. Until then report.txt is the opening alone. Returns why report.txt is missing.
  enum class Others { kNow, kLater };
  Status OpenReport(Case* incident, std::string_view opening, Others others) noexcept PITOT_EXCLUDES(mutex_);
  // Whether the incident at this path is still there.
  bool Has(const std::string& path) const noexcept { return later_.Has(path); }
  void Remove(const std::string& path) noexcept {
    if (!path.empty()) later_.Remove(path);
  }
  // Has the reports and verdicts of the kept incidents say how often there was such a one, and when.
  void NoteRepeats(const Repeats& repeats) noexcept;
  // Removes incidents, down to the quota.
  void Prune() noexcept PITOT_EXCLUDES(mutex_) { Prune(&later_); }

 private:
  using Serializers = std::vector<std::shared_ptr<Serializer>>;

  void Prune(IncidentDirectory* directory) noexcept PITOT_EXCLUDES(mutex_);
  Serializers Get() noexcept(false) PITOT_EXCLUDES(mutex_);
  void Rewrite(const std::string& path, const char* name, std::string (*with)(const std::string&, const std::string&),
               const std::string& text);
  Status WriteOthers(Case* incident) PITOT_EXCLUDES(mutex_);
  Status WriteReport(Case* incident, Serializer* report);
  Status PutOpening(Case* incident, std::string_view opening);
  void NoteMissing(const Incident& incident, const char* file, const Status& why, Status* missing) noexcept;
  void NoteWritten(const std::string& path) noexcept PITOT_EXCLUDES(mutex_);
  std::shared_ptr<Serializer> ReportSerializer() noexcept PITOT_EXCLUDES(mutex_);

  const OwnedOptions& options_;
  const Lifetime& lifetime_;
  const HostCalls& host_;
  CpuThrottle& throttle_;
  IncidentCounts& counts_;

  base::Mutex mutex_;
  Serializers serializers_ PITOT_GUARDED_BY(mutex_);
  std::string newest_ PITOT_GUARDED_BY(mutex_);  // the path of the incident that was written last

  bool are_kept_ = false;

  // One directory, by two threads.
  IncidentDirectory directory_;  // the writer's
  IncidentDirectory later_;      // the worker's
  FailuresInARow failed_;        // used by the worker only
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_FILES_H_
