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

namespace pitot::libtorch {
namespace {

using at::ObserverContext;
using at::RecordFunction;
using at::RecordScope;
using Context = std::unique_ptr<ObserverContext>;

// A scope from when LibTorch begins an operator until it lets go of what it was given for it.
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

// As they stand in files: an operator or range of this name; of one that autograd numbered, its number, which its
// backward has too, and LibTorch's number of the thread, on which numbers are counted; of a backward, the thread that
// ran the forward.
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

// The recorder that has LibTorch call us. A child of a fork has its parent's, and may have one of its own that has not.
constinit std::atomic<uint32_t> g_calls_for{0};
// Whether that one wants shapes. LibTorch may have inputs at hand for somebody else.
constinit std::atomic<bool> g_has_shapes{false};

// Where nothing is recorded nothing is kept, either.
ThreadState* Enter() {
  const detail::Ring* const ring = detail::Enter();
  const bool is_recorded = ring != nullptr && ring->gate >> 1 == g_calls_for.load(std::memory_order_relaxed);
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
    // What a counted operator calls is in its sum.
    if (state->flops_owner() == nullptr) flops = FlopsOf(function);
    shapes = ShapesOf(function);
  } catch (...) {
    // Of what cannot be looked at the name is known.
  }
  Context context =
      Begin<kShaped>(state->NameOf(function.name()), function.seqNr(), function.threadId(), flops, shapes);
  if (flops != 0) state->set_flops_owner(context.get());
  return context;
}

Context OnOperator(const RecordFunction& function) {
  ThreadState* const state = Enter();
  if (state == nullptr) return nullptr;
  // Threads hear of a callback that wants inputs at their next operator.
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

// A method of a scripted module is an operator to whoever looks for what takes time.
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
  g_calls_for.store(__atomic_load_n(&detail::g_gate, __ATOMIC_RELAXED) >> 1, std::memory_order_relaxed);
}

Operators::~Operators() {
  try {
    Record(Detail::kRanges);
  } catch (const std::exception&) {
    // What it still calls records nothing: the gate is closed.
  }
  try {
    at::removeCallback(ranges_);
  } catch (const std::exception&) {}
}

// Shapes have a callback of their own, which is not called and has LibTorch give their inputs to that of operators:
// what begins while that is added or removed is recorded, and once. Added and removed rather than switched: LibTorch
// asks for inputs where any callback wants them that it knows, also one that is disabled.
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
