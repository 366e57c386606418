// SPDX-License-Identifier: Apache-2.0
#include "session/health.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/columns.h"
#include "session/kernel_view.h"
#include "trace/clock.h"

namespace pitot::session {
namespace {

using snapshot::OpenSign;
using snapshot::Signs;

constexpr double kLeastShortNs = 1.5e9;  // the least limit by what is usual

uint64_t Since(uint64_t ticks, const Signs& signs) { return signs.now_ticks > ticks ? signs.now_ticks - ticks : 0; }

// Numbers of a black box may be anything.
double Bounded(double value) { return std::clamp(value, 0.0, 1e18); }

// 1 if the box says nothing sensible.
double TicksPerNsOf(const snapshot::BoxFacts& facts, const trace::ClockReading& now) {
  constexpr double kLeast = 0.001, kMost = 1000;
  const double ticks_per_ns = trace::ClockMap{facts.start, now}.TicksPerNs();
  return ticks_per_ns >= kLeast && ticks_per_ns <= kMost ? ticks_per_ns : 1;
}

struct Found {
  HealthState state = HealthState::kIdle;
  const OpenSign* request = nullptr;
  uint64_t sign_ticks = 0;
  bool are_late = false;  // slow only because most requests are late
  const trace::RouteProgress* failing = nullptr;
};

void Worsen(HealthState state, const OpenSign& request, Found* found) {
  if (state < found->state) return;
  if (state == found->state && found->request != nullptr && found->sign_ticks <= request.sign_ticks) return;
  *found = {state, &request, request.sign_ticks};
}

// The requests of a route.
struct RouteView {
  uint64_t limit_ticks = 0;   // without a sign, a request stands still
  uint64_t short_ticks = 0;   // the limit by what is usual
  uint32_t quiet = 0;         // requests without a sign for so long
  bool is_running = false;    // one of these uses a CPU
  uint64_t newest_ticks = 0;  // the newest sign that counts for others
  uint64_t grown_ticks = 0;   // the same with the longest limit
};

class Routes {
 public:
  Routes(const Signs& signs, const HealthLimits& limits) : most_ticks_(TicksOf(limits.stalled_after_ns, limits)) {
    for (const trace::RouteProgress& route : signs.routes) {
      if (route.ok_ticks == 0) continue;
      RouteView& view = routes_[route.name];
      view.limit_ticks = most_ticks_;
      view.short_ticks = route.longest_ns == 0 ? most_ticks_ : LimitOf(route.longest_ns, limits);
      view.newest_ticks = view.grown_ticks = route.ok_ticks;
    }
    for (const OpenSign& request : signs.requests) {
      RouteView& route = routes_.try_emplace(request.route, RouteView{most_ticks_, most_ticks_}).first->second;
      if (Since(request.sign_ticks, signs) < route.short_ticks) continue;
      ++route.quiet;
      route.is_running |= request.is_running;
    }
    for (auto& [name, route] : routes_) {
      if (route.quiet >= kFewQuiet && !route.is_running) route.limit_ticks = route.short_ticks;
    }
    for (const OpenSign& request : signs.requests) {
      RouteView& route = routes_.at(request.route);
      if (request.sign_ticks >= request.begin_ticks + route.limit_ticks / 2)
        route.newest_ticks = std::max(route.newest_ticks, request.sign_ticks);
      if (request.sign_ticks >= request.begin_ticks + most_ticks_ / 2)
        route.grown_ticks = std::max(route.grown_ticks, request.sign_ticks);
    }
  }
  const RouteView& Of(const OpenSign& request) const { return routes_.at(request.route); }
  // Since when a route has made no progress that counts for others, if others failed.
  uint64_t FailingSince(const trace::RouteProgress& route) const {
    const auto view = routes_.find(route.name);
    return std::max(route.failing_ticks, view != routes_.end() ? view->second.grown_ticks : 0);
  }
  uint64_t most_ticks() const { return most_ticks_; }

