// SPDX-License-Identifier: Apache-2.0
//
// The order in which numpy (1.24, without AVX-512) sorts. It is not stable, and HTA's results for things of the same
// microsecond depend on it.
#ifndef PITOT_LIB_PEERS_NUMPY_SORT_H_
#define PITOT_LIB_PEERS_NUMPY_SORT_H_

#include <cstdint>
#include <vector>

namespace pitot::peers {

// Returns numpy.argsort(values, kind="quicksort"): introsort by the median of three, insertion sort of at most 17, heap
// sort where it goes deeper than twice the logarithm.
std::vector<uint32_t> NumpyArgsort(const std::vector<int64_t>& values);

}  // namespace pitot::peers

#endif  // PITOT_LIB_PEERS_NUMPY_SORT_H_
