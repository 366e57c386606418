// SPDX-License-Identifier: Apache-2.0
#include "collect/torch/operators.h"

#include <ATen/record_function.h>

#include <atomic>
#include <exception>
#include <memory>
#include <new>
#include <type_traits>

#include "collect/torch/shapes.h"
#include "collect/torch/thread_state.h"
#include "pitot/trace.h"
#include "trace/rings.h"

namespace pitot::libtorch {
namespace {

using at::ObserverContext;
using at::RecordFunction;
using at::RecordScope;
using Context = std::unique_ptr<ObserverContext>;

// A scope from LibTorch's begin of an operator until it lets go of the operator's context.
template <const Site& kSite, class... Args> struct Open final : ObserverContext {
  explicit Open(const Args&... args) : scope(&kSite, "", args...) {}
  static void* operator new(size_t, const std::nothrow_t&) noexcept {
    static_assert(sizeof(Open) <= ThreadState::kContextBytes && alignof(Open) <= alignof(std::max_align_t));
    ThreadState* const state = ThreadState::Get();
    return state != nullptr ? state->Take() : nullptr;
  }
  static void operator delete(void* block) noexcept {
    ThreadState* const state = ThreadState::Get();
    state != nullptr ? state->Give(block) : ThreadState::Free(block);
  }
  static void operator delete(void* block, const std::nothrow_t&) noexcept { operator delete(block); }

  detail::Scope<detail::Keep::kNamed, detail::ArgList<Args...>> scope;
};

template <class... Args> constexpr Site MakeSite(SiteKind kind, const char* name, const char* arguments) {
  using List = detail::ArgList<Args...>;
  return {kSiteMagic, kind, List::kCount, kNameIsFirstArg, 0, List::Types(), name, "LibTorch", "", arguments};
}

// Sites as they stand in files. An operator or range has its name. One numbered by autograd also has its number, shared
// with its backward, and LibTorch's number of the thread on which it was counted. A backward has the thread of its
// forward.
constexpr Site kOperator = MakeSite<Name>(SiteKind::kOperator, "operator", "\"\", name");
constexpr Site kNumbered =
    MakeSite<Name, int64_t, uint64_t>(SiteKind::kOperator, "operator", "\"\", name, sequence, thread");
constexpr Site kBackward =
    MakeSite<Name, int64_t, uint64_t>(SiteKind::kOperator, "backward", "\"\", name, sequence, forward_thread");
constexpr Site kShaped = MakeSite<Name, int64_t, uint64_t, uint64_t, ShapeText>(
    SiteKind::kOperator, "operator", "\"\", name, sequence, thread, flops, shapes");
constexpr Site kRange = MakeSite<Name>(SiteKind::kScope, "range", "\"\", name");

template <const Site& kSite, class... Args> Context Begin(const Args&... args) {
  return Context(new (std::nothrow) Open<kSite, Args...>(args...));
}

// The recorder called by LibTorch. A forked child has its parent's number here, and may have an own recorder without
// calls.
constinit std::atomic<uint32_t> g_calls_for{0};
// Whether that recorder wants shapes. LibTorch may have inputs at hand for another callback.
constinit std::atomic<bool> g_has_shapes{false};

// The thread's state, or null: while nothing is recorded, nothing is kept, either.
ThreadState* Enter() {
  const detail::Ring* const ring = detail::Enter();
  const bool is_recorded =
      ring != nullptr && trace::RecorderOf(ring->gate) == g_calls_for.load(std::memory_order_relaxed);
  return is_recorded ? ThreadState::Get() : nullptr;
}

Context OnRange(const RecordFunction& function) {
  ThreadState* const state = Enter();
  return state != nullptr ? Begin<kRange>(state->RangeNameOf(function.name())) : nullptr;
}

[[gnu::noinline]] Context BeginShaped(ThreadState* state, const RecordFunction& function) {
  uint64_t flops = 0;
  ShapeText shapes;
  try {
    // Callees of a counted operator are in its sum.
    if (state->flops_owner() == nullptr) flops = FlopsOf(function);
    shapes = ShapesOf(function);
  } catch (...) {
    // Without its inputs, the name is still known.
  }
  Context context =
      Begin<kShaped>(state->NameOf(function.name()), function.seqNr(), function.threadId(), flops, shapes);
  if (flops != 0) state->set_flops_owner(context.get());
  return context;
}

Context OnOperator(const RecordFunction& function) {
  ThreadState* const state = Enter();
  if (state == nullptr) return nullptr;
  // Threads learn of the callback for inputs at their next operator.
  if (__builtin_expect(g_has_shapes.load(std::memory_order_relaxed), 0) && function.needsInputs() &&
      function.scope() != RecordScope::BACKWARD_FUNCTION)
    return BeginShaped(state, function);
  const Name name = state->NameOf(function.name());
  const int64_t sequence = function.seqNr();
  if (function.scope() == RecordScope::BACKWARD_FUNCTION)
    return Begin<kBackward>(name, sequence, function.forwardThreadId());
  return sequence >= 0 ? Begin<kNumbered>(name, sequence, function.threadId()) : Begin<kOperator>(name);
}

at::CallbackHandle AddRanges() {
  return at::addGlobalCallback(at::RecordFunctionCallback(OnRange).scopes({RecordScope::USER_SCOPE}));
}

// Includes methods of scripted modules: to a reader looking for lost time they are operators.
at::CallbackHandle AddOperators(at::RecordFunctionCallback callback) {
  return at::addGlobalCallback(
      callback.scopes({RecordScope::FUNCTION, RecordScope::BACKWARD_FUNCTION, RecordScope::TORCHSCRIPT_FUNCTION}));
}

void Remove(at::CallbackHandle* callback) {
  if (*callback != at::INVALID_CALLBACK_HANDLE) at::removeCallback(*callback);
  *callback = at::INVALID_CALLBACK_HANDLE;
}

}  // namespace

Operators::Operators() : ranges_(AddRanges()) {
  g_calls_for.store(trace::RecorderOf(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED)), std::memory_order_relaxed);
}

Operators::~Operators() {
  try {
    Record(Detail::kRanges);
  } catch (const std::exception&) {
    // LibTorch's remaining calls record nothing: the gate is closed.
  }
  try {
    at::removeCallback(ranges_);
  } catch (const std::exception&) {}
}

// Shapes have a callback of their own. It is never called, and makes LibTorch give inputs to the callback of operators.
// So an operator that begins during the change is recorded, and only once. The callback is added and removed, not
// switched: LibTorch collects inputs if any known callback wants them, even a disabled one.
void Operators::Record(Detail detail) {
  const bool has_shapes = detail == Detail::kShapes;
  if (!has_shapes) g_has_shapes.store(false, std::memory_order_relaxed);
  if (detail != Detail::kRanges && operators_ == at::INVALID_CALLBACK_HANDLE)
    operators_ = AddOperators(at::RecordFunctionCallback(OnOperator));
  if (has_shapes && inputs_ == at::INVALID_CALLBACK_HANDLE)
    inputs_ = AddOperators(at::RecordFunctionCallback(nullptr).needsInputs(true));
  if (has_shapes) g_has_shapes.store(true, std::memory_order_relaxed);
  if (!has_shapes) Remove(&inputs_);
  if (detail == Detail::kRanges) Remove(&operators_);
}

}  // namespace pitot::libtorch
