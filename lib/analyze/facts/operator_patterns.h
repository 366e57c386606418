// SPDX-License-Identifier: Apache-2.0
//
// Operator patterns of a framework that have a cheaper way (a22), found in one pass over each thread's operators.
#ifndef PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_
#define PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "analyze/facts/evidence.h"
#include "pitot/model/indexes.h"

namespace pitot::facts {

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
  int64_t unaligned_gpu_ns = 0;        // GPU time launched by `unaligned`
  uint64_t operators_of_requests = 0;  // in the context of a request or batch
};

// Finds the patterns. Two follow torch/profiler/_pattern_matcher.py (PyTorch 2): ExtraCUDACopyPattern and
// MatMulDimInFP16Pattern; the others are made for servers. O(n log n) of operators and calls.
OperatorPatterns FindOperatorPatterns(const model::Trace& trace, const model::Indexes& indexes);

// Whether a product's factors are all halves ("64x100 f16, 100x64 f16") and some size is not a multiple of 8.
bool IsUnalignedHalf(std::string_view shapes);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_OPERATOR_PATTERNS_H_
