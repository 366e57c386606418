// SPDX-License-Identifier: Apache-2.0
//
// A fake runtime of CUDA, which notes its calls, and a caller of it in a library of its own.
#ifndef PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_CUDART_H_
#define PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_CUDART_H_

#include <cstddef>
#include <cstdint>

namespace fakes {

struct Dim3 {
  unsigned x, y, z;
};

// The last call, as the runtime got it.
struct RuntimeCall {
  int version = 0;  // of the runtime
  const char* function = "";
  uintptr_t words[8] = {};
};

// A caller's library exports it as `cuda_caller`.
struct Caller {
  int (*synchronize)(void* stream);
  int (*copy)(void* to, const void* from, size_t bytes, int direction);
  int (*copy_async)(void* to, const void* from, size_t bytes, int direction, void* stream);
  int (*allocate)(void** memory, size_t bytes);
  int (*allocate_async)(void** memory, size_t bytes, void* stream);
  int (*free)(void* memory);
  int (*compile)(void* program, int options, const char* const* texts);
  int (*launch)(const void* kernel, Dim3 grid, Dim3 block, void** args, size_t shared_bytes, void* stream);
  int (*launch_kernel)(const void* kernel, Dim3 grid, Dim3 block, void** args, size_t shared_bytes, void* stream);
  int (*get_kernel)(void** kernel, const void* function);
  int (*launch_ex)(const void* config, const void* kernel, void** args);
  int (*launch_per_thread)(const void* kernel, Dim3 grid, Dim3 block, void** args, size_t shared_bytes, void* stream);
  int (*destroy_stream)(void* stream);
  int (*begin_capture)(void* stream, int mode);
  int (*end_capture)(void* stream, void** graph);
  int (*launch_graph)(void* graph, void* stream);
  int (*synchronize_device)();
  int (*record_event)(void* event, void* stream);
  int (*synchronize_event)(void* event);
  const RuntimeCall* last;
  int* result;        // of the next calls
  int64_t* spins_ns;  // how long each takes
  int (**inside)();   // called in each, if it is not null
};

}  // namespace fakes

#endif  // PITOT_TEST_COLLECT_CUDA_CALLS_FAKE_CUDART_H_
