// SPDX-License-Identifier: Apache-2.0
//
// How long a thread was in calls that launch kernels, by the server's own clock: it stands between LibTorch and the
// CUDA runtime and cuDNN's convolutions, and so owes nothing to the recorder. What other libraries launch (cuBLAS) is
// not in it.
//
// The program that links it must export its symbols (ENABLE_EXPORTS).
#ifndef SAMPLES_SERVER_COMMON_LAUNCHES_H_
#define SAMPLES_SERVER_COMMON_LAUNCHES_H_

#include <cstdint>

namespace server_common {

// Of the caller's thread, since it began.
uint64_t LaunchedNs();

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_LAUNCHES_H_
