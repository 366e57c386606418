// SPDX-License-Identifier: Apache-2.0
#include "image_server/batcher.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "server_common/monotonic.h"

namespace image_server {

using server_common::MonotonicNs;

Batcher::Batcher(const BatcherOptions& options, Model model, Stretch stretch, std::function<void()> warm_up)
    : options_(options), model_(std::move(model)), stretch_(std::move(stretch)), warm_up_(std::move(warm_up)) {
  std::vector<std::future<void>> are_warm;
  for (size_t i = 0; i < options_.workers; ++i) {
    std::packaged_task<void()> task([this, i] {
      pitot::SetThreadName(("worker " + std::to_string(i)).c_str());
      if (warm_up_) warm_up_();
    });
    are_warm.push_back(task.get_future());
    workers_.emplace_back([this, first = std::move(task)]() mutable {
      first();
      Work();
    });
  }
  try {
    for (std::future<void>& is_warm : are_warm) is_warm.get();
  } catch (...) {
    Stop();
    throw;
  }
}

Batcher::~Batcher() { Stop(); }

std::optional<std::future<Answer>> Batcher::Submit(Planes input, pitot::Request& request, uint64_t request_id) {
  const uint64_t begin_ns = MonotonicNs();
  std::lock_guard lock(mutex_);
  if (is_stopping_ || queue_.size() >= options_.max_queue) return std::nullopt;
  Job job{std::move(input), {}, request_id, MonotonicNs(), {}, {}, {}};
  job.delays.lock_waited_ns = job.enqueued_ns - begin_ns;
  std::future<Answer> result = job.result.get_future();
  request.Stage("queue");
  job.token = request.Enqueue("pictures");
  queue_.push_back(std::move(job));
  PITOT_COUNTER("queue depth", queue_.size());
  (is_gathering_ ? member_arrived_ : work_arrived_).notify_one();
  return result;
}

void Batcher::Stop() {
  {
    std::lock_guard lock(mutex_);
    is_stopping_ = true;
    member_arrived_.notify_all();
    work_arrived_.notify_all();
  }
  for (std::thread& worker : workers_) worker.join();
  workers_.clear();
}

void Batcher::Work() {
  Past past{0, {}, server_common::ThreadUseNow()};
  while (true) {
    std::vector<Job> jobs;
    pitot::Batch batch = Gather(past, jobs);
    if (jobs.empty()) return;
    Execute(past, batch, jobs);
    past.requests.clear();
    for (const Job& job : jobs) {
      past.requests.push_back(job.request_id);
      if (stretch_.on_done) stretch_.on_done(job);
    }
    past.busy_until_ns = MonotonicNs();
  }
}

// Blocks until there is a batch to run; no jobs mean that the batcher has stopped and nothing is left.
pitot::Batch Batcher::Gather(Past& past, std::vector<Job>& jobs) {
  std::unique_lock lock(mutex_);
  work_arrived_.wait(lock, [&] { return is_stopping_ || (!is_gathering_ && !queue_.empty()); });
  if (queue_.empty()) return {};

  is_gathering_ = true;
  pitot::Batch batch = pitot::Batch::Begin("resnet");
  const uint64_t delay_ns = stretch_.delay_ns ? stretch_.delay_ns(options_.max_delay_ns) : options_.max_delay_ns;
  const uint64_t deadline_ns = queue_.front().enqueued_ns + delay_ns;
  pitot::BatchClose why = pitot::BatchClose::kFull;
  while (jobs.size() < options_.max_batch) {
    if (!queue_.empty()) {
      Take(past, jobs, batch);
      continue;
    }
    const uint64_t now_ns = MonotonicNs();
    const uint64_t patience_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    if (!member_arrived_.wait_for(lock, patience_ns, [&] { return is_stopping_ || !queue_.empty(); })) {
      why = pitot::BatchClose::kTimeout;
      break;
    }
    if (queue_.empty()) {
      why = pitot::BatchClose::kFlush;  // stopping: nobody else will come
      break;
    }
  }
  batch.Close(why);
  PITOT_COUNTER("queue depth", queue_.size());

  is_gathering_ = false;
  if (!queue_.empty()) work_arrived_.notify_one();
  lock.unlock();
  if (stretch_.on_closed) stretch_.on_closed(jobs, delay_ns, MonotonicNs());
  return batch;
}

void Batcher::Take(Past& past, std::vector<Job>& jobs, pitot::Batch& batch) {
  jobs.push_back(std::move(queue_.front()));
  queue_.pop_front();
  Charge(past, jobs);
  Job& job = jobs.back();
  job.delays.handed_over_ns = past.use.at_ns - std::max(job.enqueued_ns, past.busy_until_ns);
  if (stretch_.on_queued && past.busy_until_ns > job.enqueued_ns) {
    stretch_.on_queued(job, past.busy_until_ns, past.requests);
  }
  batch.Join(job.token);
  pitot::Stage(job.token, "batch");
}

void Batcher::Charge(Past& past, std::span<Job> jobs) {
  const server_common::ThreadUse now = server_common::ThreadUseNow();
  const uint64_t waited_ns = now.runqueue_ns - past.use.runqueue_ns;
  for (Job& job : jobs)
    job.delays.cpu_waited_ns += std::min(waited_ns, now.at_ns - std::max(job.enqueued_ns, past.use.at_ns));
  past.use = now;
}

void Batcher::Execute(Past& past, pitot::Batch& batch, std::vector<Job>& jobs) {
  Charge(past, jobs);
  const server_common::ThreadUse begun = past.use;
  std::vector<const Planes*> inputs;
  for (const Job& job : jobs) {
    inputs.push_back(&job.input);
    pitot::Stage(job.token, "forward");
  }
  if (stretch_.before_network) stretch_.before_network(jobs);
  std::vector<Prediction> predictions;
  std::exception_ptr error;
  try {
    predictions = model_(inputs, batch);
    if (predictions.size() != jobs.size()) throw std::logic_error("the model answered for another number of pictures");
  } catch (...) {
    error = std::current_exception();  // every member's
  }
  const server_common::ThreadUse ended = server_common::ThreadUseNow();
  const server_common::Delays delays = server_common::DelaysOfCode(begun, ended);
  {
    PITOT_SCOPE("hand out results");  // who waits in the queue meanwhile waits for this batch still
    for (size_t i = 0; i < jobs.size(); ++i) {
      Charge(past, std::span(jobs).subspan(i));
      jobs[i].work = server_common::WorkBetween(begun, past.use);
      jobs[i].delays.slept_ns = delays.slept_ns;
      jobs[i].delays.paged_ns = delays.paged_ns;
      batch.Leave(jobs[i].token);
      pitot::Stage(jobs[i].token, "return");  // until the handler's thread has woken up
      if (error) {
        jobs[i].result.set_exception(error);
      } else {
        jobs[i].result.set_value({std::move(predictions[i]), MonotonicNs()});
      }
    }
  }
  batch.Finish();
}

}  // namespace image_server
