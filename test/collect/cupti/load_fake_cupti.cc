// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>

#include <stdexcept>

#include "collect/cupti/fake_cupti.h"

namespace fakes {

FakeCupti* LoadFakeCupti(const std::string& path) {
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw std::runtime_error(dlerror());
  return reinterpret_cast<FakeCupti* (*)()>(dlsym(handle, "fake_cupti"))();
}

}  // namespace fakes
