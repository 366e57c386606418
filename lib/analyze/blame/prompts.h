// SPDX-License-Identifier: Apache-2.0
//
// Iterations that read a prompt beside the next tokens of others (continuous batching): how much longer they took for
// it (docs/reference/walk.md#prompts-in-an-iteration).
#ifndef PITOT_LIB_ANALYZE_BLAME_PROMPTS_H_
#define PITOT_LIB_ANALYZE_BLAME_PROMPTS_H_

#include <cstdint>
#include <vector>

#include "analyze/blame/namespace.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// A member without a token yet reads its prompt. Its work is the request's size, divided by its iterations.
class Prompts {
 public:
  // O(members log members). Keeps no reference to the trace.
  explicit Prompts(const model::Trace& trace);

  struct Of {
    uint32_t request = model::kNone;  // with the largest prompt; kNone: none was read
    double share = 0;                 // of the iteration's time: beyond the usual time of one without prompts
    bool is_unsure = false;           // nothing tells whether the prompt or something else took longer
    bool has_size = false;            // the lengths of its prompts are known
  };
  Of OfBatch(uint32_t batch) const { return of_[batch]; }

 private:
  std::vector<Of> of_;  // by batch
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_PROMPTS_H_
