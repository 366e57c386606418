// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "analyze/verdict/contradictions.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {
namespace {

// The row that a segment of a blame is about, for `meeting`; kNone: none.
uint32_t RowOf(const BlameSegment& segment, Meeting meeting) {
  return meeting == Meeting::kSameKernels ? segment.gpu : segment.call;
}

// Whether most time of one blame, or of the other, is in kernels or calls shared by both.
bool Meet(const RequestBlame& request, Blame one, Blame other, Meeting meeting) {
  const auto is_shared = [&](Blame part, Blame with) {
    std::unordered_set<uint32_t> rows;
    for (const BlameSegment& segment : request.segments) {
      if (segment.blame == with && RowOf(segment, meeting) != model::kNone) rows.insert(RowOf(segment, meeting));
    }
    int64_t all_ns = 0, shared_ns = 0;
    for (const BlameSegment& segment : request.segments) {
      if (segment.blame != part) continue;
      const int64_t ns = segment.end_ns - segment.begin_ns;
      all_ns += ns;
      shared_ns += rows.count(RowOf(segment, meeting)) != 0 ? ns : 0;
    }
    return 2 * shared_ns > all_ns;
  };
  return is_shared(one, other) || is_shared(other, one);
}

void Contradict(const Exclusion& row, Blame by, Cause* cause) {
  if (*cause->contradicted_by == '\0') cause->confidence *= kContradicted;
  cause->contradicted_by = BlameName(by);
  cause->contradiction = row.why;
}

}  // namespace

void MarkContradictions(const RequestBlame& blame, std::vector<Cause>* causes) {
  ForExclusions([&](const Exclusion& row) {
    for (Cause& one : *causes) {
      if (std::string_view(BlameName(one.blame)) != row.one) continue;
      for (Cause& other : *causes) {
        if (std::string_view(BlameName(other.blame)) != row.other || !Meet(blame, one.blame, other.blame, row.of))
          continue;
        Contradict(row, other.blame, &one);
        Contradict(row, one.blame, &other);
      }
    }
  });
}

}  // namespace pitot::verdict
