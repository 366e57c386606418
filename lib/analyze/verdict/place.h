// SPDX-License-Identifier: Apache-2.0
//
// Where a request's time was, in words that are the same for the same place: "in queue "pictures"", "gemm",
// "cudaMalloc in "forward" on executor".
#ifndef PITOT_LIB_ANALYZE_VERDICT_PLACE_H_
#define PITOT_LIB_ANALYZE_VERDICT_PLACE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pitot/analyze/why.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

std::string QuotedName(std::string_view name);
std::string ThreadName(const model::Trace& trace, uint32_t thread);
std::string ResourceName(const model::Trace& trace, uint32_t event);  // of a recorded wait; "" where it names none
std::string GpuWorkName(const model::Trace& trace, uint32_t op);      // cut as in every line

// Remembers names of kernels, which take long to read.
class Places {
 public:
  explicit Places(const model::Trace& trace) : trace_(trace) {}

  // "" of what nobody recorded.
  std::string Of(const BlameSegment& segment);

  struct Most {
    int64_t ns = 0;
    uint32_t longest = model::kNone;  // of the segments there
  };
  // Which of `segments` (rows of `all`, the longest first) are in the place that has most of their time. O(n log n),
  // of at most 10,000 of them: 20 ms.
  Most Find(const std::vector<BlameSegment>& all, const std::vector<uint32_t>& segments);

 private:
  const model::Trace& trace_;
  std::unordered_map<model::StringId, std::string> kernels_;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_PLACE_H_
