// SPDX-License-Identifier: Apache-2.0
//
// Threads to decode and resize pictures for the handlers: fewer at a time than connections.
#ifndef PITOT_TEST_SCOREBOARD_IMAGE_SERVER_PREPROCESSOR_H_
#define PITOT_TEST_SCOREBOARD_IMAGE_SERVER_PREPROCESSOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <span>
#include <thread>
#include <vector>

#include "pitot/request.h"
#include "pitot/wait.h"
#include "scoreboard/delays.h"

namespace image_server {

class Preprocessor {
 public:
  // `request` waited in the queue from `queued_ns` to `busy_until_ns`, while its thread was busy with `others`.
  using OnQueued = std::function<void(uint64_t request, uint64_t queued_ns, uint64_t busy_until_ns,
                                      std::span<const uint64_t> others)>;

  using OnDone = std::function<void(uint64_t request, const scoreboard::Delays& delays)>;

  // 0 threads: work is done on the caller's.
  Preprocessor(size_t threads, OnQueued on_queued, OnDone on_done = {});
  ~Preprocessor();
  Preprocessor(const Preprocessor&) = delete;
  Preprocessor& operator=(const Preprocessor&) = delete;

  // Does `work` for the request and returns when it is done. Passes on its exception.
  void Run(pitot::Request& request, uint64_t id, const std::function<void()>& work);

  bool has_queued();

 private:
  struct Item {
    std::packaged_task<void()> work;
    pitot::Token token;
    uint64_t id;
    uint64_t queued_ns;
  };
  void Work(size_t number);

  const OnQueued on_queued_;
  const OnDone on_done_;
  pitot::Mutex mutex_{"preprocessing"};
  pitot::ConditionVariable arrived_{"preprocessing"};
  std::deque<Item> queue_;
  bool is_stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_PREPROCESSOR_H_
