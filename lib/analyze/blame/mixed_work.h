// SPDX-License-Identifier: Apache-2.0
//
// Batches that took longer for the work of single members: a prompt next to the next tokens of others (continuous
// batching), or a large image among small ones (docs/reference/walk.md#mixed-work).
#ifndef PITOT_LIB_ANALYZE_BLAME_MIXED_WORK_H_
#define PITOT_LIB_ANALYZE_BLAME_MIXED_WORK_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "analyze/blame/contexts.h"
#include "analyze/blame/namespace.h"
#include "pitot/model/trace.h"

namespace pitot::blame {

// The member's work as Join gave it; 0: not known. Limited, so that sums are finite.
double GivenWork(const model::MemberRow& member);

// Work comes from Batch::Join. For an executor without it a member without a token yet reads its prompt, and its work
// is the request's size, divided by its iterations.
class MixedWork {
 public:
  // O(events + members log members). Keeps no reference to the trace.
  MixedWork(const model::Trace& trace, const Contexts& contexts);

  // A member with much more work than usual.
  struct Part {
    uint32_t request = model::kNone;
    double share = 0;           // of the batch's time; 0: it lengthened nothing
    double work = 0;            // in this batch; 0: inferred, not given
    double typical = 0;         // the median member's work on this executor
    double usual = 0;           // the median of the most that each request brings to a batch there; 0: not known
    bool is_time_known = true;  // the usual time of so much work is known
  };
  enum class Doubt : uint8_t { kNone, kNoSize, kFewPrompts, kNoWork, kFewLike };
  struct Of {
    std::span<const Part> parts;  // the largest first
    Doubt doubt = Doubt::kNone;   // nothing tells whether that work or something else took longer
  };
  Of OfBatch(uint32_t batch) const {
    const Range& range = of_[batch];
    return {std::span(parts_).subspan(range.first, range.count), range.doubt};
  }
  // The unit of an executor's work: as said at Batch::Begin, otherwise "tokens" if its members put out tokens.
  const std::string& UnitOf(model::StringId executor) const;
  // "2,578 tokens in this step, typical 1".
  std::string Text(const model::Trace& trace, uint32_t batch, const Part& part) const;

 private:
  friend class MixedWorkFinder;
  struct Range {
    uint32_t first = 0, count = 0;
    Doubt doubt = Doubt::kNone;
  };
  std::vector<Range> of_;  // by batch
  std::vector<Part> parts_;
  std::map<model::StringId, std::string> units_;  // by executor
  std::string no_unit_ = "units of work";
};

}  // namespace pitot::blame

#endif  // PITOT_LIB_ANALYZE_BLAME_MIXED_WORK_H_
