// SPDX-License-Identifier: Apache-2.0
#include "collect/nvml/history.h"

#include <algorithm>
#include <bit>
#include <cinttypes>
#include <utility>

#include "base/columns.h"
#include "collect/nvml/api.h"

namespace pitot::nvml {
namespace {

double Seconds(int64_t ns) { return static_cast<double>(ns) / 1e9; }

// When a sample's value began to hold, within a window.
int64_t ShownAt(const Sample& sample, int64_t begin_ns) {
  return std::max(begin_ns, sample.at_ns - static_cast<int64_t>(sample.age_us) * 1000);
}

// The counters of one trace, each made for its first sample.
class Rows {
 public:
  Rows(TraceBuilder* trace, const std::vector<DeviceInfo>& devices)
      : trace_(trace), devices_(devices), rows_(devices.size() * kCounterCount, kNoRow), masks_(devices.size()) {}

  void Add(uint32_t series, int64_t at_ns, double value) {
    const uint32_t device = series / kCounterCount;
    const base::GpuCounterInfo& counter = base::kGpuCounters[series % kCounterCount];
    if (rows_[series] == kNoRow) rows_[series] = trace_->AddCounter(kNoRow, Name(device, counter.name), counter.unit);
    trace_->AddSample(rows_[series], at_ns, value);
    if (series % kCounterCount == static_cast<uint32_t>(Counter::kClockEventReasons))
      AddKinds(&masks_[device], device, at_ns, static_cast<uint64_t>(value));
  }

 private:
  // The reasons of one device, each a counter of 0 or 1.
  struct Kinds {
    int64_t begin_ns = 0;
    bool has_begun = false;
    uint64_t mask = 0;
    uint32_t rows[64];
    uint64_t has_row = 0;
  };

  const char* Name(uint32_t device, const char* counter) {
    name_ = base::GpuCounterName(device, devices_[device].name, counter);
    return name_.c_str();
  }

  // Adds only reasons active at some time: most GPUs never have most of them.
  void AddKinds(Kinds* kinds, uint32_t device, int64_t at_ns, uint64_t mask) {
    if (!kinds->has_begun) kinds->begin_ns = at_ns;
    for (uint64_t changed = kinds->mask ^ mask; changed != 0; changed &= changed - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(changed));
      const uint64_t kind = uint64_t{1} << bit;
      if ((kinds->has_row & kind) == 0) {
        const std::string name = std::string(base::kClocksHeldBy) + (bit < std::size(base::kClockReasons)
                                                                         ? std::string(base::kClockReasons[bit].name)
                                                                         : base::Format("reason 0x%" PRIx64, kind));
        kinds->rows[bit] = trace_->AddCounter(kNoRow, Name(device, name.c_str()), "");
        kinds->has_row |= kind;
        if (kinds->begin_ns < at_ns) trace_->AddSample(kinds->rows[bit], kinds->begin_ns, 0);
      }
      trace_->AddSample(kinds->rows[bit], at_ns, (mask & kind) != 0 ? 1 : 0);
    }
    kinds->mask = mask;
    kinds->has_begun = true;
  }

  TraceBuilder* const trace_;
  const std::vector<DeviceInfo>& devices_;
  std::vector<uint32_t> rows_;  // by series
  std::vector<Kinds> masks_;    // by device
  std::string name_;
};

}  // namespace

History::History(uint64_t memory_bytes, uint32_t rate_hz)
    : capacity_(static_cast<size_t>(memory_bytes / 2 / sizeof(Sample))),
      rate_hz_(rate_hz),
      ring_(std::make_unique_for_overwrite<Sample[]>(capacity_)) {}

void History::SetDevices(std::vector<DeviceInfo> devices, uint32_t devices_left_out, std::string driver_version) {
  const base::MutexLock lock(&mutex_);
  const size_t series = devices.size() * kCounterCount;
  overwritten_.assign(series, Sample{0, 0, 0, 0});
  last_.assign(series, {});
  is_carried_.assign(series, 0);
  states_.assign(devices.size(), {});
  kept_states_ = states_;
  kept_samples_ = std::make_unique_for_overwrite<Sample[]>(series + capacity_);
  devices_ = std::move(devices);
  devices_left_out_ = devices_left_out;
  driver_version_ = std::move(driver_version);
}

