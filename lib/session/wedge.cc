// SPDX-License-Identifier: Apache-2.0
#include "session/wedge.h"

#include <algorithm>
#include <cstdio>

#include "base/columns.h"

namespace pitot::session {
namespace {

constexpr size_t kMostReported = 256, kMostUnwritten = 16;
constexpr int64_t kMostPauseNs = 600'000'000'000;

const char* StoppedBy(Stop stop) {
  switch (stop) {
    case Stop::kSignal:
      return "is stopped by a signal";
    case Stop::kTracer:
      return "is stopped by a tracer";
    case Stop::kFreezer:
      return "is frozen";
    case Stop::kNone:
      break;
  }
  return "gives no sign of life";
}

Wedge Down(Wedge::Kind kind, const WatchLook& look, const Health& before, int64_t since_ns) {
  return {kind, before.request,
          std::string(StoppedBy(look.stop)) + " for " + base::Duration(look.now_ns - since_ns) +
              "; before that it was " + before.text};
}

}  // namespace

Health HealthWith(Stop stop, const Health& health) {
  if (stop == Stop::kNone || stop == Stop::kTracer) return health;
  Health stopped = health;
  stopped.state = HealthState::kStalled;
  std::snprintf(stopped.text, sizeof stopped.text, "stalled: the process %s; before that: %.*s", StoppedBy(stop),
                static_cast<int>(sizeof stopped.text / 2), health.text);
  return stopped;
}

std::optional<Wedge> WedgeWatch::Note(const WatchLook& look) {
  unwritten_.reserve(kMostUnwritten);  // before anything is taken for reported
  const Pause pause_before = pause_;
  NoteTime(look);
  std::optional<Wedge> wedge = Find(look);
  if (!wedge) return wedge;
  if (unwritten_.size() == kMostUnwritten) unwritten_.erase(unwritten_.begin());
  unwritten_.push_back({wedge->kind, wedge->request, pause_before});
  return wedge;
}

std::optional<Wedge> WedgeWatch::Find(const WatchLook& look) {
  std::optional<Wedge> wedge = FindDown(look);
  // While it does not run, its requests prove nothing.
  if (!wedge && stopped_since_ns_ < 0 && !is_reported_) wedge = FindStalled(look);
  return wedge;
}

void WedgeWatch::NoteWritten(const Wedge& wedge) {
  std::erase_if(unwritten_, [&](const Unwritten& it) { return it.kind == wedge.kind && it.request == wedge.request; });
}

void WedgeWatch::ForgetUnwritten() {
  for (; !unwritten_.empty(); unwritten_.pop_back()) {
    const Unwritten& last = unwritten_.back();
    if (last.kind != Wedge::Kind::kStalled) {
      is_reported_ = false;
      continue;
    }
    stalled_.erase(last.request);
    pause_ = last.pause_before;
  }
}

void WedgeWatch::NoteTime(const WatchLook& look) {
  const bool is_gap = has_looked_ && look.now_ns - looked_ns_ > limits_.look_gap_ns;
  const bool is_alive = !has_looked_ || look.life != life_ || look.is_ready;
  if (!has_looked_) counted_from_ns_ = INT64_MIN;
  if (has_looked_ && (is_gap || (is_alive && look.now_ns - life_ns_ > limits_.life_gap_ns)))
    counted_from_ns_ = look.now_ns;
  if (is_alive || is_gap) life_ns_ = look.now_ns - (has_looked_ || look.is_ready ? 0 : look.silent_ns);
  if (is_alive) is_reported_ = false;
  if (look.stop != Stop::kNone) stopped_ns_ = look.now_ns;
  const bool has_run = is_alive || is_gap || look.switches != switches_;
  if (look.stop == Stop::kNone) {
    stopped_since_ns_ = -1;
  } else if (has_run || stopped_since_ns_ < 0) {
    stopped_since_ns_ = look.now_ns;
  }
  if (!has_looked_ || (is_alive && look.stop == Stop::kNone)) before_ = look.health;
  switches_ = look.switches;
  life_ = look.life;
  looked_ns_ = look.now_ns;
  has_looked_ = true;
}

std::optional<Wedge> WedgeWatch::FindDown(const WatchLook& look) {
  if (is_reported_) return std::nullopt;
  const bool is_stopped = stopped_since_ns_ >= 0 && look.now_ns - stopped_since_ns_ >= limits_.stopped_after_ns;
  const bool is_idle = look.health.state == HealthState::kIdle || look.health.state == HealthState::kUnknown;
  // A stop explains silence, and has a limit of its own.
  const int64_t silent_since_ns = std::max(life_ns_, stopped_ns_);
  const bool is_silent =
      look.now_ns - silent_since_ns >= (is_idle ? limits_.idle_silent_after_ns : limits_.silent_after_ns);
  if (!is_stopped && !is_silent) return std::nullopt;
  is_reported_ = true;
  return is_stopped ? Down(Wedge::Kind::kStopped, look, before_, stopped_since_ns_)
                    : Down(Wedge::Kind::kSilent, look, before_, silent_since_ns);
}

std::optional<Wedge> WedgeWatch::FindStalled(const WatchLook& look) {
  if (look.health.state != HealthState::kStalled) return std::nullopt;
  if (counted_from_ns_ != INT64_MIN && look.now_ns - counted_from_ns_ < limits_.stalled_after_ns) return std::nullopt;
  const int64_t sign_ns = look.now_ns - static_cast<int64_t>(look.health.quiet_ms) * 1'000'000;
  const auto reported = stalled_.find(look.health.request);
  if (reported != stalled_.end() && sign_ns <= reported->second) return std::nullopt;
  const int64_t since_ns = look.now_ns - pause_.begin_ns;
  if (since_ns < pause_.length_ns) return std::nullopt;
  const bool is_first = pause_.length_ns == 0 || since_ns >= 2 * kMostPauseNs;
  pause_ = {look.now_ns, is_first ? limits_.stalled_after_ns : std::min(2 * pause_.length_ns, kMostPauseNs)};
  if (stalled_.size() >= kMostReported) {
    const auto oldest = std::min_element(stalled_.begin(), stalled_.end(),
                                         [](const auto& a, const auto& b) { return a.second < b.second; });
    stalled_.erase(oldest);
  }
  stalled_[look.health.request] = look.now_ns;
  return Wedge{Wedge::Kind::kStalled, look.health.request, std::string("is ") + look.health.text};
}

}  // namespace pitot::session
