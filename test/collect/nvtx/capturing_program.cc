// SPDX-License-Identifier: Apache-2.0
//
// A program with Pitot in a library, its first argument, which captures. Libraries named after it are loaded before;
// after "linked", as if the program were linked to them.
#include <dlfcn.h>

#include <cstring>

int main(int count, char** arguments) {
  int scope = RTLD_LOCAL;
  for (int i = 2; i < count; ++i) {
    if (std::strcmp(arguments[i], "linked") == 0)
      scope = RTLD_GLOBAL;
    else if (dlopen(arguments[i], RTLD_NOW | scope) == nullptr)
      return 10;
  }
  void* const plugin = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  return plugin != nullptr ? reinterpret_cast<int (*)()>(dlsym(plugin, "CaptureOnce"))() : 11;
}
