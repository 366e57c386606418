// SPDX-License-Identifier: Apache-2.0
//
// What operators of a framework do that has a cheaper way (A22), found in one pass over each thread's operators.
#ifndef PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_
#define PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyze/catalogue/evidence.h"
#include "pitot/model/indexes.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Occurrences of a pattern.
struct Pattern {
  explicit Pattern(const char* note) : longest(EvidenceTable::kEvents, note) {}
  void Show(uint32_t event, model::Interval time) {
    ++count;
    times.push_back(time);
    longest.Show(event, time);
  }
  uint64_t count = 0;
  std::vector<model::Interval> times;
  Longest longest;
};

struct OperatorPatterns {
  Pattern on_host{"computed on the CPU"};
  Pattern copied{"made on the CPU, then copied to the GPU"};
  Pattern unaligned{"a product of halves with a size that is not a multiple of 8"};
  Pattern autograd{"numbered by autograd, or a backward"};
  int64_t unaligned_gpu_ns = 0;        // of what `unaligned` launched
  uint64_t operators_of_requests = 0;  // in the context of a request or batch
};

// After torch/profiler/_pattern_matcher.py (PyTorch 2): ExtraCUDACopyPattern, MatMulDimInFP16Pattern; the others are of
// servers. O(n log n) of operators and calls.
OperatorPatterns FindOperatorPatterns(const model::Trace& trace, const model::Indexes& indexes);

// Whether the sizes of a product's factors, "64x100 f16, 100x64 f16", are not all multiples of 8, of halves alone.
bool IsUnalignedHalf(std::string_view shapes);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_
