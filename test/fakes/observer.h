// SPDX-License-Identifier: Apache-2.0
//
// Receives events about requests like a recorder, and keeps them.
#ifndef PITOT_TEST_FAKES_OBSERVER_H_
#define PITOT_TEST_FAKES_OBSERVER_H_

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "trace/requests.h"

namespace fakes {

class Observer final : public pitot::trace::RequestObserver {
 public:
  struct Finished {
    pitot::RequestView view;
    std::string route;
  };
  struct Tokens {
    uint64_t request, gap_ns;
    uint32_t output_tokens;
  };

  Observer() { pitot::trace::SetRequestObserver(this, 0); }
  ~Observer() { pitot::trace::SetRequestObserver(nullptr, 10'000'000'000); }

  void OnFinish(const pitot::RequestView& request, uint64_t) noexcept override {
    const std::lock_guard lock(mutex_);
    finished_.push_back({request, request.route});
  }
  void OnTokens(const pitot::RequestView& request, uint64_t, uint64_t gap_ns) noexcept override {
    const std::lock_guard lock(mutex_);
    tokens_.push_back({request.id, gap_ns, request.output_tokens});
  }
  void OnWork() noexcept override { ++works_; }
  uint64_t LateAfterNs(const char* route) noexcept override {
    return late_route.empty() || late_route == route ? late_after_ns : 0;
  }

  std::vector<Finished> finished() const {
    const std::lock_guard lock(mutex_);
    return finished_;
  }
  std::vector<Tokens> tokens() const {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }

  int works() const { return works_; }  // calls of OnWork

  uint64_t late_after_ns = 0;
  std::string late_route;  // "": every route

 private:
  mutable std::mutex mutex_;
  std::vector<Finished> finished_;
  std::vector<Tokens> tokens_;
  std::atomic<int> works_{0};
};

}  // namespace fakes

#endif  // PITOT_TEST_FAKES_OBSERVER_H_
