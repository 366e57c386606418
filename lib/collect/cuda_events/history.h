// SPDX-License-Identifier: Apache-2.0
//
// Finished spans, and the names of their devices. The collector's thread writes.
#ifndef PITOT_LIB_COLLECT_CUDA_EVENTS_HISTORY_H_
#define PITOT_LIB_COLLECT_CUDA_EVENTS_HISTORY_H_

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "base/mutex.h"
#include "base/newest.h"
#include "collect/cuda_events/pools.h"
#include "pitot/extend/collector.h"

namespace pitot::cuda_events {

// No initialisers, so memory stays untouched until it is written.
struct Span {
  int64_t begin_ns;
  int64_t duration_ns;
  uint32_t name;  // index of a Name
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t device;
  uint32_t error_us;  // of begin_ns, at most
};
static_assert(sizeof(Span) == 40);

class History {
 public:
  // Throws bad_alloc.
  explicit History(uint64_t memory_bytes) : spans_(memory_bytes) {}

  void Add(const Span& span) noexcept;
  void NameDevice(uint32_t device, const char* name) noexcept;
  // Copies the spans ending at `begin_ns` or later.
  void Keep(int64_t begin_ns) noexcept { spans_.Keep(begin_ns); }
  std::span<const Span> kept() const noexcept { return spans_.kept(); }
  // Never at the same time as Keep.
  void AddTo(TraceBuilder& trace) const;

 private:
  struct Device {
    uint32_t ordinal = 0;
    char name[96] = "";  // "": none
  };

  uint32_t LastTextOf(uint32_t name) noexcept;

  base::Newest<Span> spans_;
  std::unordered_map<uint32_t, uint32_t> last_texts_;  // by name: their numbers in the black box
  mutable base::Mutex mutex_;
  std::array<Device, kMaxContexts> devices_ PITOT_GUARDED_BY(mutex_);
};

}  // namespace pitot::cuda_events

#endif  // PITOT_LIB_COLLECT_CUDA_EVENTS_HISTORY_H_
