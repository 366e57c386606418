// SPDX-License-Identifier: Apache-2.0
//
// Hooks of a batcher, and a wrapper of its model. For each request they log the delays on its worker's thread and the
// CPU time of its batch. They also make the faults of batches.
#ifndef PITOT_TEST_SCOREBOARD_IMAGE_SERVER_BATCH_DELAYS_H_
#define PITOT_TEST_SCOREBOARD_IMAGE_SERVER_BATCH_DELAYS_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <unordered_map>

#include "image_server/batcher.h"
#include "scoreboard/image_server/faults.h"

namespace image_server {

// For one batcher.
class BatchDelays final : public BatcherHooks {
 public:
  // When a request was where, CLOCK_MONOTONIC; 0: not yet.
  struct Times {
    uint64_t enqueued_ns = 0;
    uint64_t ready_ns = 0;  // its prediction
  };
  // Keeps the times of a request for as long as it lives.
  class Watch {
   public:
    Watch(BatchDelays* delays, uint64_t request);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    Times times() const;

   private:
    BatchDelays* const delays_;
    const uint64_t request_;
  };

  explicit BatchDelays(Faults* faults) : faults_(faults) {}

  // To be called on each worker's thread after it has warmed up.
  static void WorkerBegins();
  // Returns a model: does `before` for the requests of a batch, then `model`.
  static Batcher::Model Around(Batcher::Model model, std::function<void(std::span<const uint64_t> requests)> before);

  uint64_t DelayNs(uint64_t max_delay_ns) override;
  void Queued(const Job& job) override;
  void Taken(const Job& job) override;
  void Answering(std::span<const Job> jobs) override;
  void Finished(std::span<const Job> jobs) override;

 private:
  void Note(uint64_t request, uint64_t Times::*time, uint64_t at_ns);

  Faults* const faults_;
  std::mutex times_mutex_;
  std::unordered_map<uint64_t, Times> times_;  // of watched requests
};

}  // namespace image_server

#endif  // PITOT_TEST_SCOREBOARD_IMAGE_SERVER_BATCH_DELAYS_H_
