// SPDX-License-Identifier: Apache-2.0
//
// How a process ended, in words: from the death note in its black box (ends/death_note.h), and from what others saw.
#ifndef PITOT_LIB_SESSION_LAST_WORDS_H_
#define PITOT_LIB_SESSION_LAST_WORDS_H_

#include <cstdint>
#include <optional>
#include <string>

#include "ends/death_note.h"
#include "pitot/model/trace.h"
#include "snapshot/box_reader.h"

namespace pitot::session {

// What others saw of a process's end.
struct SeenEnd {
  std::optional<int> status;   // of waitpid(2)
  int64_t at_ns = 0;           // since 1970, when it gave that
  bool had_oom_kills = false;  // the kernel's OOM killer struck in its control group right before
};

// The note in the bytes of one; nothing: the process left none, or one of another layout. Any field may be torn.
std::optional<ends::DeathNote> NoteOf(const std::string& bytes);
// "SIGSEGV at address 0x10 (not mapped)", "SIGTERM sent by process 123 of user 0".
std::string SignalOf(const ends::DeathNote& note);
// "libserver.so+0x1234" for each of the first `most` frames, innermost first; "": the note has none.
std::string StackOf(const ends::DeathNote& note, uint32_t most = ends::DeathNote::kMostFrames);
// "worker (4711) at libserver.so+0x1234, ..."; "": the end was of no thread. `trace` has the names that the process
// gave its threads.
std::string ThreadOf(const ends::DeathNote& note, const model::Trace& trace);
// Its type, mangled; "": there was none.
std::string ExceptionOf(const ends::DeathNote& note);

// One sentence: which process, how and when it ended, what was open in `trace`.
std::string LastWords(const snapshot::BoxFacts& facts, const std::optional<ends::DeathNote>& note, const SeenEnd& seen,
                      const model::Trace& trace);

// Whether the machine has gone down since, with the process or after it.
bool IsOfOtherBoot(const snapshot::BoxFacts& facts);
// "2026-11-29 16:40:02.118 UTC".
std::string TimeText(int64_t realtime_ns);

}  // namespace pitot::session

#endif  // PITOT_LIB_SESSION_LAST_WORDS_H_
