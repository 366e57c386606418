// SPDX-License-Identifier: Apache-2.0
#include "session/worker_pace.h"

#include <algorithm>

namespace pitot::session {
namespace {

// For the worker to write and to judge an incident at idle priority.
constexpr int64_t kPatienceNs = 500'000'000;

}  // namespace

void WorkerPace::Enter() noexcept {
  priority_.Enter();
  EnterAtNormal();
}

void WorkerPace::EnterAtNormal() noexcept {
  tokens_ns_ = kBurstNs;
  refilled_ns_ = timer_.NowNs();
  used_cpu_ns_ = cpu_clock_();
}

double WorkerPace::Refill() noexcept {
  const int64_t now_ns = timer_.NowNs(), cpu_ns = cpu_clock_();
  tokens_ns_ += static_cast<double>(now_ns - refilled_ns_) * share_;
  tokens_ns_ = std::min(tokens_ns_, static_cast<double>(kBurstNs));
  tokens_ns_ -= static_cast<double>(cpu_ns - used_cpu_ns_ + charged_ns_.exchange(0));
  refilled_ns_ = now_ns;
  used_cpu_ns_ = cpu_ns;
  return tokens_ns_;
}

void WorkerPace::Calm() noexcept {
  const base::MutexLock lock(&mutex_);
  if (!is_finishing_) priority_.Calm();
}

void WorkerPace::HurryIfLate() noexcept {
  const int64_t since_ns = began_ns_.load();
  if (is_awaited_.load() || (since_ns != 0 && timer_.NowNs() - since_ns > kPatienceNs)) priority_.Hurry();
}

void WorkerPace::Finish() noexcept {
  {
    const base::MutexLock lock(&mutex_);
    is_finishing_ = true;
  }
  priority_.Hurry();
  timer_.Wake();
}

bool WorkerPace::IsFinishing() noexcept {
  const base::MutexLock lock(&mutex_);
  return is_finishing_;
}

}  // namespace pitot::session
