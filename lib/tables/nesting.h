// SPDX-License-Identifier: Apache-2.0
//
// The scope around each event of a thread, and its time as the innermost one.
#ifndef PITOT_LIB_TABLES_NESTING_H_
#define PITOT_LIB_TABLES_NESTING_H_

#include <cstdint>
#include <vector>

#include "pitot/model/trace.h"

namespace pitot::tables {

// Knows one thread at a time: ask for events in their order.
class Nesting {
 public:
  explicit Nesting(const model::Trace& trace);
  // The innermost scope around it, or kNone.
  uint32_t Parent(uint32_t event) { return Of(event).parent; }
  // As `pitot top` counts it: in the window, and after the begin of the thread's history.
  int64_t SelfNs(uint32_t event) { return Of(event).self_ns; }

 private:
  struct Nested {
    int64_t self_ns = 0;
    uint32_t parent = model::kNone;
  };
  Nested& Of(uint32_t event);
  void Learn(uint32_t thread);

  const model::Trace& trace_;
  std::vector<bool> is_counted_;  // by site
  uint32_t thread_ = model::kNone;
  std::vector<Nested> nested_;  // of the thread's events
};

}  // namespace pitot::tables

#endif  // PITOT_LIB_TABLES_NESTING_H_
