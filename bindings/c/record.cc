// SPDX-License-Identifier: Apache-2.0
//
// Scopes, moments, values and waits whose names are made at run time: one site per kind, which says so.
#include <new>

#include "pitot/c.h"
#include "pitot/collect/cuda_events.h"
#include "pitot/manual.h"
#include "pitot/trace.h"
#include "pitot/wait.h"

namespace pitot::c {
namespace {

static_assert(PITOT_WAIT_LOCK == static_cast<int>(WaitKind::kLock));
static_assert(PITOT_WAIT_CONDITION == static_cast<int>(WaitKind::kCondition));
static_assert(PITOT_WAIT_QUEUE == static_cast<int>(WaitKind::kQueue));
static_assert(PITOT_WAIT_IO == static_cast<int>(WaitKind::kIo));
static_assert(PITOT_WAIT_FUTURE == static_cast<int>(WaitKind::kFuture));
static_assert(PITOT_WAIT_SLEEP == static_cast<int>(WaitKind::kSleep));
static_assert(PITOT_WAIT_DEVICE == static_cast<int>(WaitKind::kDevice));
static_assert(PITOT_WAIT_OTHER == static_cast<int>(WaitKind::kOther));

template <class... Args>
constexpr Site MakeSite(SiteKind kind, uint16_t flags, const char* name, const char* function, const char* arg_text) {
  using List = detail::ArgList<Args...>;
  return {kSiteMagic, kind, List::kCount, flags, 0, List::Types(), name, "pitot/c.h", function, arg_text};
}

constexpr Site kInstantSite = MakeSite<Name>(SiteKind::kInstant, kNameIsFirstArg, "", "pitot_instant", "\"\", name");
constexpr Site kDetailedInstantSite =
    MakeSite<Name, const char*>(SiteKind::kInstant, kNameIsFirstArg, "", "pitot_instant", "\"\", name, detail");
constexpr Site kCounterSite =
    MakeSite<Name, double>(SiteKind::kCounter, kNameIsFirstArg, "", "pitot_counter", "\"\", name, value");
constexpr Site kWaitSite = MakeSite<uint64_t, Name, uint64_t, uint64_t>(
    SiteKind::kWait, 0, "wait", "pitot_wait_begin", "\"\", kind, resource, owner_thread, owner_request");

// Builds a Wait in the caller's room for it; the last word marks it as open.
constexpr uint64_t kOpen = 0x7069746f745f7761;
constexpr int kMark = sizeof(pitot_wait) / 8 - 1;
static_assert(sizeof(Wait) <= 8 * kMark && alignof(Wait) <= alignof(pitot_wait));
Wait* OpenWaitOf(pitot_wait* wait) {
  return wait != nullptr && wait->opaque[kMark] == kOpen ? std::launder(reinterpret_cast<Wait*>(wait->opaque))
                                                         : nullptr;
}

constexpr int kScopeMark = sizeof(pitot_cuda_scope) / 8 - 1;

WaitKind KindOf(pitot_wait_kind kind) {
  return kind >= PITOT_WAIT_LOCK && kind <= PITOT_WAIT_OTHER ? static_cast<WaitKind>(kind) : WaitKind::kOther;
}
Owner OwnerOf(pitot_owner owner) { return {static_cast<uint32_t>(owner.thread), owner.request}; }

}  // namespace
}  // namespace pitot::c

extern "C" {

using namespace pitot;     // NOLINT: this part only implements the C functions on what stands above
using namespace pitot::c;  // NOLINT

pitot_name pitot_intern(const char* text) { return Intern(text).index; }
void pitot_set_thread_name(const char* name) { SetThreadName(name); }

void pitot_scope_begin(pitot_name name) { BeginScope(Name{name}); }
void pitot_scope_end() { EndScope(); }

void pitot_instant(pitot_name name, const char* detail) {
  if (detail == nullptr) return detail::EmitNow(&kInstantSite, "", Name{name});
  detail::EmitNow(&kDetailedInstantSite, "", Name{name}, detail);
}
void pitot_counter(pitot_name name, double value) { detail::EmitNow(&kCounterSite, "", Name{name}, value); }

pitot_owner pitot_this_owner() {
  const Owner owner = ThisOwner();
  return {owner.thread, owner.request};
}
void pitot_wait_begin(pitot_wait* wait, pitot_wait_kind kind, pitot_name resource, pitot_owner owner) {
  if (wait == nullptr) return;
  new (wait->opaque) Wait(&kWaitSite, KindOf(kind), Name{resource}, OwnerOf(owner));
  wait->opaque[kMark] = kOpen;
}
void pitot_wait_set_owner(pitot_wait* wait, pitot_owner owner) {
  if (Wait* open = OpenWaitOf(wait)) open->SetOwner(OwnerOf(owner));
}
void pitot_wait_end(pitot_wait* wait) {
  Wait* open = OpenWaitOf(wait);
  if (open == nullptr) return;
  open->~Wait();
  wait->opaque[kMark] = 0;
}

void pitot_cuda_scope_begin(pitot_cuda_scope* scope, void* stream, pitot_name name) {
  if (scope == nullptr) return;
  *scope = {};
  if (!detail::HasCudaEvents()) return;
  const detail::CudaSpan span = detail::BeginCudaSpan(stream, Name{name});
  if (span.pair != nullptr) *scope = {{reinterpret_cast<uintptr_t>(span.pair), span.ticket, 0, kOpen}};
}
void pitot_set_work_stream(void* stream) { SetWorkStream(stream); }
void pitot_cuda_scope_end(pitot_cuda_scope* scope) {
  if (scope == nullptr || scope->opaque[kScopeMark] != kOpen) return;
  detail::EndCudaSpan({reinterpret_cast<void*>(scope->opaque[0]), static_cast<uint32_t>(scope->opaque[1])});
  *scope = {};
}

}  // extern "C"
