// SPDX-License-Identifier: Apache-2.0
//
// Finished work of devices: the newest, in a ring of fixed size. Threads of the driver write, Keep copies a window
// under the same lock, and AddTo reads the copy.
#ifndef PITOT_LIB_COLLECT_OPENCL_HISTORY_H_
#define PITOT_LIB_COLLECT_OPENCL_HISTORY_H_

#include <cstdint>
#include <memory>

#include "base/mutex.h"
#include "pitot/extend/collector.h"
#include "pitot/trace.h"

namespace pitot::opencl {

// No initialisers, so memory stays untouched until it is written.
struct Work {
  int64_t begin_ns, duration_ns;
  uint64_t bytes;
  uint32_t correlation;
  Name name;
  uint16_t queue, device;  // their places in Queues
  GpuKind kind;
  bool has_shape;  // below; false if the driver chose the block
  uint32_t grid[3], block[3];
};
static_assert(sizeof(Work) == 64);

class History {
 public:
  // Throws bad_alloc.
  void Reserve(uint64_t memory_bytes);
  void Add(const Work& work) noexcept;
  // Copies the work ending at `begin_ns` or later.
  void Keep(int64_t begin_ns) noexcept;

  // Never at the same time as Keep.
  const Work* kept_begin() const { return kept_.get(); }
  const Work* kept_end() const { return kept_.get() + kept_count_; }
  // When the newest work without room ended, if that is in the window; 0: all is there.
  int64_t lost_until_ns() const { return lost_until_ns_; }

 private:
  base::Mutex mutex_;
  uint64_t capacity_ PITOT_GUARDED_BY(mutex_) = 0;
  std::unique_ptr<Work[]> ring_ PITOT_GUARDED_BY(mutex_);
  uint64_t written_ PITOT_GUARDED_BY(mutex_) = 0;               // since Reserve
  int64_t newest_overwritten_ns_ PITOT_GUARDED_BY(mutex_) = 0;  // when it ended

  std::unique_ptr<Work[]> kept_;
  uint64_t kept_count_ = 0;
  int64_t lost_until_ns_ = 0;
};

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_HISTORY_H_
