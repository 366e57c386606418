// SPDX-License-Identifier: Apache-2.0
#include "trace/manual.h"

#include "pitot/manual.h"
#include "trace/internal_sites.h"

namespace pitot::trace {

constexpr Site kNamedScopeSite{
    kSiteMagic,       SiteKind::kScope, 1,           kNameIsFirstArg, __LINE__, detail::ArgList<Name>::Types(), "",
    "pitot/manual.h", "BeginScope",     "\"\", name"};

namespace {

constinit std::atomic<uint64_t> g_ranges_cut{0};

// The arguments of a site of which each is a word.
struct SiteWords {
  static constexpr bool kFixed = true;
  uint32_t Words() const { return count; }
  uint32_t count;
  const uint64_t* words;
};

uint32_t* Unrecorded(ThreadRing* ring, uint8_t owner) { return &ring->begun_unrecorded[owner == kHostsScopes ? 0 : 1]; }

// Of the host's own sites nothing is recorded but that they ran, whatever they say.
uint32_t CountArgs(const Site* site, uint8_t owner) {
  return owner == kHostsScopes && site != &kNamedScopeSite ? 0 : site->arg_count;
}

// Takes the scope at `depth` from the list of those that were begun.
void Unlink(ThreadRing* ring, uint32_t depth) {
  uint8_t* link = &ring->begun;
  while (*link != depth + 1) link = &ring->begun_before[*link - 1];
  *link = ring->begun_before[depth];
}

void End(ThreadRing* ring, uint32_t depth) {
  Unlink(ring, depth);
  const uint8_t owner = ring->begun_by[depth];
  const bool is_hosts = owner == kHostsScopes;
  if (!is_hosts) --ring->ranges_open;
  const detail::OpenScope& scope = ring->open[depth];
  const uint64_t end = detail::Clock(ring->gate, is_hosts ? detail::Edge::kEnd : detail::Edge::kNone);
  detail::Append(ring, scope.site, scope.begin, end,
                 SiteWords{CountArgs(scope.site, owner), ring->open_args[depth].words});
  detail::ShowArgs(ring, depth, 0, nullptr, 0);
  // Domains' stacks may cross.
  if (is_hosts || ring->depth == depth + 1)
    detail::Pop(ring, depth);
  else
    CloseOutOfOrder(ring, depth);
}

}  // namespace

void BeginScopeOf(uint8_t owner, const Site* site, const uint64_t* words) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const bool is_hosts = owner == kHostsScopes;
  const uint32_t depth = ring->depth;
  uint32_t* const unrecorded = Unrecorded(ring, owner);
  if (*unrecorded != 0 || depth >= detail::kMaxOpen || (!is_hosts && ring->ranges_open >= kMaxRanges)) {
    ++*unrecorded;
    CountRefusedEvent();
    return;
  }
  const uint32_t args = CountArgs(site, owner);
  const uint64_t name = words != nullptr ? words[0] : 0;
  const uint64_t begin = is_hosts ? detail::Clock(ring->gate, detail::Edge::kBegin, site, static_cast<uint32_t>(name))
                                  : detail::Clock(ring->gate);
  detail::ShowArgs(ring, depth, begin, words, args);
  ring->begun_before[depth] = ring->begun;
  ring->begun_by[depth] = owner;
  ring->begun = static_cast<uint8_t>(depth + 1);
  if (!is_hosts) ++ring->ranges_open;
  detail::Push(ring, site, begin);
}

bool EndScopeOf(uint8_t owner) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return true;
  if (uint32_t* const unrecorded = Unrecorded(ring, owner); *unrecorded != 0) {
    --*unrecorded;
    return true;
  }
  for (uint32_t at = ring->begun; at != 0; at = ring->begun_before[at - 1]) {
    if (ring->begun_by[at - 1] != owner) continue;
    End(ring, at - 1);
    return true;
  }
  return false;
}

void RecordEvent(const Site* site, uint64_t begin_ticks, const uint64_t* words) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  detail::Append(ring, site, begin_ticks != 0 ? begin_ticks : now, now, SiteWords{site->arg_count, words});
}

bool CutRanges(ThreadRing* ring, uint32_t depth) noexcept {
  uint32_t cut = 0;
  // Where the stack has holes its depth is none.
  while (ring->depth > depth + 1 && ring->begun == ring->depth && ring->begun_by[ring->begun - 1] != kHostsScopes) {
    End(ring, ring->begun - 1);
    ++cut;
  }
  g_ranges_cut.fetch_add(cut, std::memory_order_relaxed);
  return cut != 0 && ring->depth == depth + 1;
}

uint64_t RangesCut() noexcept { return g_ranges_cut.load(std::memory_order_relaxed); }

}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

using namespace trace;  // NOLINT: this part only implements the public functions on what stands above

void BeginScope(Name name) noexcept {
  const uint64_t word = name.index;
  BeginScopeOf(kHostsScopes, &kNamedScopeSite, &word);
}
void BeginScope(const Site* site) noexcept { BeginScopeOf(kHostsScopes, site, nullptr); }
void EndScope() noexcept { EndScopeOf(kHostsScopes); }

PITOT_NAMESPACE_END
