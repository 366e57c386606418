// SPDX-License-Identifier: Apache-2.0
//
// A server's work on a real OpenCL driver, seen through the loader's layer (OPENCL_LAYERS). Skipped without a driver.
#define CL_TARGET_OPENCL_VERSION 200
#include <CL/cl.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <vector>

#include "fakes/trace_text.h"
#include "pitot/collect/opencl.h"
#include "pitot/model/index.h"
#include "session/host.h"

namespace {

using pitot::model::kNone;
using pitot::model::Trace;

constexpr size_t kItems = 1 << 20;
constexpr int64_t kClockErrorNs = 20'000'000;
constexpr const char* kSource =
    "kernel void scale(global float* x) { size_t i = get_global_id(0); for (int k = 0; k < 50; ++k) x[i] *= 1.0001f; }";

// The objects of one device.
struct Device {
  bool Open() {
    cl_platform_id platform = nullptr;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS) return false;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, nullptr) != CL_SUCCESS) return false;
    context = clCreateContext(nullptr, 1, &id, nullptr, nullptr, nullptr);
    queue = clCreateCommandQueueWithProperties(context, id, nullptr, nullptr);
    const char* source = kSource;
    program = clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
    if (clBuildProgram(program, 0, nullptr, "", nullptr, nullptr) != CL_SUCCESS) return false;
    kernel = clCreateKernel(program, "scale", nullptr);
    buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, kItems * sizeof(float), nullptr, nullptr);
    return queue != nullptr && buffer != nullptr && clSetKernelArg(kernel, 0, sizeof buffer, &buffer) == CL_SUCCESS;
  }
  ~Device() {
    if (buffer != nullptr) clReleaseMemObject(buffer);
    if (kernel != nullptr) clReleaseKernel(kernel);
    if (program != nullptr) clReleaseProgram(program);
    if (queue != nullptr) clReleaseCommandQueue(queue);
    if (context != nullptr) clReleaseContext(context);
  }

  cl_device_id id = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
  cl_program program = nullptr;
  cl_kernel kernel = nullptr;
  cl_mem buffer = nullptr;
};

}  // namespace

TEST_CASE("kernels, copies and waits of a real driver are those of their request", "[real]") {
  cl_uint platforms = 0;
  if (clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS || platforms == 0) {
    std::printf("SKIP: no OpenCL driver\n");
    return;
  }
  session_test::Host host;
  REQUIRE(host.Start());
  REQUIRE(host.recorder.Add(pitot::MakeOpenClCollector()).ok());
  Device device;
  REQUIRE(device.Open());
  std::vector<float> data(kItems, 1);
  {
    pitot::Request request = pitot::Request::Begin("/scale");
    REQUIRE(clEnqueueWriteBuffer(device.queue, device.buffer, CL_FALSE, 0, kItems * sizeof(float), data.data(), 0,
                                 nullptr, nullptr) == CL_SUCCESS);
    const size_t items = kItems;
    REQUIRE(clEnqueueNDRangeKernel(device.queue, device.kernel, 1, nullptr, &items, nullptr, 0, nullptr, nullptr) ==
            CL_SUCCESS);
    REQUIRE(clFinish(device.queue) == CL_SUCCESS);
    REQUIRE(clEnqueueReadBuffer(device.queue, device.buffer, CL_TRUE, 0, kItems * sizeof(float), data.data(), 0,
                                nullptr, nullptr) == CL_SUCCESS);
    request.Finish(pitot::Outcome::kOk);
  }
  CHECK(data[7] > 1);
  // The driver's callback for the copy may still be under way.
  Trace trace;
  REQUIRE(fakes::WaitUntil([&] {
    REQUIRE(host.TriggerAndFlush());
    trace = host.traces().back();
    return trace.gpu.size() == 3;
  }));
  host.recorder.Stop();

  CHECK(pitot::model::FindInconsistency(trace) == "");
  CHECK(fakes::Attribute(trace, "opencl.not_recorded") == "");
  REQUIRE(trace.requests.size() == 1);
  const auto& request = trace.requests[0];
  const std::vector<std::string> expected = {"HtoD", "scale", "DtoH"};
  for (uint32_t row = 0; row < 3; ++row) {
    INFO(expected[row]);
    CHECK(trace.strings[trace.gpu.name[row]] == expected[row]);
    REQUIRE(trace.gpu.call[row] != kNone);
    CHECK(trace.calls.request[trace.gpu.call[row]] == 0);
    // The two clocks agree to the time of one call. A preempted call is long.
    CHECK(trace.gpu.begin_ns[row] >= trace.calls.begin_ns[trace.gpu.call[row]] - kClockErrorNs);
    CHECK(trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row] <=
          request.begin_ns + request.duration_ns + kClockErrorNs);
  }
  CHECK(trace.gpu.duration_ns[1] > 0);
  uint32_t waits = 0;
  for (uint32_t call = 0; call < trace.calls.size(); ++call) waits += trace.calls.stream[call] != kNone;
  CHECK(waits == 2);  // clFinish and the blocking copy
}
