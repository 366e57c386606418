// SPDX-License-Identifier: Apache-2.0
//
// How long scopes that requests waited for usually take, in bounded memory: so that a verdict's evidence says of a
// scope not only how long it took, but what is normal.
#ifndef PITOT_ANALYZE_SCOPES_H_
#define PITOT_ANALYZE_SCOPES_H_

#include <stdint.h>

#include <string>
#include <string_view>
#include <vector>

#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

class Baseline;  // pitot/analyze/baseline.h keeps and saves them
struct Verdict;  // pitot/analyze/verdict.h

// Counts durations in buckets a sixteenth of an octave wide at most (as HdrHistogram does): a quantile is off by at
// most 1/32 (3.1 %) of the value at its rank, q (n - 1) rounded. From 1 us to 137 s; what is beyond counts as that.
// Once it holds kMost all counts are halved: of two durations, the newer counts more. 868 bytes.
class PITOT_EXPORT DurationSketch {
 public:
  static constexpr uint32_t kMost = 8192;
  void Add(int64_t ns) noexcept;
  uint32_t size() const noexcept { return size_; }
  int64_t Quantile(double q) const noexcept;  // 0 of none

 private:
  friend class Baseline;
  static constexpr uint32_t kFirst = 10, kOctaves = 27, kParts = 16;  // from 2^10 ns on
  static uint32_t BucketOf(int64_t ns) noexcept;
  uint32_t size_ = 0;
  uint16_t counts_[kOctaves * kParts] = {};
};

// A sketch for each scope of a route. Threads: one at a time.
class PITOT_EXPORT ScopeTimes {
 public:
  static constexpr size_t kMostScopes = 256;  // 240 KiB; of more nothing is kept
  // The scopes that a normal request's walk came past, each once. Errors: kResourceExhausted.
  Status Add(const BlameIndex& index, const RequestBlame& blame) noexcept;
  // Null: not known.
  const DurationSketch* Find(std::string_view route, std::string_view scope) const noexcept;
  // "scope       "decode" took 8.1 ms; normally p50 2.0, p99 3.1 (of 214)" for the scopes that prove the verdict's
  // causes, where at least 20 are known, wrapped at `columns`. Throws std::bad_alloc.
  std::string Text(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                   size_t columns = 100) const;

 private:
  friend class Baseline;
  struct Cell {
    std::string route, scope;
    DurationSketch sketch;
  };
  std::vector<Cell> cells_;
};

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_SCOPES_H_
