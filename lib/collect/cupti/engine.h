// SPDX-License-Identifier: Apache-2.0
//
// Everything CUPTI may use at any time until the process ends, and the callbacks that use it: never freed once CUPTI
// has heard of it.
#ifndef PITOT_LIB_COLLECT_CUPTI_ENGINE_H_
#define PITOT_LIB_COLLECT_CUPTI_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/until_exit.h"
#include "collect/cupti/api.h"
#include "collect/cupti/buffers.h"
#include "collect/cupti/calls.h"
#include "collect/cupti/control.h"
#include "collect/cupti/graph_scopes.h"
#include "collect/cupti/owned_memory.h"
#include "collect/cupti/strides.h"
#include "pitot/status.h"

namespace pitot::cupti {

inline constexpr uint32_t kBufferBytes = 256 << 10;

struct Engine {
  // Buffers take a quarter of memory_bytes, the scopes of graphs' nodes an eighth at most.
  explicit Engine(uint32_t buffers) : scopes(uint64_t{buffers} * kBufferBytes / 2) {}

  Api api{};
  Strides strides{};
  base::UntilExit until_exit;
  ApiCalls calls;
  GraphScopes scopes;
  std::unique_ptr<BufferPool> pool;
  OwnedMemory unread;                              // memory owned by records in buffers that were used again unread
  std::atomic<Control*> control{nullptr};          // the last of these
  std::vector<std::unique_ptr<Control>> controls;  // of the running collector and of those before
  Engine* former = nullptr;                        // made before
};

// The engine with so many buffers. An earlier collector's is used again if it suits, because CUPTI may still have
// buffers of it. So there are only as many as different libraries, record lengths and sizes. Throws bad_alloc. Errors:
// kResourceExhausted.
Status FindEngine(const Api& api, const Strides& strides, uint32_t buffers, Engine** engine);
// Adds a control, not started yet, to the engine. Throws bad_alloc.
Control* AddControl(Engine* engine, const Control::Surroundings& surroundings);
// Frees an engine made for nothing: CUPTI never heard of it. It is kept if there is an earlier one, because callbacks
// of that one may be using it.
void ForgetUnused(Engine* engine) noexcept;
// Whether this is the process of the last control, not a child of it.
bool IsOfThisProcess() noexcept;
// Owners of exit handlers: handlers registered later run earlier.
enum ExitHandlersOf : uint32_t { kOfCupti = 1, kOfDriver = 2, kOfProfiler = 4 };
// Registers an exit handler after which no call of CUPTI begins. Call it when `others`, a set of ExitHandlersOf, have
// registered theirs, so that it runs before them. Once for each of them in a process.
void CloseAtExitOf(uint32_t others) noexcept;
// How many handlers were registered for this.
uint32_t ExitHandlers() noexcept;

}  // namespace pitot::cupti

#endif  // PITOT_LIB_COLLECT_CUPTI_ENGINE_H_