 private:
  static constexpr uint32_t kFewQuiet = 2;  // fewer may just be long
  static uint64_t TicksOf(uint64_t ns, const HealthLimits& limits) {
    return static_cast<uint64_t>(Bounded(static_cast<double>(ns) * limits.ticks_per_ns));
  }
  uint64_t LimitOf(uint64_t longest_ns, const HealthLimits& limits) const {
    constexpr uint64_t kLeastNs = static_cast<uint64_t>(kLeastShortNs), kTimes = 4;
    const uint64_t ns = std::max(kLeastNs, kTimes * std::min(longest_ns, limits.stalled_after_ns));
    return std::min(TicksOf(ns, limits), most_ticks_);
  }

  const uint64_t most_ticks_;
  std::unordered_map<uint32_t, RouteView> routes_;
};

Found JudgeRequests(const Signs& signs, const Routes& routes) {
  Found found;
  size_t late = 0;
  for (const OpenSign& request : signs.requests) {
    late += signs.now_ticks > request.late_ticks ? 1 : 0;
    const RouteView& route = routes.Of(request);
    if (Since(request.sign_ticks, signs) < route.limit_ticks) {
      Worsen(HealthState::kProgressing, request, &found);
      continue;
    }
    const bool do_others = route.newest_ticks > request.sign_ticks + route.limit_ticks / 2;
    Worsen(do_others ? HealthState::kSlow : HealthState::kStalled, request, &found);
  }
  if (2 * late > signs.requests.size() && found.state < HealthState::kSlow) {
    found.state = HealthState::kSlow;
    found.are_late = true;
  }
  return found;
}

// Nothing is known of a batch whose thread has recorded no work.
void JudgeBatches(const Signs& signs, uint64_t limit_ticks, Found* found) {
  if (signs.open_batches == 0) return;
  found->state = std::max(found->state, HealthState::kProgressing);
  if (signs.batch_ticks == 0 || Since(signs.batch_ticks, signs) < limit_ticks) return;
  if (found->state != HealthState::kStalled) *found = {HealthState::kStalled, nullptr, signs.batch_ticks};
}

// Nobody asks a route any more if its last request failed long ago.
void JudgeRoutes(const Signs& signs, const Routes& routes, Found* found) {
  for (const trace::RouteProgress& route : signs.routes) {
    if (route.failed == 0 || Since(route.failed_ticks, signs) >= routes.most_ticks()) continue;
    const uint64_t since_ticks = routes.FailingSince(route);
    if (Since(since_ticks, signs) < routes.most_ticks()) continue;
    if (found->state == HealthState::kStalled && found->sign_ticks <= since_ticks) continue;
    *found = {HealthState::kStalled, nullptr, since_ticks, false, &route};
  }
}

template <size_t kSize> void SetText(std::string_view text, char (&out)[kSize]) {
  out[text.copy(out, kSize - 1)] = '\0';
}

std::string Length(uint64_t ms) { return base::Duration(static_cast<int64_t>(ms) * 1'000'000); }

std::string TextOf(const Health& health, const Found& found) {
  char id[32];
  std::snprintf(id, sizeof id, "%016llx", static_cast<unsigned long long>(health.request));
  const std::string stage = health.stage[0] != '\0' ? std::string(", stage ") + health.stage : "";
  const std::string request =
      std::string("request ") + id + " of " + health.route + " (open " + Length(health.open_ms) + stage + ")";
  const std::string open = base::Plural(health.requests_open, "open request");
  switch (health.state) {
    case HealthState::kUnknown:
      return "unknown: no recorder runs";
    case HealthState::kIdle:
      return "idle: nothing is open";
    case HealthState::kProgressing:
      return "progressing: " + open;
    case HealthState::kSlow:
      return "slow: " + open +
             (found.are_late ? ", most of them late"
                             : "; " + request + " made no progress for " + Length(health.quiet_ms));
    case HealthState::kStalled:
      break;
  }
  const std::string quiet = " made no progress for " + Length(health.quiet_ms);
  if (found.failing != nullptr) {
    const uint32_t failed = found.failing->failed;
    return std::string("stalled: no request of ") + health.route + " ended well for " + Length(health.quiet_ms) + "; " +
           std::to_string(failed) + " timed out, failed or were given up";
  }
  if (health.request == 0) return "stalled: a batch" + quiet;
  const uint32_t waiting_count = health.requests_waiting;
  const std::string waiting = waiting_count == 0 ? ""
                                                 : "; " + base::Plural(waiting_count, "other request") +
                                                       (waiting_count == 1 ? " waits" : " wait") + " behind it";
  return "stalled: " + request + quiet + waiting;
}

}  // namespace

Health JudgeHealth(const Signs& signs, const HealthLimits& limits, const snapshot::Texts& texts) {
  if (!signs.are_requests_known) {
    Health unknown;
    SetText("unknown: its open requests had no room in the black box", unknown.text);
    return unknown;
  }
  const auto ticks_of = [&](uint64_t ns) {
    return static_cast<uint64_t>(Bounded(static_cast<double>(ns) * limits.ticks_per_ns));
  };
  const auto ms_since = [&](uint64_t ticks) {
    return static_cast<uint64_t>(Bounded(static_cast<double>(Since(ticks, signs)) / limits.ticks_per_ns) / 1e6);
  };
  const Routes routes(signs, limits);
  Found found = JudgeRequests(signs, routes);
  JudgeBatches(signs, routes.most_ticks(), &found);
  JudgeRoutes(signs, routes, &found);
  Health health;
  health.state = found.state;
  health.requests_open = static_cast<uint32_t>(signs.requests.size());
  if (found.failing != nullptr) SetText(texts.Name(found.failing->name), health.route);
  if (found.sign_ticks != 0) health.quiet_ms = ms_since(found.sign_ticks);
  if (const OpenSign* const request = found.request; request != nullptr) {
    health.request = request->id;
    health.open_ms = ms_since(request->begin_ticks);
    SetText(texts.Name(request->route), health.route);
    if (request->stage != 0) SetText(texts.Name(request->stage), health.stage);
    if (found.state == HealthState::kStalled)
      health.requests_waiting = static_cast<uint32_t>(
          std::count_if(signs.requests.begin(), signs.requests.end(),
                        [request](const OpenSign& other) { return other.route == request->route; }) -
          1);
  }
  SetText(TextOf(health, found), health.text);
  if (Since(signs.life_ticks, signs) >= ticks_of(limits.silent_after_ns)) {
    health.state = HealthState::kStalled;
    const std::string before(health.text);
    SetText("stalled: the process gives no sign of life for " + Length(ms_since(signs.life_ticks)) +
                "; before that: " + before,
            health.text);
  }
  return health;
}

void NoteCpu(int64_t pid, const HealthLimits& limits, Signs* signs) {
  const double quiet_ticks = kLeastShortNs * limits.ticks_per_ns;
  const bool is_any_quiet = std::any_of(signs->requests.begin(), signs->requests.end(), [&](const OpenSign& request) {
    return static_cast<double>(Since(request.sign_ticks, *signs)) >= quiet_ticks;
  });
  if (!is_any_quiet || signs->workers.empty()) return;
  std::vector<int64_t> tids;
  for (const snapshot::ThreadSign& worker : signs->workers) {
    if (worker.tid != gettid()) tids.push_back(worker.tid);  // whoever asks runs
  }
  snapshot::NoteRunning(RunningOf(pid, tids), signs);
}

BoxHealth HealthIn(snapshot::BoxReader* box, HealthLimits limits, int64_t pid) {
  const snapshot::BoxFacts& facts = box->facts();
  const trace::ClockReading now = trace::ReadClocks(facts.is_clock_slow);
  limits.ticks_per_ns = TicksPerNsOf(facts, now);
  Signs signs = box->ReadSigns(now.ticks);
  // In another namespace, its threads have other numbers.
  if (pid != 0 && pid == facts.pid) NoteCpu(pid, limits, &signs);
  const auto silent_ticks = static_cast<double>(Since(signs.life_ticks, signs));
  return {JudgeHealth(signs, limits, box->texts()), signs.life_ticks,
          static_cast<int64_t>(Bounded(silent_ticks / limits.ticks_per_ns))};
}

}  // namespace pitot::session

PITOT_NAMESPACE_BEGIN

const char* HealthStateName(HealthState state) noexcept {
  static constexpr const char* kNames[] = {"unknown", "idle", "progressing", "slow", "stalled"};
  const auto i = static_cast<size_t>(state);
  return i < std::size(kNames) ? kNames[i] : "unknown";
}

PITOT_NAMESPACE_END
