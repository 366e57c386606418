// SPDX-License-Identifier: Apache-2.0
//
// Preloaded: the first folder made by mkdtemp is removed by another process before its maker comes to it.
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

extern "C" char* mkdtemp(char* name) {
  static bool is_taken = false;
  char* const made = reinterpret_cast<char* (*)(char*)>(dlsym(RTLD_NEXT, "mkdtemp"))(name);
  if (made != nullptr && !is_taken) is_taken = rmdir(made) == 0;
  return made;
}
