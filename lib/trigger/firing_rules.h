// SPDX-License-Identifier: Apache-2.0
//
// Common parts of the built-in triggers: the watched route, the quiet time after a firing, the check of options, and
// the wording of a firing.
#ifndef PITOT_LIB_TRIGGER_FIRING_RULES_H_
#define PITOT_LIB_TRIGGER_FIRING_RULES_H_

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <atomic>

#include "base/clock.h"
#include "pitot/extend/trigger.h"

namespace pitot::trigger {

inline constexpr uint32_t kMaxRoutes = 64;
inline constexpr uint32_t kMaxSizeBuckets = 64;
inline constexpr uint32_t kMaxNameBytes = 120;  // as many as Intern keeps
inline constexpr double kMaxThresholdMs = 86400000;

// One line of text in a fixed buffer; the rest is cut.
template <size_t kCapacity> class Line {
 public:
  // Appends.
  [[gnu::format(printf, 2, 3)]] void Add(const char* format, ...) noexcept {
    va_list args;
    va_start(args, format);
    const int size = vsnprintf(text_ + size_, kCapacity - size_, format, args);
    va_end(args);
    if (size > 0)
      size_ += static_cast<size_t>(size) < kCapacity - size_ ? static_cast<size_t>(size) : kCapacity - size_ - 1;
  }
  // Appends "1,203".
  void AddCount(uint64_t count) noexcept {
    char digits[24];
    const int size = snprintf(digits, sizeof digits, "%llu", static_cast<unsigned long long>(count));
    for (int i = 0; i < size; ++i) Add(i > 0 && (size - i) % 3 == 0 ? ",%c" : "%c", digits[i]);
  }
  const char* text() const noexcept { return text_; }

 private:
  char text_[kCapacity] = {};
  size_t size_ = 0;
};
using Detail = Line<256>;
using Cause = Line<kMaxNameBytes + 40>;

inline double Milliseconds(uint64_t ns) noexcept { return static_cast<double>(ns) * 1e-6; }
// 0 if it is not a time; refused options may hold anything.
inline uint64_t Nanoseconds(double ms) noexcept {
  return ms > 0 ? static_cast<uint64_t>((ms < kMaxThresholdMs ? ms : kMaxThresholdMs) * 1e6) : 0;
}

// A name from the host's options, copied. Null: every name matches.
class NameFilter {
 public:
  explicit NameFilter(const char* name) noexcept : matches_all_(name == nullptr) {
    if (name == nullptr) return;
    const size_t size = strnlen(name, kMaxNameBytes + 1);
    is_too_long_ = size > kMaxNameBytes;
    memcpy(name_, name, is_too_long_ ? kMaxNameBytes : size);
  }
  bool Matches(const char* name) const noexcept { return matches_all_ || strcmp(name_, name) == 0; }
  bool matches_all() const noexcept { return matches_all_; }
  const char* name() const noexcept { return matches_all_ ? nullptr : name_; }
  // Whether it can match: an empty name, or one longer than any kept name, never does.
  bool IsUsable() const noexcept { return matches_all_ || (!is_too_long_ && name_[0] != 0); }

 private:
  const bool matches_all_;
  bool is_too_long_ = false;
  char name_[kMaxNameBytes + 1] = {};
};

// For a while after a firing, others may not begin an incident, unless they are much worse: 64 slots, one a route.
// Threads: any; of several asking at once one passes.
class CoolDown {
 public:
  CoolDown(uint32_t cool_down_ms, base::ClockFunction clock) noexcept
      : cool_down_ns_(uint64_t{cool_down_ms} * 1000000), clock_(clock) {}
  // Whether a trigger may fire, and whether only to join a pending incident.
  // `bad_ns` is how bad the event is; twice as bad as what began the cool-down passes, and begins another. 0: unknown.
  bool Allows(uint32_t slot, FiringSink& sink, bool* joins_only, uint64_t bad_ns = 0) noexcept {
    *joins_only = !Pass(slot % kMaxRoutes, bad_ns);
    if (!*joins_only || sink.MayJoin()) return true;
    refused_[slot % kMaxRoutes].fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  // Fires, and says how many were refused since the last firing. One without room counts as refused, too.
  void Fire(uint32_t slot, Firing firing, FiringSink& sink) noexcept {
    std::atomic<uint32_t>& refused = refused_[slot % kMaxRoutes];
    firing.more_like_it = refused.exchange(0, std::memory_order_relaxed);
    if (!sink.Fire(firing)) refused.fetch_add(firing.more_like_it + 1, std::memory_order_relaxed);
  }

 private:
  static constexpr uint64_t kMuchWorse = 2;  // times

  bool Pass(uint32_t slot, uint64_t bad_ns) noexcept {
    if (cool_down_ns_ == 0) return true;
    const uint64_t now_ns = clock_(), begun_by_ns = begun_by_ns_[slot].load(std::memory_order_relaxed);
    uint64_t until_ns = quiet_until_ns_[slot].load(std::memory_order_relaxed);
    const bool is_much_worse = begun_by_ns != 0 && bad_ns / kMuchWorse >= begun_by_ns;
    if (now_ns < until_ns && !is_much_worse) return false;
    // Another thread's event may have been as bad, and passed first.
    if (!quiet_until_ns_[slot].compare_exchange_strong(until_ns, now_ns + cool_down_ns_, std::memory_order_relaxed))
      return false;
    begun_by_ns_[slot].store(bad_ns, std::memory_order_relaxed);
    return true;
  }

  const uint64_t cool_down_ns_;
  const base::ClockFunction clock_;
  std::atomic<uint64_t> quiet_until_ns_[kMaxRoutes] = {};
  std::atomic<uint64_t> begun_by_ns_[kMaxRoutes] = {};
  std::atomic<uint32_t> refused_[kMaxRoutes] = {};
};

// Collects the first fault in a trigger's options: "LatencyTriggerOptions::k must be ...".
class OptionsCheck {
 public:
  explicit OptionsCheck(const char* options) noexcept : options_(options) {}
  void Require(bool holds, const char* field, const char* rule) noexcept {
    if (!holds && field_ == nullptr) field_ = field, rule_ = rule;
  }
  void RequireName(const NameFilter& name, const char* field) noexcept {
    Require(name.IsUsable(), field, "must be null (all of them) or a name of 1 to 120 bytes");
  }
  void RequireThreshold(double ms, const char* field) noexcept {
    Require(isfinite(ms) && ms >= 0 && ms <= kMaxThresholdMs, field, "must be 0 (not watched) to 86,400,000 ms");
  }
  void RequireQuantile(double quantile, const char* field) noexcept {
    Require(quantile == 0 || (quantile >= 0.5 && quantile <= 0.9999), field,
            "must be 0 (not watched) or 0.5 to 0.9999");
  }
  void RequireWindows(uint32_t pre_window_ms, uint32_t post_window_ms) noexcept {
    Require(pre_window_ms <= 3600000, "pre_window_ms", "must be 0 (the recorder's) to 3,600,000");
    Require(post_window_ms <= 60000, "post_window_ms", "must be 0 (the recorder's) to 60,000");
  }
  Status Take() const noexcept {
    if (field_ == nullptr) return Status();
    Line<256> message;
    message.Add("%s::%s %s", options_, field_, rule_);
    return Status(StatusCode::kInvalidArgument, message.text());
  }

 private:
  const char* options_;
  const char* field_ = nullptr;
  const char* rule_ = nullptr;
};

}  // namespace pitot::trigger

#endif  // PITOT_LIB_TRIGGER_FIRING_RULES_H_
