// SPDX-License-Identifier: Apache-2.0
//
// Pitot's handlers of fatal signals among those of others.
#include <catch2/catch.hpp>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <string>

#include "ends/dying.h"

namespace {

using ends_test::Death;
using ends_test::DiedOf;
using ends_test::ExitedWith;
using ends_test::MakeHost;
using ends_test::Shared;
using ends_test::StatusOf;
using pitot::Ends;
using pitot::ends::End;
using pitot::ends::NoteState;

using Action = struct sigaction;

// Seen by a handler of the host.
struct Seen {
  int calls, signal, code;
  uint64_t address;
  bool has_context, is_signal_blocked, is_other_blocked;
  NoteState note;  // at that time
};
Seen* g_seen;
Action g_former;

void See(int signal, siginfo_t* info, void* context) {
  ++g_seen->calls;
  g_seen->signal = signal;
  g_seen->code = info->si_code;
  g_seen->address = reinterpret_cast<uintptr_t>(info->si_addr);
  g_seen->has_context = context != nullptr;
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  g_seen->is_signal_blocked = sigismember(&now, signal) == 1;
  g_seen->is_other_blocked = sigismember(&now, SIGUSR1) == 1;
  g_seen->note = pitot::ends::GetDeathNote()->state;
}

void SeeAndExit(int signal, siginfo_t* info, void* context) {
  See(signal, info, context);
  _exit(8);
}

// As glog: the default action, then the signal again.
void SeeAndDie(int signal, siginfo_t* info, void* context) {
  See(signal, info, context);
  ::signal(signal, SIG_DFL);
  kill(getpid(), signal);
}

// As Crashpad and faulthandler: the former action, then the fault or the signal again.
void SeeAndRestore(int signal, siginfo_t* info, void* context) {
  See(signal, info, context);
  sigaction(signal, &g_former, nullptr);
}
void SeeAndRaise(int signal, siginfo_t* info, void* context) {
  SeeAndRestore(signal, info, context);
  raise(signal);
}

// As PyTorch: calls the former handler, too.
void SeeAndCall(int signal, siginfo_t* info, void* context) {
  if ((g_former.sa_flags & SA_SIGINFO) != 0) g_former.sa_sigaction(signal, info, context);
  SeeAndRaise(signal, info, context);
}

// As a runtime with memory on demand.
char* g_page;
void SeeAndMend(int signal, siginfo_t* info, void* context) {
  See(signal, info, context);
  mprotect(g_page, 4096, PROT_READ | PROT_WRITE);
}

void InstallOwn(void (*handler)(int, siginfo_t*, void*), int flags = 0, int signal = SIGSEGV) {
  Action mine{};
  mine.sa_sigaction = handler;
  mine.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&mine.sa_mask);
  sigaddset(&mine.sa_mask, SIGUSR1);
  sigaction(signal, &mine, &g_former);
}

PITOT_TEST_FAULT void WriteTo(uint64_t address) { *reinterpret_cast<volatile char*>(address) = 1; }

constexpr uint64_t kNowhere = 0x1230;

}  // namespace

TEST_CASE("a handler installed before sees the signal as the kernel gave it, after the note", "[ends]") {
  const Shared<Seen> seen;
  g_seen = seen.get();
  Death death;
  death.Run([] {
    InstallOwn(SeeAndExit);
    MakeHost(Ends::kAll);
    WriteTo(kNowhere);
  });

  CHECK(ExitedWith(death.status, 8));
  CHECK(seen->calls == 1);
  CHECK(seen->signal == SIGSEGV);
  CHECK(seen->code == SEGV_MAPERR);
  CHECK(seen->address == kNowhere);
  CHECK(seen->has_context);
  CHECK(seen->note == NoteState::kWritten);
  CHECK(death.IsNoted());
}

TEST_CASE("a handler installed before keeps its mask, its nesting and its single use", "[ends]") {
  const Shared<Seen> seen;
  g_seen = seen.get();
  const int flags = GENERATE(0, SA_NODEFER, static_cast<int>(SA_RESETHAND));
  const int status = StatusOf([&] {
    InstallOwn(See, flags, SIGFPE);
    MakeHost(Ends::kAll);
    raise(SIGFPE);
    raise(SIGFPE);
    _exit(0);
  });

  CHECK(seen->is_other_blocked);
  CHECK(seen->is_signal_blocked == ((flags & SA_NODEFER) == 0));
  CHECK(seen->calls == ((flags & SA_RESETHAND) != 0 ? 1 : 2));
  CHECK(((flags & SA_RESETHAND) != 0 ? DiedOf(status, SIGFPE) : ExitedWith(status, 0)));
}

