// SPDX-License-Identifier: Apache-2.0
//
// Waits for a condition instead of a fixed time.
#ifndef PITOT_TEST_FAKES_WAIT_UNTIL_H_
#define PITOT_TEST_FAKES_WAIT_UNTIL_H_

#include <chrono>
#include <thread>

#include "fakes/scale.h"

namespace fakes {

// True as soon as `condition` is true, false if it is not within `seconds` (longer under a sanitizer).
template <class Condition> bool WaitUntil(Condition condition, int seconds = 60) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds * (kSlower > 1 ? 3 : 1));
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return condition();
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_WAIT_UNTIL_H_
