// SPDX-License-Identifier: Apache-2.0
//
// The program's slowdown under a sanitizer, for scaling loops and deadlines of stress tests.
#ifndef PITOT_TEST_FAKES_SCALE_H_
#define PITOT_TEST_FAKES_SCALE_H_

namespace fakes {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
inline constexpr int kSlower = 10;
#elif defined(__SANITIZE_ADDRESS__)
inline constexpr bool kThreadSanitizer = false;
inline constexpr int kSlower = 4;
#else
inline constexpr bool kThreadSanitizer = false;
inline constexpr int kSlower = 1;
#endif
#if defined(__SANITIZE_ADDRESS__)
inline constexpr bool kAddressSanitizer = true;
#else
inline constexpr bool kAddressSanitizer = false;
#endif

// Iterations of a loop with `release` iterations in a build without sanitizers.
constexpr int Scaled(int release) { return release / kSlower > 0 ? release / kSlower : 1; }

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_SCALE_H_
