// SPDX-License-Identifier: Apache-2.0
//
// OpenCL's ABI as far as the layer uses it, so that the build needs no OpenCL: the places of functions in the loader's
// table, their types, and constants (OpenCL 3.0: cl.h, cl_icd.h, cl_layer.h). A test compares them with the headers.
#ifndef PITOT_LIB_COLLECT_OPENCL_ABI_H_
#define PITOT_LIB_COLLECT_OPENCL_ABI_H_

#include <cstddef>
#include <cstdint>

namespace pitot::opencl {

using Result = int32_t;
using Handle = void*;
inline constexpr Result kSuccess = 0;

// Places in the loader's table.
enum Entry : uint32_t {
  kGetDeviceInfo = 3,
  kCreateCommandQueue = 9,
  kRetainCommandQueue = 10,
  kReleaseCommandQueue = 11,
  kGetCommandQueueInfo = 12,
  kGetKernelInfo = 39,
  kWaitForEvents = 41,
  kGetEventInfo = 42,
  kRetainEvent = 43,
  kReleaseEvent = 44,
  kGetEventProfilingInfo = 45,
  kFinish = 47,
  kEnqueueReadBuffer = 48,
  kEnqueueWriteBuffer = 49,
  kEnqueueCopyBuffer = 50,
  kEnqueueNDRangeKernel = 59,
  kSetEventCallback = 81,
  kEnqueueFillBuffer = 102,
  kCreateCommandQueueWithProperties = 123,
};
inline constexpr uint32_t kEntriesOfOpenCl11 = 82;  // the oldest with event callbacks
inline constexpr uint32_t kEntries = 149;

inline constexpr uint32_t kDeviceMaxComputeUnits = 0x1002, kDeviceName = 0x102b;
inline constexpr uint32_t kQueueDevice = 0x1091, kQueueProperties = 0x1093;
inline constexpr uint64_t kOutOfOrder = 1, kProfilingEnable = 2;
inline constexpr uint32_t kKernelFunctionName = 0x1190;
inline constexpr uint32_t kEventCommandQueue = 0x11d0;
inline constexpr uint32_t kCommandQueued = 0x1280, kCommandStart = 0x1282, kCommandEnd = 0x1283;
inline constexpr int32_t kComplete = 0;

using EventCallback = void (*)(Handle event, int32_t status, void* data);
using GetInfo = Result (*)(Handle object, uint32_t what, size_t size, void* value, size_t* needed);

using CreateQueue = Handle (*)(Handle context, Handle device, uint64_t properties, Result* result);
using CreateQueueWithProperties = Handle (*)(Handle context, Handle device, const uint64_t* properties, Result* result);
using WaitForEvents = Result (*)(uint32_t count, const Handle* events);
using OfHandle = Result (*)(Handle object);
using SetEventCallback = Result (*)(Handle event, int32_t at_status, EventCallback callback, void* data);
using EnqueueRead = Result (*)(Handle queue, Handle buffer, uint32_t is_blocking, size_t offset, size_t bytes, void* to,
                               uint32_t wait_count, const Handle* waits, Handle* event);
using EnqueueWrite = Result (*)(Handle queue, Handle buffer, uint32_t is_blocking, size_t offset, size_t bytes,
                                const void* from, uint32_t wait_count, const Handle* waits, Handle* event);
using EnqueueCopy = Result (*)(Handle queue, Handle from, Handle to, size_t from_offset, size_t to_offset, size_t bytes,
                               uint32_t wait_count, const Handle* waits, Handle* event);
using EnqueueFill = Result (*)(Handle queue, Handle buffer, const void* pattern, size_t pattern_bytes, size_t offset,
                               size_t bytes, uint32_t wait_count, const Handle* waits, Handle* event);
using EnqueueKernel = Result (*)(Handle queue, Handle kernel, uint32_t dimensions, const size_t* offset,
                                 const size_t* global, const size_t* local, uint32_t wait_count, const Handle* waits,
                                 Handle* event);

}  // namespace pitot::opencl

#endif  // PITOT_LIB_COLLECT_OPENCL_ABI_H_
