// SPDX-License-Identifier: Apache-2.0
//
// An empty callback alone: LibTorch calls it for each operator, and it does nothing. Its cost is the floor for
// comparisons with pitot::torch. A library for gpu_overhead.py, loaded into a process with LibTorch.
#include <ATen/record_function.h>

#include <memory>

namespace {

std::unique_ptr<at::ObserverContext> Nothing(const at::RecordFunction&) { return nullptr; }

at::CallbackHandle g_handle = 0;

}  // namespace

// Repeating the current state changes nothing.
extern "C" __attribute__((visibility("default"))) void pitot_callback_alone(int on) {
  if ((on != 0) == (g_handle != 0)) return;
  if (on == 0) {
    at::removeCallback(g_handle);
    g_handle = 0;
    return;
  }
  g_handle = at::addGlobalCallback(at::RecordFunctionCallback(Nothing).scopes(
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::TORCHSCRIPT_FUNCTION}));
}
