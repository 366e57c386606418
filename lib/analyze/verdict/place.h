// SPDX-License-Identifier: Apache-2.0
//
// The places of a request's time, in words that are the same for the same place: "in queue "pictures"", "gemm",
// "cudaMalloc in "forward" on executor".
#ifndef PITOT_LIB_ANALYZE_VERDICT_PLACE_H_
#define PITOT_LIB_ANALYZE_VERDICT_PLACE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/why.h"

namespace pitot::verdict {

std::string QuotedName(std::string_view name);
std::string ThreadName(const model::Trace& trace, uint32_t thread);
std::string ResourceName(const model::Trace& trace, uint32_t event);  // of a recorded wait; "" if it names none
std::string GpuWorkName(const model::Trace& trace, uint32_t op);      // cut as in every line

std::string MembersText(const model::Trace& trace,
                        uint32_t batch);  // "request 0000000000008f0c of /segment and 3 more"
// "2578 prompt_tokens, typical 55", if it is much more than its route's usual size; otherwise "". O(requests).
std::string SizeText(const model::Trace& trace, uint32_t request);
// "in async span "db query", usually 9.00 ms".
std::string SpanPlace(const model::Trace& trace, const blame::SlowSpan& span);
// What a request did in time that was not recorded, if a span shows it: "spent 100 ms in async span "db query", usually
// 9.00 ms".
std::string SpanText(const blame::Index& index, const RequestBlame& blame);
// ", because the CPU quota was used up", of a wait for a CPU that was no longer than the quota's throttling meanwhile.
std::string QuotaText(const blame::Index& index, const RequestBlame& blame, Blame of, int64_t ns);
// ", tenant acme": the labels that set it apart from the request asked about.
std::string OtherLabels(const model::Trace& trace, uint32_t request, uint32_t asked);

// Remembers names of kernels, because reading them takes long.
class Places {
 public:
  explicit Places(const blame::Index& index) : index_(index), trace_(index.trace) {}

  // The place of a segment; "" if it was not recorded. Stacks say where it was blocked: "in recv below fetch
  // (app.py:88) on http".
  std::string Of(const BlameSegment& segment);
  // The same with arguments of its scope that are larger than usual: "in "forward" (n_prompt 2578, usually 55) on
  // engine". O(events).
  std::string Text(const BlameSegment& segment);

  struct Most {
    int64_t ns = 0;
    uint32_t longest = model::kNone;  // of the segments there
  };
  // The place with most time among `segments` (rows of `all`, the longest first). O(n log n) in at most 10,000 of them:
  // 20 ms.
  Most Find(const std::vector<BlameSegment>& all, const std::vector<uint32_t>& segments);

 private:
  std::string Words(const BlameSegment& segment, const std::string& arguments);
  std::string_view CompiledBy(const BlameSegment& segment) const;  // the function; "" if none was compiled

  const blame::Index& index_;
  const model::Trace& trace_;
  std::unordered_map<model::StringId, std::string> kernels_;
};

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_PLACE_H_
