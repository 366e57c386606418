// SPDX-License-Identifier: Apache-2.0
//
// A program that has Pitot in a library, its first argument, and has that capture. What is named after it is loaded
// before.
#include <dlfcn.h>

int main(int count, char** arguments) {
  for (int i = 2; i < count; ++i) {
    if (dlopen(arguments[i], RTLD_NOW | RTLD_LOCAL) == nullptr) return 10;
  }
  void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  return plugin != nullptr ? reinterpret_cast<int (*)()>(dlsym(plugin, "CaptureOnce"))() : 11;
}
