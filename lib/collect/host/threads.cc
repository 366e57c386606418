// SPDX-License-Identifier: Apache-2.0
#include "collect/host/threads.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "collect/host/prompt.h"
#include "trace/usage.h"

namespace pitot::host {

std::optional<uint64_t> ReadRunQueueDelay(int schedstat) noexcept {
  char text[128];
  const ssize_t size = pread(schedstat, text, sizeof text, 0);
  const std::string_view said(text, size > 0 ? static_cast<size_t>(size) : 0);
  const size_t second = said.find(' ');
  return second != std::string_view::npos ? NumberAfter(said.substr(second + 1), "") : std::nullopt;
}

namespace {

// A standing thread's values are repeated this often, ns.
constexpr int64_t kRepeatNs = 100'000'000;
// Reading a thread's values takes 1.3 us, with cold caches ten times that. A longer reading was held up.
constexpr int64_t kPromptReadNs = 100'000;
// A thread that stands is read after this part of the time that it has stood, and at least this often, ns.
constexpr int64_t kStandingPart = 8, kMostPauseNs = 1'000'000'000;
// For an incident no later round makes up for a lost reading.
constexpr int kTriesForIncident = 5;

int64_t ReadDelay(const File& schedstat) {
  const std::optional<uint64_t> delay_ns =
      schedstat.is_open() ? ReadRunQueueDelay(schedstat.descriptor()) : std::nullopt;
  return delay_ns ? static_cast<int64_t>(*delay_ns) : -1;
}

// The major faults in proc(5)'s "PID (NAME) STATE ...": the tenth field after the name.
std::optional<uint64_t> MajorFaultsOf(std::string_view stat) {
  constexpr int kBefore = 10;
  std::string_view rest = stat.substr(std::min(stat.rfind(')'), stat.size()));
  for (int i = 0; i < kBefore; ++i) TakeUntil(&rest, ' ');
  return NumberAfter(rest, "");
}

}  // namespace

Threads::Threads(std::string root, uint32_t most, CpuReader read_cpu)
    : root_(std::move(root)), most_(most), read_cpu_(read_cpu) {
  entries_.reserve(most);
}

// Finds the threads at work. They recorded something since the last round, or are in a scope, a request or a batch,
// where they may be waiting for a CPU.
void Threads::FindThreads() {
  for (Entry& entry : entries_) entry.was_seen = entry.is_at_work = false;
  left_out_ = 0;
  size_t place = 0;  // both are in the order of numbers
  const trace::PinnedRings rings;
  for (trace::ThreadRing* ring : rings) {
    if (ring->state.load(std::memory_order_acquire) != trace::RingState::kLive) continue;
    const uint64_t events = __atomic_load_n(&ring->events, __ATOMIC_RELAXED);
    const bool is_inside = __atomic_load_n(&ring->open[0].begin, __ATOMIC_ACQUIRE) != 0 ||
                           __atomic_load_n(&ring->request, __ATOMIC_ACQUIRE) != 0 ||
                           __atomic_load_n(&ring->batch, __ATOMIC_ACQUIRE) != 0;
    while (place < entries_.size() && entries_[place].number < ring->number) ++place;
    if (place == entries_.size() || entries_[place].number != ring->number) {
      if (entries_.size() == most_) {
        left_out_ += is_inside;
        continue;
      }
      Adopt(ring, place);
    }
    Entry& entry = entries_[place];
    entry.was_seen = true;
    entry.events = events;
    entry.has_recorded = events != entry.events_before;
    entry.is_at_work = is_inside || entry.has_recorded;
  }
  std::erase_if(entries_, [](const Entry& entry) { return !entry.was_seen; });
}

void Threads::Adopt(trace::ThreadRing* ring, size_t place) {
  Entry& entry = *entries_.emplace(entries_.begin() + static_cast<std::ptrdiff_t>(place));
  entry.number = ring->number;
  entry.tid = ring->tid;
  entry.schedstat = File(root_ + "/proc/self/task/" + std::to_string(entry.tid) + "/schedstat");
  if (entry.schedstat.is_open()) trace::SetSchedstat(ring, entry.schedstat.descriptor());
}

void Threads::Close() {
  const trace::PinnedRings rings;
  for (trace::ThreadRing* ring : rings) {
    // A thread that does not return from the system call keeps its file.
    if (ring->schedstat.load() == 0 || trace::SetSchedstat(ring, -1)) continue;
    for (Entry& entry : entries_) {
      if (entry.number == ring->number) entry.schedstat.Release();
    }
  }
  entries_.clear();
}

void Threads::Look(Entry* entry, base::Timer& timer, std::vector<Sample>* samples) {
  const auto tid = static_cast<int32_t>(entry->tid);
  const auto add = [&] {
    entry->added_ns = entry->at_ns;
    samples->push_back({entry->at_ns, static_cast<double>(entry->cpu_ns), tid, kThreadOnCpu});
    if (entry->delay_ns >= 0)
      samples->push_back({entry->at_ns, static_cast<double>(entry->delay_ns), tid, kThreadRunQueueDelay});
  };
  int64_t cpu_ns = -1, delay_ns = -1;
  const std::optional<int64_t> now_ns = ReadPromptly(timer, kPromptReadNs, [&] {
    cpu_ns = read_cpu_(entry->tid);
    delay_ns = cpu_ns >= 0 ? ReadDelay(entry->schedstat) : -1;
  });
  dropped_ += !now_ns;
  if (!now_ns || cpu_ns < 0) return;
  const bool is_same = entry->at_ns != 0 && cpu_ns == entry->cpu_ns && delay_ns == entry->delay_ns;
  if (!is_same && entry->added_ns != entry->at_ns) add();
  if (!is_same) {
    entry->same_since_ns = *now_ns;
    has_run_ = true;
  }
  entry->at_ns = *now_ns;
  entry->cpu_ns = cpu_ns;
  entry->delay_ns = delay_ns;
  if (!is_same || *now_ns - entry->added_ns >= kRepeatNs) add();
}

void Threads::LookWell(const Entry& entry, base::Timer& timer, std::vector<Sample>* samples) {
  const std::string folder = root_ + "/proc/self/task/" + std::to_string(entry.tid);
  const File status(folder + "/status"), stat(folder + "/stat");
  char status_text[4096], stat_text[1024];
  std::string_view of_status, of_stat;
  int64_t cpu_ns = -1, delay_ns = -1;
  const auto read = [&] {
    cpu_ns = read_cpu_(entry.tid);
    delay_ns = ReadDelay(entry.schedstat);
    of_status = status.Read(status_text);
    of_stat = stat.Read(stat_text);
  };
  const std::optional<int64_t> now_ns = ReadPromptly(timer, kPromptReadNs, read, kTriesForIncident);
  dropped_ += !now_ns;
  if (!now_ns || cpu_ns < 0) return;
  const auto add = [&](ThreadValue what, std::optional<uint64_t> value) {
    if (value) samples->push_back({*now_ns, static_cast<double>(*value), static_cast<int32_t>(entry.tid), what});
  };
  add(kThreadOnCpu, cpu_ns);
  if (delay_ns >= 0) add(kThreadRunQueueDelay, delay_ns);
  add(kThreadVoluntary, NumberAfter(of_status, "voluntary_ctxt_switches:\t"));
  add(kThreadInvoluntary, NumberAfter(of_status, "nonvoluntary_ctxt_switches:\t"));
  add(kThreadMajorFaults, MajorFaultsOf(of_stat));
}

bool Threads::IsDue(const Entry& entry, int64_t now_ns) {
  const int64_t stood_ns = entry.at_ns - entry.same_since_ns;
  return entry.has_recorded || now_ns - entry.at_ns >= std::min(stood_ns / kStandingPart, kMostPauseNs);
}

void Threads::Round(base::Timer& timer, std::vector<Sample>* samples) {
  FindThreads();
  const int64_t now_ns = timer.NowNs();
  has_run_ = false;
  for (Entry& entry : entries_) {
    has_run_ |= entry.has_recorded;
    entry.events_before = entry.events;
    if (entry.is_at_work && IsDue(entry, now_ns)) Look(&entry, timer, samples);
  }
}

void Threads::Now(base::Timer& timer, std::vector<Sample>* samples) {
  FindThreads();
  for (Entry& entry : entries_) {
    if (entry.is_at_work) LookWell(entry, timer, samples);
  }
}

}  // namespace pitot::host
