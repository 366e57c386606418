// SPDX-License-Identifier: Apache-2.0
#include "trace/calls.h"

#include <algorithm>
#include <string_view>

#include "trace/internal_sites.h"
#include "trace/names.h"
#include "trace/rings.h"

namespace pitot::trace {

uint64_t BeginCall() noexcept {
  const detail::Ring* ring = detail::Enter();
  return ring != nullptr ? detail::Clock(ring->gate) : 0;
}

void EndCall(Name api, uint32_t correlation, uint64_t begin_ticks, Awaited awaited) noexcept {
  detail::Ring* ring = begin_ticks != 0 ? detail::Enter() : nullptr;
  if (ring == nullptr) return;
  RecordWords words;
  words.Add(correlation | uint64_t{api.index} << 32);
  if (awaited.context != 0) words.Add(awaited.context | uint64_t{awaited.stream} << 32);
  detail::Append(ring, &kCallSite, begin_ticks, detail::Clock(ring->gate), words);
}

namespace {

// The name of the open scope at a depth of the calling thread's own stack.
std::string_view NameOfOpen(const ThreadRing& ring, uint32_t depth) {
  const Site* const site = ring.open[depth].site;
  if ((site->flags & kNameIsFirstArg) == 0) return site->name;
  const OpenArgs& args = ring.open_args[depth];
  return args.begin == ring.open[depth].begin ? NameText(static_cast<uint32_t>(args.words[0])) : std::string_view();
}

}  // namespace

Name OpenScopePath() noexcept {
  const ThreadRing* const ring = EnterThread();
  if (ring == nullptr) return Name{0};
  constexpr std::string_view kBetween = " / ";
  char path[kMaxNameBytes];
  size_t begin = sizeof path;
  for (uint32_t depth = std::min(ring->depth, detail::kMaxOpen); depth > 0; --depth) {
    if (ring->open[depth - 1].begin == 0) continue;  // closed out of order
    const std::string_view name = NameOfOpen(*ring, depth - 1);
    const size_t more = name.size() + (begin != sizeof path ? kBetween.size() : 0);
    if (name.empty() || more > begin) break;
    if (begin != sizeof path) begin -= kBetween.size(), kBetween.copy(path + begin, kBetween.size());
    begin -= name.size();
    name.copy(path + begin, name.size());
  }
  return begin != sizeof path ? InternText({path + begin, sizeof path - begin}) : Name{0};
}

}  // namespace pitot::trace
