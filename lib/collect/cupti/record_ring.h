// SPDX-License-Identifier: Apache-2.0
//
// The newest records of the GPU, as many as the memory allows.
#ifndef PITOT_LIB_COLLECT_CUPTI_RECORD_RING_H_
#define PITOT_LIB_COLLECT_CUPTI_RECORD_RING_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "collect/cupti/records.h"

namespace pitot::cupti {

// Records come in no order of time: buffers of several threads and streams are completed when they are full.
class RecordRing {
 public:
  // Throws bad_alloc.
  explicit RecordRing(uint64_t most) : records_(most) {}

  void Add(const GpuRecord& record) {
    GpuRecord& place = records_[added_ % records_.size()];
    if (added_ >= records_.size()) {
      ++overwritten_;
      newest_overwritten_ns_ = std::max(newest_overwritten_ns_, place.begin_ns + place.duration_ns);
    }
    place = record;
    ++added_;
  }

  // Calls `visit` for those that end at or after `begin_ns`, the newest added first.
  template <class Visit> void VisitSince(int64_t begin_ns, Visit visit) const {
    const uint64_t held = std::min<uint64_t>(added_, records_.size());
    for (uint64_t i = 0; i < held; ++i) {
      const GpuRecord& record = records_[(added_ - 1 - i) % records_.size()];
      if (record.begin_ns + record.duration_ns >= begin_ns) visit(record);
    }
  }

  uint64_t added() const { return added_; }
  uint64_t overwritten() const { return overwritten_; }
  // Nothing that ended after this is missing; 0: nothing is missing.
  int64_t newest_overwritten_ns() const { return newest_overwritten_ns_; }

 private:
  std::vector<GpuRecord> records_;
  uint64_t added_ = 0;
  uint64_t overwritten_ = 0;
  int64_t newest_overwritten_ns_ = 0;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_RECORD_RING_H_
