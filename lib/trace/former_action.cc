// SPDX-License-Identifier: Apache-2.0
#include "trace/former_action.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace pitot::trace {
namespace {

bool IsAction(const Action& action, void (*special)(int)) noexcept {
  return HandlerOf(action) == reinterpret_cast<uintptr_t>(special);
}

void SetDefault(int signal) noexcept {
  Action action{};
  action.sa_handler = SIG_DFL;
  sigaction(signal, &action, nullptr);
}

// Only a failed instruction comes from the kernel.
bool WasSent(const siginfo_t& info) noexcept { return info.si_code <= 0; }

void Raise(int signal) noexcept { syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signal); }

}  // namespace

Action ActionOf(int signal) noexcept {
  Action action{};
  sigaction(signal, nullptr, &action);
  return action;
}

uintptr_t HandlerOf(const Action& action) noexcept {
  return (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<uintptr_t>(action.sa_sigaction)
                                             : reinterpret_cast<uintptr_t>(action.sa_handler);
}

bool IsDefault(const Action& action) noexcept { return IsAction(action, SIG_DFL); }

bool IsIgnored(const Action& former, const siginfo_t& info) noexcept {
  return IsAction(former, SIG_IGN) && WasSent(info);
}

After PassOn(const Action& former, int signal, siginfo_t* info, void* context) noexcept {
  if (IsIgnored(former, *info)) return After::kGoesOn;
  if (IsAction(former, SIG_DFL) || IsAction(former, SIG_IGN)) {
    DieOnReturn(signal, info);
    return After::kEnds;
  }
  // As the kernel would call it. The return from Pitot's handler restores the mask.
  if ((former.sa_flags & SA_RESETHAND) != 0) SetDefault(signal);
  const uintptr_t before = HandlerOf(ActionOf(signal));
  sigset_t blocked = former.sa_mask;
  if ((former.sa_flags & SA_NODEFER) == 0) sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  if ((former.sa_flags & SA_SIGINFO) != 0)
    former.sa_sigaction(signal, info, context);
  else
    former.sa_handler(signal);
  return HandlerOf(ActionOf(signal)) == before ? After::kGoesOn : After::kEnds;
}

// It stays pending until the handler returns: so a core file shows the place of the fault, and a handler on top
// can finish.
void DieOnReturn(int signal, siginfo_t* info) noexcept {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, signal);
  pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
  SetDefault(signal);
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), signal, info) != 0) Raise(signal);
}

void DieNow(int signal) noexcept {
  const Action before = ActionOf(signal);
  SetDefault(signal);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, signal);
  pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  Raise(signal);
  pthread_sigmask(SIG_BLOCK, &only, nullptr);
  sigaction(signal, &before, nullptr);
}

}  // namespace pitot::trace
