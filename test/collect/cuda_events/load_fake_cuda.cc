// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <stdexcept>

#include "collect/cuda_events/fake_cuda.h"

namespace fakes {

FakeCuda* LoadFakeCuda(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<FakeCuda* (*)()>(dlsym(handle, "fake_cuda"))();
}

}  // namespace fakes
