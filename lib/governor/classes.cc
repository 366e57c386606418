// SPDX-License-Identifier: Apache-2.0
#include "governor/classes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace pitot::governor {

Classes::Class& Classes::Find(uint32_t work_class) noexcept {
  const uint32_t* const id = std::find(ids_, ids_ + class_count_, work_class);
  const auto index = static_cast<uint32_t>(id - ids_);
  if (index == class_count_ && class_count_ < kMost) ids_[class_count_++] = work_class;
  return classes_[index];  // the last one's, if there is no more room
}

Relative Classes::Take(uint32_t work_class, int64_t duration_ns) noexcept {
  Class& c = Find(work_class);
  const double ns = static_cast<double>(duration_ns);
  ++c.works;
  Sample(&c, ns);
  if (c.mean_ns <= 0) return {};

  const bool is_slow = ns > c.p99_ns;
  if (is_slow) {
    constexpr double kSlowRemembered = 1024;
    slow_count_ += 1;
    slow_logs_ += std::log(ns / c.p99_ns);
    if (slow_count_ >= kSlowRemembered) slow_count_ /= 2, slow_logs_ /= 2;
  }
  return {true, std::min(ns / c.mean_ns, kLongest), is_slow};
}

void Classes::Sample(Class* c, double ns) noexcept {
  if (++c->skipped < c->stride) return;
  c->skipped = 0;
  c->samples_ns[c->next_sample] = static_cast<float>(ns);
  c->next_sample = (c->next_sample + 1) % kSamples;
  c->sample_count = std::min(c->sample_count + 1, kSamples);
  ++c->news;
}

void Classes::Refresh() noexcept {
  constexpr double kKept = 0.98;
  for (Class& c : classes_) {
    c.recent = kKept * (c.recent + c.works);
    if (c.news >= kNews) Summarize(&c);
    // Not before the mean is known: until then every work counts.
    c.stride = c.mean_ns > 0 ? c.works / kSampledPerSecond : 1;
    c.works = 0;
  }
  long_p99_ns_ = LongestP99Ns();
}

void Classes::Summarize(Class* c) noexcept {
  c->news = 0;
  float* const begin = sorted_ns_;
  float* const end = std::copy(c->samples_ns, c->samples_ns + c->sample_count, begin);
  float* const p99 = begin + static_cast<uint32_t>(0.99 * c->sample_count);
  std::nth_element(begin, p99, end);
  c->p99_ns = static_cast<double>(*p99);
  c->mean_ns = std::max(std::accumulate(begin, end, 0.0) / c->sample_count, 1.0);
}

int64_t Classes::LongestP99Ns() const noexcept {
  double total = 0, longest = 0;
  for (const Class& c : classes_) total += c.recent;
  for (const Class& c : classes_) {
    double as_long = 0;
    for (const Class& other : classes_) as_long += other.p99_ns >= c.p99_ns ? other.recent : 0;
    if (as_long * 20 >= total) longest = std::max(longest, c.p99_ns);
  }
  return static_cast<int64_t>(longest);
}

double Classes::TailSteepness() const noexcept {
  // As if 20 works had been seen beyond the p99 of a lognormal of sigma 0.3. Beyond the limits a value means nothing.
  constexpr double kPriorCount = 20, kPriorSteepness = 8, kFlattest = 1, kSteepest = 400;
  return std::clamp((kPriorCount + slow_count_) / (kPriorCount / kPriorSteepness + slow_logs_), kFlattest, kSteepest);
}

}  // namespace pitot::governor
