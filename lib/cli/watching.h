// SPDX-License-Identifier: Apache-2.0
//
// Looks at the processes with black boxes in a folder, and writes an incident when one hangs or has died.
#ifndef PITOT_LIB_CLI_WATCHING_H_
#define PITOT_LIB_CLI_WATCHING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/box_incidents.h"
#include "session/health.h"
#include "session/kernel_view.h"
#include "session/post_mortem.h"
#include "session/wedge.h"

namespace pitot::cli {

class CommandLine;
class Command;

// The help of --stalled-after.
inline constexpr char kStalledAfterHelp[] =
    "Seconds without progress of a request, until it is stalled; sooner on routes whose requests are short: four times "
    "the longest, 1.5 at least";

struct WatchOptions {
  std::string boxes, output;
  double stalled_after_s = 10;
  uint32_t interval_ms = 250;
  bool no_stacks = false;
  std::string nvml;  // its file, for tests
  void (*tell)(const std::string& what, const std::string& below) = PrintIncident;
};
// The options of all commands with a Watching; not the folder.
void AddWatchOptions(const Command& command, WatchOptions* options);

class Watching {
 public:
  explicit Watching(const WatchOptions& options);
  ~Watching();

  // Looks at all black boxes in the folder. What fails is complained of, and tried again: after 5 s, then ever later.
  void Round();
  // Until the next round.
  int64_t SleepNs() const;
  // A child of this process has ended, as waitpid said. The next round finds its black box.
  void NoteEnd(int64_t pid, int status);
  // After the last round, of a few: complains of all that could not be read.
  void End();
  // Whether there ever was a black box of a process.
  bool HasSeenBoxes() const { return has_seen_boxes_; }
  // kDone; kNothingFound: an incident was written; or the exit code of one that could not be.
  int result() const { return result_; }

 private:
  class Watched;

  void Meet(const std::string& path);
  void Write(const std::string& path, const session::Wedge& wedge, Watched* process);
  void Renew();
  session::SeenEnd EndOf(const session::FoundBox& box) const;
  void Note(int written);

  const WatchOptions& options_;
  session::OomKills own_oom_kills_;  // in this process's control group
  session::WatchLimits limits_;
  std::map<std::string, std::unique_ptr<Watched>> watched_;  // by path
  std::map<std::string, session::OomKills> oom_kills_;       // in their control groups, by path
  std::map<int64_t, session::SeenEnd> ends_;                 // since the last round, by process
  std::map<std::string, int> unreaped_;                      // how often a child was found dead before its end
  std::map<std::string, int> broken_;                        // how often
  // Nothing could be done for them.
  class Left {
   public:
    void Postpone();
    bool IsDue() const;

   private:
    int64_t again_ns_ = 0;  // CLOCK_MONOTONIC
    int64_t pause_ns_ = 0;
  };
  std::map<std::string, Left> left_;
  bool has_seen_boxes_ = false;
  bool is_folder_unsafe_ = false;  // and a message said so
  int result_ = 0;
};

}  // namespace pitot::cli

#endif  // PITOT_LIB_CLI_WATCHING_H_
