// SPDX-License-Identifier: Apache-2.0
#include "session/triggers.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "base/message.h"
#include "pitot/trace.h"
#include "session/calibrate.h"
#include "snapshot/ring_reader.h"
#include "trace/clock.h"
#include "trace/names.h"
#include "trace/requests.h"
#include "trace/rings.h"
#include "trigger/firing_rules.h"

namespace pitot::session {
namespace {

using base::Error;

// The triggers keep a slot for each route and copies of names.
static_assert(trigger::kMaxRoutes == trace::kMaxRoutes && trigger::kMaxNameBytes == trace::kMaxNameBytes);

constexpr uint64_t kStallNoticedNs = 10'000'000;

// A scope open for long.
struct LongOpen {
  snapshot::OpenScopeCopy scope;
  uint32_t thread;
};

struct FoundOpen {
  std::vector<LongOpen> long_open;
  bool has_newer = false;  // a scope was open, but not for long
};

FoundOpen FindOpen(uint64_t now) {
  FoundOpen found;
  std::vector<snapshot::OpenScopeCopy> open;
  const uint64_t long_ago = detail::TicksOf(kStallNoticedNs);
  const trace::PinnedRings rings;
  for (const trace::ThreadRing* ring : rings) {
    if (ring->state != trace::RingState::kLive) continue;
    open.clear();
    snapshot::CopyOpenScopes(*ring, &open);
    for (const auto& scope : open) {
      if (now >= scope.begin_ticks + long_ago)
        found.long_open.push_back({scope, ring->number});
      else
        found.has_newer = true;
    }
  }
  return found;
}

}  // namespace

Status Triggers::Add(std::unique_ptr<Trigger> trigger) noexcept {
  if (trigger == nullptr)
    return Status(StatusCode::kResourceExhausted, "the trigger is null: there was no memory for it");
  if (Status s = trigger->Check(); !s.ok()) return s;
  if (const char* route = trigger->Route(); route != nullptr && !trace::KeepRoute(route))
    host_.Log(LogLevel::kWarning,
              Error(StatusCode::kResourceExhausted,
                    "the route \"%s\" came after 63 others and is counted as (other): its trigger will not fire", route)
                  .message());
  {
    const base::MutexLock lock(&mutex_);
    if (const uint32_t at = count_.load(); at < kMost) {
      triggers_[at] = std::move(trigger);
      count_.store(at + 1, std::memory_order_release);
    }
  }
  if (trigger != nullptr) return Status(StatusCode::kResourceExhausted, "a recorder takes at most 32 triggers");
  trace::RefreshLateness();
  return {};
}

uint64_t Triggers::LateAfterNs(const char* route) noexcept {
  uint64_t least = 0;
  const uint32_t count = count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t ns = triggers_[i]->LateAfterNs(route);
    if (ns != 0 && (least == 0 || ns < least)) least = ns;
  }
  return least;
}

Triggers::Watched Triggers::WatchedWork() const noexcept {
  const uint32_t count = count_.load(std::memory_order_acquire);
  const auto any = [&](auto asks) { return std::any_of(triggers_, triggers_ + count, asks); };
  return {any([](auto& trigger) { return trigger->WatchesOpenRequests(); }),
          any([](auto& trigger) { return trigger->WatchesOpenScopes(); })};
}

void Triggers::LookForStalledRequests() noexcept {
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& open) {
        auto* const it = static_cast<Triggers*>(context);
        if (open.is_ending) return;
        Sink sink(&it->firings_, &FiringTaker::TakeStall, open.begin_ticks);
        const uint32_t count = it->count_.load(std::memory_order_acquire);
        for (uint32_t i = 0; i < count; ++i) it->triggers_[i]->OnOpenRequest(open.view, sink);
      },
      this);
}

int64_t Triggers::LookForStalledScopes() noexcept {
  int64_t newest_ns = INT64_MAX;
  try {
    const uint64_t now = trace::NowTicks(slow_clock_);
    const double ticks_per_ns = TicksPerNs();
    const FoundOpen found = FindOpen(now);
    if (found.has_newer) newest_ns = 0;
    for (const LongOpen& open : found.long_open) {
      const SiteNames::Site& site = site_names_.At(open.scope.site, trace::MonotonicNs());
      if (site.name_is_first_arg && open.scope.arg_words == 0) continue;  // it is ending
      const std::string name(site.name_is_first_arg ? trace::NameText(static_cast<uint32_t>(open.scope.args[0]))
                                                    : site.name);
      const auto open_ns = static_cast<uint64_t>(static_cast<double>(now - open.scope.begin_ticks) / ticks_per_ns);
      if (!site.is_wait) newest_ns = std::min(newest_ns, static_cast<int64_t>(open_ns));
      const OpenScopeView view{name.c_str(), open.thread, open_ns, site.is_wait};
      Sink sink(&firings_, &FiringTaker::TakeStall, open.scope.begin_ticks);
      const uint32_t count = count_.load(std::memory_order_acquire);
      for (uint32_t i = 0; i < count; ++i) triggers_[i]->OnOpenScope(view, sink);
    }
  } catch (const std::bad_alloc&) {
    newest_ns = 0;  // the next tick looks again
  }
  return newest_ns;
}

}  // namespace pitot::session
