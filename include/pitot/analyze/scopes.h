// SPDX-License-Identifier: Apache-2.0
//
// Remembers in bounded memory how long scopes on requests' paths usually take. The evidence of a verdict then says not
// only how long a scope took, but also what is normal.
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

// Counts durations in buckets at most a sixteenth of an octave wide (as HdrHistogram does). A quantile differs by at
// most 1/32 (3.1 %) from the value at its rank, q (n - 1) rounded. Covers 1 us to 137 s; values outside count as the
// nearest bound. When it holds kMost durations all counts are halved, so newer ones weigh more. 868 bytes.
class PITOT_EXPORT DurationSketch {
 public:
  static constexpr uint32_t kMost = 8192;
  void Add(int64_t ns) noexcept;
  uint32_t size() const noexcept { return size_; }
  int64_t Quantile(double q) const noexcept;  // 0 if empty

 private:
  friend class Baseline;
  static constexpr uint32_t kFirst = 10, kOctaves = 27, kParts = 16;  // from 2^10 ns on
  static uint32_t BucketOf(int64_t ns) noexcept;
  uint32_t size_ = 0;
  uint16_t counts_[kOctaves * kParts] = {};
};

// A sketch for each scope of a route.
// Threads: one at a time.
class PITOT_EXPORT ScopeTimes {
 public:
  static constexpr size_t kMostScopes = 256;  // 240 KiB; further scopes are not kept
  // Adds each scope on the path of a normal request's walk, once.
  // Errors: kResourceExhausted.
  Status Add(const BlameIndex& index, const RequestBlame& blame) noexcept;
  // Null: not known.
  const DurationSketch* Find(std::string_view route, std::string_view scope) const noexcept;
  // "scope       "decode" took 8.1 ms; normally p50 2.0, p99 3.1 (of 214)" for the scopes that prove the verdict's
  // causes, if at least 20 durations are known. Wrapped at `columns`. Throws std::bad_alloc.
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
