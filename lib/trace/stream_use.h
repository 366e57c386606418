// SPDX-License-Identifier: Apache-2.0
//
// Passes on what a thread does with streams of a GPU: from who sees the calls (collect/cuda_calls) to who measures the
// GPU's work (collect/cuda_events). Either works without the other.
#ifndef PITOT_LIB_TRACE_STREAM_USE_H_
#define PITOT_LIB_TRACE_STREAM_USE_H_

#include <atomic>
#include <cstdint>

#include "pitot/extend/call.h"

namespace pitot::trace {

// Called on the threads of the calls, before each.
struct StreamWatcher {
  void (*launch)(void* stream, void* graph) noexcept;  // work is enqueued: the executable graph, or null: anything else
  void (*wait)(void* stream) noexcept;  // the thread may wait for the stream, for all of them, or for something else
  void (*destroy)() noexcept;           // a stream is destroyed, or all of a device
  // The stream as the target of a wait, or (kEveryStream) all those of the current context. It is left alone if its
  // number is not known, or while it is captured. The caller is in a call that names the stream.
  void (*add_target)(void* stream, DeviceCall* call) noexcept;
};
// No handles of streams.
inline void* const kEveryStream = reinterpret_cast<void*>(~uintptr_t{0});  // NOLINT(performance-no-int-to-ptr)
inline void* const kNoStream = reinterpret_cast<void*>(~uintptr_t{1});     // NOLINT(performance-no-int-to-ptr)

extern std::atomic<const StreamWatcher*> g_stream_watcher;  // null: none. It must live as long as the process.

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_STREAM_USE_H_
