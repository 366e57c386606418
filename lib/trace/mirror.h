// SPDX-License-Identifier: Apache-2.0
//
// Shows running scopes to others while they run: to another tool (collect/nvtx), or to who measures the GPU's part of
// them (collect/cuda_events). The gate without kFastClock, which the slow clock uses already, leads there: without a
// mirror a scope does not cost a single instruction more.
#ifndef PITOT_LIB_TRACE_MIRROR_H_
#define PITOT_LIB_TRACE_MIRROR_H_

#include <array>
#include <atomic>
#include <cstdint>

#include "pitot/trace.h"

namespace pitot::trace {

// Called on the threads of the scopes. `name` is for a site that is named at run time. An end may come without its
// begin (the scope began before the mirror), and a begin without its end (the scope ended on another thread).
struct Mirror {
  void (*begin)(const Site* site, Name name) noexcept;
  void (*end)() noexcept;
  // What the thread works for changes: the batch, or outside of batches the request; 0: nothing. `executor` is that of
  // a new batch, otherwise none. May be null.
  void (*work)(uint64_t id, Name executor) noexcept = nullptr;
};

// One mirror for each use.
enum class MirrorUse : uint8_t { kTool, kLayers };
inline constexpr size_t kMirrorUses = 2;

// Mirrors scopes to `mirror`, which must live as long as the process, from now on. Null: scopes that begin later are
// not mirrored, but mirrored ones still get their end. The recorder's end has the effect of null.
void SetMirror(MirrorUse use, const Mirror* mirror) noexcept;

// Used by the slow clock.
struct MirrorSlot {
  std::atomic<const Mirror*> mirror{nullptr};  // stays set after mirroring ends
  std::atomic<bool> is_on{false};
};
extern std::array<MirrorSlot, kMirrorUses> g_mirrors;
extern std::atomic<bool> g_is_os_clock;  // which clock the slow path reads; true while no recorder runs

}  // namespace pitot::trace

#endif  // PITOT_LIB_TRACE_MIRROR_H_
