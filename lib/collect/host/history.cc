// SPDX-License-Identifier: Apache-2.0
#include "collect/host/history.h"

#include <algorithm>
#include <map>
#include <utility>

#include "base/columns.h"
#include "base/host_counters.h"
#include "collect/host/sources.h"

namespace pitot::host {
namespace {

// Names in the order of ThreadValue.
constexpr base::CounterName kThreadCounters[] = {base::kOnCpu, base::kRunQueueDelay, base::kVoluntary,
                                                 base::kInvoluntary, base::kMajorFaults};

std::string RoundText(const Rounds& rounds) {
  return base::Format("%.1f, at most %.1f",
                      static_cast<double>(rounds.took_ns) / 1e3 / static_cast<double>(rounds.count),
                      static_cast<double>(rounds.longest_ns) / 1e3);
}

}  // namespace

History::History(uint64_t memory_bytes)
    : capacity_(static_cast<size_t>(memory_bytes / 2 / sizeof(Sample))),
      ring_(std::make_unique_for_overwrite<Sample[]>(capacity_)),
      kept_samples_(std::make_unique_for_overwrite<Sample[]>(capacity_)) {}

void History::Write(std::span<const Sample> samples) noexcept {
  for (const Sample& sample : samples) ring_[state_.written++ % capacity_] = sample;
}

void History::Commit(std::span<const Sample> samples, const Rounds& process, const Rounds& threads,
                     uint32_t threads_left_out) noexcept {
  const base::MutexLock lock(&mutex_);
  Write(samples);
  state_.process = process;
  state_.threads = threads;
  state_.threads_left_out = threads_left_out;
}

void History::Keep(int64_t begin_ns, std::span<const Sample> now) noexcept {
  begin_ns_ = begin_ns;
  const base::MutexLock lock(&mutex_);
  Write(now);
  std::copy_n(ring_.get(), std::min<uint64_t>(state_.written, capacity_), kept_samples_.get());
  kept_ = state_;
}

void History::AddTo(TraceBuilder& trace) const {
  AddSamples(trace);
  AddRounds(trace);
  AddMissing(trace);
}

void History::AddSamples(TraceBuilder& trace) const {
  std::map<std::pair<int32_t, uint32_t>, uint32_t> rows;
  const auto row_of = [&](const Sample& sample) {
    const auto [row, is_new] = rows.try_emplace({sample.tid, sample.counter}, kNoRow);
    if (!is_new) return row->second;
    const base::CounterName& what = sample.tid == 0 ? kHostCounters[sample.counter] : kThreadCounters[sample.counter];
    const std::string name = sample.tid == 0 ? base::HostCounter(what) : base::ThreadCounter(sample.tid, what);
    return row->second = trace.AddCounter(kNoRow, name.c_str(), what.unit);
  };
  const uint64_t oldest = OldestKept();
  // The counts of the process and the machine at the window's beginning. For threads their own moments matter.
  const Sample* at_begin[kHostCounterCount] = {};
  for (uint64_t position = oldest; position < kept_.written; ++position) {
    const Sample& sample = Kept(position);
    if (sample.at_ns <= begin_ns_ && sample.tid == 0) at_begin[sample.counter] = &sample;
  }
  for (const Sample* sample : at_begin) {
    if (sample != nullptr) trace.AddSample(row_of(*sample), begin_ns_, sample->value);
  }
  for (uint64_t position = oldest; position < kept_.written; ++position) {
    const Sample& sample = Kept(position);
    if (sample.at_ns > begin_ns_) trace.AddSample(row_of(sample), sample.at_ns, sample.value);
  }
}

// How long the collector's own rounds took.
void History::AddRounds(TraceBuilder& trace) const {
  if (kept_.process.count != 0) trace.AddAttribute("host.round_us", RoundText(kept_.process).c_str());
  if (kept_.threads.count != 0) trace.AddAttribute("host.thread_round_us", RoundText(kept_.threads).c_str());
}

void History::AddMissing(TraceBuilder& trace) const {
  if (kept_.threads_left_out != 0) {
    trace.AddAttribute("host.threads_left_out",
                       base::Format("%u at work: raise HostOptions::most_threads", kept_.threads_left_out).c_str());
  }
  if (kept_.threads.dropped + kept_.process.dropped != 0) {
    trace.AddAttribute("host.readings_dropped",
                       base::Format("%llu of threads, %llu of the process: delayed at every attempt to read them",
                                    static_cast<unsigned long long>(kept_.threads.dropped),
                                    static_cast<unsigned long long>(kept_.process.dropped))
                           .c_str());
  }
  if (const uint64_t oldest = OldestKept(); oldest != 0 && Kept(oldest).at_ns > begin_ns_) {
    trace.AddAttribute("host.overwritten",
                       base::Format("samples of the first %.3f s of the window: HostOptions::memory_bytes is too small",
                                    static_cast<double>(Kept(oldest).at_ns - begin_ns_) / 1e9)
                           .c_str());
  }
}

}  // namespace pitot::host
