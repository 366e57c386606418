// SPDX-License-Identifier: Apache-2.0
//
// Our declarations against those of OpenCL's headers.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

#include <catch2/catch.hpp>
#include <cstddef>

#include "collect/opencl/abi.h"

namespace cl = pitot::opencl;

#define PLACE(function) (offsetof(_cl_icd_dispatch, function) / sizeof(void*))

TEST_CASE("the loader's table has the functions where we look for them", "[opencl]") {
  CHECK(PLACE(clGetDeviceInfo) == cl::kGetDeviceInfo);
  CHECK(PLACE(clCreateCommandQueue) == cl::kCreateCommandQueue);
  CHECK(PLACE(clRetainCommandQueue) == cl::kRetainCommandQueue);
  CHECK(PLACE(clReleaseCommandQueue) == cl::kReleaseCommandQueue);
  CHECK(PLACE(clGetCommandQueueInfo) == cl::kGetCommandQueueInfo);
  CHECK(PLACE(clGetKernelInfo) == cl::kGetKernelInfo);
  CHECK(PLACE(clWaitForEvents) == cl::kWaitForEvents);
  CHECK(PLACE(clGetEventInfo) == cl::kGetEventInfo);
  CHECK(PLACE(clRetainEvent) == cl::kRetainEvent);
  CHECK(PLACE(clReleaseEvent) == cl::kReleaseEvent);
  CHECK(PLACE(clGetEventProfilingInfo) == cl::kGetEventProfilingInfo);
  CHECK(PLACE(clFinish) == cl::kFinish);
  CHECK(PLACE(clEnqueueReadBuffer) == cl::kEnqueueReadBuffer);
  CHECK(PLACE(clEnqueueWriteBuffer) == cl::kEnqueueWriteBuffer);
  CHECK(PLACE(clEnqueueCopyBuffer) == cl::kEnqueueCopyBuffer);
  CHECK(PLACE(clEnqueueNDRangeKernel) == cl::kEnqueueNDRangeKernel);
  CHECK(PLACE(clSetEventCallback) == cl::kSetEventCallback);
  CHECK(PLACE(clEnqueueFillBuffer) == cl::kEnqueueFillBuffer);
  CHECK(PLACE(clCreateCommandQueueWithProperties) == cl::kCreateCommandQueueWithProperties);
  CHECK(sizeof(_cl_icd_dispatch) / sizeof(void*) >= cl::kEntries);
}

TEST_CASE("constants and types are OpenCL's", "[opencl]") {
  CHECK(CL_DEVICE_MAX_COMPUTE_UNITS == cl::kDeviceMaxComputeUnits);
  CHECK(CL_DEVICE_NAME == cl::kDeviceName);
  CHECK(CL_QUEUE_DEVICE == cl::kQueueDevice);
  CHECK(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE == cl::kOutOfOrder);
  CHECK(CL_QUEUE_PROPERTIES == cl::kQueueProperties);
  CHECK(CL_QUEUE_PROFILING_ENABLE == cl::kProfilingEnable);
  CHECK(CL_KERNEL_FUNCTION_NAME == cl::kKernelFunctionName);
  CHECK(CL_EVENT_COMMAND_QUEUE == cl::kEventCommandQueue);
  CHECK(CL_PROFILING_COMMAND_QUEUED == cl::kCommandQueued);
  CHECK(CL_PROFILING_COMMAND_START == cl::kCommandStart);
  CHECK(CL_PROFILING_COMMAND_END == cl::kCommandEnd);
  CHECK(CL_COMPLETE == cl::kComplete);
  CHECK(CL_SUCCESS == cl::kSuccess);
  CHECK(sizeof(cl_queue_properties) == sizeof(uint64_t));
  CHECK(sizeof(cl_command_queue_properties) == sizeof(uint64_t));
  CHECK(sizeof(cl_ulong) == sizeof(int64_t));
}
