// SPDX-License-Identifier: Apache-2.0
//
// For trigger tests: a remembering sink, a stopped clock, and requests with only tested fields.
#ifndef PITOT_TEST_TRIGGER_FAKES_H_
#define PITOT_TEST_TRIGGER_FAKES_H_

#include <stdint.h>

#include <atomic>
#include <string>
#include <vector>

#include "pitot/extend/trigger.h"

namespace fakes {

struct Fired {
  uint64_t request;
  std::string cause;
  std::string detail;
  uint32_t pre_window_ms;
  uint32_t post_window_ms;
  bool joins_only;
  uint32_t more_like_it;
};

class Sink final : public pitot::FiringSink {
 public:
  bool Fire(const pitot::Firing& firing) noexcept override {
    fired.push_back({firing.request, firing.cause, firing.detail, firing.pre_window_ms, firing.post_window_ms,
                     firing.joins_only, firing.more_like_it});
    return takes;
  }
  bool MayJoin() noexcept override { return may_join; }
  std::vector<Fired> fired;
  bool takes = true;
  bool may_join = false;  // an incident is pending
};

// Counts only: for many threads.
class CountingSink final : public pitot::FiringSink {
 public:
  bool Fire(const pitot::Firing&) noexcept override {
    fired.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  std::atomic<uint64_t> fired = 0;
};

inline std::atomic<uint64_t> now_ns = 0;
inline uint64_t Clock() noexcept { return now_ns.load(std::memory_order_relaxed); }
inline void Advance(uint64_t ms) { now_ns += ms * 1000000; }

inline pitot::RequestView Request(double latency_ms, const char* route = "/classify", uint32_t route_index = 1,
                                  uint32_t size_bucket = 0, pitot::Outcome outcome = pitot::Outcome::kOk) {
  pitot::RequestView request = {};
  request.id = 7;
  request.route = route;
  request.route_index = route_index;
  request.size_bucket = size_bucket;
  request.outcome = outcome;
  request.latency_ns = static_cast<uint64_t>(latency_ms * 1e6);
  return request;
}

}  // namespace fakes

#endif  // PITOT_TEST_TRIGGER_FAKES_H_
