// SPDX-License-Identifier: Apache-2.0
//
// The files of incidents: the serializers, and the directory they are written to, within its quota.
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
#include "session/failures_in_a_row.h"
#include "session/host_calls.h"
#include "session/incident.h"
#include "session/incident_counts.h"
#include "session/incident_directory.h"
#include "session/lifetime.h"
#include "session/options.h"
#include "session/worker_pace.h"

namespace pitot::session {

class IncidentFiles {
 public:
  // All outlive it.
  IncidentFiles(const OwnedOptions* options, const Lifetime* lifetime, const HostCalls* host, WorkerPace* pace,
                IncidentCounts* counts)
      : options_(*options), lifetime_(*lifetime), host_(*host), pace_(*pace), counts_(*counts) {}

  // Called first: opens the directory, and adds the built-in serializers. May throw bad_alloc.
  Status OpenDirectory() { return directory_.Open(options_.incident_directory); }
  Status AddBuiltIns() PITOT_EXCLUDES(mutex_);

  // Adds a serializer, or replaces the one for the same file. Threads: any.
  Status Add(std::unique_ptr<Serializer> serializer) noexcept PITOT_EXCLUDES(mutex_);

  // The rest is called by the worker. False: incidents are not kept on disk.
  bool AreKept() const { return directory_.IsOpen(); }
  // Writes an incident with a file of each serializer, and sets `path`. Without one of its files the incident is still
  // written; the status then has the reason. May throw bad_alloc; Abandon must follow.
  Status Write(const Incident& incident, const model::Trace& trace, std::string* path) PITOT_EXCLUDES(mutex_);
  void Abandon() noexcept { directory_.Abandon(); }
  // Counts and logs how writing an incident went.
  void Conclude(const Incident& incident, const std::string& path, const Status& status) noexcept;

  // Adds a file to a written incident, or replaces one. May throw bad_alloc.
  Status AddLater(const std::string& path, Serializer* serializer, const model::Trace& trace) {
    return directory_.AddLater(path, serializer, trace, &pace_);
  }
  // Writes report.txt of a written incident again, with `opening` before it.
  Status OpenReport(const std::string& path, std::string_view opening, const model::Trace& trace) noexcept
      PITOT_EXCLUDES(mutex_);
  // Removes the oldest incidents, down to the quota.
  void Prune() noexcept {
    directory_.Prune(options_.values.max_incidents_kept, options_.values.max_incident_directory_bytes);
  }

 private:
  const OwnedOptions& options_;
  const Lifetime& lifetime_;
  const HostCalls& host_;
  WorkerPace& pace_;
  IncidentCounts& counts_;

  base::Mutex mutex_;
  std::vector<std::shared_ptr<Serializer>> serializers_ PITOT_GUARDED_BY(mutex_);

  // Used by the worker only.
  IncidentDirectory directory_;
  FailuresInARow failed_;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_FILES_H_
