// SPDX-License-Identifier: Apache-2.0
//
// CUPTI's newest records, kept in the black box (trace/last_rows.h).
#ifndef PITOT_LIB_COLLECT_CUPTI_LAST_WORK_H_
#define PITOT_LIB_COLLECT_CUPTI_LAST_WORK_H_

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "collect/cupti/records.h"
#include "trace/last_rows.h"

namespace pitot::cupti {

class LastWork {
 public:
  // `tables` outlive it.
  explicit LastWork(const Tables* tables) : tables_(*tables) {}
  // Keeps kernels, copies, sets and graphs, if there is a black box. Thread: the decoding one. Throws bad_alloc.
  void Add(std::span<const GpuRecord> records);

 private:
  uint32_t TextOf(const GpuRecord& record);

  const Tables& tables_;
  std::unordered_map<uint64_t, uint32_t> texts_;  // their numbers, by activity and name
  std::vector<trace::LastWork> rows_;
};

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_LAST_WORK_H_
