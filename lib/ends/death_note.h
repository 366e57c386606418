// SPDX-License-Identifier: Apache-2.0
//
// The note of a dying process: how it ended. It is one block of plain memory, private by default. A black box
// gives a place in a file, to outlive the process. Handlers of signals write it; readers take it from a dead process.
#ifndef PITOT_LIB_ENDS_DEATH_NOTE_H_
#define PITOT_LIB_ENDS_DEATH_NOTE_H_

#include <cstdint>
#include <type_traits>

#include "ends/module_map.h"

namespace pitot::ends {

enum class End : uint32_t {
  kNone = 0,
  kExit = 1,         // exit(), or a return from main
  kTermination = 2,  // SIGTERM
  kException = 3,    // std::terminate
  kSignal = 4        // a fatal signal, also after kException
};

enum class NoteState : uint32_t {
  kEmpty = 0,
  kWriting = 1,  // if the process is dead: it died while it wrote, and any field may be missing
  kWritten = 2
};

// A file of another version may hold another layout. Zeros are an empty note.
struct DeathNote {
  static constexpr uint32_t kLayout = 1;
  static constexpr uint32_t kMostFrames = 64;
  static constexpr uint32_t kMostModules = 16;

  NoteState state;  // atomic; stored last, by FinishNote
  uint32_t layout;
  End end;
  int32_t exit_status;   // of kExit
  uint32_t has_gone_on;  // 1: a former handler returned, so the process may have lived on; a later end replaces it
  int32_t signal;        // 0: none
  int32_t code;          // siginfo_t::si_code. If another handler raised the signal again: SI_TKILL, and no address
  uint64_t fault_address;
  int32_t sender_process, sender_user;  // if a process sent the signal
  int32_t process, thread;              // ids
  char thread_name[16];
  int64_t monotonic_ns, realtime_ns;
  uint32_t frame_count, module_count;  // atomic; stored after the frames and the modules
  uint64_t frames[kMostFrames];        // the instruction of the end, then return addresses, innermost first; raw
  MappedModule modules[kMostModules];  // with the frames, in the order of the frames
  char exception_type[128];            // mangled, of kException; cut off at the end. "": there was no exception
};
static_assert(std::is_trivially_copyable_v<DeathNote> && std::is_standard_layout_v<DeathNote>);

// Where the end of this process is noted from now on. Null: in private memory. The former place stays as it is, and
// must stay mapped: a handler may be writing there. Threads: any.
void SetDeathNote(DeathNote* note) noexcept;
DeathNote* GetDeathNote() noexcept;

// A handler's knowledge of an end.
struct Facts {
  End end = End::kNone;
  int32_t exit_status = 0;
  int32_t signal = 0;
  int32_t code = 0;
  uint64_t fault_address = 0;
  int32_t sender_process = 0, sender_user = 0;
  const char* exception_type = "";
};

// Notes an end, all but its frames, and returns the note, which FinishNote must follow. A crash replaces exit or
// SIGTERM, and a signal completes an exception of the same thread. Otherwise the first end stays, and null is returned
// once it is finished. Safe in handlers of signals, as is all of the following.
DeathNote* WriteNote(const Facts& facts) noexcept;
// Null: nothing is done.
void FinishNote(DeathNote* note) noexcept;
// Adds the frames of the end, and their modules.
void AddFrames(DeathNote* note, const uint64_t* frames, uint32_t count) noexcept;
// Takes a note back, because the process goes on.
void WithdrawNote(DeathNote* note) noexcept;
// Keeps it, because it is not known whether the process goes on.
void MarkGoneOn(DeathNote* note) noexcept;

}  // namespace pitot::ends

#endif  // PITOT_LIB_ENDS_DEATH_NOTE_H_
