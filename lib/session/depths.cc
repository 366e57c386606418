// SPDX-License-Identifier: Apache-2.0
#include "session/depths.h"

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <exception>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "base/message.h"
#include "pitot/outcome.h"
#include "session/calibrate.h"
#include "trace/requests.h"

namespace pitot::session {
namespace {

using base::MutexLock;
using std::chrono::steady_clock;

// How long everything is recorded after the last sign of a late request: its batch is on its way to the GPU.
constexpr int64_t kLateArmNs = 50'000'000;

static_assert(sizeof(DepthStats::state) == sizeof(governor::Report::state));
static_assert(sizeof(DepthChange::why) == sizeof(governor::Report::state));
static_assert(std::size(DepthStats{}.mean) == governor::kDepths);

// After this long a late request tells nothing new.
constexpr uint64_t kLongestLateNs = 2'000'000'000;

// Pitot's own, by the name that Pause and Resume take.
constexpr std::string_view kOwnCollectors[] = {"counters", "cuda_calls", "cuda_events", "cupti",  "host",
                                               "nvml",     "nvtx",       "opencl",      "stacks", "torch"};

uint32_t DepthsUpTo(Depth deepest) { return (2u << static_cast<uint32_t>(deepest)) - 1; }

}  // namespace

Depths::Depths(const Options* options, bool slow_clock, const Lifetime* lifetime, const HostCalls* host,
               base::Semaphore* wake_watcher, std::function<void()> start_teller, base::ClockFunction clock)
    : options_(*options),
      slow_clock_(slow_clock),
      lifetime_(*lifetime),
      host_(*host),
      wake_watcher_(*wake_watcher),
      start_teller_(std::move(start_teller)),
      clock_(clock),
      fixed_(options->depth),
      depth_(options->depth != Depth::kAuto ? options->depth : Depth::kScopes) {}

// ---- For the host. --------------------------------------------------------------------------------------------------

Status Depths::Add(std::unique_ptr<Collector> collector) noexcept {
  if (collector == nullptr)
    return host_.LogError(Status(StatusCode::kResourceExhausted, "the collector is null: there was no memory for it"));
  const Depth expected = fixed_.load();
  collector->ExpectDepth(expected);
  if (Status s = collector->Start(); !s.ok()) return host_.LogError(Refuse(*collector, std::move(s)));
  if (Take(&collector, expected)) {
    TellAll();
    wake_watcher_.Give();  // asks for its depths
    return {};
  }
  collector->Stop();
  if (Status s = lifetime_.status(); !s.ok()) return s;
  return host_.LogError(Status(StatusCode::kResourceExhausted, "no memory or thread for another collector"));
}

// Takes a started collector, if it can.
bool Depths::Take(std::unique_ptr<Collector>* collector, Depth expected) noexcept {
  const MutexLock lock(&mutex_);
  if (is_stopping_ || !MakeRoomFor(**collector)) return false;
  if (governor_ == nullptr) MakeGovernor();
  governed_.push_back({std::move(*collector), 0, expected});
  return true;
}

bool Depths::MakeRoomFor(const Collector& collector) noexcept {
  try {
    governed_.reserve(governed_.size() + 1);
    refused_.erase(collector.Name());
    if (!has_teller_) start_teller_();
    has_teller_ = true;
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Refuses a collector; incidents have the reason, too.
Status Depths::Refuse(const Collector& collector, Status why) noexcept {
  constexpr size_t kMost = 16;
  try {
    const MutexLock lock(&mutex_);
    const std::string name = collector.Name();
    // A second one changes nothing for the first.
    const auto is_it = [&name](const Governed& other) { return other.collector->Name() == name; };
    if (std::any_of(governed_.begin(), governed_.end(), is_it)) return why;
    if (refused_.size() < kMost || refused_.count(name) != 0) refused_[name] = why.message();
  } catch (const std::bad_alloc&) {
    // The host is told anyway.
  }
  return why;
}

Status Depths::Set(Depth depth) noexcept {
  if (depth > Depth::kOps && depth != Depth::kAuto)
    return host_.LogError(Status(StatusCode::kInvalidArgument, "SetDepth: no such depth"));
  {
    const MutexLock lock(&mutex_);
    fixed_.store(depth);
    depth_ = depth != Depth::kAuto ? depth : Depth::kScopes;  // until the governor's next tick
    NoteDepth();
  }
  TellAll();
  wake_watcher_.Give();  // the governor may have to choose
  return {};
}

Status Depths::Ask(std::string_view name, Status (Collector::*ask)() noexcept) noexcept {
  Status first;
  {
    const MutexLock tell_lock(&tell_mutex_);
    if (Status s = lifetime_.status(); !s.ok()) return s;
    if (!IsKnown(name))
      first = base::Error(StatusCode::kNotFound,
                          "no collector is named \"%.*s\"; cupti, counters, cuda_calls and opencl can be paused",
                          static_cast<int>(name.size()), name.data());
    for (size_t i = 0; Collector* const collector = At(i); ++i) {
      if (collector->Name() != name) continue;
      if (Status s = (collector->*ask)(); !s.ok() && first.ok()) first = std::move(s);
    }
  }
  return host_.LogError(std::move(first));
}

// Whether a collector of this name was ever added, or could be: Pitot's own may be left out.
bool Depths::IsKnown(std::string_view name) noexcept {
  if (std::find(std::begin(kOwnCollectors), std::end(kOwnCollectors), name) != std::end(kOwnCollectors)) return true;
  const MutexLock lock(&mutex_);
  const auto is_it = [name](const Governed& governed) { return governed.collector->Name() == name; };
  return std::any_of(governed_.begin(), governed_.end(), is_it) ||
         std::any_of(refused_.begin(), refused_.end(), [name](const auto& one) { return one.first == name; });
}

// ---- On any thread. -------------------------------------------------------------------------------------------------

// The collector added as the `i`-th; null: there are fewer.
Collector* Depths::At(size_t i) noexcept {
  const MutexLock lock(&mutex_);
  return i < governed_.size() ? governed_[i].collector.get() : nullptr;
}

std::vector<Collector*> Depths::Collectors() {
  const MutexLock lock(&mutex_);
  std::vector<Collector*> collectors;
  for (const Governed& governed : governed_) collectors.push_back(governed.collector.get());
  return collectors;
}

std::map<std::string, std::string> Depths::Refused() {
  const MutexLock lock(&mutex_);
  return refused_;
}

uint64_t Depths::HeldBytes() noexcept {
  uint64_t bytes = 0;
  for (size_t i = 0; const Collector* const collector = At(i); ++i) {
    const HostCalls::Entry entry(&host_);
    if (!entry.is_allowed()) break;
    bytes += collector->HeldBytes();
  }
  return bytes;
}

void Depths::CopyTo(DepthStats* stats) noexcept {
  const MutexLock lock(&mutex_);
  stats->depth = depth_;
  if (governor_ == nullptr || fixed_.load() != Depth::kAuto) return;
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

// ---- On the host's threads. -----------------------------------------------------------------------------------------

void Depths::NoteWork(uint32_t work_class, uint64_t duration_ns) noexcept {
  governor::Governor* const governor = noting_.load(std::memory_order_acquire);
  if (governor == nullptr || fixed_.load(std::memory_order_relaxed) != Depth::kAuto) return;
  const int64_t now_ns = NowNs();
  governor->Note(work_class, now_ns - static_cast<int64_t>(duration_ns), now_ns);
}

// Batches of about as many members are alike.
void Depths::NoteBatch(uint32_t executor, uint32_t members, uint64_t duration_ns) noexcept {
  if (!has_batches_.load(std::memory_order_relaxed)) has_batches_.store(true, std::memory_order_relaxed);
  NoteWork(1u << 31 | executor << 8 | static_cast<uint32_t>(std::bit_width(members)), duration_ns);
}

void Depths::NoteLateMember() noexcept {
  if (noting_.load(std::memory_order_relaxed) != nullptr && !is_late_.exchange(true)) wake_watcher_.Give();
}

// ---- Telling. -------------------------------------------------------------------------------------------------------

// The depth at which a collector must record now.
Depth Depths::DueOf(const Governed& governed) const noexcept {
  if (fixed_.load() != Depth::kAuto) return depth_;
  const uint32_t depths = governed.depths & DepthsUpTo(depth_);
  return static_cast<Depth>(std::bit_width(depths | BitOf(Depth::kScopes)) - 1);
}

// Whether collectors are armed.
bool Depths::IsArmed() const noexcept {
  return fixed_.load() != Depth::kAuto || (governor_ != nullptr && governor_->IsArmed());
}

void Depths::TellAll() noexcept {
  const MutexLock tell_lock(&tell_mutex_);
  for (size_t i = 0;; ++i) {
    Collector* collector;
    Depth expected, due;
    bool is_other, is_new, is_armed, was_armed;
    {
      const MutexLock lock(&mutex_);
      if (i == governed_.size() || !lifetime_.IsRunning()) return;
      Governed& governed = governed_[i];
      collector = governed.collector.get();
      expected = fixed_.load(), due = DueOf(governed);
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

void Depths::Tell() noexcept {
  pthread_setname_np(pthread_self(), "pitot-depth");
  for (;;) {
    tell_.Await();
    tell_.TakeAll();  // one round serves all wake-ups
    {
      const MutexLock lock(&mutex_);
      if (is_stopping_) {
        is_teller_done_ = true;
        changed_.NotifyAll();
        return;
      }
    }
    TellAll();
  }
}

// ---- The governor. --------------------------------------------------------------------------------------------------

// Makes the governor, with the first collector: without one there is nothing to govern.
void Depths::MakeGovernor() noexcept {
  governor::Options options;
  options.budget_percent = options_.overhead_budget_percent;
  // The process's own: a fleet that started together must not switch together.
  options.seed = static_cast<uint64_t>(NowNs()) ^ reinterpret_cast<uintptr_t>(this);
  governor_ = governor::Governor::Make(options);
  if (governor_ == nullptr) return;
  governor_->SetAvailable(BitOf(Depth::kScopes));  // until the watcher has asked
  governor_->Tick(NowNs());
  NoteDepth();
  noting_.store(governor_.get());
}

// Applies the governor's depth, unless the host has fixed one meanwhile.
void Depths::Apply(Depth depth) noexcept {
  if (fixed_.load() != Depth::kAuto) return;
  depth_ = depth;
  NoteDepth();
  for (const Governed& governed : governed_) {
    if (governed.told != DueOf(governed) || governed.is_armed != IsArmed()) return tell_.Give();
  }
}

// Notes the depth and its reason; without a governor there is none to note.
void Depths::NoteDepth() noexcept {
  if (governor_ == nullptr) return;
  DepthChange change{NowNs(), depth_, "fixed by the host"};
  if (fixed_.load() == Depth::kAuto) governor_->Describe(change.why, sizeof change.why);
  history_.Note(change);
}

bool Depths::IsGoverned() const noexcept {
  return noting_.load(std::memory_order_relaxed) != nullptr && fixed_.load() == Depth::kAuto;
}

void Depths::Govern() noexcept {
  const uint32_t depths = AskDepths();
  const MutexLock lock(&mutex_);
  governor_->SetAvailable(depths);
  Apply(governor_->Tick(NowNs()));
}

// The depths now offered by any collector.
uint32_t Depths::AskDepths() noexcept {
  uint32_t all = BitOf(Depth::kScopes);
  for (size_t i = 0; const Collector* const collector = At(i); ++i) {
    const HostCalls::Entry entry(&host_);
    if (!entry.is_allowed()) break;
    const uint32_t depths = collector->Depths();
    const MutexLock lock(&mutex_);
    governed_[i].depths = depths;
    all |= depths;
  }
  return all;
}

void Depths::ArmFor(int64_t ns) noexcept {
  const MutexLock lock(&mutex_);
  const int64_t now_ns = NowNs();
  Apply(governor_->Arm(now_ns, now_ns + ns));
}

int64_t Depths::ArmForLateRequests() noexcept {
  struct Looked {
    uint64_t now;
    uint64_t long_late;  // one that was late before this is not worth more
    uint64_t next = ~uint64_t{0};
    bool is_late = false;
  } looked{};
  looked.now = trace::NowTicks(slow_clock_);
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

int64_t Depths::DueInNs() noexcept {
  if (!IsGoverned()) return INT64_MAX;
  const MutexLock lock(&mutex_);
  const int64_t due_ns = governor_->DueNs();
  return due_ns == INT64_MAX ? INT64_MAX : due_ns - NowNs();
}

void Depths::Keep(Incident* incident) {
  if (noting_.load() == nullptr) return;
  incident->overhead = std::make_unique<governor::Report>();
  const MutexLock lock(&mutex_);
  *incident->overhead = governor_->GetReport();
  incident->overhead->depth = depth_;
  incident->depths = history_.Since(incident->snapshot.clock.Ns(incident->window_begin_ticks));
}

// ---- The end. -------------------------------------------------------------------------------------------------------

void Depths::BeginStop() noexcept {
  {
    const MutexLock lock(&mutex_);
    is_stopping_ = true;
  }
  tell_.Give();
}

bool Depths::AwaitTeller(steady_clock::time_point deadline) noexcept {
  const MutexLock lock(&mutex_);
  while (has_teller_ && !is_teller_done_ && changed_.WaitUntil(&mutex_, deadline)) {}
  return !has_teller_ || is_teller_done_;
}

bool Depths::StopCollectors(int64_t patience_ns) noexcept {
  const auto deadline = steady_clock::now() + std::chrono::nanoseconds(patience_ns);
  while (!tell_mutex_.TryLock()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  for (size_t i = 0; Collector* const collector = At(i); ++i) {
    collector->Stop();
    if (const Status stopped = collector->Stopped(); !stopped.ok()) host_.Log(LogLevel::kWarning, stopped.message());
  }
  tell_mutex_.Unlock();
  return true;
}

}  // namespace pitot::session
