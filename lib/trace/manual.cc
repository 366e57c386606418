// SPDX-License-Identifier: Apache-2.0
#include "trace/manual.h"

#include <algorithm>

#include "pitot/manual.h"
#include "trace/internal_sites.h"

namespace pitot::trace {

constexpr Site kNamedScopeSite{
    kSiteMagic,       SiteKind::kScope, 1,           kNameIsFirstArg, __LINE__, detail::ArgList<Name>::Types(), "",
    "pitot/manual.h", "BeginScope",     "\"\", name"};

namespace {

constinit std::atomic<uint64_t> g_ranges_cut{0};

// The arguments of a site, one word each.
struct SiteWords {
  static constexpr bool kFixed = true;
  uint32_t Words() const { return count; }
  uint32_t count;
  const uint64_t* words;
};

// For the host's own sites only the run is recorded, without arguments.
uint32_t CountArgs(const Site* site, uint8_t owner) {
  return owner == kHostsScopes && site != &kNamedScopeSite ? 0 : site->arg_count;
}

// Removes the scope at `depth` from the list of begun scopes.
void Unlink(ThreadRing* ring, uint32_t depth) {
  uint8_t* link = &ring->begun;
  while (*link != depth + 1) link = &ring->begun_before[*link - 1];
  *link = ring->begun_before[depth];
}

// If a range ended below others (domains' stacks may cross), a gap remains until everything above it has ended.
void DropGapsOnTop(ThreadRing* ring) {
  for (; ring->gaps != 0 && ring->depth != 0 && ring->depth <= detail::kMaxOpen; --ring->depth, --ring->gaps) {
    if (ring->open[ring->depth - 1].begin != 0) return;
  }
}

enum class Ending : uint8_t { kRecorded, kDropped };

void End(ThreadRing* ring, uint32_t depth, Ending ending = Ending::kRecorded) {
  Unlink(ring, depth);
  const uint8_t owner = ring->begun_by[depth];
  const bool is_hosts = owner == kHostsScopes;
  if (!is_hosts) --ring->ranges_open;
  const detail::OpenScope& scope = ring->open[depth];
  const uint64_t end = detail::Clock(ring->gate, is_hosts ? detail::Edge::kEnd : detail::Edge::kNone);
  if (ending == Ending::kRecorded) {
    detail::Append(ring, scope.site, scope.begin, end,
                   SiteWords{CountArgs(scope.site, owner), ring->open_args[depth].words});
  }
  detail::ShowArgs(ring, depth, 0, nullptr, 0);
  if (is_hosts || ring->depth == depth + 1) {
    detail::Pop(ring, depth);
  } else if ((ring->depth & kHoles) != 0) {
    CloseOutOfOrder(ring, depth);
  } else {
    __atomic_store_n(&ring->open[depth].begin, 0, __ATOMIC_RELEASE);
    ++ring->gaps;
  }
  DropGapsOnTop(ring);
}

bool IsRange(const ThreadRing& ring, uint32_t depth) {
  for (uint32_t at = ring.begun; at != 0; at = ring.begun_before[at - 1]) {
    if (at == depth + 1) return ring.begun_by[depth] != kHostsScopes;
  }
  return false;
}

// Ends the oldest range of the owner with most ranges, counting the one that `owner` begins: the newest survive.
void EndOldest(ThreadRing* ring, uint8_t owner) {
  uint8_t counts[kMaxOwners] = {}, most = kHostsScopes;
  counts[owner] = 1;
  for (uint32_t at = ring->begun; at != 0; at = ring->begun_before[at - 1]) {
    const uint8_t its = ring->begun_by[at - 1];
    if (its != kHostsScopes && ++counts[its] > counts[most]) most = its;
  }
  uint32_t oldest = 0;
  for (uint32_t at = ring->begun; at != 0; at = ring->begun_before[at - 1]) {
    if (ring->begun_by[at - 1] == most) oldest = at;
  }
  End(ring, oldest - 1);
  g_ranges_cut.fetch_add(1, std::memory_order_relaxed);
}

template <class Count> bool TakeOne(Count* count) { return *count != 0 && (--*count, true); }

constexpr uint32_t kNoPlace = ~uint32_t{0};

// The place in the stack for a new scope of `owner`.
uint32_t PlaceFor(ThreadRing* ring, uint8_t owner) {
  DropGapsOnTop(ring);
  if (owner == kHostsScopes) return ring->depth < detail::kMaxOpen ? ring->depth : kNoPlace;
  if ((ring->depth & kHoles) != 0) return kNoPlace;
  const auto has_room = [&] { return ring->depth < detail::kMaxOpen || ring->gaps != 0; };
  if (ring->ranges_open == kMaxRanges || (!has_room() && ring->ranges_open != 0)) EndOldest(ring, owner);
  if (!has_room()) return kNoPlace;
  // Ranges and their gaps leave room for the host.
  if (ring->depth < detail::kMaxOpen && ring->ranges_open + ring->gaps < kMaxRanges) return ring->depth;
  uint32_t gap = std::min(ring->depth, detail::kMaxOpen) - 1;
  while (ring->open[gap].begin != 0) --gap;
  return gap;
}

}  // namespace

void BeginScopeOf(uint8_t owner, const Site* site, const uint64_t* words) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const bool is_hosts = owner == kHostsScopes;
  const bool is_within_unrecorded = is_hosts ? ring->begun_unrecorded != 0 : ring->ranges_unrecorded[owner] != 0;
  const uint32_t depth = is_within_unrecorded ? kNoPlace : PlaceFor(ring, owner);
  if (depth == kNoPlace) {
    if (is_hosts)
      ++ring->begun_unrecorded;
    else if (ring->ranges_unrecorded[owner] != UINT8_MAX)
      ++ring->ranges_unrecorded[owner];
    CountRefusedBegin();
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
  if (depth == ring->depth) return detail::Push(ring, site, begin);
  --ring->gaps;
  __atomic_store_n(&ring->open[depth].site, site, __ATOMIC_RELEASE);
  __atomic_store_n(&ring->open[depth].begin, begin, __ATOMIC_RELEASE);
}

bool EndScopeOf(uint8_t owner) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return true;
  const Step* step = StepOn(ring);
  const bool is_of_step = step->begin == 0 || ring->begun_unrecorded > step->unrecorded;
  if (owner == kHostsScopes ? is_of_step && TakeOne(&ring->begun_unrecorded) : TakeOne(&ring->ranges_unrecorded[owner]))
    return true;
  for (uint32_t at = ring->begun; at != 0; at = ring->begun_before[at - 1]) {
    if (ring->begun_by[at - 1] != owner) continue;
    if (owner == kHostsScopes && at - 1 < step->depth) break;
    End(ring, at - 1);
    return true;
  }
  return false;
}

