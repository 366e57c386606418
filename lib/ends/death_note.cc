// SPDX-License-Identifier: Apache-2.0
#include "ends/death_note.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/clock.h"

namespace pitot::ends {
namespace {

constexpr int kPatienceMs = 1000;  // with another thread at the note

constinit DeathNote g_private{};
constinit std::atomic<DeathNote*> g_note{&g_private};

int32_t ThreadId() noexcept { return static_cast<int32_t>(syscall(SYS_gettid)); }

// The forms of these functions that take enumerations with every compiler.
NoteState LoadState(const DeathNote& note) noexcept {
  NoteState state;
  __atomic_load(&note.state, &state, __ATOMIC_ACQUIRE);
  return state;
}
void StoreState(NoteState state, DeathNote* note) noexcept { __atomic_store(&note->state, &state, __ATOMIC_RELEASE); }
bool Change(DeathNote* note, NoteState from, NoteState to) noexcept {
  return __atomic_compare_exchange(&note->state, &from, &to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

bool IsOrderly(End end) noexcept { return end == End::kExit || end == End::kTermination; }

// Whether `facts` say more than the note.
bool Replaces(const Facts& facts, const DeathNote& note) noexcept {
  return (IsOrderly(note.end) || note.has_gone_on != 0) && !IsOrderly(facts.end);
}
bool Completes(const Facts& facts, const DeathNote& note) noexcept {
  return note.end == End::kException && facts.end == End::kSignal && note.thread == ThreadId();
}

NoteState AwaitWritten(const DeathNote* note) noexcept {
  for (int waited_ms = 0;; ++waited_ms) {
    const NoteState state = LoadState(*note);
    if (state != NoteState::kWriting || waited_ms == kPatienceMs) return state;
    poll(nullptr, 0, 1);
  }
}

void PutSignal(const Facts& facts, DeathNote* note) noexcept {
  note->end = facts.end;
  note->signal = facts.signal;
  note->code = facts.code;
  note->fault_address = facts.fault_address;
  note->sender_process = facts.sender_process;
  note->sender_user = facts.sender_user;
}

void PutAll(const Facts& facts, DeathNote* note) noexcept {
  PutSignal(facts, note);
  note->layout = DeathNote::kLayout;
  note->exit_status = facts.exit_status;
  note->has_gone_on = 0;
  note->process = static_cast<int32_t>(getpid());
  note->thread = ThreadId();
  prctl(PR_GET_NAME, note->thread_name);
  note->monotonic_ns = base::ClockNs(CLOCK_MONOTONIC);
  note->realtime_ns = base::ClockNs(CLOCK_REALTIME);
  AddFrames(note, nullptr, 0);
  const size_t length = std::min(std::strlen(facts.exception_type), sizeof note->exception_type - 1);
  std::memcpy(note->exception_type, facts.exception_type, length);
  note->exception_type[length] = '\0';
}

// The module of a frame, unless it is there.
void AddModule(uint64_t address, DeathNote* note) noexcept {
  const uint32_t count = note->module_count;
  const bool is_known = std::any_of(note->modules, note->modules + count, [&](const MappedModule& module) {
    return address >= module.begin && address < module.end;
  });
  if (is_known || count == DeathNote::kMostModules || !FindModule(address, &note->modules[count])) return;
  __atomic_store_n(&note->module_count, count + 1, __ATOMIC_RELEASE);
}

}  // namespace

void SetDeathNote(DeathNote* note) noexcept { g_note.store(note != nullptr ? note : &g_private); }
DeathNote* GetDeathNote() noexcept { return g_note.load(); }

DeathNote* WriteNote(const Facts& facts) noexcept {
  DeathNote* const note = g_note.load();
  bool is_new = Change(note, NoteState::kEmpty, NoteState::kWriting);
  bool is_mine = is_new;
  if (!is_mine && AwaitWritten(note) == NoteState::kWritten) {
    is_new = Replaces(facts, *note);
    is_mine = (is_new || Completes(facts, *note)) && Change(note, NoteState::kWritten, NoteState::kWriting);
  }
  if (!is_mine) return nullptr;
  is_new ? PutAll(facts, note) : PutSignal(facts, note);
  return note;
}

void FinishNote(DeathNote* note) noexcept {
  if (note != nullptr) StoreState(NoteState::kWritten, note);
}

void AddFrames(DeathNote* note, const uint64_t* frames, uint32_t count) noexcept {
  count = std::min(count, DeathNote::kMostFrames);
  __atomic_store_n(&note->module_count, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&note->frame_count, 0, __ATOMIC_RELEASE);
  if (count == 0) return;
  std::memcpy(note->frames, frames, count * sizeof *frames);
  __atomic_store_n(&note->frame_count, count, __ATOMIC_RELEASE);
  for (uint32_t i = 0; i < count; ++i) AddModule(frames[i], note);
}

void WithdrawNote(DeathNote* note) noexcept { StoreState(NoteState::kEmpty, note); }

void MarkGoneOn(DeathNote* note) noexcept { __atomic_store_n(&note->has_gone_on, 1, __ATOMIC_RELEASE); }

}  // namespace pitot::ends
