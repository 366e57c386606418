// SPDX-License-Identifier: Apache-2.0
#include "pitot/manual.h"

#include "trace/internal_sites.h"
#include "trace/rings.h"

namespace pitot::trace {

constexpr Site kNamedScopeSite{
    kSiteMagic,       SiteKind::kScope, 1,           kNameIsFirstArg, __LINE__, detail::ArgList<Name>::Types(), "",
    "pitot/manual.h", "BeginScope",     "\"\", name"};

namespace {

void Begin(const Site* site, Name name) {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const uint32_t depth = ring->depth;
  if (ring->begun_unrecorded != 0 || depth >= detail::kMaxOpen) {
    ++ring->begun_unrecorded;
    CountRefusedEvent();
    return;
  }
  const uint64_t begin = detail::Clock(ring->gate);
  StoreOpenWait(&ring->waits[depth], begin, {name.index, reinterpret_cast<uintptr_t>(site), ring->begun});
  ring->begun = depth + 1;
  detail::Push(ring, site, begin);
}

template <class... Args> void End(ThreadRing* ring, const Site* site, uint64_t begin, Args... args) {
  detail::ArgList<Args...> list;
  list.Set(args...);
  detail::Append(ring, site, begin, detail::Clock(ring->gate), list);
}

}  // namespace
}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

using namespace trace;  // NOLINT: this part only implements the public functions on what stands above

void BeginScope(Name name) noexcept { Begin(&kNamedScopeSite, name); }
void BeginScope(const Site* site) noexcept { Begin(site, {}); }

void EndScope() noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  if (ring->begun_unrecorded != 0) {
    --ring->begun_unrecorded;
    return;
  }
  if (ring->begun == 0) return;
  const uint32_t depth = ring->begun - 1;
  const OpenWait& scope = ring->waits[depth];
  ring->begun = static_cast<uint32_t>(scope.args[2]);
  const auto* site = reinterpret_cast<const Site*>(scope.args[1]);
  if (site == &kNamedScopeSite) {
    End(ring, site, scope.begin, Name{static_cast<uint32_t>(scope.args[0])});
  } else {
    End(ring, site, scope.begin);
  }
  detail::Pop(ring, depth);
}

PITOT_NAMESPACE_END
