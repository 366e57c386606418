// SPDX-License-Identifier: Apache-2.0
//
// The order into which numpy (1.24, without AVX-512) sorts: not stable, so that what HTA computes of things that happen
// in one microsecond depends on it.
#ifndef PITOT_LIB_ANALYZE_PEERS_NUMPY_SORT_H_
#define PITOT_LIB_ANALYZE_PEERS_NUMPY_SORT_H_

#include <cstdint>
#include <vector>

namespace pitot::peers {

// numpy.argsort(values, kind="quicksort"): introsort by the median of three, insertion sort of at most 17, heap sort
// where it goes deeper than twice the logarithm.
std::vector<uint32_t> NumpyArgsort(const std::vector<int64_t>& values);

}  // namespace pitot::peers

#endif  // PITOT_LIB_ANALYZE_PEERS_NUMPY_SORT_H_
