// SPDX-License-Identifier: Apache-2.0
#include "ends/ends.h"

#include <cxxabi.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>
#include <typeinfo>
#include <utility>

#include "base/clock.h"
#include "base/loader_lock.h"
#include "base/mutex.h"
#include "base/semaphore.h"
#include "ends/backtrace.h"
#include "ends/death_note.h"
#include "ends/module_map.h"
#include "ends/signal_chain.h"
#include "ends/signal_stack.h"
#include "trace/rings.h"

namespace pitot::ends {
namespace {

constexpr int kFatalSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGSYS, SIGTRAP};
constexpr int64_t kNotePatienceNs = 2'000'000'000;  // with a handler at its note

// Requests of handlers to the thread, as bits.
enum Ask : uint32_t { kWatchNote = 1, kFlush = 2, kTerminate = 4 };

bool Handles(Ends which, Ends part) noexcept {
  return (static_cast<uint32_t>(which) & static_cast<uint32_t>(part)) != 0;
}

// Between the session, handlers and the thread. Never freed: a handler may be inside.
class Desk {
 public:
  void Open(Ends which, uint32_t grace_ms, std::weak_ptr<Flushed> flushed) noexcept {
    const base::MutexLock lock(&mutex_);
    which_.store(which);
    grace_ms_.store(grace_ms);
    flushed_ = std::move(flushed);
    asked_.store(0), noting_.store(0);
    ForgetFlush();
    wake_.TakeAll();
    owner_.store(getpid());
  }
  void Close() noexcept {
    owner_.store(0);
    wake_.Give();
  }
  bool IsOfThisProcess() const noexcept { return made_by_ == getpid(); }
  bool IsOpen() const noexcept { return owner_.load() == getpid(); }
  Ends which() const noexcept { return which_.load(); }
  void Serve() noexcept;
  // On the calling thread. Not for handlers.
  void Flush(HostState host) noexcept;

  // For handlers.
  void BeginNote(int signal) noexcept {
    note_signal_.store(signal != 0 ? signal : SIGABRT);
    noting_.fetch_add(1);
    Ask(kWatchNote);
  }
  void EndNote() noexcept {
    notes_ended_.fetch_add(1);
    noting_.fetch_sub(1);
  }
  // Has the thread flush, once for all callers, and waits for it.
  void AwaitFlush() noexcept;
  // The process goes on after all: the next end flushes again.
  void ForgetFlush() noexcept { is_flushed_.store(false), flush_until_ns_.store(0); }
  void NoteTermination(const siginfo_t& info) noexcept {
    sender_process_.store(info.si_pid), sender_user_.store(static_cast<int32_t>(info.si_uid));
    termination_code_.store(info.si_code);
    Ask(kTerminate);
  }

 private:
  void Ask(uint32_t what) noexcept {
    asked_.fetch_or(what);
    wake_.Give();
  }
  void WatchNote() noexcept;
  void Terminate() noexcept;

  const pid_t made_by_ = getpid();
  std::atomic<pid_t> owner_{0};  // the process with a recorder; 0: none
  std::atomic<Ends> which_{Ends::kNone};
  std::atomic<uint32_t> grace_ms_{0};
  base::Mutex mutex_;
  std::weak_ptr<Flushed> flushed_ PITOT_GUARDED_BY(mutex_);

