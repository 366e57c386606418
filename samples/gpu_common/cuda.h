// SPDX-License-Identifier: Apache-2.0
//
// CUDA for the samples: calls throw on failure; memory and streams are released automatically.
#ifndef PITOT_SAMPLES_GPU_COMMON_CUDA_H_
#define PITOT_SAMPLES_GPU_COMMON_CUDA_H_

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace gpu_common {

inline void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

// Neither copied nor moved, so that pointers to it stay valid.
class Unmovable {
 public:
  Unmovable() = default;
  Unmovable(const Unmovable&) = delete;
  Unmovable& operator=(const Unmovable&) = delete;
};

// `size` elements of device memory.
template <class T> class DeviceArray : Unmovable {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit DeviceArray(size_t size) : size_(size) {
    Check(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)), "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    Check(cudaMemcpy(data_, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  ~DeviceArray() { cudaFree(data_); }
  T* data() const { return data_; }
  size_t size() const { return size_; }
  std::vector<T> ToHost() const {
    std::vector<T> values(size_);
    Check(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

// `size` elements of page-locked host memory, which the GPU can copy without the CPU's help.
template <class T> class PinnedArray : Unmovable {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  explicit PinnedArray(size_t size) {
    Check(cudaMallocHost(reinterpret_cast<void**>(&data_), size * sizeof(T)), "cudaMallocHost");
  }
  ~PinnedArray() { cudaFreeHost(data_); }
  T* data() const { return data_; }
  T& operator[](size_t i) const { return data_[i]; }

 private:
  T* data_ = nullptr;
};

class Stream : Unmovable {
 public:
  Stream() { Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags"); }
  ~Stream() { cudaStreamDestroy(stream_); }
  cudaStream_t get() const { return stream_; }
  void Synchronize() const { Check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  cudaStream_t stream_ = nullptr;
};

}  // namespace gpu_common

#endif  // PITOT_SAMPLES_GPU_COMMON_CUDA_H_
