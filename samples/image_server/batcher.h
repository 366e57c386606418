// SPDX-License-Identifier: Apache-2.0
//
// A dynamic batcher: pictures wait in a queue until a batch is full or the oldest has waited long enough, then one of
// the workers runs the network on the batch. One worker at a time gathers members; the others run batches or idle.
//
// Pitot learns here: the queue (Enqueue, Join), who shares a batch and why it was closed (Batch), each request's
// stages "queue", "batch", "forward" and "return", and the waits of the workers (Mutex, ConditionVariable).
#ifndef SAMPLES_IMAGE_SERVER_BATCHER_H_
#define SAMPLES_IMAGE_SERVER_BATCHER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "image_server/image.h"
#include "pitot/request.h"
#include "pitot/wait.h"

namespace image_server {

struct ClassScore {
  int64_t class_index = 0;
  float probability = 0;
};
// Likeliest first.
using Prediction = std::vector<ClassScore>;

struct BatcherOptions {
  size_t workers = 2;
  size_t max_batch = 8;
  uint64_t max_delay_ns = 2'000'000;
  size_t max_queue = 256;
};

// One picture on its way through the batcher.
struct Job {
  Planes input{};
  uint64_t request_id = 0;   // as the client knows it
  uint64_t enqueued_ns = 0;  // CLOCK_MONOTONIC
  pitot::Token token{};      // stands for the request on the worker's thread
  std::promise<Prediction> result{};
};

// For an adaptive delay, or metrics: the batcher calls these.
class BatcherHooks {
 public:
  virtual ~BatcherHooks() = default;
  // The delay of a batch, asked as it begins. On its worker's thread, with the queue locked, as Taken.
  virtual uint64_t DelayNs(uint64_t max_delay_ns) { return max_delay_ns; }
  virtual void Queued(const Job&) {}  // on the thread of Submit, with the queue locked
  virtual void Taken(const Job&) {}   // from the queue into a batch
  // The first of these is answered next, then the others. On the worker's thread, as Finished.
  virtual void Answering(std::span<const Job>) {}
  virtual void Finished(std::span<const Job>) {}  // all of a batch have been answered
};

class Batcher {
 public:
  // Runs the network on the inputs, one result each; calls Submitted() of `batch` once all work is launched.
  using Model = std::function<std::vector<Prediction>(std::span<const Job> jobs, pitot::Batch& batch)>;

  // Returns when each worker has done `warm_up`: the first work of a thread (cuDNN and cuBLAS have handles of each
  // thread) delays no request then. Passes on its exceptions. `hooks` may be null, and outlives the batcher.
  Batcher(const BatcherOptions& options, Model model, std::function<void()> warm_up = {},
          BatcherHooks* hooks = nullptr);
  // Stops.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Queues a picture of `request`. Nothing when the queue is full or the batcher has stopped: shed the request.
  std::optional<std::future<Prediction>> Submit(Planes input, pitot::Request& request, uint64_t request_id);

  // Runs the queued pictures, then ends the workers. Idempotent.
  void Stop();

 private:
  void Work();
  pitot::Batch Gather(std::vector<Job>& jobs);
  void Take(std::vector<Job>& jobs, pitot::Batch& batch);
  void Execute(std::vector<Job>& jobs, pitot::Batch& batch);

  const BatcherOptions options_;
  const Model model_;
  const std::function<void()> warm_up_;
  BatcherHooks no_hooks_;
  BatcherHooks* const hooks_;

  pitot::Mutex mutex_{"batch queue"};
  pitot::ConditionVariable member_arrived_{"batch member"};  // the gathering worker waits here
  pitot::ConditionVariable work_arrived_{"batch work"};      // the idle ones here
  std::deque<Job> queue_;
  bool is_gathering_ = false;
  bool is_stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_BATCHER_H_
