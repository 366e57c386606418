// SPDX-License-Identifier: Apache-2.0
//
// The black box of a running recorder: makes its file, has the rings, requests and names lie in it, and tells it the
// time. post_mortem.h finds the files of others, tells the dead from the living, and reads them.
#ifndef PITOT_LIB_SESSION_BLACK_BOX_H_
#define PITOT_LIB_SESSION_BLACK_BOX_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pitot/stats.h"
#include "pitot/status.h"
#include "session/incident_counts.h"
#include "session/options.h"
#include "snapshot/site_log.h"
#include "trace/box.h"
#include "trace/clock.h"

namespace pitot::session {

class IncidentPipeline;

class BlackBox {
 public:
  BlackBox() = default;
  ~BlackBox() { End(); }
  BlackBox(const BlackBox&) = delete;
  BlackBox& operator=(const BlackBox&) = delete;

  // Makes the file. If there can be none, the recorder goes on without, and the status says why; ok also if none is
  // wanted. `removed` gets a line for each file that had to go for it. Before OpenRequests and OpenRings. May throw
  // bad_alloc. `pipeline` outlives it.
  Status Begin(const OwnedOptions& options, const MemorySplit& split, bool slow_clock, const trace::ClockReading& start,
               const IncidentPipeline* pipeline, std::vector<std::string>* removed);
  // Null: there is none.
  trace::Box* box() const noexcept { return box_.get(); }

  // The watcher's, each round: tells the file the time and the counts, and now and then the sites that are new.
  // True once: somebody has removed the file. Cost: some us.
  bool Look(const IncidentCounts& counts) noexcept;
  const std::string& path() const noexcept { return path_; }

  // The watcher may have been left behind: from here on Look does nothing. Waits for one that runs. False: it hangs,
  // for example on a disk that does not answer. Then nothing here may be ended. Threads: any.
  bool EndLooks(int64_t patience_ns) noexcept;
  // Then exit() leaves the file alone, too.
  static void LeaveAtExit() noexcept;

  // SIGTERM is about to end the process, and what fired is on disk if there was time. Removes the file if nothing is
  // left to be found out: no request is open. Threads: any.
  static void RemoveBeforeTermination() noexcept;

  // Nothing lies in the file any more, and no Look runs. Removes it: a recorder that was stopped leaves none.
  // Idempotent.
  void End() noexcept;

 private:
  Status MakeFile(const OwnedOptions& options, uint64_t most_bytes, std::vector<std::string>* removed);
  void TellNow(const IncidentCounts& counts) noexcept;
  bool IsNewlyRemoved() noexcept;
  void NoteRoutes() noexcept;
  void WriteHeader(const OwnedOptions& options, bool slow_clock, const trace::ClockReading& start) noexcept;

  int fd_ = -1;
  std::string path_;
  std::unique_ptr<trace::Box> box_;
  snapshot::SiteLog sites_;
  void* note_ = nullptr;  // ends::DeathNote, in the file
  std::atomic<bool> is_looking_{false}, are_looks_over_{false};
  bool slow_clock_ = false, is_removed_ = false;
  uint64_t turns_ = 0;  // of the pulse
  int64_t sites_looked_ns_ = 0;
  uint32_t rings_outside_ = 0;  // at that look
  uint64_t pages_lost_before_ = 0;
};

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_BLACK_BOX_H_