void FenceScopes(ThreadRing* ring) noexcept {
  DropGapsOnTop(ring);
  Step* step = StepOn(ring);
  step->depth = ring->depth & ~kHoles;
  step->unrecorded = ring->begun_unrecorded;
}

void DropScopesOfStep(ThreadRing* ring) noexcept {
  Step* step = StepOn(ring);
  ring->begun_unrecorded = std::min(ring->begun_unrecorded, step->unrecorded);
  const auto is_hosts = [&](uint32_t at) { return ring->begun_by[at - 1] == kHostsScopes && at > step->depth; };
  for (; ring->depth > step->depth && ring->depth <= detail::kMaxOpen; DropGapsOnTop(ring)) {
    const uint32_t top = ring->depth - 1;
    if (ring->begun == ring->depth && is_hosts(ring->depth)) {
      End(ring, top, Ending::kDropped);
    } else if (IsRange(*ring, top)) {
      break;
    } else {  // a wait
      detail::ShowArgs(ring, top, 0, nullptr, 0);
      detail::Pop(ring, top);
    }
    detail::CloseElsewhere();
  }
  for (uint32_t at = ring->begun, next = 0; at != 0; at = next) {  // below ranges
    next = ring->begun_before[at - 1];
    if (!is_hosts(at)) continue;
    End(ring, at - 1, Ending::kDropped);
    detail::CloseElsewhere();
  }
  step->depth = 0;
}

void RecordEvent(const Site* site, uint64_t begin_ticks, const uint64_t* words) noexcept {
  ThreadRing* ring = EnterThread();
  if (ring == nullptr) return;
  const uint64_t now = detail::Clock(ring->gate);
  detail::Append(ring, site, begin_ticks != 0 ? begin_ticks : now, now, SiteWords{site->arg_count, words});
}

bool CutRanges(ThreadRing* ring, uint32_t depth) noexcept {
  DropGapsOnTop(ring);
  // If the stack has holes, its depth is not a plain number: the loop does not run.
  while (ring->depth > depth + 1 && ring->depth <= detail::kMaxOpen && IsRange(*ring, ring->depth - 1)) {
    End(ring, ring->depth - 1);
    g_ranges_cut.fetch_add(1, std::memory_order_relaxed);
  }
  return ring->depth == depth + 1;
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
