// SPDX-License-Identifier: Apache-2.0
//
// The fault big_tensor, by LibTorch.
#ifndef PITOT_TEST_SCOREBOARD_DECODE_SERVER_BIG_TENSOR_H_
#define PITOT_TEST_SCOREBOARD_DECODE_SERVER_BIG_TENSOR_H_

#include <cstdint>
#include <functional>
#include <string>

namespace decode_server {

// Takes so much memory from the device's driver, fills it and gives it back. `device`: auto, cpu or cuda; throws
// std::runtime_error when it is not there.
std::function<void(uint64_t bytes)> AllocatorOfBigTensors(const std::string& device);

}  // namespace decode_server

#endif  // PITOT_TEST_SCOREBOARD_DECODE_SERVER_BIG_TENSOR_H_
