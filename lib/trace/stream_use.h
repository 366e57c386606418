// SPDX-License-Identifier: Apache-2.0
//
// Passes on what a thread does with streams of a GPU: from who sees the calls (collect/cuda_calls) to who measures the
// GPU's work (collect/cuda_events). Either works without the other.
#ifndef PITOT_LIB_TRACE_STREAM_USE_H_
#define PITOT_LIB_TRACE_STREAM_USE_H_

#include <atomic>
#include <cstdint>

namespace pitot::trace {

// Called on the threads of the calls, before each.
struct StreamWatcher {
  void (*launch)(void* stream) noexcept;  // work is enqueued on the stream
  void (*wait)(void* stream) noexcept;    // the thread may wait for the stream, for all of them, or for something else
  void (*destroy)() noexcept;             // a stream is destroyed, or all of a device
};
// No handles of streams.
inline void* const kEveryStream = reinterpret_cast<void*>(~uintptr_t{0});  // NOLINT(performance-no-int-to-ptr)
inline void* const kNoStream = reinterpret_cast<void*>(~uintptr_t{1});     // NOLINT(performance-no-int-to-ptr)

extern std::atomic<const StreamWatcher*> g_stream_watcher;  // null: none. It must live as long as the process.

// Launches and enqueued copies of this thread in the batch that it began last. The collector of the calls counts them,
// and the batch's end has them.
struct Launches {
  uint64_t batch = 0;  // id
  uint64_t ticks = 0;  // in the calls
  uint32_t count = 0;
};
inline constinit thread_local Launches t_launches;
// In one word of an event: the number, at most 2^24 - 1, and the ticks, at most 2^40 - 1.
inline constexpr uint32_t kLaunchTickBits = 40;
inline uint64_t Packed(const Launches& launches) {
  constexpr uint64_t kMostTicks = (uint64_t{1} << kLaunchTickBits) - 1, kMostCount = (uint64_t{1} << 24) - 1;
  return (launches.count < kMostCount ? launches.count : kMostCount) << kLaunchTickBits |
         (launches.ticks < kMostTicks ? launches.ticks : kMostTicks);
}

// True while this thread looks up functions of CUDA for Pitot, whose calls are nobody's.
inline constinit thread_local bool t_is_own_look_up = false;

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_STREAM_USE_H_
