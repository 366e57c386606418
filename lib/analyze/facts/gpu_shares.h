// SPDX-License-Identifier: Apache-2.0
//
// Each GPU operation's share of the GPU's busy time, and of the part that nothing hid.
#ifndef PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_
#define PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "pitot/model/index.h"

namespace pitot::facts {

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
// Rounds `parts` to whole ns that add up to Round(their sum). Each is rounded down, and the rest goes to the largest
// fractions, the first ones on a tie. None exceeds its element of `whole`, if given: the rounded amounts that `parts`
// are parts of.
std::vector<int64_t> RoundTogether(const std::vector<FineNs>& parts, const std::vector<int64_t>* whole = nullptr);

// The part of a row of `gpu` within the window, empty where it is outside; and whether any moment of it is inside.
model::Interval InWindow(const model::Trace& trace, uint32_t gpu_row);
bool IsInWindow(const model::Trace& trace, uint32_t gpu_row);

// For each row of `gpu`, 0 for spans: its share of the device's working time, where each moment is divided equally
// among the operations running then. The exposed part is not hidden by any thread's work for the same batch or request
// (see top.h).
struct GpuShares {
  std::vector<FineNs> busy, exposed;
};
// O(n log n).
GpuShares FindGpuShares(const model::Trace& trace);

}  // namespace pitot::facts

#endif  // PITOT_LIB_ANALYZE_FACTS_GPU_SHARES_H_
