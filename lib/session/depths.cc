// SPDX-License-Identifier: Apache-2.0
//
// Session on depth: fixed by the host or chosen by the governor, and everything is recorded while a request is slow.
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <utility>

#include "base/clock.h"
#include "pitot/outcome.h"
#include "session/calibrate.h"
#include "session/session.h"

namespace pitot::session {
namespace {

using base::ClockNs;

// How long everything is recorded after the last sign of a late request: its batch is on its way to the GPU.
constexpr int64_t kLateArmNs = 50'000'000;

static_assert(sizeof(DepthStats::state) == sizeof(governor::Report::state));
static_assert(sizeof(DepthChange::why) == sizeof(governor::Report::state));
static_assert(std::size(DepthStats{}.mean) == governor::kDepths);

// After this long a late request tells nothing new.
constexpr uint64_t kLongestLateNs = 2'000'000'000;

uint32_t DepthsUpTo(Depth deepest) { return (2u << static_cast<uint32_t>(deepest)) - 1; }

}  // namespace

Status Session::SetDepth(Depth depth) noexcept {
  if (Status s = status(); !s.ok()) return s;
  if (depth > Depth::kOps && depth != Depth::kAuto)
    return host_.LogError(Status(StatusCode::kInvalidArgument, "SetDepth: no such depth"));
  {
    const std::lock_guard lock(depth_mutex_);
    fixed_depth_.store(depth);
    depth_ = depth != Depth::kAuto ? depth : Depth::kScopes;  // until the governor's next tick
    NoteDepth();
  }
  TellCollectors();
  return {};
}

// Applies the governor's depth, unless the host has fixed one meanwhile. Called with depth_mutex_ held.
void Session::ApplyGoverned(Depth depth) noexcept {
  if (fixed_depth_.load() != Depth::kAuto) return;
  depth_ = depth;
  NoteDepth();
  const auto is_untold = [this](const Governed& governed) {
    return governed.told != DueOf(governed) || governed.is_armed != IsArmed();
  };
  if (std::any_of(governed_.begin(), governed_.end(), is_untold)) tell_.Give();
}

// Notes the depth and its reason; without a governor there is none to note. Called with depth_mutex_ held.
void Session::NoteDepth() noexcept {
  if (governor_ == nullptr) return;
  DepthChange change{ClockNs(CLOCK_MONOTONIC), depth_, "fixed by the host"};
  if (fixed_depth_.load() == Depth::kAuto) governor_->Describe(change.why, sizeof change.why);
  depths_.Note(change);
}

// The depth at which a collector must record now. Called with depth_mutex_ held.
Depth Session::DueOf(const Governed& governed) const noexcept {
  if (fixed_depth_.load() != Depth::kAuto) return depth_;
  const uint32_t depths = governed.depths & DepthsUpTo(depth_);
  return static_cast<Depth>(std::bit_width(depths | BitOf(Depth::kScopes)) - 1);
}

// Whether collectors are armed. Called with depth_mutex_ held.
bool Session::IsArmed() const noexcept {
  return fixed_depth_.load() != Depth::kAuto || (governor_ != nullptr && governor_->IsArmed());
}

// Tells collectors their depth. Returns when everything due before the call is told: waits for collectors, and for
// another thread telling them. Each is told what is due by then; a thread that makes something else due meanwhile has
// it told later. Nothing is told once the recorder is stopping.
void Session::TellCollectors() noexcept {
  const std::lock_guard tell_lock(tell_mutex_);
  for (size_t i = 0;; ++i) {
    Collector* collector;
    Depth expected, due;
    bool is_other, is_new, is_armed, was_armed;
    {
      const std::lock_guard lock(depth_mutex_);
      if (i == governed_.size() || !lifetime_.IsRunning()) return;
      Governed& governed = governed_[i];
      collector = governed.collector;
      expected = fixed_depth_.load(), due = DueOf(governed);
      is_other = std::exchange(governed.expects, expected) != expected;
      is_armed = IsArmed(), was_armed = std::exchange(governed.is_armed, is_armed);
      is_new = std::exchange(governed.told, due) != due || is_other;
      if (!is_new && is_armed == was_armed) continue;
    }
    const HostCalls::Entry entry(&host_);
    if (!entry.is_allowed()) return;
    if (is_other) collector->ExpectDepth(expected);
    if (is_armed != was_armed) collector->Arm(is_armed);
    if (is_new) collector->SetDepth(due);
  }
}

void Session::Tell() noexcept {
  pthread_setname_np(pthread_self(), "pitot-depth");
  for (;;) {
    tell_.Await();
    tell_.TakeAll();  // one round serves all wake-ups
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) {
        teller_done_ = true;
        changed_.notify_all();
        return;
      }
    }
    TellCollectors();
  }
}

// Makes the governor, with the first collector: without one there is nothing to govern. Called with depth_mutex_ held.
void Session::MakeGovernor() noexcept {
  governor::Options options;
  options.budget_percent = options_.values.overhead_budget_percent;
  // The process's own: a fleet that started together must not switch together.
  options.seed = static_cast<uint64_t>(ClockNs(CLOCK_MONOTONIC)) ^ reinterpret_cast<uintptr_t>(this);
  governor_ = governor::Governor::Make(options);
  if (governor_ == nullptr) return;
  governor_->SetAvailable(BitOf(Depth::kScopes));  // until the watcher has asked
  governor_->Tick(ClockNs(CLOCK_MONOTONIC));
  NoteDepth();
  noting_.store(governor_.get());
}

