// SPDX-License-Identifier: Apache-2.0
//
// A thread's time spent loading or compiling code: scopes named "compile: ", and the function. The Python package
// records them (docs/guide/python.md#compilation), and so may the host.
#ifndef PITOT_LIB_ANALYZE_BLAME_COMPILES_H_
#define PITOT_LIB_ANALYZE_BLAME_COMPILES_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyze/blame/walk_threads.h"

namespace pitot::blame {

class Compiles {
 public:
  // O(events). Keeps a reference to the trace.
  explicit Compiles(const model::Trace& trace);

  bool are_recorded() const { return !of_threads_.empty(); }
  // Whether an event is such a scope. O(1).
  bool Is(uint32_t event) const { return event != model::kNone && !Function(event).empty(); }
  // "Triton kernel _topk"; "" of other events.
  std::string_view Function(uint32_t event) const;
  // The innermost such scope's stretch before `at_ns`, as Threads::Before. Without one its event is kNone. O(log n).
  Piece Before(uint32_t thread, int64_t at_ns) const;

 private:
  struct Scope {
    int64_t begin_ns, end_ns;
    uint32_t event;
    int64_t latest_end_ns;  // of this and the thread's earlier ones
  };
  const model::Trace& trace_;
  std::vector<std::vector<Scope>> of_threads_;  // by begin; empty: there are none
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_COMPILES_H_
