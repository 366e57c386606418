// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/fault_schedule.h"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace scoreboard {
namespace {

size_t ParseKind(std::span<const FaultKindInfo> kinds, std::string_view name) {
  std::string names;
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (name == kinds[i].name) return i;
    names += (names.empty() ? "" : ", ") + std::string(kinds[i].name);
  }
  if (name == "bursts" || name == "bigger_input") {
    throw std::invalid_argument("fault \"" + std::string(name) +
                                "\" is made by the load generator: --burst, --big-share, and its --fault-log");
  }
  throw std::invalid_argument("unknown fault \"" + std::string(name) + "\"; there are " + names);
}

double ParseNumber(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= 1e12)) {
    throw std::invalid_argument("fault: " + std::string(key) + "=" + std::string(text) + " is not a number that fits");
  }
  return value;
}

// The part of `text` before `separator`; moves `text` behind it.
std::string_view CutAt(std::string_view& text, char separator) {
  const size_t at = std::min(text.find(separator), text.size());
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return part;
}

// A number in [0, 1), a function of seed and index only (SplitMix64's finaliser).
double Uniform(uint64_t seed, uint64_t index) {
  uint64_t x = seed + index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

Fault ParseFault(std::span<const FaultKindInfo> kinds, std::string_view text) {
  Fault fault;
  fault.text = text;
  fault.kind = ParseKind(kinds, CutAt(text, ':'));
  const FaultKindInfo& info = kinds[fault.kind];
  while (!text.empty()) {
    std::string_view value = CutAt(text, ',');
    const std::string_view key = CutAt(value, '=');
    const double number = ParseNumber(key, value);
    if (key == "rate") {
      if (number > 1) throw std::invalid_argument("fault: rate is a share, 0 to 1");
      fault.rate = number;
      continue;
    }
    if (key.empty() || std::find(info.keys.begin(), info.keys.end(), key) == info.keys.end()) {
      std::string message = std::string(info.name) + " takes rate";
      for (const std::string_view known : info.keys) message.append(known.empty() ? "" : ", ").append(known);
      throw std::invalid_argument(message + "; not \"" + std::string(key) + "\"");
    }
    if (key == "dose_ms") fault.dose_ns = static_cast<uint64_t>(number * 1e6);
    if (key == "dose_bytes") fault.dose_bytes = static_cast<uint64_t>(number);
    if (key == "dose_mib") fault.dose_bytes = static_cast<uint64_t>(number * 1048576.0);
    if (key == "dose_tokens") fault.dose_tokens = static_cast<uint64_t>(number);
    if (key == "dose_count") fault.dose_count = static_cast<uint64_t>(number);
    if (key == "threads") fault.threads = static_cast<size_t>(number);
  }
  return fault;
}

std::string CpuTaken(uint64_t ns) { return ",\"cpu_ns\":" + std::to_string(ns); }

FaultSchedule::FaultSchedule(std::span<const FaultKindInfo> kinds, const FaultOptions& options)
    : kinds_(kinds),
      has_gpu_(options.has_gpu),
      seed_(options.seed),
      after_s_(options.after_s),
      for_s_(options.for_s),
      log_(options.log_file),
      slots_(kinds.size()) {
  SetFaults(options.faults);
}

void FaultSchedule::Start() {
  const uint64_t from_ns = MonotonicNs() + static_cast<uint64_t>(after_s_ * 1e9);
  active_until_ns_ = for_s_ > 0 ? from_ns + static_cast<uint64_t>(for_s_ * 1e9) : UINT64_MAX;
  active_from_ns_ = from_ns;
}

void FaultSchedule::SetActive(bool is_active) {
  active_until_ns_ = UINT64_MAX;
  active_from_ns_ = is_active ? 0 : UINT64_MAX;
}

bool FaultSchedule::is_active() const {
  const uint64_t now_ns = MonotonicNs();
  return active_from_ns_ <= now_ns && now_ns < active_until_ns_;
}

void FaultSchedule::SetFaults(const std::vector<Fault>& faults) {
  std::vector<const Fault*> by_kind(kinds_.size());
  for (const Fault& fault : faults) {
    const Fault*& slot = by_kind[fault.kind];
    if (kinds_[fault.kind].needs_gpu && !has_gpu_) {
      throw std::invalid_argument(std::string("fault ") + NameOf(fault.kind) +
                                  " needs a GPU, and the network runs on the CPU");
    }
    if (slot != nullptr) throw std::invalid_argument(std::string("fault ") + NameOf(fault.kind) + " is given twice");
    slot = &fault;
  }
  std::lock_guard lock(faults_mutex_);
  for (size_t i = 0; i < kinds_.size(); ++i) {
    if (by_kind[i] != nullptr) slots_[i].fault = *by_kind[i];
    slots_[i].is_set = by_kind[i] != nullptr;
  }
}

std::vector<Fault> FaultSchedule::faults() const {
  std::vector<Fault> faults;
  std::lock_guard lock(faults_mutex_);
  for (const Slot& slot : slots_) {
    if (slot.is_set) faults.push_back(slot.fault);
  }
  return faults;
}

bool FaultSchedule::Draw(size_t kind, Fault* fault) {
  if (!IsSet(kind)) return false;
  Slot& slot = slots_[kind];
  {
    std::lock_guard lock(faults_mutex_);
    *fault = slot.fault;
  }
  const uint64_t index = slot.draws++;
  return Uniform(seed_ * kinds_.size() + kind, index) < fault->rate;
}

void FaultSchedule::Log(size_t kind, uint64_t time_ns, uint64_t request, uint64_t injected_ns,
                        const std::string& more) {
  std::string text;
  {
    std::lock_guard lock(faults_mutex_);
    text = slots_[kind].fault.text;
  }
  log_.Write(time_ns, request, NameOf(kind), injected_ns, ",\"as\":\"" + text + "\"" + more);
}

}  // namespace scoreboard