void History::Commit(uint32_t device, std::span<const Sample> samples, const DeviceState& state) noexcept {
  for (const Sample& sample : samples) {
    const base::GpuCounterInfo& counter = base::kGpuCounters[sample.series % kCounterCount];
    const auto name = [&] { return base::GpuCounterName(device, devices_[device].name, counter.name); };
    last_[sample.series].Note(sample.at_ns, sample.value, name, counter.unit);
  }
  const base::MutexLock lock(&mutex_);
  for (const Sample& sample : samples) {
    Sample& slot = ring_[written_ % capacity_];
    if (written_ >= capacity_) overwritten_[slot.series] = slot;
    slot = sample;
    ++written_;
  }
  states_[device] = state;
}

void History::EndRound(int64_t took_ns, uint64_t missed_before) noexcept {
  const base::MutexLock lock(&mutex_);
  ++totals_.rounds;
  totals_.missed += missed_before;
  totals_.took_ns += took_ns;
  totals_.longest_ns = std::max(totals_.longest_ns, took_ns);
}

void History::Keep(int64_t begin_ns, int64_t now_ns) noexcept {
  kept_ = {};
  kept_.begin_ns = begin_ns;
  kept_.end_ns = now_ns;
  if (const int64_t since_ns = call_since_ns_.load(std::memory_order_acquire); since_ns != 0) {
    kept_.silent_ns = now_ns - since_ns;
    kept_.silent_call = call_.load(std::memory_order_relaxed);
  }
  const base::MutexLock lock(&mutex_);
  KeepSamples();
  std::copy(states_.begin(), states_.end(), kept_states_.begin());
  kept_.totals = totals_;
}

void History::KeepSamples() {
  const uint64_t oldest = written_ > capacity_ ? written_ - capacity_ : 0;
  uint64_t first = oldest;  // first of the window
  for (uint64_t end = written_; first < end;) {
    const uint64_t middle = first + (end - first) / 2;
    if (At(middle).at_ns < kept_.begin_ns) {
      first = middle + 1;
    } else {
      end = middle;
    }
  }
  std::fill(is_carried_.begin(), is_carried_.end(), uint8_t{0});
  const auto carry = [this](const Sample& sample) {
    if (std::exchange(is_carried_[sample.series], uint8_t{1}) == 0) kept_samples_[kept_.count++] = sample;
  };
  const int64_t stale_ns = kept_.begin_ns - kStaleNs;
  for (uint64_t position = first; position > oldest && At(position - 1).at_ns > stale_ns; --position)
    carry(At(position - 1));
  for (const Sample& sample : overwritten_) {
    if (sample.at_ns == 0) continue;
    if (sample.at_ns > stale_ns) carry(sample);
    if (sample.at_ns >= kept_.begin_ns) kept_.overwritten_until_ns = std::max(kept_.overwritten_until_ns, sample.at_ns);
  }
  for (uint64_t position = first; position < written_; ++position) kept_samples_[kept_.count++] = At(position);
}

void History::AddTo(TraceBuilder& trace) const {
  AddSamples(trace);
  AddAttributes(trace);
}

void History::AddSamples(TraceBuilder& trace) const {
  Rows rows(&trace, devices_);
  const std::span<const Sample> samples(kept_samples_.get(), kept_.count);
  // The value at the beginning: each series' last sample at or before it.
  std::vector<const Sample*> at_begin(devices_.size() * kCounterCount, nullptr);
  for (const Sample& sample : samples) {
    if (ShownAt(sample, kept_.begin_ns) == kept_.begin_ns) at_begin[sample.series] = &sample;
  }
  for (const Sample* sample : at_begin) {
    if (sample != nullptr) rows.Add(sample->series, kept_.begin_ns, sample->value);
  }
  for (const Sample& sample : samples) {
    const int64_t at_ns = ShownAt(sample, kept_.begin_ns);
    if (at_ns != kept_.begin_ns) rows.Add(sample.series, at_ns, sample.value);
  }
}

