// SPDX-License-Identifier: Apache-2.0
//
// What CUPTI may use at any time until the process ends, and the callbacks that use it: never freed once CUPTI has
// heard of it.
#ifndef PITOT_LIB_COLLECT_CUPTI_ENGINE_H_
#define PITOT_LIB_COLLECT_CUPTI_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "collect/cupti/api.h"
#include "collect/cupti/buffers.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/control.h"
#include "collect/cupti/graph_scopes.h"
#include "collect/cupti/owned_memory.h"
#include "collect/cupti/strides.h"
#include "collect/cupti/until_exit.h"
#include "pitot/status.h"

namespace pitot::cupti {

inline constexpr uint32_t kBufferBytes = 256 << 10;

struct Engine {
  // Of memory_bytes the buffers are a quarter, what is known of graphs' nodes an eighth at most.
  explicit Engine(uint32_t buffers) : scopes(uint64_t{buffers} * kBufferBytes / 2) {}

  Api api{};
  Strides strides{};
  UntilExit until_exit;
  ApiCalls calls;
  GraphScopes scopes;
  std::unique_ptr<BufferPool> pool;
  OwnedMemory unread;  // what records owned whose buffers were used again before anyone had read them
  std::atomic<Control*> control{nullptr};          // the last of these
  std::vector<std::unique_ptr<Control>> controls;  // of the collector that runs and of those before
  Engine* former = nullptr;                        // made before
};

// The engine with so many buffers: that of any collector before, which CUPTI may still have buffers of, where it suits.
// As many as there are libraries, of records as long, and sizes are ever made. Throws bad_alloc. Errors:
// kResourceExhausted.
Status FindEngine(const Api& api, const Strides& strides, uint32_t buffers, Engine** engine);
// Gives it a control that is not started yet. Throws bad_alloc.
Control* AddControl(Engine* engine, const Control::Surroundings& surroundings);
// Frees an engine that was made for nothing: CUPTI never heard of it. Where there is one before it is kept, which
// callbacks of that one may be using.
void ForgetUnused(Engine* engine) noexcept;
// This is the process that a control was made in last, not a child of it.
bool IsOfThisProcess() noexcept;
// What registers exit handlers of its own: those that are registered later run earlier.
enum ExitHandlersOf : uint32_t { kOfCupti = 1, kOfDriver = 2, kOfProfiler = 4 };
// No call of CUPTI begins once the handlers have run that these, a set of ExitHandlersOf, register from now on: they
// have registered theirs. Once for each in a process.
void CloseAtExitOf(uint32_t others) noexcept;
// How often that took a handler.
uint32_t ExitHandlers() noexcept;

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_ENGINE_H_
