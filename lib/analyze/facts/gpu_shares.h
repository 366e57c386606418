// SPDX-License-Identifier: Apache-2.0
//
// What each thing that a GPU did counts for of the time in which the GPU was busy, and of that in which nothing hid it.
#ifndef PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_
#define PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "pitot/model/index.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

// Time in units of 2^-48 ns, so that thirds of a ns add up to it closely.
__extension__ typedef unsigned __int128 FineNs;
inline constexpr int kFineBits = 48;
inline FineNs Fine(int64_t ns) { return static_cast<FineNs>(ns) << kFineBits; }
inline int64_t Round(FineNs fine) { return static_cast<int64_t>((fine + (FineNs{1} << (kFineBits - 1))) >> kFineBits); }
// `fine` x `part` / `whole`, rounded down; `part` is at most `whole`.
inline FineNs PartOf(FineNs fine, int64_t part, int64_t whole) {
  const auto divisor = static_cast<FineNs>(whole), factor = static_cast<FineNs>(part);
  return fine / divisor * factor + fine % divisor * factor / divisor;
}
// Whole ns that add up to Round(sum of `parts`): each rounded down, and what is left to the largest fractions, of
// equal ones to the first. `whole` is what these are parts of, rounded so, if anything: none becomes more than that.
std::vector<int64_t> RoundTogether(const std::vector<FineNs>& parts, const std::vector<int64_t>* whole = nullptr);

// The time of a row of `gpu` within the window, empty where it is outside; and whether it is in it, if only a moment.
model::Interval InWindow(const model::Trace& trace, uint32_t gpu_row);
bool IsInWindow(const model::Trace& trace, uint32_t gpu_row);

// Of each row of `gpu`, 0 for spans: the time in which its device worked, at each moment divided equally between what
// it did then; and of that what no thread's work for the same batch or request hid (top.h says when).
struct GpuShares {
  std::vector<FineNs> busy, exposed;
};
// O(n log n).
GpuShares FindGpuShares(const model::Trace& trace);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_
