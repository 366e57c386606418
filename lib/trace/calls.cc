// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string_view>

#include "pitot/extend/call.h"
#include "trace/internal_sites.h"
#include "trace/launch_hook.h"
#include "trace/names.h"
#include "trace/rings.h"
#include "trace/stream_use.h"

namespace pitot::trace {

constinit std::atomic<const StreamWatcher*> g_stream_watcher{nullptr};
constinit std::atomic<const LaunchHook*> g_launch_hook{nullptr};
constinit std::atomic<bool> g_are_launches_seen{false};
constinit std::atomic<int64_t> g_captures{0};

namespace {

// Both names of a call share half a word.
static_assert(kMaxNames <= 1 << 16);

// The name of the open scope at a depth of the calling thread's own stack.
std::string_view NameOfOpen(const ThreadRing& ring, uint32_t depth) {
  const Site* const site = ring.open[depth].site;
  if ((site->flags & kNameIsFirstArg) == 0) return site->name;
  const OpenArgs& args = ring.open_args[depth];
  return args.begin == ring.open[depth].begin ? NameText(static_cast<uint32_t>(args.words[0])) : std::string_view();
}

}  // namespace
}  // namespace pitot::trace

PITOT_NAMESPACE_BEGIN

uint64_t BeginCall() noexcept {
  const detail::Ring* ring = detail::Enter();
  return ring != nullptr ? detail::Clock(ring->gate) : 0;
}

void EndCall(uint64_t begin_ticks, const DeviceCall& call) noexcept {
  detail::Ring* ring = begin_ticks != 0 ? detail::Enter() : nullptr;
  if (ring == nullptr) return;
  trace::RecordWords words;
  words.Add(call.correlation | uint64_t{call.api.index} << 32 | uint64_t{call.collector.index} << 48);
  if (call.context != 0) words.Add(call.context | uint64_t{call.stream} << 32);
  detail::Append(ring, &trace::kCallSite, begin_ticks, detail::Clock(ring->gate), words);
}

Name OpenScopePath() noexcept {
  const trace::ThreadRing* const ring = trace::EnterThread();
  if (ring == nullptr) return Name{0};
  constexpr std::string_view kBetween = " / ";
  char path[trace::kMaxNameBytes];
  size_t begin = sizeof path;
  for (uint32_t depth = std::min(ring->depth, detail::kMaxOpen); depth > 0; --depth) {
    if (ring->open[depth - 1].begin == 0) continue;  // closed out of order
    const std::string_view name = trace::NameOfOpen(*ring, depth - 1);
    const size_t more = name.size() + (begin != sizeof path ? kBetween.size() : 0);
    if (name.empty() || more > begin) break;
    if (begin != sizeof path) begin -= kBetween.size(), kBetween.copy(path + begin, kBetween.size());
    begin -= name.size();
    name.copy(path + begin, name.size());
  }
  return begin != sizeof path ? trace::InternText({path + begin, sizeof path - begin}) : Name{0};
}

PITOT_NAMESPACE_END
