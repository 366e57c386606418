// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/big_tensor.h"

#include <ATen/ATen.h>
#include <dlfcn.h>

#include "server_common/torch_device.h"

namespace decode_server {
namespace {

void AllocateOnCpu(uint64_t bytes) { at::empty({static_cast<int64_t>(bytes)}, at::kByte).fill_(1); }

// Bypasses LibTorch's cache, so that the driver is asked. Both calls wait for the GPU.
void AllocateOnGpu(uint64_t bytes) {
  using Malloc = int (*)(void**, size_t);
  using Free = int (*)(void*);
  static const auto allocate = reinterpret_cast<Malloc>(dlsym(RTLD_DEFAULT, "cudaMalloc"));
  static const auto release = reinterpret_cast<Free>(dlsym(RTLD_DEFAULT, "cudaFree"));
  void* memory = nullptr;
  if (allocate == nullptr || release == nullptr || allocate(&memory, bytes) != 0) return;
  at::from_blob(memory, {static_cast<int64_t>(bytes)}, at::TensorOptions().device(c10::kCUDA).dtype(at::kByte))
      .fill_(1);
  release(memory);
}

}  // namespace

std::function<void(uint64_t bytes)> AllocatorOfBigTensors(const std::string& device) {
  return server_common::ChooseDevice(device).is_cuda() ? AllocateOnGpu : AllocateOnCpu;
}

}  // namespace decode_server
