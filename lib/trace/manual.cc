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
  const uint64_t arg = name.index;
  // Whatever the site says: a name is all that there is.
  detail::ShowArgs(ring, depth, begin, &arg, site == &kNamedScopeSite ? 1 : 0);
  ring->begun_before[depth] = static_cast<uint8_t>(ring->begun);
  ring->begun = depth + 1;
  detail::Push(ring, site, begin);
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
  ring->begun = ring->begun_before[depth];
  const detail::OpenScope& scope = ring->open[depth];
  const uint64_t end = detail::Clock(ring->gate);
  if (scope.site == &kNamedScopeSite) {
    detail::ArgList<Name> args;
    args.Set(Name{static_cast<uint32_t>(ring->open_args[depth].words[0])});
    detail::Append(ring, scope.site, scope.begin, end, args);
  } else {
    detail::Append(ring, scope.site, scope.begin, end, detail::ArgList<>{});
  }
  detail::ShowArgs(ring, depth, 0, nullptr, 0);
  detail::Pop(ring, depth);
}

PITOT_NAMESPACE_END
