// SPDX-License-Identifier: Apache-2.0
#include "collect/cupti/engine.h"

#include <cstdlib>
#include <utility>

#include "collect/cupti/quirks.h"
#include "trace/process.h"

namespace pitot::cupti {
namespace {

// The engine with registered callbacks, and the last one made: all others are found from there.
constinit std::atomic<Engine*> g_engine{nullptr}, g_newest{nullptr};
constinit std::atomic<uint32_t> g_closes_at_exit_of{0}, g_exit_handlers{0}, g_exit_epoch{0};
constinit std::atomic<uint32_t> g_fork_epoch{0};  // of the last control's process

// CUPTI may write here, and nobody reads it: an old CUPTI crashes without a buffer.
alignas(4096) uint8_t g_waste[kBufferBytes];

void RequestBufferFromPool(uint8_t** buffer, size_t* size, size_t* most_records) {
  Engine* const engine = g_engine.load(std::memory_order_acquire);
  const auto drop = [engine](const uint8_t* unread, uint64_t valid) {
    engine->unread.TakeFrom(engine->strides, unread, valid);
  };
  *buffer = engine != nullptr ? engine->pool->Take(drop) : nullptr;
  *size = *buffer != nullptr ? engine->pool->bytes() : 0;
  *most_records = 0;
  if (*buffer == nullptr && (engine == nullptr || HasQuirk(engine->api.version, Quirk::kNeedsBuffer)))
    *buffer = g_waste, *size = sizeof g_waste;
}

void CompleteBufferOfPool(void*, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  if (buffer == g_waste || buffer == nullptr) return;
  Engine* engine = g_newest.load(std::memory_order_acquire);
  BufferPool::Found found;
  while (engine != nullptr && !(found = engine->pool->Find(buffer))) engine = engine->former;
  if (engine == nullptr) engine = g_engine.load(std::memory_order_acquire);  // it counts the buffer
  if (engine != nullptr) engine->pool->Complete(found, valid);
}

void OnCuptiCallback(void* context, int domain, uint32_t callback_id, const void* data) {
  auto* const engine = static_cast<Engine*>(context);
  if (domain == kRuntimeApi || domain == kDriverApi) {
    engine->calls.OnCallback(static_cast<Domain>(domain), callback_id, *static_cast<const CallbackData*>(data));
    return;
  }
  Control* const control = engine->control.load(std::memory_order_acquire);
  if (control == nullptr) return;
  if (domain == kState) control->OnState(callback_id);
  if (domain != kResource) return;
  control->OnResource(callback_id);
  if (callback_id == kStreamDestroyStarting || callback_id == kContextDestroyStarting)
    engine->calls.stream_ids().Forget();
  const auto* const resource = static_cast<const ResourceData*>(data);
  const bool is_node = callback_id == kGraphNodeCreated || callback_id == kGraphNodeCloned;
  if (!is_node || resource == nullptr || resource->descriptor == nullptr) return;
  if (const base::UntilExit::Entered entered(&engine->until_exit); entered)
    engine->scopes.OnNode(engine->api, callback_id, *static_cast<const GraphData*>(resource->descriptor));
}

// Touches the pool at the first moment when CUPTI is known to be available, the last before it asks for buffers.
void OnRegister(void* context, bool is_again) {
  BufferPool& pool = *static_cast<Engine*>(context)->pool;
  pool.Touch();
  if (is_again) pool.BeginEra();
}

void Close() {
  Engine* const engine = g_engine.load();
  if (engine != nullptr && IsOfThisProcess()) engine->until_exit.Close();
}

}  // namespace

void CloseAtExitOf(uint32_t others) noexcept {
  // In the child of a fork they register theirs after the inherited handlers.
  if (g_exit_epoch.exchange(trace::ForkEpoch()) != trace::ForkEpoch()) g_closes_at_exit_of.store(0);
  if ((others & ~g_closes_at_exit_of.fetch_or(others)) == 0) return;
  std::atexit(Close);
  g_exit_handlers.fetch_add(1);
}

uint32_t ExitHandlers() noexcept { return g_exit_handlers.load(); }

Status FindEngine(const Api& api, const Strides& strides, uint32_t buffers, Engine** engine) {
  Engine* const newest = g_newest.load();
  const auto suits = [&](const Engine& it) {
    return it.api.path == api.path && it.api.version == api.version && it.strides == strides &&
           it.pool->count() == buffers;
  };
  for (Engine* former = newest; former != nullptr; former = former->former) {
    if (!suits(*former)) continue;
    g_engine.store(*engine = former);
    return {};
  }
  auto made = std::make_unique<Engine>(buffers);
  made->api = api;
  made->strides = strides;
  made->pool = BufferPool::Make(buffers, kBufferBytes);
  if (made->pool == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for CUPTI's buffers");
  made->calls.Find(api);
  made->calls.stream_ids().Open(&made->api, &made->until_exit);
  made->former = newest;
  *engine = made.release();
  g_newest.store(*engine);
  g_engine.store(*engine);
  // Runs before CUPTI's own destructors, because CUPTI is loaded. Not registered for each failed start.
  CloseAtExitOf(kOfCupti);
  return {};
}

Control* AddControl(Engine* engine, const Control::Surroundings& surroundings) {
  g_fork_epoch.store(trace::ForkEpoch());
  engine->controls.push_back(std::make_unique<Control>(
      &engine->api, &engine->until_exit, &engine->calls,
      Control::Callbacks{OnCuptiCallback, engine, RequestBufferFromPool, CompleteBufferOfPool, OnRegister},
      surroundings));
  Control* const control = engine->controls.back().get();
  engine->control.store(control);
  return control;
}

void ForgetUnused(Engine* engine) noexcept {
  const bool is_unused = engine == g_newest.load() && engine->controls.size() == 1 &&
                         !engine->controls.front()->has_given() && engine->pool->counts().requested == 0;
  if (!is_unused) return;
  // Callbacks of an earlier collector ask this engine for buffers, and look in it for returned ones: on any thread, at
  // any time. Nobody can tell when the last of them has left it. The next collector of this size gets it.
  g_engine.store(engine->former);
  if (engine->former != nullptr) return;
  g_newest.store(nullptr);
  delete engine;
}

bool IsOfThisProcess() noexcept { return g_fork_epoch.load() == trace::ForkEpoch(); }

}  // namespace pitot::cupti
