// SPDX-License-Identifier: Apache-2.0
#include "governor/simulated_server.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace simulated {
namespace {

using pitot::governor::Governor;

constexpr uint32_t kLargestBatch = 8;

// Buckets by a double's exponent and the first ten bits of its mantissa, 0.1 % wide at most: from 1/64 to 64.
constexpr uint32_t kBits = 10, kBuckets = 12u << kBits;
constexpr uint64_t kFirstBucket = (1023ull - 6) << kBits;

uint32_t BucketOf(double relative) {
  const double clamped = std::clamp(relative, 1.0 / 64, 63.9);
  return static_cast<uint32_t>((std::bit_cast<uint64_t>(clamped) >> (52 - kBits)) - kFirstBucket);
}
double BucketBegin(uint32_t bucket) { return std::bit_cast<double>((kFirstBucket + bucket) << (52 - kBits)); }

// The p99, interpolated within its bucket, so that small overheads show.
double P99(const std::vector<uint32_t>& counts, uint64_t works) {
  double beyond = 0.01 * static_cast<double>(works);
  uint32_t bucket = kBuckets - 1;
  while (bucket > 0 && beyond >= counts[bucket]) beyond -= counts[bucket--];
  const double begin = BucketBegin(bucket), end = BucketBegin(bucket + 1);
  return end - (end - begin) * beyond / std::max(counts[bucket], 1u);
}

}  // namespace

Load WithOverhead(Load load, double graphs, double kernels, double ops) {
  load.cost[1].factor = 1 + graphs;
  load.cost[2].factor = 1 + kernels;
  load.cost[3].factor = 1 + ops;
  return load;
}

Server::Server(const Load& load, uint64_t seed)
    : load_(load), random_(seed), executors_(load.executors), actual_counts_(kBuckets), bare_counts_(kBuckets) {
  for (Executor& executor : executors_) executor.next_arrival_ns = static_cast<double>(now_ns_) + Gap();
}

void Server::ForgetOverhead() {
  works_ = 0;
  actual_ = bare_ = 0;
  std::fill(actual_counts_.begin(), actual_counts_.end(), 0);
  std::fill(bare_counts_.begin(), bare_counts_.end(), 0);
}

double Server::P99Overhead() const { return P99(actual_counts_, works_) / P99(bare_counts_, works_) - 1; }

double Server::Wave(double amplitude) const {
  return amplitude == 0 ? 1 : 1 + amplitude * std::sin(static_cast<double>(now_ns_) / 1e9 / 600 * 2 * M_PI);
}

double Server::Gap() {
  const double rate = load_.requests_per_second * Wave(load_.drift) * (is_burst_ ? load_.burst : 1);
  const double uniform = (static_cast<double>(random_() >> 11) + 1) * 0x1p-53;
  return -std::log(uniform) / rate * 1e9;
}

void Server::Run(Governor* governor, double seconds) {
  const int64_t until_ns = now_ns_ + static_cast<int64_t>(seconds * 1e9);
  while (now_ns_ < until_ns) {
    if (load_.burst != 1) is_burst_ = is_burst_ ? random_() % 5 != 0 : random_() % 95 == 0;  // 50 ms of each second
    uint32_t running = 0;
    for (const Executor& executor : executors_) running += executor.is_running;
    const double stall = now_ns_ - switched_ns_ < 20 * kMs ? load_.stall_after_switch : 1;
    for (uint32_t i = 0; i < executors_.size(); ++i) {
      Serve(i, now_ns_ + kTick, running - executors_[i].is_running, stall, governor);
    }
    now_ns_ += kTick;
    Depth depth = governor->Tick(now_ns_);
    if (arms_now_) depth = governor->Arm(now_ns_, now_ns_ + arms_for_ns_);
    arms_now_ = false;
    if (depth != depth_) switched_ns_ = now_ns_;
    depth_ = depth;
  }
}

void Server::Serve(uint32_t index, int64_t until_ns, double others, double stall, Governor* governor) {
  Executor& executor = executors_[index];
  const Cost& cost = load_.cost[static_cast<uint32_t>(depth_)];
  const double end_ns = static_cast<double>(until_ns);
  double now_ns = static_cast<double>(now_ns_);
  for (;;) {
    if (executor.is_running) {
      const double factor = cost.factor * stall * (executor.is_of_tail ? cost.tail_factor : 1);
      const double done_ns = now_ns + executor.left_ns * factor;
      if (done_ns > end_ns) {
        executor.left_ns -= (end_ns - now_ns) / factor;
        return;
      }
      Finish(executor, done_ns, governor);
      executor.is_running = false;
      now_ns = done_ns;
    }
    while (executor.next_arrival_ns <= now_ns) {
      executor.waiting = std::min(executor.waiting + 1, 1000u);
      executor.next_arrival_ns += Gap();
    }
    if (executor.waiting == 0) {
      if (executor.next_arrival_ns > end_ns) return;
      now_ns = executor.next_arrival_ns;
      continue;
    }
    Start(index, now_ns, others);
  }
}

void Server::Start(uint32_t index, double now_ns, double others) {
  Executor& executor = executors_[index];
  const uint32_t size = std::min(executor.waiting, kLargestBatch);
  executor.waiting -= size;
  executor.is_running = true;
  executor.begin_ns = static_cast<int64_t>(now_ns);
  executor.work_class = index * 16 + size;
  executor.usual_ns = load_.batch_ms * 1e6 * (1 + (size - 1) / 7.0) * (1 + 0.5 * index);
  executor.bare_ns = executor.usual_ns * Wave(load_.drift) * (1 + load_.contention * others) *
                     std::exp(load_.sigma * normal_(random_));
  executor.is_of_tail = random_() % 50 == 0;
  executor.left_ns = executor.bare_ns + load_.cost[static_cast<uint32_t>(depth_)].extra_ms * 1e6;
}

void Server::Finish(const Executor& executor, double end_ns, Governor* governor) {
  const auto whole_end_ns = static_cast<int64_t>(end_ns);
  governor->Note(executor.work_class, executor.begin_ns, whole_end_ns);
  const double actual_ns = static_cast<double>(whole_end_ns - executor.begin_ns);
  ++works_;
  actual_ += actual_ns / executor.usual_ns;
  bare_ += executor.bare_ns / executor.usual_ns;
  ++actual_counts_[BucketOf(actual_ns / executor.usual_ns)];
  ++bare_counts_[BucketOf(executor.bare_ns / executor.usual_ns)];
  if (arms_beyond_ != 0 && actual_ns > arms_beyond_ * executor.usual_ns) arms_now_ = true;
}

}  // namespace simulated
