// SPDX-License-Identifier: Apache-2.0
//
// What a thread that runs operators keeps: the names it has seen, and memory for the contexts of its operators, so that
// nothing is allocated after its first ones.
#ifndef PITOT_LIB_COLLECT_TORCH_THREAD_STATE_H_
#define PITOT_LIB_COLLECT_TORCH_THREAD_STATE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "pitot/trace.h"
#include "trace/names.h"

namespace pitot::libtorch {

// Names that operators and ranges may take in the process's table of names, which is the host's, too; as many as NVTX's
// may. Ranges leave some for operators: a host may number them.
inline constexpr uint32_t kMaxNames = 4096, kMaxRangeNames = 3072;
// Operators and ranges that were called "(other)" for it.
uint64_t NamesFolded() noexcept;
void ClearNamesFolded() noexcept;

class ThreadState {
 public:
  static constexpr size_t kContextBytes = 160;

  // Of all threads' states, with the contexts that they keep or operators have. Threads: any.
  static uint64_t HeldBytes() noexcept;
  // The calling thread's; null if there is no memory.
  static ThreadState* Get() noexcept { return __builtin_expect(t_state != nullptr, 1) ? t_state : Make(); }

  // Of an operator. As pitot::Intern, which keeps kMaxNameBytes, no more is read; "(other)" beyond the limit. `text`
  // may change or go away after: what is remembered of it is compared. Cost: 5 ns if it was seen before.
  Name NameOf(const char* text) noexcept {
    Seen& seen = SeenAt(text);
    if (__builtin_expect(seen.at == text && seen.IsStill(text), 1)) return {seen.index};
    return Learn(text, &seen, kMaxNames);
  }
  // Of a range.
  Name RangeNameOf(const char* text) noexcept {
    Seen& seen = SeenAt(text);
    if (__builtin_expect(seen.at == text && seen.IsStill(text), 1)) return {seen.index};
    return Learn(text, &seen, kMaxRangeNames);
  }

  // The context of the operator that runs on this thread and whose floating point operations are those of what it
  // calls, too; null where none does. Until that is given back.
  const void* flops_owner() const noexcept { return flops_owner_; }
  void set_flops_owner(const void* context) noexcept { flops_owner_ = context; }

  // kContextBytes. Give takes what any thread's Take returned. Null if there is no memory.
  void* Take() noexcept;
  void Give(void* block) noexcept;
  // What Take returned, on a thread that has no state any more.
  static void Free(void* block) noexcept;

 private:
  static constexpr size_t kSeen = 512, kMostSpare = 64;
  struct Seen {
    const char* at = nullptr;
    const char* name = nullptr;  // as interned, for the life of the process
    uint32_t size = 0, index = 0;
    // What begins alike as far as names are kept has the same one.
    bool IsStill(const char* text) const {
      return std::strncmp(text, name, size) == 0 && (size == trace::kMaxNameBytes || text[size] == '\0');
    }
  };
  struct Spare {
    Spare* next;
  };

  ~ThreadState();
  static ThreadState* Make() noexcept;
  static Name Learn(const char* text, Seen* seen, uint32_t most) noexcept;
  Seen& SeenAt(const char* text) noexcept {
    const auto address = reinterpret_cast<uintptr_t>(text);
    return seen_[(address >> 3 ^ address >> 11) % kSeen];
  }

  static __thread ThreadState* t_state __attribute__((tls_model("initial-exec")));
  friend struct Owner;

  Seen seen_[kSeen];
  Spare* spare_ = nullptr;
  size_t spare_count_ = 0;
  const void* flops_owner_ = nullptr;
};

}  // namespace pitot::libtorch

#endif  // PITOT_LIB_COLLECT_TORCH_THREAD_STATE_H_
