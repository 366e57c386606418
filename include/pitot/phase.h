// SPDX-License-Identifier: Apache-2.0
//
// Back-to-back stages of a block, with one clock read per boundary: the cheapest kind of record.
//
//   PITOT_PHASES(stages);
//   PITOT_PHASE(stages, "decode");  image = Decode(body);
//   PITOT_PHASE(stages, "resize");  small = Resize(image);
#ifndef PITOT_PHASE_H_
#define PITOT_PHASE_H_

#include "pitot/trace.h"

PITOT_NAMESPACE_BEGIN
namespace detail {
inline namespace layout_2 {

class Phases {
 public:
  PITOT_DETAIL_INLINE Phases() : ring_(nullptr) {}
  Phases(const Phases&) = delete;
  Phases& operator=(const Phases&) = delete;
  PITOT_DETAIL_INLINE ~Phases() { End(); }
  PITOT_DETAIL_INLINE void Next(const Site* site) {
    Ring* ring = ring_;
    if (ring == nullptr || ring != t_ring || ring->depth != depth_ + 1) return Begin(site);
    // A block may outlive its recorder: the next phase then looks for a ring again, or records nothing.
    if (__builtin_expect(ring->gate != __atomic_load_n(&g_gate, __ATOMIC_RELAXED), 0)) return Begin(site);
    const uint64_t now = Clock(ring->gate, Edge::kNext, site);
    Append(ring, site_, begin_, now, ArgList<>{});
    if (__builtin_expect(depth_ < kMaxOpen, 1)) {
      OpenScope& open = ring->open[depth_];
      __atomic_store_n(&open.begin, 0, __ATOMIC_RELEASE);
      __atomic_store_n(&open.site, site, __ATOMIC_RELEASE);
      __atomic_store_n(&open.begin, now, __ATOMIC_RELEASE);
    }
    site_ = site, begin_ = now;
  }
  PITOT_DETAIL_INLINE void End() {
    if (Ring* ring = ring_) {
      ring_ = nullptr;
      if (__builtin_expect(ring != t_ring, 0)) return CloseElsewhere();
      const uint64_t now = Clock(ring->gate, Edge::kEnd);
      Append(ring, site_, begin_, now, ArgList<>{});
      Pop(ring, depth_);
    }
  }

 private:
  void Begin(const Site* site) {
    End();
    ring_ = Enter();
    if (ring_ == nullptr) return;
    site_ = site, begin_ = Clock(ring_->gate, Edge::kBegin, site), depth_ = ring_->depth;
    Push(ring_, site, begin_);
  }
  Ring* ring_;
  const Site* site_ = nullptr;
  uint64_t begin_ = 0;
  uint32_t depth_ = 0;
};

}  // namespace layout_2
}  // namespace detail
PITOT_NAMESPACE_END

#ifndef PITOT_DISABLED

// Declares the back-to-back phases of a block. Each PITOT_PHASE(phases, "name") ends the previous phase and begins the
// next with one clock read. The last phase ends with the block or with PITOT_PHASES_END(phases).
#define PITOT_PHASES(phases) ::pitot::detail::Phases phases
#define PITOT_PHASE(phases, name)                                                      \
  do {                                                                                 \
    PITOT_DETAIL_SITE(pitot_site, ::pitot::detail::ArgList<>, kPhase, 0, "" name, ""); \
    (phases).Next(&pitot_site);                                                        \
  } while (0)
#define PITOT_PHASES_END(phases) (phases).End()

#else

#define PITOT_PHASES(phases) static_assert(true, "")
#define PITOT_PHASE(phases, name) static_cast<void>(0)
#define PITOT_PHASES_END(phases) static_cast<void>(0)

#endif  // PITOT_DISABLED

#endif  // PITOT_PHASE_H_