  base::Semaphore wake_;
  std::atomic<uint32_t> asked_{0}, noting_{0}, notes_ended_{0};
  std::atomic<int64_t> flush_until_ns_{0};  // 0: nobody has asked for one
  std::atomic<bool> is_flushed_{false};
  std::atomic<int> note_signal_{0}, termination_code_{0};
  std::atomic<int32_t> sender_process_{0}, sender_user_{0};
};

constinit std::atomic<Desk*> g_desk{nullptr};
constinit std::atomic<bool> g_watches_exit{false};
constinit std::terminate_handler g_former_terminate = nullptr;

// Where a fault of the handler itself ends; null: it is not at work. Initial-exec, because other variables of a thread
// may be allocated at their first use.
[[gnu::tls_model("initial-exec")]] constinit thread_local sigjmp_buf* t_escape = nullptr;

// The desk if it is open in this process. A child shares the parent's handlers, and perhaps its memory.
Desk* OpenDesk() noexcept {
  Desk* const desk = g_desk.load();
  return desk != nullptr && desk->IsOpen() ? desk : nullptr;
}

// ---- Notes. ---------------------------------------------------------------------------------------------------------

// Does work with faults: the file of the note may be cut off, and the unwinder reads a broken stack. Then OnFatalSignal
// jumps back here, and the rest is left out.
template <class Work> [[gnu::noinline]] void Attempt(const Work& work) noexcept {
  sigjmp_buf escape;
  sigjmp_buf* const outer = t_escape;
  if (sigsetjmp(escape, 1) == 0) {
    t_escape = &escape;
    work();
  }
  t_escape = outer;
}

void NoteFrames(const Registers& from, uint64_t unwind_from, DeathNote* note) noexcept {
  uint64_t frames[DeathNote::kMostFrames];
  const uint32_t by_pointers = FollowFramePointers(from, frames, DeathNote::kMostFrames);
  AddFrames(note, frames, by_pointers);
  Attempt([&] {
    const uint32_t by_unwinder = Unwind(unwind_from, frames, DeathNote::kMostFrames);
    if (by_unwinder > by_pointers) AddFrames(note, frames, by_unwinder);
  });
}

// The note; null: there is another, or it could not be written. `unwind_from` as for Unwind.
DeathNote* Note(Desk* desk, const Facts& facts, const Registers& from, uint64_t unwind_from) noexcept {
  DeathNote* volatile note = nullptr;
  desk->BeginNote(facts.signal);
  Attempt([&] {
    note = WriteNote(facts);
    if (note != nullptr && __atomic_load_n(&note->frame_count, __ATOMIC_ACQUIRE) == 0)
      NoteFrames(from, unwind_from, note);
  });
  if (note != nullptr) FinishNote(note);
  desk->EndNote();
  return note;
}

Facts FactsOf(int signal, const siginfo_t& info) noexcept {
  Facts facts;
  facts.end = End::kSignal;
  facts.signal = signal;
  facts.code = info.si_code;
  if (info.si_code > 0) {
    facts.fault_address = reinterpret_cast<uintptr_t>(info.si_addr);
  } else {
    facts.sender_process = info.si_pid;
    facts.sender_user = static_cast<int32_t>(info.si_uid);
  }
  return facts;
}

// ---- Handlers. ------------------------------------------------------------------------------------------------------

void OnFatalSignal(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Desk* const desk = OpenDesk();
  DeathNote* note = nullptr;
  if (desk != nullptr && !IsIgnored(signal, *info)) {
    if (sigjmp_buf* const escape = std::exchange(t_escape, nullptr)) siglongjmp(*escape, 1);
    const Registers from = RegistersOf(context);
    note = Note(desk, FactsOf(signal, *info), from, from.instruction);
    if (signal == SIGABRT) desk->AwaitFlush();
  }
  const trace::After after = PassOn(signal, info, context);
  if (after == trace::After::kGoesOn) {
    if (desk != nullptr && signal == SIGABRT) desk->ForgetFlush();
    // abort() ends the process after a handler has returned, without another signal to be seen.
    if (note != nullptr) signal == SIGABRT ? MarkGoneOn(note) : WithdrawNote(note);
  }
  errno = error;
}

void OnTermination(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Desk* const desk = OpenDesk();
  if (desk != nullptr) desk->NoteTermination(*info);
  // Closed meanwhile, it may not serve this any more.
  if (desk == nullptr || !desk->IsOpen()) PassOn(signal, info, context);
  errno = error;
}

// Not a handler of a signal, but the heap may be broken, and the former handler may not return.
void OnTerminate() {
  if (Desk* const desk = OpenDesk()) {
    const std::type_info* const type = abi::__cxa_current_exception_type();
    Facts facts;
    facts.end = End::kException;
    facts.exception_type = type != nullptr ? type->name() : "";
    Note(desk, facts, RegistersHere(), 0);
    desk->AwaitFlush();
  }
  if (g_former_terminate != nullptr) g_former_terminate();
}

void OnExit(int status, void*) {
  Desk* const desk = OpenDesk();
  if (desk == nullptr || !Handles(desk->which(), Ends::kShutdown)) return;
  Facts facts;
  facts.end = End::kExit;
  facts.exit_status = status;
  Attempt([&] { FinishNote(WriteNote(facts)); });
  if (!base::IsOwnThread()) desk->Flush(HostState::kBroken);  // otherwise a hook would wait for itself
}

// ---- The desk. ------------------------------------------------------------------------------------------------------

void Desk::Flush(HostState host) noexcept {
  std::shared_ptr<Flushed> flushed;
  {
    const base::MutexLock lock(&mutex_);
    flushed = flushed_.lock();
  }
  if (flushed != nullptr) flushed->FlushAtEnd(host, grace_ms_.load());
}

void Desk::AwaitFlush() noexcept {
  if (base::IsOwnThread()) return;
  int64_t until_ns = 0;
  const int64_t ours_ns = base::ClockNs(CLOCK_MONOTONIC) + int64_t{grace_ms_.load()} * 1'000'000;
  if (flush_until_ns_.compare_exchange_strong(until_ns, ours_ns)) {
    until_ns = ours_ns;
    Ask(kFlush);
  }
  while (!is_flushed_.load() && base::ClockNs(CLOCK_MONOTONIC) < until_ns) poll(nullptr, 0, 1);
}

void Desk::Serve() noexcept {
  do {
    wake_.Await();
    const uint32_t asked = asked_.exchange(0);
    if ((asked & kWatchNote) != 0) WatchNote();
    if ((asked & kFlush) != 0) {
      Flush(HostState::kBroken);
      is_flushed_.store(true);
    }
    if ((asked & kTerminate) != 0) Terminate();
  } while (IsOpen());
  wake_.Give();  // a former recorder's thread may have been held up
}

// A handler must not keep the process, for example because the unwinder waits for a lock. A host that mends faults may
// have one at work at any moment, each for a short time.
void Desk::WatchNote() noexcept {
  uint32_t ended = notes_ended_.load();
  int64_t until_ns = base::ClockNs(CLOCK_MONOTONIC) + kNotePatienceNs;
  while (noting_.load() != 0 && IsOpen()) {
    if ((asked_.load() & ~kWatchNote) != 0) return Ask(kWatchNote);  // after what was asked for
    const int64_t now_ns = base::ClockNs(CLOCK_MONOTONIC);
    if (const uint32_t now_ended = notes_ended_.load(); now_ended != ended)
      ended = now_ended, until_ns = now_ns + kNotePatienceNs;
    if (now_ns >= until_ns) return trace::DieNow(note_signal_.load());  // the first process of a container stays
    poll(nullptr, 0, 1);
  }
}

void Desk::Terminate() noexcept {
  Facts facts;
  facts.end = End::kTermination;
  facts.signal = SIGTERM;
  facts.code = termination_code_.load();
  facts.sender_process = sender_process_.load();
  facts.sender_user = sender_user_.load();
  DeathNote* note = nullptr;
  Attempt([&] {
    note = WriteNote(facts);
    FinishNote(note);
  });
  Flush(HostState::kWhole);
  trace::DieNow(SIGTERM);
  if (note != nullptr) WithdrawNote(note);  // the first process of a container lives on
}

// ---- The start and the end. -----------------------------------------------------------------------------------------

void InstallForShutdown() noexcept {
  if (!g_watches_exit.exchange(true) && on_exit(OnExit, nullptr) != 0) g_watches_exit.store(false);
  if (IsDefault(SIGTERM)) Install(SIGTERM, OnTermination, SA_RESTART);
}

void InstallForCrashes() noexcept {
  LoadUnwinder();
  LookForModules();
  GiveSignalStack();
  trace::CallAtAttach(GiveSignalStack);
  for (const int signal : kFatalSignals) Install(signal, OnFatalSignal, SA_NODEFER);
  if (std::get_terminate() != OnTerminate && g_former_terminate == nullptr)
    g_former_terminate = std::set_terminate(OnTerminate);
}

}  // namespace

