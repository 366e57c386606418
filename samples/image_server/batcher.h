// SPDX-License-Identifier: Apache-2.0
//
// A dynamic batcher: pictures wait in a queue until a batch is full or the oldest has waited long enough, then one of
// the workers runs the network on the batch. One worker at a time gathers members; the others run batches or idle.
//
// What Pitot learns here: the queue (Enqueue, Join), who shares a batch and why it was closed (Batch), each request's
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
#include "image_server/prediction.h"
#include "pitot/request.h"
#include "pitot/wait.h"
#include "scoreboard/delays.h"

namespace image_server {

struct BatcherOptions {
  size_t workers = 2;
  size_t max_batch = 8;
  uint64_t max_delay_ns = 2'000'000;
  size_t max_queue = 256;
};

// One picture on its way through the batcher.
struct Job {
  Planes input;
  pitot::Token token;       // stands for the request on the worker's thread
  uint64_t request_id = 0;  // as the client knows it
  uint64_t enqueued_ns = 0;
  server_common::Delays delays;
  server_common::Work work;  // of its worker, for its batch
  std::promise<Answer> result;
};

class Batcher {
 public:
  // Runs the network on `inputs`, one result each; calls Submitted() of `batch` once all work is launched.
  using Model = std::function<std::vector<Prediction>(std::span<const Planes* const> inputs, pitot::Batch& batch)>;

  // Lets an experiment stretch the delay of a batch: returns the delay to use in place of `normal_ns`; is told when the
  // batch closes how long it was open (from its first member's arrival), and its members.
  struct Stretch {
    std::function<uint64_t(uint64_t normal_ns)> delay_ns;
    std::function<void(std::span<const Job> jobs, uint64_t delay_ns, uint64_t closed_ns)> on_closed;
    // Before the network runs for a batch, in it.
    std::function<void(std::span<const Job> jobs)> before_network;
    // Is told when a job is taken that its worker could not take earlier: it was at work for these requests.
    std::function<void(const Job& job, uint64_t busy_until_ns, std::span<const uint64_t> others)> on_queued;
    // Is told when a job is done, with what delayed it on its worker.
    std::function<void(const Job& job)> on_done;
  };

  // Returns when each worker has done `warm_up`: what a thread does for the first time (cuDNN's and cuBLAS's handles
  // are each thread's own) no request waits for. What that throws it throws.
  Batcher(const BatcherOptions& options, Model model, Stretch stretch = {}, std::function<void()> warm_up = {});
  // Stops.
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Queues a picture of `request`. Nothing when the queue is full or the batcher has stopped: shed the request.
  std::optional<std::future<Answer>> Submit(Planes input, pitot::Request& request, uint64_t request_id);

  // Runs what is queued, then ends the workers. Idempotent.
  void Stop();

 private:
  // What a worker did last.
  struct Past {
    uint64_t busy_until_ns = 0;
    std::vector<uint64_t> requests;
    server_common::ThreadUse use;  // when it was looked at last
  };
  void Work();
  pitot::Batch Gather(Past& past, std::vector<Job>& jobs);
  void Execute(Past& past, pitot::Batch& batch, std::vector<Job>& jobs);
  void Take(Past& past, std::vector<Job>& jobs, pitot::Batch& batch);
  // While the worker waits for a CPU, so do these.
  static void Charge(Past& past, std::span<Job> jobs);

  const BatcherOptions options_;
  const Model model_;
  const Stretch stretch_;
  const std::function<void()> warm_up_;

  pitot::Mutex mutex_{"batch queue"};
  pitot::ConditionVariable member_arrived_{"batch member"};  // the worker that gathers waits here
  pitot::ConditionVariable work_arrived_{"batch work"};      // the idle ones here
  std::deque<Job> queue_;
  bool is_gathering_ = false;
  bool is_stopping_ = false;

  std::vector<std::thread> workers_;
};

}  // namespace image_server

#endif  // SAMPLES_IMAGE_SERVER_BATCHER_H_
