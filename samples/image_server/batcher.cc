// SPDX-License-Identifier: Apache-2.0
#include "image_server/batcher.h"

#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "pitot/trace.h"
#include "server_common/monotonic.h"

namespace image_server {

using server_common::MonotonicNs;

Batcher::Batcher(const BatcherOptions& options, Model model, std::function<void()> warm_up, BatcherHooks* hooks)
    : options_(options),
      model_(std::move(model)),
      warm_up_(std::move(warm_up)),
      hooks_(hooks != nullptr ? hooks : &no_hooks_) {
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

std::optional<std::future<Prediction>> Batcher::Submit(Planes input, pitot::Request& request, uint64_t request_id) {
  std::lock_guard lock(mutex_);
  if (is_stopping_ || queue_.size() >= options_.max_queue) return std::nullopt;
  Job job{.input = std::move(input), .request_id = request_id, .enqueued_ns = MonotonicNs()};
  std::future<Prediction> result = job.result.get_future();
  request.Stage("queue");
  job.token = request.Enqueue("pictures");
  hooks_->Queued(job);
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
  while (true) {
    std::vector<Job> jobs;
    pitot::Batch batch = Gather(jobs);
    if (jobs.empty()) return;
    Execute(jobs, batch);
    hooks_->Finished(jobs);
  }
}

// Blocks until there is a batch to run. Without jobs the batcher has stopped and nothing is left.
pitot::Batch Batcher::Gather(std::vector<Job>& jobs) {
  std::unique_lock lock(mutex_);
  work_arrived_.wait(lock, [&] { return is_stopping_ || (!is_gathering_ && !queue_.empty()); });
  if (queue_.empty()) return {};

  is_gathering_ = true;
  pitot::Batch batch = pitot::Batch::Begin("resnet");
  const uint64_t deadline_ns = queue_.front().enqueued_ns + hooks_->DelayNs(options_.max_delay_ns);
  pitot::BatchClose why = pitot::BatchClose::kFull;
  while (jobs.size() < options_.max_batch) {
    if (!queue_.empty()) {
      Take(jobs, batch);
      continue;
    }
    const uint64_t now_ns = MonotonicNs();
    const uint64_t patience_ns = deadline_ns > now_ns ? deadline_ns - now_ns : 0;
    if (!member_arrived_.wait_for(lock, patience_ns, [&] { return is_stopping_ || !queue_.empty(); })) {
      why = pitot::BatchClose::kTimeout;
      break;
    }
    if (queue_.empty()) {
      why = pitot::BatchClose::kFlush;  // stopping: no more will come
      break;
    }
  }
  batch.Close(why);
  PITOT_COUNTER("queue depth", queue_.size());

  is_gathering_ = false;
  if (!queue_.empty()) work_arrived_.notify_one();
  return batch;
}

void Batcher::Take(std::vector<Job>& jobs, pitot::Batch& batch) {
  jobs.push_back(std::move(queue_.front()));
  queue_.pop_front();
  hooks_->Taken(jobs.back());
  batch.Join(jobs.back().token);
  pitot::Stage(jobs.back().token, "batch");
}

void Batcher::Execute(std::vector<Job>& jobs, pitot::Batch& batch) {
  for (const Job& job : jobs) pitot::Stage(job.token, "forward");
  std::vector<Prediction> predictions;
  std::exception_ptr error;
  try {
    predictions = model_(jobs, batch);
    if (predictions.size() != jobs.size()) throw std::logic_error("the model answered for another number of pictures");
  } catch (...) {
    error = std::current_exception();  // every member's
  }
  {
    PITOT_SCOPE("hand out results");  // requests in the queue still wait for this batch
    for (size_t i = 0; i < jobs.size(); ++i) {
      hooks_->Answering(std::span(jobs).subspan(i));
      batch.Leave(jobs[i].token);
      pitot::Stage(jobs[i].token, "return");  // until the handler's thread has woken up
      if (error) {
        jobs[i].result.set_exception(error);
      } else {
        jobs[i].result.set_value(std::move(predictions[i]));
      }
    }
  }
  batch.Finish();
}

}  // namespace image_server
