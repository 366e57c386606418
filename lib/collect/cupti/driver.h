// SPDX-License-Identifier: Apache-2.0
//
// Facts about the process and its devices from CUDA's driver, if it is loaded. Pitot never loads or initialises it
// here.
#ifndef PITOT_LIB_COLLECT_CUPTI_DRIVER_H_
#define PITOT_LIB_COLLECT_CUPTI_DRIVER_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace pitot::cupti {

// With the numbers of cuda.h (CU_DEVICE_ATTRIBUTE_*).
enum DeviceAttribute : int {
  kMultiprocessors = 16,
  kThreads = 39,
  kShared = 81,
  kRegistersOfMultiprocessor = 82,
  kBlocks = 106,
};

enum class CudaState : uint8_t {
  kUntouched,    // not loaded, or not initialised: nothing was made with it
  kInitialised,  // no device has its primary context; the driver does not report contexts made by hosts themselves
  kInUse,        // a device has its primary context
};
// The state of CUDA. It stays kUntouched when CUPTI is loaded and enabled, and when PyTorch 2.11 (CUDA 13.0) is
// imported. Cost: some us. Threads: any.
CudaState AskCuda() noexcept;
// The major version of the driver's CUDA, 12 for 12.4. A loaded driver tells it, without cuInit; otherwise it comes
// from the kernel's file; 0: from neither. Cost: some us.
int DriverMajor() noexcept;
// The same from the text of that file, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat ...".
int MajorOfKernelDriver(std::string_view text) noexcept;

struct DeviceFacts {
  std::string name;  // "GPU 0" if the driver does not tell
  std::string uuid;  // "GPU-5c0f..."; "": unknown
  uint32_t multiprocessors = 0, threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0,
           registers_per_multiprocessor = 0, shared_bytes_per_multiprocessor = 0;  // 0: unknown
};
// Describes a device. Cost: some us. Throws bad_alloc.
DeviceFacts DescribeDevice(uint32_t ordinal);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_DRIVER_H_
