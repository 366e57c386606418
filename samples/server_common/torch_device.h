// SPDX-License-Identifier: Apache-2.0
//
// Where LibTorch runs, and on how many threads.
#ifndef SAMPLES_SERVER_COMMON_TORCH_DEVICE_H_
#define SAMPLES_SERVER_COMMON_TORCH_DEVICE_H_

#include <ATen/Parallel.h>
#include <c10/core/Device.h>
#include <dlfcn.h>
#include <torch/cuda.h>

#include <stdexcept>
#include <string>

namespace server_common {

// `name`: auto, cpu or cuda. Throws if the device is not there. Makes no CUDA context; for cpu calls nothing of CUDA.
inline c10::Device ChooseDevice(const std::string& name) {
  if (name == "cpu") return c10::kCPU;
  const bool has_cuda = torch::cuda::is_available();
  if (name == "cuda" && !has_cuda)
    throw std::runtime_error("--device cuda: this LibTorch sees no CUDA device; --device cpu needs none");
  return name == "cuda" || (name == "auto" && has_cuda) ? c10::kCUDA : c10::kCPU;
}

// LibTorch's thread count belongs to the calling thread. OpenBLAS, if LibTorch calls it, has a pool of its own, limited
// by its own function.
inline void UseThreads(int count) {
  thread_local int current = 0;
  if (current == count) return;
  current = count;
  at::set_num_threads(count);
  using SetThreads = void (*)(int);
  static const auto set_openblas_threads =
      reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set_openblas_threads != nullptr) set_openblas_threads(count);
}

}  // namespace server_common

#endif  // SAMPLES_SERVER_COMMON_TORCH_DEVICE_H_
