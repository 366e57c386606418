// SPDX-License-Identifier: Apache-2.0
#include "ends/signal_chain.h"

namespace pitot::ends {
namespace {

using trace::Action;
using trace::ActionOf;
using trace::HandlerOf;

struct Slot {
  bool is_used = false;
  Action former{};
};
constinit Slot g_slots[SIGSYS + 1];

bool Has(const Action& action, SignalHandler handler) noexcept {
  return HandlerOf(action) == reinterpret_cast<uintptr_t>(handler);
}

}  // namespace

void Install(int signal, SignalHandler handler, int flags) noexcept {
  Slot& slot = g_slots[signal];
  const Action now = ActionOf(signal);
  const bool is_covered = slot.is_used && HandlerOf(now) != HandlerOf(slot.former);
  if (Has(now, handler) || is_covered) return;
  slot = {true, now};  // the handler may run at once
  Action ours{};
  ours.sa_sigaction = handler;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | flags;
  sigemptyset(&ours.sa_mask);
  if (sigaction(signal, &ours, nullptr) != 0) slot.is_used = false;
}

void Uninstall(int signal, SignalHandler handler) noexcept {
  Slot& slot = g_slots[signal];
  if (!slot.is_used || !Has(ActionOf(signal), handler)) return;
  if (sigaction(signal, &slot.former, nullptr) == 0) slot.is_used = false;
}

bool IsDefault(int signal) noexcept { return trace::IsDefault(ActionOf(signal)); }

bool IsIgnored(int signal, const siginfo_t& info) noexcept { return trace::IsIgnored(g_slots[signal].former, info); }

trace::After PassOn(int signal, siginfo_t* info, void* context) noexcept {
  return trace::PassOn(g_slots[signal].former, signal, info, context);
}

}  // namespace pitot::ends
