// SPDX-License-Identifier: Apache-2.0
//
// A fake driver of CUDA with notes of its calls, and a library with look-ups of its functions.
#ifndef PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_DRIVER_H_
#define PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_DRIVER_H_

#include <cstdint>

namespace fakes {

// The last call, as the driver got it.
struct DriverCall {
  const char* function = "";
  void* parameter = nullptr;  // the stream or context
};

// The driver waits for this stream for 2 ms.
inline void* const kWaitsFor2Ms = reinterpret_cast<void*>(uintptr_t{0x2000});

// A library exports it as `CudaRuntimeInside`.
struct RuntimeInside {
  void* (*find)(void* handle, const char* name);  // its dlsym
  void* (*find_next)(const char* name);           // with RTLD_NEXT
  // What the runtime does at its first use: asks the driver for its functions.
  void (*begin)(void* driver);
  int (*synchronize)(void* stream);
  int (*synchronize_context)(void* context);
  int (*launch)(void* stream);
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_DRIVER_H_
