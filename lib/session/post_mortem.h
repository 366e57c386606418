// SPDX-License-Identifier: Apache-2.0
//
// Black boxes of processes that are gone: finds them, and makes incidents of them, so that each says what its process
// did last. For tools, and for the next recorder with the same incident directory.
#ifndef PITOT_LIB_SESSION_POST_MORTEM_H_
#define PITOT_LIB_SESSION_POST_MORTEM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pitot/extend/serializer.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"
#include "session/incident_directory.h"
#include "session/kernel_view.h"
#include "session/last_words.h"
#include "session/wedge.h"
#include "snapshot/box_reader.h"

namespace pitot::session {

// Whose black boxes are read. Another user's may say anything.
enum class BoxTrust {
  kOwn,  // this process's effective user's; others are broken
  kAny,  // the reader uses neither the incident directory nor the quota of a box
};

// An open black box.
class FoundBox {
 public:
  enum class Life {
    kAlive,   // its process runs
    kEnded,   // its recorder was stopped, or its process ended by itself
    kDead,    // what happened is to be found out
    kBroken,  // it cannot be read: `why`
  };

  explicit FoundBox(std::string path, BoxTrust trust = BoxTrust::kOwn) : path_(std::move(path)), trust_(trust) {}
  ~FoundBox();
  FoundBox(const FoundBox&) = delete;
  FoundBox& operator=(const FoundBox&) = delete;

  // Opens the file and looks at it. A dead one is locked, so that one reader has it: to others it looks alive.
  // May throw bad_alloc.
  Life Look();
  // The same without the lock: the file is left to others.
  Life Peek();
  // Whether its process still lives, and records into it. After Peek or Look.
  bool IsAlive() const noexcept;
  // Whether a reader has the lock: its process is dead.
  bool IsTaken() const noexcept;
  // After Look found it broken: nothing of it reached the file, and its process is gone. So there is nothing to find
  // out.
  bool IsUnwritten() const noexcept { return is_unwritten_; }
  // Its process, as this one's namespace numbers it; 0: it is not seen from here.
  int64_t Owner() const noexcept;
  const std::string& path() const { return path_; }
  const std::string& why() const { return why_; }
  // After it was found broken: why the system did not open it, as errno says; EPERM: it is not to be trusted; 0: it was
  // read.
  int error() const noexcept { return error_; }
  // For an alive or dead one.
  snapshot::BoxReader& reader() { return reader_; }
  const snapshot::BoxReader& reader() const { return reader_; }
  // False: it is still there.
  bool Remove() noexcept;

 private:
  enum class Hold { kTake, kLeave };
  Life LookFor(Hold hold);
  bool IsNothingWritten() const;
  bool IsRemoved() const noexcept;
  int64_t LockHolder() const noexcept;
  bool IsLocked(Hold hold, int16_t type) const noexcept;

  std::string path_, why_;
  const BoxTrust trust_;
  int fd_ = -1;
  int error_ = 0;
  bool is_unwritten_ = false;
  snapshot::BoxReader reader_;
};

// The files of black boxes in a folder, or the one at `path`; but not this process's own. `error`, if it is not null,
// becomes errno's number if `path` cannot be read, and 0 otherwise. May throw bad_alloc.
std::vector<std::string> BoxesIn(const std::string& path, int* error = nullptr);

// What its rings held at the end, at most `most_words` of them and the newest, as a trace that fired for
// base::kPreviousLife. Throws bad_alloc.
model::Trace TraceOf(snapshot::BoxReader* box, const SeenEnd& seen, uint64_t most_words, uint64_t most_row_bytes);

// The same of a wedged process, which lives; it fired for base::kWedged. `view` may be without threads.
model::Trace TraceOfWedged(snapshot::BoxReader* box, const Wedge& wedge, const KernelView& view, uint64_t most_words,
                           uint64_t most_row_bytes);

// The quota of an incident directory: Options::max_incidents_kept and max_incident_directory_bytes.
struct DirectoryQuota {
  uint64_t most_incidents = 0, most_bytes = 0;
};

// Writes such a trace of `box` as an incident, with its dump and its report, and removes others beyond the quota.
// `path` is the incident's. A previous life has one incident: if an earlier reader was killed before it removed the
// box, its incident stays, and a partial one is replaced. `more`: other files.
Status WritePostMortem(const model::Trace& trace, const FoundBox& box, const DirectoryQuota& quota,
                       IncidentDirectory* directory, Throttle* throttle, std::string* path,
                       std::vector<std::unique_ptr<Serializer>> more = {});

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_POST_MORTEM_H_
