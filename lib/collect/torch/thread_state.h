// SPDX-License-Identifier: Apache-2.0
//
// State of a thread that runs operators: the names it has seen, and memory for its operators' contexts. So nothing is
// allocated after its first operators.
#ifndef PITOT_LIB_COLLECT_TORCH_THREAD_STATE_H_
#define PITOT_LIB_COLLECT_TORCH_THREAD_STATE_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "pitot/trace.h"
#include "trace/names.h"

namespace pitot::libtorch {

// Limits of names for operators and ranges in the process's table of names, which holds the host's, too; as many as for
// NVTX. Ranges leave some for operators, because a host may number its ranges.
inline constexpr uint32_t kMaxNames = 4096, kMaxRangeNames = 3072;
// Operators and ranges named "(other)" because of these limits.
uint64_t NamesFolded() noexcept;
void ClearNamesFolded() noexcept;

class ThreadState {
 public:
  static constexpr size_t kContextBytes = 160;

  // Bytes of all threads' states, with the contexts kept there or used by operators. Threads: any.
  static uint64_t HeldBytes() noexcept;
  // The calling thread's; null if there is no memory.
  static ThreadState* Get() noexcept { return __builtin_expect(t_state != nullptr, 1) ? t_state : Make(); }

  // The name of an operator. Like pitot::Intern, reads kMaxNameBytes at most; "(other)" beyond the limit. `text` may
  // change or go away afterwards, because it is compared with the remembered name. Cost: 5 ns if it was seen before.
  Name NameOf(const char* text) noexcept {
    Seen& seen = SeenAt(text);
    if (__builtin_expect(seen.at == text && seen.IsStill(text), 1)) return {seen.index};
    return Learn(text, &seen, kMaxNames);
  }
  // The name of a range.
  Name RangeNameOf(const char* text) noexcept {
    Seen& seen = SeenAt(text);
    if (__builtin_expect(seen.at == text && seen.IsStill(text), 1)) return {seen.index};
    return Learn(text, &seen, kMaxRangeNames);
  }

  // The context of the operator on this thread with a count of floating point operations that includes its callees'.
  // Null if there is none. Valid until it is given back.
  const void* flops_owner() const noexcept { return flops_owner_; }
  void set_flops_owner(const void* context) noexcept { flops_owner_ = context; }

  // A block of kContextBytes; null if there is no memory. Give accepts a block taken on any thread.
  void* Take() noexcept;
  void Give(void* block) noexcept;
  // Frees a block on a thread without a state any more.
  static void Free(void* block) noexcept;

 private:
  static constexpr size_t kSeen = 512, kMostSpare = 64;
  struct Seen {
    const char* at = nullptr;
    const char* name = nullptr;  // as interned, for the life of the process
    uint32_t size = 0, index = 0;
    // Texts with the same first kMaxNameBytes have the same name.
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