bool Begin(Ends which, uint32_t grace_ms, std::weak_ptr<Flushed> flushed) noexcept {
  Desk* desk = g_desk.load();
  if (desk == nullptr) desk = new (std::nothrow) Desk;
  if (desk == nullptr) return false;
  if (!desk->IsOfThisProcess()) {  // the parent's threads may have held its lock
    new (desk) Desk;
    ForgetLookAfterFork();
  }
  desk->Open(which, grace_ms, std::move(flushed));
  g_desk.store(desk);
  if (Handles(which, Ends::kShutdown)) InstallForShutdown();
  if (Handles(which, Ends::kCrash)) InstallForCrashes();
  return true;
}

void Serve() noexcept {
  pthread_setname_np(pthread_self(), "pitot-ends");
  g_desk.load()->Serve();
}

void Watch() noexcept {
  const Desk* const desk = OpenDesk();
  if (desk != nullptr && Handles(desk->which(), Ends::kCrash)) LookForModules();
}

void Close() noexcept {
  Desk* const desk = g_desk.load();
  if (desk == nullptr || !desk->IsOpen()) return;
  for (const int signal : kFatalSignals) Uninstall(signal, OnFatalSignal);
  Uninstall(SIGTERM, OnTermination);
  trace::CallAtAttach(nullptr);
  if (std::get_terminate() == OnTerminate) std::set_terminate(std::exchange(g_former_terminate, nullptr));
  desk->Close();
}

}  // namespace pitot::ends
