// SPDX-License-Identifier: Apache-2.0
//
// Allocations that fail on request: a program with failing_allocations.cc has its operator new.
#ifndef PITOT_TEST_FAKES_FAILING_ALLOCATIONS_H_
#define PITOT_TEST_FAKES_FAILING_ALLOCATIONS_H_

#include <atomic>
#include <cstddef>

namespace fakes {

// The thread's allocations that succeed before one fails; -1: all do.
extern thread_local int t_until_failure;
// Allocations of this size fail, on all threads; 0: none.
extern std::atomic<size_t> g_refused_bytes;
// The largest allocation since this was set to 0, on any thread.
extern std::atomic<size_t> g_largest_bytes;

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_FAILING_ALLOCATIONS_H_