void Session::NoteWork(uint32_t work_class, uint64_t duration_ns) noexcept {
  governor::Governor* const governor = noting_.load(std::memory_order_acquire);
  if (governor == nullptr || fixed_depth_.load(std::memory_order_relaxed) != Depth::kAuto) return;
  const int64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  governor->Note(work_class, now_ns - static_cast<int64_t>(duration_ns), now_ns);
}

// On the host's threads. Batches of about as many members are alike.
void Session::OnBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept {
  if (!has_batches_.load(std::memory_order_relaxed)) has_batches_.store(true, std::memory_order_relaxed);
  NoteWork(1u << 31 | executor << 8 | static_cast<uint32_t>(std::bit_width(members)), duration_ns);
}

void Session::OnLateMember() noexcept {
  if (noting_.load(std::memory_order_relaxed) != nullptr && !is_late_.exchange(true)) wake_.Give();
}

bool Session::IsGoverned() {
  return noting_.load(std::memory_order_relaxed) != nullptr && fixed_depth_.load() == Depth::kAuto;
}

void Session::Govern() noexcept {
  const uint32_t depths = AskDepths();
  const std::lock_guard lock(depth_mutex_);
  governor_->SetAvailable(depths);
  ApplyGoverned(governor_->Tick(ClockNs(CLOCK_MONOTONIC)));
}

// The depths now offered by any collector.
uint32_t Session::AskDepths() noexcept {
  uint32_t all = BitOf(Depth::kScopes);
  for (size_t i = 0;; ++i) {
    Collector* collector;
    {
      const std::lock_guard lock(depth_mutex_);
      if (i == governed_.size()) return all;
      collector = governed_[i].collector;
    }
    const HostCalls::Entry entry(&host_);
    if (!entry.is_allowed()) return all;
    const uint32_t depths = collector->Depths();
    const std::lock_guard lock(depth_mutex_);
    governed_[i].depths = depths;
    all |= depths;
  }
}

// Records everything from now on, for this long.
void Session::ArmFor(int64_t ns) noexcept {
  const std::lock_guard lock(depth_mutex_);
  const int64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  ApplyGoverned(governor_->Arm(now_ns, now_ns + ns));
}

// Arms if an open request is late, or joined a batch late. Returns in how many ns the next becomes late.
int64_t Session::ArmForLateRequests() noexcept {
  struct Looked {
    uint64_t now;
    uint64_t long_late;  // one that was late before this is not worth more
    uint64_t next = ~uint64_t{0};
    bool is_late = false;
  } looked{};
  looked.now = detail::Clock(slow_clock_ ? 1 : 0);
  looked.long_late = looked.now - std::min(looked.now, detail::TicksOf(kLongestLateNs));
  trace::VisitOpenRequests(
      [](void* context, const trace::OpenRequest& request) {
        auto* const it = static_cast<Looked*>(context);
        if (request.is_ending || request.late_ticks == ~uint64_t{0}) return;
        if (request.late_ticks <= it->now)
          it->is_late = it->is_late || request.late_ticks > it->long_late;
        else
          it->next = std::min(it->next, request.late_ticks);
      },
      &looked);
  if (is_late_.exchange(false) || looked.is_late) ArmFor(kLateArmNs);
  return looked.next == ~uint64_t{0}
             ? INT64_MAX
             : static_cast<int64_t>(static_cast<double>(looked.next - looked.now) / TicksPerNs());
}

void Session::KeepDepths(Incident* incident) {
  if (noting_.load() == nullptr) return;
  incident->overhead = std::make_unique<governor::Report>();
  const std::lock_guard lock(depth_mutex_);
  *incident->overhead = governor_->GetReport();
  incident->overhead->depth = depth_;
  incident->depths = depths_.Since(incident->snapshot.clock.Ns(incident->window_begin_ticks));
}

void Session::CountDepth(DepthStats* stats) noexcept {
  const std::lock_guard lock(depth_mutex_);
  stats->depth = depth_;
  if (governor_ == nullptr || fixed_depth_.load() != Depth::kAuto) return;
  const governor::Report report = governor_->GetReport();
  const auto copy = [](const governor::Estimate& from, Overhead* to) {
    if (from.is_known) *to = {true, from.percent, from.low_percent, from.high_percent};
  };
  std::memcpy(stats->state, report.state, sizeof stats->state);
  copy(report.cost, &stats->cost);
  for (size_t i = 1; i < governor::kDepths; ++i) {
    copy(report.depths[i].mean, &stats->mean[i]);
    copy(report.depths[i].p99, &stats->p99[i]);
    stats->works[i] = static_cast<uint64_t>(report.depths[i].works);
  }
  stats->armed_percent = report.armed_percent;
  stats->works_lost = report.notes_lost;
}

}  // namespace pitot::session
