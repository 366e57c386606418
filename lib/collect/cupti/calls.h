// SPDX-License-Identifier: Apache-2.0
//
// The recorded calls of the CUDA API, and the callback that records them in the calling thread's ring.
#ifndef PITOT_LIB_COLLECT_CUPTI_CALLS_H_
#define PITOT_LIB_COLLECT_CUPTI_CALLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/call_class.h"
#include "collect/cupti/api.h"
#include "collect/cupti/lasting_cost.h"
#include "collect/cupti/stream_ids.h"
#include "pitot/extend/call.h"
#include "pitot/trace.h"

namespace pitot::cupti {

inline constexpr char kCollectorName[] = "cupti";

// "cudaLaunchKernel" for "__cudaLaunchKernel_ptsz_v13000", "cuMemAlloc" for "cuMemAlloc_v2": one name for functions
// that do the same.
std::string PlainName(std::string_view name);
// Launches, graphs, copies, sets, synchronisation, memory, modules: calls that can make a request slow.
bool IsRecorded(std::string_view plain_name);

class ApiCalls {
 public:
  struct Id {
    Domain domain;
    uint32_t callback_id;
    uint8_t level;  // of SetLevel, from which on it is recorded: 1, launches of graphs, or 2
  };

  // Asks the library for the names of its callbacks. If it cannot tell (cuptiGetCallbackName is missing), takes the
  // launches alone, by their numbers in CUDA 11 to 13. Throws bad_alloc.
  void Find(const Api& api);
  const std::vector<Id>& ids() const { return ids_; }
  // The calls that are not recorded.
  const std::vector<Id>& others() const { return others_; }
  bool IsRecorded(Domain domain, uint32_t callback_id) const noexcept { return NameOf(domain, callback_id).index != 0; }
  // The name of a recorded callback; "(other)" for others.
  Name NameOf(Domain domain, uint32_t callback_id) const noexcept;
  base::CallClass ClassOf(Domain domain, uint32_t callback_id) const noexcept;

  // CUPTI calls this before and after each call, on the host's threads. Only the outermost of nested calls is recorded:
  // GPU records carry its correlation. Cost: as a scope.
  void OnCallback(Domain domain, uint32_t callback_id, const CallbackData& data) noexcept;
  // Chooses the recorded calls: none (0), launches of graphs (1), all (2). With `is_look` they go to lasting_cost()
  // instead. CUPTI must report them from before this call until after the next. If it stops reporting during a call,
  // the end of that call may be missing, and later calls are not taken to be inside it. One thread at a time.
  void SetLevel(uint8_t level, bool is_look) noexcept;
  LastingCost& lasting_cost() noexcept { return lasting_cost_; }
  // Ids of the awaited streams.
  StreamIds& stream_ids() noexcept { return stream_ids_; }
  // Recorded calls that put work on a GPU. Approximate: with more than kStripes threads, two in a race may lose some.
  uint64_t submissions() const noexcept;
  // Calls with only their beginning or only their end reported, because recording was switched meanwhile. Approximate:
  // a thread counts only the last call without an end, at its next recorded call. A call of the runtime and the
  // driver's call inside it may count as two.
  uint64_t missed() const noexcept { return missed_.load(std::memory_order_relaxed); }

 private:
  // The object of a wait.
  enum class WaitsFor : uint8_t {
    kUnknown,
    kStream,           // the one in its parameters
    kPerThreadStream,  // likewise; the default one is the thread's
    kContext,          // all streams of the current context
  };
  static WaitsFor WaitsForOf(std::string_view name);
  // The target of a wait, into the call. Only for a successful call that has not returned: its stream is then still
  // there, and the handle names no other.
  void AddAwaited(WaitsFor what, const CallbackData& data, DeviceCall* call) noexcept;
  // The level from which on the call is recorded; 0: it is not.
  uint8_t LevelOf(Domain domain, uint32_t callback_id) const noexcept {
    return callback_id < kMostCallbacks ? levels_[domain - kDriverApi][callback_id] : 0;
  }
  void CountSubmission() noexcept;
  void CountMissed() noexcept { missed_.fetch_add(1, std::memory_order_relaxed); }

  static constexpr uint32_t kMostCallbacks = 1024;  // of one domain
  static constexpr uint32_t kStripes = 16;
  // A thread writes its own: a line for all would go from CPU to CPU with every launch.
  struct alignas(64) Stripe {
    std::atomic<uint64_t> submissions{0};
  };

  const Name collector_name_ = Intern(kCollectorName);
  std::vector<Id> ids_, others_;
  std::array<uint32_t, kMostCallbacks> names_[2]{};  // indices of Names, of the driver's and of the runtime's; 0: none
  std::array<base::CallClass, kMostCallbacks> classes_[2]{};  // likewise
  std::array<uint8_t, kMostCallbacks> levels_[2]{};           // likewise; 0: not recorded
  std::array<WaitsFor, kMostCallbacks> waits_for_[2]{};       // likewise
  StreamIds stream_ids_;
  LastingCost lasting_cost_;
  std::atomic<uint64_t> missed_{0};
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CALLS_H_
