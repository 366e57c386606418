// SPDX-License-Identifier: Apache-2.0
#include "ends/signal_stack.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>

namespace pitot::ends {
namespace {

// The handlers after Pitot's run on it, too, and some print stacks.
constexpr size_t kStackBytes = 64 << 10;

constinit thread_local bool t_has_looked = false;

// Below the stack lies a page without access.
size_t GuardBytes() noexcept { return std::max<size_t>(static_cast<size_t>(sysconf(_SC_PAGESIZE)), 4096); }

void TakeBack(void* stack) {
  stack_t now{};
  if (sigaltstack(nullptr, &now) == 0 && now.ss_sp == stack) {
    const stack_t none{nullptr, SS_DISABLE, 0};
    sigaltstack(&none, nullptr);
  }
  munmap(static_cast<char*>(stack) - GuardBytes(), GuardBytes() + kStackBytes);
}

// The stacks of threads by this key; null: there is none.
const pthread_key_t* Key() noexcept {
  static pthread_key_t key;
  static const bool is_made = pthread_key_create(&key, TakeBack) == 0;
  return is_made ? &key : nullptr;
}

void* MakeStack() noexcept {
  const size_t guard = GuardBytes();
  void* const all = mmap(nullptr, guard + kStackBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  void* const stack = static_cast<char*>(all) + guard;
  if (mprotect(stack, kStackBytes, PROT_READ | PROT_WRITE) == 0) return stack;
  munmap(all, guard + kStackBytes);
  return nullptr;
}

}  // namespace

void GiveSignalStack() noexcept {
  if (t_has_looked) return;
  t_has_looked = true;
  stack_t now{};
  if (sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  const pthread_key_t* const key = Key();
  void* const stack = key != nullptr ? MakeStack() : nullptr;
  if (stack == nullptr) return;
  const stack_t ours{stack, 0, kStackBytes};
  if (pthread_setspecific(*key, stack) != 0 || sigaltstack(&ours, nullptr) != 0) {
    pthread_setspecific(*key, nullptr);
    TakeBack(stack);
  }
}

}  // namespace pitot::ends
