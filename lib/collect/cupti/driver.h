// SPDX-License-Identifier: Apache-2.0
//
// What CUDA's driver says of the process and its devices, if it is loaded. Pitot never loads or initialises it here.
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
  kRegisters = 82,
  kBlocks = 106,
};

enum class CudaState : uint8_t {
  kUntouched,    // not loaded, or not initialised: nothing was made with it
  kInitialised,  // no device has its primary context; of those that hosts make themselves the driver does not tell
  kInUse,        // a device has its primary context
};
// To load and enable CUPTI initialises nothing, nor does importing PyTorch 2.11 (CUDA 13.0). Cost: some us. Threads:
// any.
CudaState AskCuda() noexcept;
// Whether the kernel has a driver of NVIDIA's, as far as its files say (Linux, containers, WSL, Tegra). Cost: some us.
bool HasDriver() noexcept;
// The CUDA that the driver is made for, 12 of 12.4: as it says, if it is loaded, which needs no cuInit; else as the
// kernel's file has it; 0: neither does. Cost: some us.
int DriverMajor() noexcept;
// The same of that file's text, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat ...".
int MajorOfKernelDriver(std::string_view text) noexcept;

struct DeviceFacts {
  std::string name;  // "GPU 0" where the driver does not say
  uint32_t multiprocessors = 0, threads_per_multiprocessor = 0, blocks_per_multiprocessor = 0,
           registers_per_multiprocessor = 0, shared_bytes_per_multiprocessor = 0;  // 0: unknown
};
// Cost: some us. Throws bad_alloc.
DeviceFacts DescribeDevice(uint32_t ordinal);

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_DRIVER_H_
