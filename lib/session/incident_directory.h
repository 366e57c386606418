// SPDX-License-Identifier: Apache-2.0
//
// Incidents on disk. Each is a directory, begun next to its place and renamed; the least worth keeping are removed when
// there are too many. Everything goes through descriptors of the parent, so nothing is written through a link put in
// its way.
#ifndef PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_
#define PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "pitot/extend/serializer.h"
#include "pitot/status.h"

namespace pitot::session {

inline constexpr char kDumpName[] = "dump.pitot", kVerdictName[] = "verdict.json";

// Decides how fast the worker may go and when it must give up.
class Throttle {
 public:
  // Called often; may sleep. False: stop, the recorder is going away.
  virtual bool Proceed() noexcept = 0;

 protected:
  ~Throttle() = default;
};

// A few descriptors to spare, for a process that has used up its own.
class SpareDescriptors {
 public:
  SpareDescriptors() = default;
  ~SpareDescriptors() { Free(); }
  SpareDescriptors(const SpareDescriptors&) = delete;
  SpareDescriptors& operator=(const SpareDescriptors&) = delete;
  // Takes as many as it can; gives all back.
  void Fill() noexcept;
  void Free() noexcept;

 private:
  static constexpr int kCount = 5;
  int fds_[kCount] = {-1, -1, -1, -1, -1};
};

// Why a directory that exists is not safe for incidents; "": it is. Another user who may write there could put hostile
// files among them, and remove them. Root's directories and links are the system's own, and a group's members are
// trusted.
std::string DoubtAbout(const std::string& path);

// Which directories may be used.
enum class DirectoryTrust {
  kOwn,  // of this user or root, without a link of another user; not every user may write to it
  kAny,
};

// The folder of a path, which need not exist.
std::string ParentOf(std::string path);
// Whether the incident at this path is what a killed writer left of one, with its dump.
bool IsPartial(const std::string& path);

// The same path from the root: the host may change its working directory later. "" stays. May throw bad_alloc.
std::string AbsolutePath(const std::string& path);

class IncidentDirectory {
 public:
  IncidentDirectory() = default;
  ~IncidentDirectory();
  IncidentDirectory(const IncidentDirectory&) = delete;
  IncidentDirectory& operator=(const IncidentDirectory&) = delete;

  // Creates the directory if it is missing (one level, 0700), and puts the remains of killed writers in order: keeps
  // incidents whose dump is whole, as "....partial", and removes others, and half files. "" means no directory:
  // IsOpen() is then false.
  Status Open(const std::string& path, DirectoryTrust trust);
  bool IsOpen() const { return fd_ >= 0; }
  // Opens the directory again, which may have been removed or replaced since.
  Status Reopen();
  const std::string& path() const { return path_; }
  // Why the directory is not safe to use; "": it is.
  const std::string& doubt() const { return doubt_; }
  // The paths of incidents kept by Open.
  const std::vector<std::string>& kept_partial() const { return kept_partial_; }

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

  // The paths of incidents, also partial ones, begun with these that have a file of this text.
  std::vector<std::string> Find(uint64_t number, int64_t realtime_ns, const std::string& cause, const char* file,
                                const std::string& text) const;
  // Removes the incident at this path, from Commit or Find.
  void Remove(const std::string& path) noexcept;

  // Removes incidents until at most `most` remain, and at most `most_bytes` (retention.h), 64 at once. The one at the
  // path `newest`, from Commit, stays.
  void Prune(uint64_t most, uint64_t most_bytes, const std::string& newest) noexcept;

 private:
  Status Unsafe(const std::string& why) const;
  Status MakePartial();
  void KeepRemains();

  std::string path_;       // as given by the host
  std::string real_path_;  // without links, as at the start: a link put in its place later is not followed
  DirectoryTrust trust_ = DirectoryTrust::kOwn;
  std::string doubt_;
  std::vector<std::string> kept_partial_;
  int fd_ = -1;
  SpareDescriptors spare_;
  std::string partial_;  // the name during writing
  std::string name_;
  int partial_fd_ = -1;
};

// A cause as part of a file's name: letters, digits and dashes, at most 40.
std::string FileSafe(const std::string& text);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_INCIDENT_DIRECTORY_H_
