// SPDX-License-Identifier: Apache-2.0
#include "collect/counters/history.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/columns.h"
#include "base/message.h"

namespace pitot::counters {
namespace {

// One GPU's part of an incident.
struct Part {
  Gpu gpu;
  GpuState state;
  std::vector<Sample> samples;
};

// The verdict's rule takes a sampled GPU without a value of its engine for idle. So a window has samples of CUPTI,
// which has the engine, or those of GPM, which has not; never both.
void KeepOneSource(std::vector<Sample>* samples) {
  constexpr uint32_t kEngine = 0;
  static_assert(kColumnCounters[kEngine] == base::GpuCounter::kEngineActive);
  const auto is_coarse = [](const Sample& sample) { return std::isnan(sample.values[kEngine]); };
  if (!std::all_of(samples->begin(), samples->end(), is_coarse)) std::erase_if(*samples, is_coarse);
}

// Adds a value if it differs from the one before; the newest first, as a TraceBuilder wants it.
void AddColumn(const Part& part, uint32_t column, uint32_t device, TraceBuilder* trace) {
  const auto is_measured = [column](const Sample& sample) { return !std::isnan(sample.values[column]); };
  if (std::none_of(part.samples.begin(), part.samples.end(), is_measured)) return;
  const base::GpuCounterInfo& info = base::InfoOf(kColumnCounters[column]);
  const uint32_t counter = trace->AddCounter(device, info.name, info.unit);
  for (size_t i = part.samples.size(); i-- > 0;) {
    const float value = part.samples[i].values[column];
    const bool is_same = i > 0 && part.samples[i - 1].values[column] == value;
    if (!std::isnan(value) && !is_same) trace->AddSample(counter, part.samples[i].begin_ns, value);
  }
}

// Whether more than two intervals passed between two samples.
bool IsGap(const Sample& before, const Sample& after) {
  return after.begin_ns - before.end_ns > 2 * (before.end_ns - before.begin_ns);
}

void AddSampled(const Part& part, uint32_t device, int64_t begin_ns, TraceBuilder* trace) {
  const base::GpuCounterInfo& info = base::InfoOf(base::GpuCounter::kSampled);
  const uint32_t counter = trace->AddCounter(device, info.name, info.unit);
  for (size_t i = part.samples.size(); i-- > 0;) {
    const bool is_last = i + 1 == part.samples.size();
    if (is_last || IsGap(part.samples[i], part.samples[i + 1])) trace->AddSample(counter, part.samples[i].end_ns, 0);
    if (i == 0 || IsGap(part.samples[i - 1], part.samples[i])) trace->AddSample(counter, part.samples[i].begin_ns, 1);
  }
  if (part.samples.empty() || part.samples.front().begin_ns > begin_ns) trace->AddSample(counter, begin_ns, 0);
}

void AddWithoutMemory(uint64_t gpus, TraceBuilder* trace) {
  for (uint32_t gpu = 0; gpus != 0; ++gpu, gpus >>= 1) {
    const std::string key = "counters." + std::to_string(gpu) + ".not_recorded";
    if ((gpus & 1) != 0)
      trace->AddAttribute(key.c_str(), "there was no memory for its samples; it is tried again every 0.5 s");
  }
}

}  // namespace

uint32_t History::AddGpu(const Gpu& gpu) {
  Ring ring{gpu, {}, std::make_unique_for_overwrite<Sample[]>(capacity_)};
  const base::MutexLock lock(&mutex_);
  rings_.push_back(std::move(ring));
  return static_cast<uint32_t>(rings_.size() - 1);
}

void History::SetState(uint32_t gpu, const GpuState& state) {
  const base::MutexLock lock(&mutex_);
  GpuState& kept = rings_[gpu].state;
  const uint64_t samples = kept.samples, lost = kept.lost;
  kept = state;
  kept.samples = samples, kept.lost = lost;
}

void History::SetWithoutMemory(uint64_t gpus) noexcept {
  const base::MutexLock lock(&mutex_);
  without_memory_ = gpus;
}

void History::Commit(uint32_t gpu, std::span<const Sample> samples, uint64_t lost) noexcept {
  const base::MutexLock lock(&mutex_);
  Ring& ring = rings_[gpu];
  for (const Sample& sample : samples) ring.samples[ring.written++ % capacity_] = sample;
  ring.state.samples += samples.size();
  ring.state.lost += lost;
}

Status History::CheckFree() const noexcept {
  const base::MutexLock lock(&mutex_);
  for (const Ring& ring : rings_) {
    if (!ring.state.held.empty())
      return base::Error(StatusCode::kUnavailable, "this process may still hold GPU %u: %s", ring.gpu.ordinal,
                         ring.state.held.c_str());
  }
  return {};
}

void History::SetCpu(double percent) noexcept {
  const base::MutexLock lock(&mutex_);
  cpu_percent_ = percent;
}

std::vector<Sample> History::Copy(const Ring& ring, int64_t begin_ns, int64_t end_ns) const {
  const uint64_t oldest = ring.written > capacity_ ? ring.written - capacity_ : 0;
  std::vector<Sample> samples;
  uint64_t first = ring.written;
  while (first > oldest && ring.samples[(first - 1) % capacity_].end_ns > begin_ns) --first;
  for (uint64_t at = first; at < ring.written; ++at) {
    if (ring.samples[at % capacity_].begin_ns < end_ns) samples.push_back(ring.samples[at % capacity_]);
  }
  return samples;
}

void History::AddTo(int64_t begin_ns, int64_t end_ns, TraceBuilder& trace) const {
  std::vector<Part> parts;
  uint64_t without_memory = 0;
  double cpu_percent = 0;
  {
    const base::MutexLock lock(&mutex_);
    for (const Ring& ring : rings_) parts.push_back({ring.gpu, ring.state, Copy(ring, begin_ns, end_ns)});
    without_memory = without_memory_;
    cpu_percent = cpu_percent_;
  }
  const auto add = [&trace](const std::string& key, const std::string& value) {
    trace.AddAttribute(key.c_str(), value.c_str());
  };
  AddWithoutMemory(without_memory, &trace);
  if (parts.empty() && without_memory != 0) return;
  if (parts.empty()) return add("counters.no_gpu", "this process has used no GPU");
  add("counters.cpu_percent", base::Format("%.2f", cpu_percent));
  for (Part& part : parts) {
    KeepOneSource(&part.samples);
    const uint32_t device = trace.AddDevice({.ordinal = part.gpu.ordinal,
                                             .name = trace.AddText(part.gpu.name.c_str()),
                                             .uuid = trace.AddText(part.gpu.id.c_str())});
    const std::string prefix = "counters." + std::to_string(part.gpu.ordinal) + ".";
    if (!part.state.not_recorded.empty()) add(prefix + "not_recorded", part.state.not_recorded);
    if (!part.state.source.empty()) add(prefix + "source", part.state.source);
    if (!part.state.not_shared.empty()) add(prefix + "not_shared", part.state.not_shared);
    if (part.state.sampled_by_until_ns > begin_ns) add(prefix + "sampled_by", part.state.sampled_by);
    if (part.state.rested_until_ns > begin_ns && part.state.rested_from_ns < end_ns)
      add(prefix + "rested_until",
          base::Format("%.3f s before the end of the window: nothing was open until then, and older samples were not "
                       "fetched",
                       static_cast<double>(end_ns - part.state.rested_until_ns) / 1e9));
    if (!part.state.other_metrics.empty()) add(prefix + "other_metrics", part.state.other_metrics);
    if (part.state.failed_calls != 0)
      add(prefix + "failed_calls", std::to_string(part.state.failed_calls) + ", the newest " + part.state.failed_call);
    if (part.state.lost != 0) add(prefix + "lost_samples", std::to_string(part.state.lost));
    if (part.state.interval_us == 0) continue;
    add(prefix + "interval_us", std::to_string(part.state.interval_us));
    AddSampled(part, device, begin_ns, &trace);
    for (uint32_t column = 0; column < kColumns; ++column) AddColumn(part, column, device, &trace);
  }
}

uint64_t History::HeldBytes() const noexcept {
  const base::MutexLock lock(&mutex_);
  return rings_.size() * capacity_ * sizeof(Sample);
}

}  // namespace pitot::counters