std::string History::Explain(const DeviceState& state, Source source) const {
  const Failure& failure = state.failures[static_cast<uint32_t>(source)];
  std::string text = ResultName(failure.result);
  if (failure.result == kGpuIsLost || failure.result == kResetRequired) {
    return text + base::Format(" %.3f s before the end of the window: nothing of this GPU since",
                               Seconds(kept_.end_ns - state.lost_at_ns));
  }
  if (failure.result == kFunctionNotFound) text += ": the driver is older than this";
  if (source == Source::kProcesses && failure.result == kNotFound)
    text += ": this process is not in the driver's list under its own number (a PID namespace)";
  if (source == Source::kProcesses && failure.result == kNoData)
    text += ": the driver does not report memory per process";
  if (failure.is_final) return text;
  text += failure.count == 1 ? ", failed once" : base::Format(", failed %" PRIu32 " times", failure.count);
  text += failure.is_failing ? ", is asked again" : ", works again";
  return text;
}

std::string History::ExplainTimes(const DeviceState& state) {
  std::string text;
  for (uint32_t source = 0; source < kSourceCount; ++source) {
    const int64_t took_ns = state.took_ns[source];
    if (took_ns == 0) continue;
    text += base::Format("%s%s %.1f%s", text.empty() ? "" : ", ", kSourceNames[source],
                         static_cast<double>(took_ns) / 1e3, took_ns > kDearNs ? " (once a second)" : "");
  }
  return text;
}

void History::AddAttributes(TraceBuilder& trace) const {
  const auto add = [&trace](const std::string& key, const std::string& value) {
    trace.AddAttribute(key.c_str(), value.c_str());
  };
  if (!driver_version_.empty()) add("nvml.driver", driver_version_);
  add("nvml.rate_hz", std::to_string(rate_hz_));
  add("nvml.rounds", std::to_string(kept_.totals.rounds));
  if (kept_.totals.rounds != 0) {
    add("nvml.round_us",
        base::Format("%.1f, at most %.1f",
                     static_cast<double>(kept_.totals.took_ns) / 1e3 / static_cast<double>(kept_.totals.rounds),
                     static_cast<double>(kept_.totals.longest_ns) / 1e3));
  }
  if (kept_.totals.missed != 0) add("nvml.missed_rounds", std::to_string(kept_.totals.missed));
  if (kept_.silent_ns > kRepeatNs) {
    add("nvml.no_answer", base::Format("GPU %" PRIu32 ", %s, for %.3f s", kept_.silent_call >> 8,
                                       kSourceNames[kept_.silent_call & 0xff], Seconds(kept_.silent_ns)));
  }
  if (kept_.overwritten_until_ns != 0) {
    add("nvml.overwritten",
        base::Format("samples of the first %.3f s of the window: NvmlOptions::memory_bytes is too small",
                     Seconds(kept_.overwritten_until_ns - kept_.begin_ns)));
  }
  if (devices_left_out_ != 0) add("nvml.devices_left_out", std::to_string(devices_left_out_));
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    const std::string prefix = "nvml." + std::to_string(device);
    const DeviceInfo& info = devices_[device];
    std::string what = info.name;
    for (const std::string& part : {info.uuid, info.pci_bus_id.empty() ? "" : "PCI " + info.pci_bus_id}) {
      if (!part.empty()) what += (what.empty() ? "" : ", ") + part;
    }
    add(prefix, what);
    const DeviceState& state = kept_states_[device];
    if (const std::string times = ExplainTimes(state); !times.empty()) add(prefix + ".call_us", times);
    for (uint32_t source = 0; source < kSourceCount; ++source) {
      if (state.failures[source].result != kSuccess)
        add(prefix + "." + kSourceNames[source], Explain(state, static_cast<Source>(source)));
    }
  }
}

}  // namespace pitot::nvml
