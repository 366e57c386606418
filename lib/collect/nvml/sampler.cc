// SPDX-License-Identifier: Apache-2.0
#include "collect/nvml/sampler.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <utility>

#include "base/message.h"

namespace pitot::nvml {
namespace {

using base::Error;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kSecondNs = 1'000'000'000;
constexpr int64_t kMinuteNs = 60 * kSecondNs;
// GPM needs more than 100 ms between its two samples.
constexpr int64_t kGpmApartNs = 101'000'000;
constexpr uint32_t kMostDevices = 64;
constexpr uint32_t kMostProcesses = 1024;
constexpr int kMostEventsARound = 64;
constexpr double kMebibyte = 1024 * 1024;

constexpr Source kFirstField = Source::kPowerCapTime;

struct GpmCounter {
  GpmMetricId id;
  Source source;
  Counter counter;
  double unit;
};
constexpr GpmCounter kGpmCounters[] = {
    {kGpmSmActive, Source::kGpmSmActive, Counter::kSmActive, 1},
    {kGpmSmOccupancy, Source::kGpmSmOccupancy, Counter::kSmOccupancy, 1},
    {kGpmTensorActive, Source::kGpmTensorActive, Counter::kTensorActive, 1},
    {kGpmDramBandwidth, Source::kGpmDramBandwidth, Counter::kDramBandwidth, 1},
    {kGpmPcieSent, Source::kGpmPcieSent, Counter::kPcieSending, kMebibyte},
    {kGpmPcieReceived, Source::kGpmPcieReceived, Counter::kPcieReceiving, kMebibyte},
    {kGpmNvlinkSent, Source::kGpmNvlinkSent, Counter::kNvlinkSending, kMebibyte},
    {kGpmNvlinkReceived, Source::kGpmNvlinkReceived, Counter::kNvlinkReceiving, kMebibyte},
};

bool IsOfGpm(Source source) { return source >= Source::kGpm; }
uint32_t IndexOf(Source source) { return static_cast<uint32_t>(source); }

bool EndsDevice(Result result) { return result == kGpuIsLost || result == kResetRequired; }

bool IsNeverOtherwise(Result result) {
  return result == kNotSupported || result == kFunctionNotFound || result == kInvalidArgument ||
         result == kDeprecated || result == kArgumentVersionMismatch;
}

int64_t RetryAfterNs(Source source, Result result) {
  // GPM as a whole may recover from any error.
  if (source == Source::kGpm) return result == kFunctionNotFound ? kNever : kMinuteNs;
  if (IsNeverOtherwise(result)) return kNever;
  return result == kNoPermission || IsOfGpm(source) || source == Source::kXid ? kMinuteNs : kSecondNs;
}

// A counter's value, and the largest value before it begins again at 0.
std::pair<unsigned long long, unsigned long long> UnsignedOf(const FieldValue& field) {
  switch (field.value_type) {
    case kUnsignedInt:
      return {field.value.as_unsigned_int, std::numeric_limits<unsigned int>::max()};
    case kUnsignedShort:
      return {field.value.as_unsigned_short, std::numeric_limits<unsigned short>::max()};
    case kSignedInt:
      return {static_cast<unsigned long long>(std::max(field.value.as_signed_int, 0)), ~0ull};
    case kSignedLongLong:
      return {static_cast<unsigned long long>(std::max(field.value.as_signed_long_long, 0ll)), ~0ull};
    case kDouble:
      return {field.value.as_double > 0 && field.value.as_double < 1e19
                  ? static_cast<unsigned long long>(field.value.as_double)
                  : 0,
              ~0ull};
    default:
      return {field.value.as_unsigned_long_long, ~0ull};
  }
}

// A text buffer's contents up to its end.
template <size_t n> std::string TextOf(const char (&buffer)[n]) { return std::string(buffer, strnlen(buffer, n)); }

Status Explain(Result result, const char* call) {
  const char* what_to_do = "";
  switch (result) {
    case kDriverNotLoaded:
      what_to_do = ": NVIDIA's kernel driver is not loaded; nvidia-smi should show why";
      break;
    case kNoPermission:
    case kOperatingSystem:
      what_to_do = ": give the process access to /dev/nvidiactl and /dev/nvidia* (in a container, pass the GPUs in)";
      break;
    case kLibraryDriverMismatch:
      what_to_do = ": library and kernel driver have different versions; load the new driver or restart the machine";
      break;
    case kGpuNotFound:
      what_to_do = ": the driver sees no GPU (in a container, pass the GPUs in)";
      break;
    case kGpuIsLost:
    case kResetRequired:
      what_to_do = ": a GPU is lost or must be reset; the kernel's log has its XID";
      break;
    default:
      break;
  }
  const bool is_absent = result == kGpuNotFound || result == kDriverNotLoaded;
  return Error(is_absent ? StatusCode::kNotFound : StatusCode::kUnavailable, "%s failed with %s%s", call,
               ResultName(result).c_str(), what_to_do);
}

}  // namespace

OwnProcess FindOwnProcess() {
  OwnProcess own;
  own.pid = getpid();
  // Linux gives the first PID namespace this number.
  char name[64] = "";
  if (readlink("/proc/self/ns/pid", name, sizeof name - 1) > 0)
    own.has_global_pid = std::strcmp(name, "pid:[4026531836]") == 0;
  return own;
}

Status Sampler::Open(const std::string& library) {
  if (Status s = LoadNvml(library, &api_); !s.ok()) return s;
  if (const Result result = api_.init(); result != kSuccess) return Explain(result, "nvmlInit_v2");
  struct Undo {
    ~Undo() {
      if (sampler != nullptr) sampler->Close();
    }
    Sampler* sampler;
  } undo{this};
  unsigned int count = 0;
  if (const Result result = api_.get_count(&count); result != kSuccess) return Explain(result, "nvmlDeviceGetCount_v2");
  if (count == 0) return Explain(kGpuNotFound, "nvmlDeviceGetCount_v2");
  char driver[kDriverVersionBytes] = "";
  if (api_.get_driver_version == nullptr || api_.get_driver_version(driver, sizeof driver) != kSuccess) *driver = '\0';
  slowdown_fields_ = SlowdownFieldsOf(std::atoi(TextOf(driver).c_str()));
  samples_.reserve(kCounterCount);
  processes_.resize(kMostProcesses);
  gpm_ = std::make_unique<GpmMetricsGet>();
  const uint32_t used = std::min(count, kMostDevices);
  devices_.reserve(used);  // no entry moves later
  std::vector<DeviceInfo> infos = FindDevices(used);
  if (const auto found = std::find_if(devices_.begin(), devices_.end(), [](auto& d) { return d.handle != nullptr; });
      found == devices_.end())
    return Explain(devices_[0].state.failures[0].result, "nvmlDeviceGetHandleByIndex_v2");
  history_->SetDevices(std::move(infos), count - used, TextOf(driver));
  RegisterEvents();
  undo.sampler = nullptr;
  return {};
}

std::vector<DeviceInfo> Sampler::FindDevices(uint32_t count) {
  std::vector<DeviceInfo> infos(count);
  now_ns_ = timer_->NowNs();
  for (uint32_t index = 0; index < count; ++index) {
    DeviceEntry& device = devices_.emplace_back();
    device.index = index;
    if (const Result result = api_.get_handle(index, &device.handle); result != kSuccess) {
      device.handle = nullptr;
      // The whole device is missing; its first source tells the reason.
      Note(&device, static_cast<Source>(0), result);
      device.state.failures[0].is_final = true;
      continue;
    }
    char name[kNameBytes] = "", uuid[kUuidBytes] = "";
    PciInfo pci{};
    if (api_.get_name != nullptr && api_.get_name(device.handle, name, sizeof name) == kSuccess)
      infos[index].name = TextOf(name);
    if (api_.get_uuid != nullptr && api_.get_uuid(device.handle, uuid, sizeof uuid) == kSuccess)
      infos[index].uuid = TextOf(uuid);
    if (api_.get_pci_info != nullptr && api_.get_pci_info(device.handle, &pci) == kSuccess)
      infos[index].pci_bus_id = TextOf(pci.bus_id);
    LeaveOutMissingFunctions(&device);
  }
  return infos;
}

void Sampler::LeaveOutMissingFunctions(DeviceEntry* device) noexcept {
  const auto need = [&](Source source, bool is_there) {
    if (!is_there) Fail(device, source, kFunctionNotFound);
  };
  need(Source::kUtilization, api_.get_utilization != nullptr);
  need(Source::kMemory, api_.get_memory != nullptr);
  need(Source::kSmClock, api_.get_clock != nullptr);
  need(Source::kMemoryClock, api_.get_clock != nullptr);
  need(Source::kPower, api_.get_power != nullptr);
  need(Source::kTemperature, api_.get_temperature != nullptr);
  need(Source::kClockEventReasons, api_.get_clock_event_reasons != nullptr);
  need(Source::kPowerCapTime, api_.get_fields != nullptr);
  need(Source::kSoftwareThermalTime, api_.get_fields != nullptr && slowdown_fields_.software_thermal != 0);
  need(Source::kHardwareThermalTime, api_.get_fields != nullptr && slowdown_fields_.hardware_thermal != 0);
  need(Source::kPowerBrakeTime, api_.get_fields != nullptr && slowdown_fields_.power_brake != 0);
  need(Source::kPcieSent, api_.get_fields != nullptr);
  need(Source::kPcieReceived, api_.get_fields != nullptr);
  need(Source::kProcesses, api_.get_processes != nullptr);
  need(Source::kEccCorrected, api_.get_ecc_errors != nullptr);
  need(Source::kEccUncorrected, api_.get_ecc_errors != nullptr);
  need(Source::kXid, api_.event_set_create != nullptr && api_.event_set_free != nullptr &&
                         api_.event_set_wait != nullptr && api_.register_events != nullptr);
  need(Source::kGpm, api_.gpm_query_support != nullptr && api_.gpm_sample_alloc != nullptr &&
                         api_.gpm_sample_free != nullptr && api_.gpm_sample_get != nullptr &&
                         api_.gpm_metrics_get != nullptr);
}

void Sampler::Close() noexcept {
  for (DeviceEntry& device : devices_) {
    for (GpmSample& sample : device.gpm.samples) {
      if (sample != nullptr) api_.gpm_sample_free(std::exchange(sample, nullptr));
    }
  }
  if (events_ != nullptr) api_.event_set_free(std::exchange(events_, nullptr));
  devices_.clear();
  if (api_.shutdown != nullptr) api_.shutdown();
}

bool Sampler::IsDue(const DeviceEntry& device, Source source) const noexcept {
  if (device.state.lost_at_ns != 0 || due_ns_ < device.retry_at_ns[IndexOf(source)]) return false;
  // An expensive call is made for each device in a round of its own.
  return device.state.took_ns[IndexOf(source)] <= kDearNs || (round_ + device.index) % rate_hz_ == 0;
}

// Takes the shorter of two calls, because the thread may have lost its CPU in one. GPM has a pace of its own.
void Sampler::NoteTime(DeviceEntry* device, Source source, int64_t took_ns) noexcept {
  if (IsOfGpm(source)) return;
  const int64_t last_ns = std::exchange(device->last_took_ns[IndexOf(source)], took_ns);
  device->state.took_ns[IndexOf(source)] = std::min(last_ns, took_ns);
}

void Sampler::Fail(DeviceEntry* device, Source source, Result result) noexcept {
  Failure& failure = device->state.failures[IndexOf(source)];
  const int64_t after_ns = RetryAfterNs(source, result);
  failure.result = result;
  ++failure.count;
  failure.is_failing = true;
  failure.is_final = after_ns == kNever;
  device->retry_at_ns[IndexOf(source)] = after_ns == kNever ? kNever : now_ns_ + after_ns;
}

bool Sampler::Note(DeviceEntry* device, Source source, Result result) noexcept {
  if (result == kSuccess) {
    device->state.failures[IndexOf(source)].is_failing = false;
    device->retry_at_ns[IndexOf(source)] = 0;
    return true;
  }
  Fail(device, source, result);
  if (EndsDevice(result)) device->state.lost_at_ns = now_ns_;
  return false;
}

template <class Function> bool Sampler::Ask(DeviceEntry* device, Source source, Function call) noexcept {
  if (!IsDue(*device, source)) return false;
  const int64_t begin_ns = now_ns_;
  history_->Calling(device->index, source, begin_ns);
  const Result result = call();
  history_->Returned();
  now_ns_ = timer_->NowNs();
  NoteTime(device, source, now_ns_ - begin_ns);
  return Note(device, source, result);
}

void Sampler::Write(DeviceEntry* device, Counter counter, double value, uint32_t age_us) noexcept {
  const uint32_t index = static_cast<uint32_t>(counter);
  Written& written = device->written[index];
  if (written.is_valid && written.value == value && now_ns_ - written.at_ns < kRepeatNs) return;
  written = {value, now_ns_, true};
  // Room is reserved for one sample of each counter; each is written once a round.
  if (samples_.size() < samples_.capacity())
    samples_.push_back({now_ns_, value, device->index * kCounterCount + index, age_us});
}

void Sampler::Round() noexcept {
  now_ns_ = due_ns_ = timer_->NowNs();
  TakeEvents();
  for (DeviceEntry& device : devices_) {
    samples_.clear();
    if (device.has_xid_events) {
      Write(&device, Counter::kXidErrors, static_cast<double>(device.xid_errors));
      if (device.xid_errors != 0) Write(&device, Counter::kLastXid, static_cast<double>(device.last_xid));
    }
    if (device.handle != nullptr && device.state.lost_at_ns == 0) {
      now_ns_ = timer_->NowNs();
      AskState(&device);
      AskField(&device, Source::kPowerCapTime, kFieldPowerCapNs);
      AskField(&device, Source::kSoftwareThermalTime, slowdown_fields_.software_thermal);
      AskField(&device, Source::kHardwareThermalTime, slowdown_fields_.hardware_thermal);
      AskField(&device, Source::kPowerBrakeTime, slowdown_fields_.power_brake);
      AskField(&device, Source::kPcieSent, kFieldPcieSentBytes);
      AskField(&device, Source::kPcieReceived, kFieldPcieReceivedBytes);
      AskProcesses(&device);
      AskEcc(&device);
      AskGpm(&device);
    }
    history_->Commit(device.index, samples_, device.state);
  }
  ++round_;
}

void Sampler::AskState(DeviceEntry* device) noexcept {
  const nvml::Device handle = device->handle;
  Utilization utilization{};
  if (Ask(device, Source::kUtilization, [&] { return api_.get_utilization(handle, &utilization); })) {
    Write(device, Counter::kUtilization, utilization.gpu);
    Write(device, Counter::kMemoryUtilization, utilization.memory);
  }
  Memory memory{};
  if (Ask(device, Source::kMemory, [&] { return api_.get_memory(handle, &memory); })) {
    Write(device, Counter::kMemoryUsed, static_cast<double>(memory.used));
    Write(device, Counter::kMemoryTotal, static_cast<double>(memory.total));
  }
  unsigned int value = 0;
  if (Ask(device, Source::kSmClock, [&] { return api_.get_clock(handle, kClockSm, &value); }))
    Write(device, Counter::kSmClock, value);
  if (Ask(device, Source::kMemoryClock, [&] { return api_.get_clock(handle, kClockMemory, &value); }))
    Write(device, Counter::kMemoryClock, value);
  if (Ask(device, Source::kPower, [&] { return api_.get_power(handle, &value); }))
    Write(device, Counter::kPower, value / 1000.0);
  if (Ask(device, Source::kTemperature, [&] { return api_.get_temperature(handle, kSensorGpu, &value); }))
    Write(device, Counter::kTemperature, value);
  unsigned long long reasons = 0;
  if (Ask(device, Source::kClockEventReasons, [&] { return api_.get_clock_event_reasons(handle, &reasons); }))
    Write(device, Counter::kClockEventReasons, static_cast<double>(reasons));
}

// Reads one field a call: some take the driver a hundred times as long as others.
void Sampler::AskField(DeviceEntry* device, Source source, unsigned int id) noexcept {
  FieldValue field{};
  field.field = id;
  field.result = kNoData;  // for drivers that leave it unset
  const auto call = [&] {
    const Result result = api_.get_fields(device->handle, 1, &field);
    return result != kSuccess ? result : field.result;
  };
  if (!Ask(device, source, call)) return;
  const uint32_t at = IndexOf(source) - IndexOf(kFirstField);
  Growth& growth = device->fields[at];
  const auto [value, most] = UnsignedOf(field);
  if (growth.has_last) {
    // A narrow counter wraps; a wide one below its last value was reset.
    const bool has_wrapped = value < growth.last && most != ~0ull;
    growth.total += has_wrapped ? most - growth.last + 1 + value : value < growth.last ? value : value - growth.last;
  }
  growth.last = value;
  growth.has_last = true;
  Write(device, static_cast<Counter>(static_cast<uint32_t>(Counter::kPowerCapTime) + at),
        static_cast<double>(growth.total));
}

void Sampler::AskProcesses(DeviceEntry* device) noexcept {
  unsigned int count = static_cast<unsigned int>(processes_.size());
  if (!Ask(device, Source::kProcesses, [&] { return api_.get_processes(device->handle, &count, processes_.data()); }))
    return;
  count = std::min(count, static_cast<unsigned int>(processes_.size()));
  const unsigned int own_pid = static_cast<unsigned int>(own_.pid);
  unsigned long long own = 0, others = 0;
  unsigned int other_count = 0;
  bool is_own_listed = own_.has_global_pid, is_known = true;
  for (unsigned int i = 0; i < count; ++i) {
    const bool is_own = processes_[i].pid == own_pid;
    is_own_listed |= is_own;
    if (!is_own) ++other_count;
    if (processes_[i].used_bytes == kNotAvailable) {
      is_known = false;
      continue;
    }
    (is_own ? own : others) += processes_[i].used_bytes;
  }
  // It is unknown which of them is this process, so nothing is claimed of any.
  if (!is_own_listed) return Fail(device, Source::kProcesses, kNotFound);
  Write(device, Counter::kOtherProcesses, other_count);
  if (!is_known) return Fail(device, Source::kProcesses, kNoData);
  Write(device, Counter::kOwnMemory, static_cast<double>(own));
  Write(device, Counter::kOtherMemory, static_cast<double>(others));
}

void Sampler::AskEcc(DeviceEntry* device) noexcept {
  unsigned long long count = 0;
  if (Ask(device, Source::kEccCorrected,
          [&] { return api_.get_ecc_errors(device->handle, kCorrected, kVolatile, &count); }))
    Write(device, Counter::kEccCorrected, static_cast<double>(count));
  if (Ask(device, Source::kEccUncorrected,
          [&] { return api_.get_ecc_errors(device->handle, kUncorrected, kVolatile, &count); }))
    Write(device, Counter::kEccUncorrected, static_cast<double>(count));
}

void Sampler::RegisterEvents() noexcept {
  if (api_.event_set_create == nullptr || api_.event_set_free == nullptr || api_.event_set_wait == nullptr ||
      api_.register_events == nullptr) {
    events_retry_at_ns_ = kNever;
    return;
  }
  if (const Result result = api_.event_set_create(&events_); result != kSuccess) {
    events_ = nullptr;
    return FailEvents(result);
  }
  for (DeviceEntry& device : devices_) {
    if (device.handle == nullptr || device.state.lost_at_ns != 0) continue;
    device.has_xid_events = Note(&device, Source::kXid, api_.register_events(device.handle, kEventXid, events_));
  }
}

void Sampler::FailEvents(Result result) noexcept {
  if (events_ != nullptr) api_.event_set_free(std::exchange(events_, nullptr));
  events_retry_at_ns_ = now_ns_ + kMinuteNs;
  for (DeviceEntry& device : devices_) {
    device.has_xid_events = false;
    if (device.handle != nullptr && device.state.lost_at_ns == 0) Fail(&device, Source::kXid, result);
  }
}

void Sampler::TakeEvents() noexcept {
  if (events_ == nullptr) {
    if (due_ns_ >= events_retry_at_ns_) RegisterEvents();
    if (events_ == nullptr) return;
  }
  for (int i = 0; i < kMostEventsARound; ++i) {
    EventData event{};
    history_->Calling(0, Source::kXid, now_ns_);
    const Result result = api_.event_set_wait(events_, &event, 0);
    history_->Returned();
    if (result == kTimeout) return;
    // Each GPU's own calls will tell if it is this one's fault.
    if (result != kSuccess) return FailEvents(result);
    if (event.type != kEventXid) continue;
    for (DeviceEntry& device : devices_) {
      if (device.handle != event.device) continue;
      ++device.xid_errors;
      device.last_xid = event.data;
    }
  }
}

bool Sampler::OpenGpm(DeviceEntry* device) noexcept {
  GpmSupport support{kGpmVersion, 0};
  if (!Ask(device, Source::kGpm, [&] { return api_.gpm_query_support(device->handle, &support); })) return false;
  if (support.is_supported == 0) {
    Fail(device, Source::kGpm, kNotSupported);
    device->state.failures[IndexOf(Source::kGpm)].is_final = true;
    device->retry_at_ns[IndexOf(Source::kGpm)] = kNever;
    return false;
  }
  for (GpmSample& sample : device->gpm.samples) {
    if (sample == nullptr && !Ask(device, Source::kGpm, [&] { return api_.gpm_sample_alloc(&sample); })) {
      sample = nullptr;
      return false;
    }
  }
  device->gpm.is_supported = true;
  return true;
}

void Sampler::AskGpm(DeviceEntry* device) noexcept {
  Gpm& gpm = device->gpm;
  if (!IsDue(*device, Source::kGpm)) return;
  if (!gpm.is_supported && !OpenGpm(device)) return;
  if (gpm.has_newest && now_ns_ - gpm.at_ns < kGpmApartNs) return;
  const uint32_t next = 1 - gpm.newest;
  if (!Ask(device, Source::kGpm, [&] { return api_.gpm_sample_get(device->handle, gpm.samples[next]); })) {
    gpm.has_newest = false;
    return;
  }
  gpm.newest = next;
  const int64_t before_ns = std::exchange(gpm.at_ns, now_ns_);
  if (std::exchange(gpm.has_newest, true)) AskGpmMetrics(device, before_ns);
}

void Sampler::AskGpmMetrics(DeviceEntry* device, int64_t before_ns) noexcept {
  Gpm& gpm = device->gpm;
  gpm_->version = kGpmVersion;
  gpm_->count = 0;
  gpm_->sample1 = gpm.samples[1 - gpm.newest];
  gpm_->sample2 = gpm.samples[gpm.newest];
  const GpmCounter* asked[std::size(kGpmCounters)]{};
  for (const GpmCounter& counter : kGpmCounters) {
    if (!IsDue(*device, counter.source)) continue;
    asked[gpm_->count] = &counter;
    gpm_->metrics[gpm_->count++] = {counter.id, kNoData, 0, {nullptr, nullptr, nullptr}};
  }
  const uint32_t count = gpm_->count;
  if (count == 0) return;
  if (!Ask(device, Source::kGpm, [&] { return api_.gpm_metrics_get(gpm_.get()); })) {
    gpm.has_newest = false;
    return;
  }
  const auto age_us = static_cast<uint32_t>(std::min<int64_t>((now_ns_ - before_ns) / 1000, 60'000'000));
  for (uint32_t i = 0; i < count; ++i) {
    const GpmMetric& metric = gpm_->metrics[i];
    const Result result = metric.result == kSuccess && !std::isfinite(metric.value) ? kNoData : metric.result;
    if (Note(device, asked[i]->source, result)) Write(device, asked[i]->counter, metric.value * asked[i]->unit, age_us);
    if (device->state.lost_at_ns != 0) return;
  }
}

}  // namespace pitot::nvml
