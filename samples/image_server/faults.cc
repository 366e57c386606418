// SPDX-License-Identifier: Apache-2.0
#include "image_server/faults.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <stdexcept>

#include "image_server/monotonic.h"

namespace image_server {
namespace {

struct KindInfo {
  const char* name;
  std::array<std::string_view, 2> keys;  // besides rate
};

// By FaultKind.
constexpr KindInfo kKinds[kFaultKinds] = {
    {"slow_decode_spin", {"dose_ms"}},        {"slow_decode_sleep", {"dose_ms"}}, {"lock_held", {"dose_ms"}},
    {"batch_timeout", {"dose_ms"}},           {"fsync", {"dose_bytes"}},          {"page_faults", {"dose_mib"}},
    {"cpu_spinners", {"dose_ms", "threads"}},
};

constexpr uint64_t kNoticeableWaitNs = 100'000;  // a shorter wait for the cache's lock is not logged

const KindInfo& InfoOf(FaultKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::string AllNames() {
  std::string names;
  for (const KindInfo& kind : kKinds) names += (names.empty() ? "" : ", ") + std::string(kind.name);
  return names;
}

FaultKind ParseKind(std::string_view name) {
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (name == kKinds[i].name) return static_cast<FaultKind>(i);
  }
  if (name == "bursts" || name == "bigger_input") {
    throw std::invalid_argument("fault \"" + std::string(name) +
                                "\" is made by the load generator: --burst, --big-share, and its --fault-log");
  }
  throw std::invalid_argument("unknown fault \"" + std::string(name) + "\"; there are " + AllNames());
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

// A number in [0, 1) that depends on seed and index only (SplitMix64's finaliser).
double Uniform(uint64_t seed, uint64_t index) {
  uint64_t x = seed + index * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

void SpinUntil(uint64_t end_ns) {
  while (MonotonicNs() < end_ns) {}
}

void SleepFor(uint64_t ns) { std::this_thread::sleep_for(std::chrono::nanoseconds(ns)); }

void TouchColdMemory(uint64_t bytes) {
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  madvise(memory, bytes, MADV_NOHUGEPAGE);  // one fault a page
  for (uint64_t at = 0; at < bytes; at += 4096) static_cast<volatile char*>(memory)[at] = 1;
  munmap(memory, bytes);
}

void WriteAndSync(const std::string& directory, uint64_t bytes) {
  PITOT_WAIT(pitot::WaitKind::kIo, "journal", pitot::Owner{});
  std::string name = directory + "/image_server_XXXXXX";
  const int file = mkostemp(name.data(), O_CLOEXEC);
  if (file < 0) return;
  unlink(name.c_str());
  const std::vector<char> block(std::min<uint64_t>(bytes, 1 << 16), 'x');
  for (uint64_t written = 0; written < bytes;) {
    const ssize_t size = write(file, block.data(), std::min<uint64_t>(block.size(), bytes - written));
    if (size <= 0) break;
    written += static_cast<uint64_t>(size);
  }
  fsync(file);
  close(file);
}

}  // namespace

const char* FaultName(FaultKind kind) { return InfoOf(kind).name; }

Fault ParseFault(std::string_view text) {
  Fault fault;
  fault.kind = ParseKind(CutAt(text, ':'));
  const KindInfo& info = InfoOf(fault.kind);
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
    if (key == "threads") fault.threads = static_cast<size_t>(number);
  }
  return fault;
}

Faults::Faults(const FaultOptions& options)
    : seed_(options.seed),
      after_s_(options.after_s),
      for_s_(options.for_s),
      directory_(options.directory),
      log_(options.log_file) {
  SetFaults(options.faults);
}

Faults::~Faults() {
  if (spinner_.joinable()) spinner_.join();
}

void Faults::Start() {
  const uint64_t from_ns = MonotonicNs() + static_cast<uint64_t>(after_s_ * 1e9);
  active_until_ns_ = for_s_ > 0 ? from_ns + static_cast<uint64_t>(for_s_ * 1e9) : UINT64_MAX;
  active_from_ns_ = from_ns;
}

void Faults::SetActive(bool is_active) {
  active_until_ns_ = UINT64_MAX;
  active_from_ns_ = is_active ? 0 : UINT64_MAX;
}

bool Faults::is_active() const {
  const uint64_t now_ns = MonotonicNs();
  return active_from_ns_ <= now_ns && now_ns < active_until_ns_;
}

void Faults::SetFaults(const std::vector<Fault>& faults) {
  std::array<const Fault*, kFaultKinds> by_kind{};
  for (const Fault& fault : faults) {
    const Fault*& slot = by_kind[static_cast<size_t>(fault.kind)];
    if (slot != nullptr) throw std::invalid_argument(std::string("fault ") + FaultName(fault.kind) + " is given twice");
    slot = &fault;
  }
  std::lock_guard lock(faults_mutex_);
  for (size_t i = 0; i < kFaultKinds; ++i) {
    if (by_kind[i] != nullptr) slots_[i].fault = *by_kind[i];
    slots_[i].is_set = by_kind[i] != nullptr;
  }
}

std::vector<Fault> Faults::faults() const {
  std::vector<Fault> faults;
  std::lock_guard lock(faults_mutex_);
  for (const Slot& slot : slots_) {
    if (slot.is_set) faults.push_back(slot.fault);
  }
  return faults;
}

// Whether the fault strikes now; `fault` gets its dose.
bool Faults::Draw(FaultKind kind, Fault* fault) {
  Slot& slot = slots_[static_cast<size_t>(kind)];
  if (!slot.is_set || !is_active()) return false;
  {
    std::lock_guard lock(faults_mutex_);
    *fault = slot.fault;
  }
  const uint64_t index = slot.draws++;
  return Uniform(seed_ * kFaultKinds + static_cast<uint64_t>(kind), index) < fault->rate;
}

void Faults::InDecode(uint64_t request) {
  Fault fault;
  if (Draw(FaultKind::kSlowDecodeSpin, &fault)) {
    const uint64_t begin_ns = MonotonicNs();
    SpinUntil(begin_ns + fault.dose_ns);
    log_.Write(begin_ns, request, FaultName(fault.kind), MonotonicNs() - begin_ns);
  }
  if (Draw(FaultKind::kSlowDecodeSleep, &fault)) {
    const uint64_t begin_ns = MonotonicNs();
    SleepFor(fault.dose_ns);
    log_.Write(begin_ns, request, FaultName(fault.kind), MonotonicNs() - begin_ns);
  }
  if (Draw(FaultKind::kPageFaults, &fault)) {
    const uint64_t begin_ns = MonotonicNs();
    TouchColdMemory(fault.dose_bytes);
    log_.Write(begin_ns, request, FaultName(fault.kind), MonotonicNs() - begin_ns);
  }
}

void Faults::InCache(uint64_t request) {
  const char* const name = FaultName(FaultKind::kLockHeld);
  const uint64_t begin_ns = MonotonicNs();
  std::unique_lock lock(cache_mutex_);
  const uint64_t locked_ns = MonotonicNs();
  const bool waited = locked_ns - begin_ns >= kNoticeableWaitNs && cache_held_until_ns_ >= begin_ns;
  const uint64_t holder = cache_holder_;

  Fault fault;
  const bool holds = Draw(FaultKind::kLockHeld, &fault);
  if (holds) {
    SleepFor(fault.dose_ns);
    cache_holder_ = request;
    cache_held_until_ns_ = MonotonicNs();
  }
  const uint64_t held_ns = cache_held_until_ns_ - locked_ns;
  lock.unlock();

  if (waited) {
    log_.Write(begin_ns, request, name, locked_ns - begin_ns,
               ",\"role\":\"waiter\",\"holder\":\"" + RequestIdText(holder) + "\"");
  }
  if (holds) log_.Write(locked_ns, request, name, held_ns, ",\"role\":\"holder\"");
}

void Faults::InHandler(uint64_t request) {
  Fault fault;
  if (Draw(FaultKind::kFsync, &fault)) {
    const uint64_t begin_ns = MonotonicNs();
    WriteAndSync(directory_, fault.dose_bytes);
    log_.Write(begin_ns, request, FaultName(fault.kind), MonotonicNs() - begin_ns);
  }
  if (Draw(FaultKind::kCpuSpinners, &fault)) SpinBeside(request, fault);
}

// One group of spinners at a time; it goes on while the request that drew it runs.
void Faults::SpinBeside(uint64_t request, const Fault& fault) {
  if (is_spinning_.exchange(true)) return;
  std::lock_guard lock(spinner_mutex_);
  if (spinner_.joinable()) spinner_.join();
  spinner_ = std::thread([this, request, fault] {
    pitot::SetThreadName("spinner");
    const size_t count = fault.threads > 0 ? fault.threads : std::max(1u, std::thread::hardware_concurrency());
    const uint64_t begin_ns = MonotonicNs(), end_ns = begin_ns + fault.dose_ns;
    std::vector<std::thread> others;
    for (size_t i = 1; i < count; ++i) others.emplace_back(SpinUntil, end_ns);
    SpinUntil(end_ns);
    for (std::thread& other : others) other.join();
    log_.Write(begin_ns, request, FaultName(fault.kind), MonotonicNs() - begin_ns,
               ",\"threads\":" + std::to_string(count));
    is_spinning_ = false;
  });
}

uint64_t Faults::BatchDelayNs(uint64_t normal_ns) {
  Fault fault;
  return Draw(FaultKind::kBatchTimeout, &fault) ? std::max(normal_ns, fault.dose_ns) : normal_ns;
}

void Faults::BatchWaited(uint64_t request, uint64_t should_close_ns, uint64_t closed_ns) {
  if (closed_ns > should_close_ns) {
    log_.Write(should_close_ns, request, FaultName(FaultKind::kBatchTimeout), closed_ns - should_close_ns);
  }
}

}  // namespace image_server