TEST_CASE("handlers that raise the signal again end the process by it, in either order", "[ends]") {
  const auto handler = GENERATE(&SeeAndDie, &SeeAndRestore, &SeeAndRaise, &SeeAndCall);
  const int signal = GENERATE(SIGSEGV, SIGABRT);
  const int flags = GENERATE(0, SA_NODEFER);
  const bool is_first = GENERATE(true, false);
  const Shared<Seen> seen;
  g_seen = seen.get();
  const auto end = [&] { signal == SIGSEGV ? WriteTo(kNowhere) : abort(); };
  const int without = StatusOf([&] {
    InstallOwn(handler, flags, signal);
    end();
  });
  REQUIRE(DiedOf(without, signal));
  *seen = {};

  Death death;
  death.Run([&] {
    if (is_first) InstallOwn(handler, flags, signal);
    MakeHost(Ends::kAll);
    if (!is_first) InstallOwn(handler, flags, signal);
    end();
  });

  CHECK(death.status == without);
  CHECK(seen->calls >= 1);
  // Later ones call nobody if they end with the default action. Nor does abort() once a handler has returned.
  const bool calls_nobody = handler == &SeeAndDie || (handler == &SeeAndRestore && signal == SIGABRT);
  CHECK(death.IsNoted() == (is_first || !calls_nobody));
}

TEST_CASE("a fault that the host mends is no end", "[ends]") {
  const Shared<Seen> seen;
  g_seen = seen.get();
  Death death;
  death.Run([] {
    g_page = static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    InstallOwn(SeeAndMend);
    MakeHost(Ends::kAll);
    g_page[7] = 1;
    if (g_page[7] != 1) _exit(1);
    _exit(0);
  });

  CHECK(ExitedWith(death.status, 0));
  CHECK(seen->calls == 1);
  CHECK(death.note->state == NoteState::kEmpty);
}

TEST_CASE("a handler of SIGABRT that returned leaves the note, until another end has its own", "[ends]") {
  const bool goes_on = GENERATE(false, true);
  const Shared<Seen> seen;
  g_seen = seen.get();
  Death death;
  death.Run([&] {
    InstallOwn(See, 0, SIGABRT);
    MakeHost(Ends::kCrash);
    if (!goes_on) abort();
    raise(SIGABRT);
    WriteTo(kNowhere);
  });

  const int signal = goes_on ? SIGSEGV : SIGABRT;
  CHECK(DiedOf(death.status, signal));
  CHECK(seen->calls == 1);
  REQUIRE(death.IsNoted());
  CHECK(death.note->signal == signal);
}

TEST_CASE("a signal that the host ignores stays ignored, and a fault is fatal nevertheless", "[ends]") {
  Death death;
  death.Run([] {
    signal(SIGSEGV, SIG_IGN);
    MakeHost(Ends::kAll);
    raise(SIGSEGV);
    if (pitot::ends::GetDeathNote()->state != NoteState::kEmpty) _exit(1);
    WriteTo(kNowhere);
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->fault_address == kNowhere);
}

TEST_CASE("a handler that replaces Pitot's is left alone, also by Stop", "[ends]") {
  const Shared<Seen> seen;
  g_seen = seen.get();
  const int status = StatusOf([] {
    ends_test::Host* const host = MakeHost(Ends::kAll);
    InstallOwn(SeeAndExit);
    host->recorder.Stop();
    WriteTo(kNowhere);
  });

  CHECK(ExitedWith(status, 8));
  CHECK(seen->calls == 1);
}

TEST_CASE("after Stop, a later handler still finds the end of its chain", "[ends]") {
  const Shared<Seen> seen;
  g_seen = seen.get();
  const int restarts = GENERATE(0, 1);
  Death death;
  death.Run([&] {
    ends_test::Host* host = MakeHost(Ends::kAll);
    InstallOwn(SeeAndRaise);
    for (int i = 0; i < restarts; ++i) {
      host->recorder.Stop();
      host = MakeHost(Ends::kAll);
    }
    host->recorder.Stop();
    WriteTo(kNowhere);
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  CHECK(seen->calls == 1);
  CHECK(!death.IsNoted());
}

TEST_CASE("a crash in a handler after Pitot's ends the process", "[ends]") {
  Death death;
  death.Run([] {
    InstallOwn([](int, siginfo_t*, void*) { WriteTo(kNowhere + 16); });
    MakeHost(Ends::kAll);
    WriteTo(kNowhere);
  });

  CHECK(DiedOf(death.status, SIGSEGV));
  REQUIRE(death.IsNoted());
  CHECK(death.note->fault_address == kNowhere);
}
