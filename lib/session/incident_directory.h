// SPDX-License-Identifier: Apache-2.0
//
// Incidents on disk. Each is a directory, begun next to its place and renamed; the oldest are removed when there
// are too many. Everything goes through descriptors of the parent, so nothing is written through a link put in its way.
#ifndef PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_
#define PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "pitot/extend/serializer.h"
#include "pitot/status.h"

namespace pitot::session {

// Decides how fast the worker may go and when it must give up.
class Throttle {
 public:
  // Called often; may sleep. False: stop, the recorder is going away.
  virtual bool Proceed() noexcept = 0;

 protected:
  ~Throttle() = default;
};

// The folder of a path, which need not exist.
std::string ParentOf(std::string path);

class IncidentDirectory {
 public:
  IncidentDirectory() = default;
  ~IncidentDirectory();
  IncidentDirectory(const IncidentDirectory&) = delete;
  IncidentDirectory& operator=(const IncidentDirectory&) = delete;

  // Creates the directory if it is missing (one level, 0700) and removes remains of killed writers: incidents that were
  // not committed, and half files of others. "" means no directory: IsOpen() is then false.
  Status Open(const std::string& path);
  bool IsOpen() const { return fd_ >= 0; }
  // Opens the directory again, which may have been removed or replaced since.
  Status Reopen();
  const std::string& path() const { return path_; }

  // Begins an incident, to which files are added. Commit gives it its name "20261121T015359Z-0007-latency-classify" and
  // returns its whole path; Abandon removes it. At most one at a time.
  Status Begin(uint64_t number, int64_t realtime_ns, const std::string& cause);
  // Writes one file whole. If the serializer or the disk fails or the throttle says to stop, leaves none of it.
  Status AddFile(Serializer* serializer, const model::Trace& trace, Throttle* throttle);
  Status Commit(std::string* path);
  void Abandon() noexcept;
  // Whether the incident at this path, from Commit, is still there.
  bool Has(const std::string& path) const noexcept;
  // Adds a file to the incident at this path, from Commit, or replaces the file of its name. Readers see the old one or
  // the new one, whole. Otherwise as AddFile.
  Status AddLater(const std::string& path, Serializer* serializer, const model::Trace& trace, Throttle* throttle);

  // Reads a file of the incident at this path, from Commit: of `most` bytes or fewer, and a plain one.
  Status Read(const std::string& path, const char* name, size_t most, std::string* text) const;

  // Removes the incident at this path, from Commit.
  void Remove(const std::string& path) noexcept;

  // Removes the oldest incidents until at most `most` remain, and at most `most_bytes`; never the newest.
  void Prune(uint64_t most, uint64_t most_bytes) noexcept;

 private:
  std::string path_;       // as given by the host
  std::string real_path_;  // without links, as at the start: a link put in its place later is not followed
  int fd_ = -1;
  std::string partial_;  // the name during writing
  std::string name_;
  int partial_fd_ = -1;
};

// A cause as part of a file's name: letters, digits and dashes, at most 40.
std::string FileSafe(const std::string& text);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_
