// SPDX-License-Identifier: Apache-2.0
//
// A function of CUDA and its wrappers.
#ifndef PITOT_LIB_COLLECT_CUDA_CALLS_FUNCTION_H_
#define PITOT_LIB_COLLECT_CUDA_CALLS_FUNCTION_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

namespace pitot::cuda_calls {

// A process may hold several copies of a function: two versions of the runtime, or another tool's wrapper.
inline constexpr uint32_t kMostOriginals = 3;

// A function that a wrapper calls; null: none.
struct Original : std::atomic<void*> {
  using std::atomic<void*>::atomic;
  std::atomic<bool> is_of_library{false};  // otherwise it may be code that somebody made at run time
};

// Each wrapper calls the original of its number.
struct Function {
  std::string_view name;
  std::array<void*, kMostOriginals> wrappers;
  std::array<Original, kMostOriginals>* originals;
};

// Whether a function of CUDA may have that name: a quick answer for thousands of others.
constexpr bool MayBeFunction(std::string_view name) {
  return name.starts_with("cu") || name.starts_with("__cuda") || name.starts_with("nvrtc");
}

// The number of an original, new or known; kMostOriginals: there is no room. Threads: any; it takes no lock.
inline uint32_t NumberOf(const Function& function, void* original) {
  for (uint32_t i = 0; i < kMostOriginals; ++i) {
    void* there = (*function.originals)[i].load(std::memory_order_acquire);
    if (there == original) return i;
    // Places fill up in order, but one whose library went away is filled again.
    if (there == nullptr && (*function.originals)[i].compare_exchange_strong(there, original)) return i;
    if (there == original) return i;
  }
  return kMostOriginals;
}

}  // namespace pitot::cuda_calls

#endif  // PITOT_LIB_COLLECT_CUDA_CALLS_FUNCTION_H_
