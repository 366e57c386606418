// SPDX-License-Identifier: Apache-2.0
//
// A program that links the collector, does not add it, and loads an emitting library, its argument. Ends with 0 if that
// library found no tool.
#include <dlfcn.h>

#include "collect/nvtx/emitter.h"
#include "pitot/collect/nvtx.h"
#include "pitot/recorder.h"

int main(int, char** arguments) {
  pitot::Recorder recorder;
  void* const library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 2;
  const Emitter* const emitter = reinterpret_cast<const Emitter* (*)()>(dlsym(library, "GetEmitter"))();
  if (emitter->create_domain("unwanted") != nullptr) return 3;
  return arguments[2] != nullptr && recorder.Add(pitot::MakeNvtxCollector()).ok() ? 4 : 0;
}
