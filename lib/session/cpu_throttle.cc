// SPDX-License-Identifier: Apache-2.0
#include "session/cpu_throttle.h"

#include <algorithm>

namespace pitot::session {
namespace {

// For the worker to write and to judge an incident at idle priority.
constexpr int64_t kPatienceNs = 500'000'000;

}  // namespace

void CpuThrottle::Enter() noexcept {
  priority_.Enter();
  EnterAtNormal();
}

void CpuThrottle::EnterAtNormal() noexcept {
  tokens_ns_ = kBurstNs;
  refilled_ns_ = timer_.NowNs();
  used_cpu_ns_ = cpu_clock_();
}

double CpuThrottle::Refill() noexcept {
  const int64_t now_ns = timer_.NowNs(), cpu_ns = cpu_clock_();
  tokens_ns_ += static_cast<double>(now_ns - refilled_ns_) * share_;
  tokens_ns_ = std::min(tokens_ns_, static_cast<double>(kBurstNs));
  tokens_ns_ -= static_cast<double>(cpu_ns - used_cpu_ns_ + charged_ns_.exchange(0));
  refilled_ns_ = now_ns;
  used_cpu_ns_ = cpu_ns;
  return tokens_ns_;
}

void CpuThrottle::Calm() noexcept {
  const base::MutexLock lock(&mutex_);
  if (!is_finishing_) priority_.Calm();
}

void CpuThrottle::HurryIfLate() noexcept {
  const int64_t since_ns = began_ns_.load();
  if (is_awaited_.load() || (since_ns != 0 && timer_.NowNs() - since_ns > kPatienceNs)) priority_.Hurry();
}

void CpuThrottle::Finish() noexcept {
  {
    const base::MutexLock lock(&mutex_);
    is_finishing_ = true;
  }
  priority_.Hurry();
  timer_.Wake();
}

bool CpuThrottle::IsFinishing() noexcept {
  const base::MutexLock lock(&mutex_);
  return is_finishing_;
}

}  // namespace pitot::session
