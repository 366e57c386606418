// SPDX-License-Identifier: Apache-2.0
//
// A CUDA driver without a GPU, with only the functions called by the CUPTI collector. Two devices.
#ifndef PITOT_TEST_COLLECT_CUPTI_FAKE_DRIVER_H_
#define PITOT_TEST_COLLECT_CUPTI_FAKE_DRIVER_H_

namespace fakes {

struct FakeDriver {
  static constexpr int kDevices = 2;
  int version = 13000;            // 0: unknown
  bool is_initialised = false;    // cuInit was called
  int active[kDevices] = {0, 0};  // primary contexts
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUPTI_FAKE_DRIVER_H_
