// SPDX-License-Identifier: Apache-2.0
//
// Which calls of the CUDA API are recorded, and the callback that records them in the ring of the thread that calls.
#ifndef PITOT_LIB_COLLECT_CUPTI_CALLS_H_
#define PITOT_LIB_COLLECT_CUPTI_CALLS_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collect/cupti/api.h"
#include "collect/cupti/lasting_cost.h"
#include "collect/cupti/stream_ids.h"
#include "pitot/trace.h"
#include "trace/calls.h"

namespace pitot::cupti {

// "cudaLaunchKernel" of "__cudaLaunchKernel_ptsz_v13000", "cuMemAlloc" of "cuMemAlloc_v2": one name for what does the
// same.
std::string PlainName(std::string_view name);
// Launches, graphs, copies, sets, synchronisation, memory, modules: what can make a request slow.
bool IsRecorded(std::string_view plain_name);
// Launches, copies, sets: what puts work on a GPU, of which CUPTI makes records.
bool IsSubmission(std::string_view plain_name);

class ApiCalls {
 public:
  struct Id {
    Domain domain;
    uint32_t callback_id;
    uint8_t level;  // of SetLevel, from which on it is recorded: 1, launches of graphs, or 2
  };

  // Asks the library for the names of its callbacks; where it does not say them (cuptiGetCallbackName is missing), the
  // launches alone by their numbers of CUDA 11 to 13. Throws bad_alloc.
  void Find(const Api& api);
  const std::vector<Id>& ids() const { return ids_; }
  // Those that are not recorded.
  const std::vector<Id>& others() const { return others_; }
  bool IsRecorded(Domain domain, uint32_t callback_id) const noexcept { return NameOf(domain, callback_id).index != 0; }
  // Of a recorded callback; "(other)" for those that are not.
  Name NameOf(Domain domain, uint32_t callback_id) const noexcept;
  CallKind KindOf(Domain domain, uint32_t callback_id) const noexcept;

  // What CUPTI calls before and after each call, on the host's threads. Of calls inside calls only the outermost is
  // recorded: GPU records carry its correlation. Cost: as a scope.
  void OnCallback(Domain domain, uint32_t callback_id, const CallbackData& data) noexcept;
  // Which calls are recorded: none (0), launches of graphs (1), all (2); or, `is_look`, told to lasting_cost() rather
  // than recorded. CUPTI must tell of them from before this until after the next: of a call that is under way when it
  // no longer does the end may not be told, and what follows is not taken to be inside it.
  void SetLevel(uint8_t level, bool is_look) noexcept;
  LastingCost& lasting_cost() noexcept { return lasting_cost_; }
  // Of the streams that are waited for.
  StreamIds& stream_ids() noexcept { return stream_ids_; }
  // Recorded calls that put work on a GPU; about: of more than kStripes threads, two that race may lose some.
  uint64_t submissions() const noexcept;
  // Calls of which only the beginning or only the end was told: recording was switched on or off meanwhile. About: of
  // those whose end was not told a thread counts the last, when it next makes a call that is recorded; a call of the
  // runtime's and the driver's inside it may count for two.
  uint64_t missed() const noexcept { return missed_.load(std::memory_order_relaxed); }

 private:
  // What a call waits for.
  enum class WaitsFor : uint8_t {
    kUnknown,
    kStream,           // its parameter
    kPerThreadStream,  // likewise; the default one is the thread's
    kContext,          // all of the current one
  };
  static WaitsFor WaitsForOf(std::string_view name);
  trace::Awaited AwaitedBy(WaitsFor what, const CallbackData& data) noexcept;
  void CountSubmission() noexcept;
  void CountMissed() noexcept { missed_.fetch_add(1, std::memory_order_relaxed); }

  static constexpr uint32_t kMostCallbacks = 1024;  // of one domain
  static constexpr uint32_t kStripes = 16;
  // A thread writes its own: one line for all would go from CPU to CPU with every launch.
  struct alignas(64) Stripe {
    std::atomic<uint64_t> submissions{0};
  };

  std::vector<Id> ids_, others_;
  std::array<uint32_t, kMostCallbacks> names_[2]{};  // indices of Names, of the driver's and of the runtime's; 0: none
  std::array<CallKind, kMostCallbacks> kinds_[2]{};  // likewise
  std::array<uint8_t, kMostCallbacks> levels_[2]{};  // likewise; 0: not recorded
  std::array<bool, kMostCallbacks> is_submission_[2]{};  // likewise
  std::array<WaitsFor, kMostCallbacks> waits_for_[2]{};  // likewise
  StreamIds stream_ids_;
  std::atomic<bool> is_looking_{false};
  LastingCost lasting_cost_;
  std::atomic<uint64_t> missed_{0};
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_CALLS_H_
