// SPDX-License-Identifier: Apache-2.0
#include "collect/cuda_calls/look_ups.h"

#include <dlfcn.h>

#include <algorithm>

#include "collect/cuda_calls/wrappers.h"
#include "trace/own_look_up.h"

namespace pitot::cuda_calls {
namespace {

using System = void* (*)(void* handle, const char* name);

constinit std::array<Original, kMostOriginals> g_systems{};
constinit std::atomic<uint64_t> g_look_ups{0};

// The runtime asks the driver for all of its functions at once, by way of this one.
bool GivesOthers(std::string_view name) { return name.starts_with("cuGetProcAddress"); }

// Makes the driver's functions originals: WrapperOf then knows them. An exported name tells the parameters, a name for
// cuGetProcAddress does not.
void LearnAll(System system, void* handle) noexcept {
  bool is_missing = false;
  for (const Function& function : Functions()) {
    if (!function.name.starts_with("cu") || function.name.starts_with("cuda")) continue;
    if (void* const found = system(handle, function.name.data()))
      NumberOf(function, found);
    else
      is_missing = true;
  }
  if (is_missing) dlerror();  // the program asked for another, and it was found
}

void* Answer(System system, void* handle, std::string_view name) noexcept {
  void* const found = system(handle, name.data());
  if (found == nullptr) return nullptr;
  const auto functions = Functions();
  const auto at = std::lower_bound(functions.begin(), functions.end(), name,
                                   [](const Function& one, std::string_view other) { return one.name < other; });
  if (at == functions.end() || at->name != name) return found;
  const uint32_t number = NumberOf(*at, found);
  if (number == kMostOriginals) return found;
  if (GivesOthers(name)) LearnAll(system, handle);
  g_look_ups.fetch_add(1, std::memory_order_relaxed);
  return at->wrappers[number];
}

}  // namespace

void* WrapperOf(void* function) noexcept {
  if (function == nullptr) return nullptr;
  for (const Function& one : Functions()) {
    for (uint32_t i = 0; i < kMostOriginals; ++i) {
      if ((*one.originals)[i].load(std::memory_order_acquire) != function) continue;
      g_look_ups.fetch_add(1, std::memory_order_relaxed);
      return one.wrappers[i];
    }
  }
  return function;
}

uint64_t LookUps() noexcept { return g_look_ups.load(std::memory_order_relaxed); }

#if defined(__x86_64__)

extern "C" {

struct pitot_look_up {
  void* answer;
  void* next;  // to be called with the same parameters; null: the answer is there
};

// For the code below alone.
[[gnu::visibility("hidden"), gnu::used]] pitot_look_up PitotAnswerLookUp(void* handle, const char* name,
                                                                         uint32_t number) noexcept {
  void* address = nullptr;  // stored before an entry led here
  while ((address = g_systems[number].load(std::memory_order_acquire)) == nullptr) {}
  const bool is_left_alone = trace::t_is_own_look_up || handle == RTLD_NEXT;
  if (is_left_alone || name == nullptr || !MayBeFunction(name)) return {nullptr, address};
  // What the program's libraries share is found from here, too. A library of the caller's own is not.
  void* const answer = Answer(reinterpret_cast<System>(address), handle, name);
  return {answer, answer == nullptr && handle == RTLD_DEFAULT ? address : nullptr};
}

[[gnu::visibility("hidden")]] void* PitotDlsym0(void* handle, const char* name);
[[gnu::visibility("hidden")]] void* PitotDlsym1(void* handle, const char* name);
[[gnu::visibility("hidden")]] void* PitotDlsym2(void* handle, const char* name);
}

// A jump to the system's dlsym keeps its caller's address: answers for RTLD_NEXT depend on it.
#define PITOT_DLSYM(number)     \
  ".hidden PitotDlsym" #number  \
  "\n"                          \
  ".globl PitotDlsym" #number   \
  "\n"                          \
  ".type PitotDlsym" #number    \
  ", @function\n"               \
  "PitotDlsym" #number          \
  ":\n"                         \
  ".cfi_startproc\n"            \
  "endbr64\n"                   \
  "push %rdi\n"                 \
  ".cfi_adjust_cfa_offset 8\n"  \
  "push %rsi\n"                 \
  ".cfi_adjust_cfa_offset 8\n"  \
  "sub $8, %rsp\n"              \
  ".cfi_adjust_cfa_offset 8\n"  \
  "mov $" #number               \
  ", %edx\n"                    \
  "call PitotAnswerLookUp\n"    \
  "add $8, %rsp\n"              \
  ".cfi_adjust_cfa_offset -8\n" \
  "pop %rsi\n"                  \
  ".cfi_adjust_cfa_offset -8\n" \
  "pop %rdi\n"                  \
  ".cfi_adjust_cfa_offset -8\n" \
  "test %rdx, %rdx\n"           \
  "jne 1f\n"                    \
  "ret\n"                       \
  "1: jmp *%rdx\n"              \
  ".cfi_endproc\n"              \
  ".size PitotDlsym" #number ", . - PitotDlsym" #number "\n"
asm(".pushsection .text\n" PITOT_DLSYM(0) PITOT_DLSYM(1) PITOT_DLSYM(2) ".popsection\n");
#undef PITOT_DLSYM

Function DlsymFunction() {
  return {kDlsym,
          {reinterpret_cast<void*>(&PitotDlsym0), reinterpret_cast<void*>(&PitotDlsym1),
           reinterpret_cast<void*>(&PitotDlsym2)},
          &g_systems};
}

#else

Function DlsymFunction() { return {kDlsym, {}, &g_systems}; }

#endif

}  // namespace pitot::cuda_calls
