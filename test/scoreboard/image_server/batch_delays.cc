// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/image_server/batch_delays.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "scoreboard/clocks.h"
#include "scoreboard/delays.h"

namespace image_server {
namespace {

using scoreboard::Delays;
using scoreboard::MonotonicNs;
using scoreboard::ThreadUse;
using scoreboard::ThreadUseNow;

// A worker, on its thread, and its batch.
struct Worker {
  struct Member {
    uint64_t request = 0;
    uint64_t enqueued_ns = 0;
    Delays delays{};
    scoreboard::Work work{};
  };

  // While the worker waits for a CPU, so do its members from `first` on.
  void Charge(size_t first) {
    const ThreadUse now = ThreadUseNow();
    const uint64_t waited_ns = now.runqueue_ns - use.runqueue_ns;
    for (size_t i = first; i < members.size(); ++i) {
      members[i].delays.cpu_waited_ns += std::min(waited_ns, now.at_ns - std::max(members[i].enqueued_ns, use.at_ns));
    }
    use = now;
  }

  ThreadUse use{};  // when it was looked at last
  uint64_t busy_until_ns = 0;
  std::vector<uint64_t> others{};  // of the batch before

  uint64_t max_delay_ns = 0;
  uint64_t delay_ns = 0;
  uint64_t closed_ns = 0;
  std::vector<Member> members{};  // in the order of Taken
  ThreadUse begun{};              // the model
  Delays delays_of_model{};
};
thread_local Worker t_worker;

}  // namespace

BatchDelays::Watch::Watch(BatchDelays* delays, uint64_t request) : delays_(delays), request_(request) {
  const std::lock_guard lock(delays_->times_mutex_);
  delays_->times_[request_] = {};
}

BatchDelays::Watch::~Watch() {
  const std::lock_guard lock(delays_->times_mutex_);
  delays_->times_.erase(request_);
}

BatchDelays::Times BatchDelays::Watch::times() const {
  const std::lock_guard lock(delays_->times_mutex_);
  return delays_->times_.at(request_);
}

void BatchDelays::Note(uint64_t request, uint64_t Times::*time, uint64_t at_ns) {
  const std::lock_guard lock(times_mutex_);
  const auto found = times_.find(request);
  if (found != times_.end()) found->second.*time = at_ns;
}

void BatchDelays::WorkerBegins() { t_worker.use = ThreadUseNow(); }

Batcher::Model BatchDelays::Around(Batcher::Model model, std::function<void(std::span<const uint64_t>)> before) {
  return [model = std::move(model), before = std::move(before)](std::span<const Job> jobs, pitot::Batch& batch) {
    struct Timed {
      Timed() {
        t_worker.closed_ns = MonotonicNs();
        t_worker.Charge(0);
        t_worker.begun = t_worker.use;
      }
      ~Timed() { t_worker.delays_of_model = scoreboard::DelaysOfCode(t_worker.begun, ThreadUseNow()); }
    };
    std::vector<uint64_t> requests;
    for (const Job& job : jobs) requests.push_back(job.request_id);
    const Timed timed;
    before(requests);
    return model(jobs, batch);
  };
}

uint64_t BatchDelays::DelayNs(uint64_t max_delay_ns) {
  t_worker.max_delay_ns = max_delay_ns;
  return t_worker.delay_ns = faults_->BatchDelayNs(max_delay_ns);
}

void BatchDelays::Queued(const Job& job) { Note(job.request_id, &Times::enqueued_ns, job.enqueued_ns); }

void BatchDelays::Taken(const Job& job) {
  Worker& worker = t_worker;
  worker.members.push_back({job.request_id, job.enqueued_ns});
  worker.Charge(0);
  worker.members.back().delays.handed_over_ns = worker.use.at_ns - std::max(job.enqueued_ns, worker.busy_until_ns);
  if (worker.busy_until_ns > job.enqueued_ns) {
    faults_->log().WriteQueued(job.enqueued_ns, worker.busy_until_ns, job.request_id, worker.others);
  }
}

void BatchDelays::Answering(std::span<const Job> jobs) {
  Worker& worker = t_worker;
  const size_t first = worker.members.size() - jobs.size();
  worker.Charge(first);
  Worker::Member& member = worker.members[first];
  member.work = scoreboard::WorkBetween(worker.begun, worker.use);
  member.delays.slept_ns = worker.delays_of_model.slept_ns;
  member.delays.paged_ns = worker.delays_of_model.paged_ns;
  Note(jobs[0].request_id, &Times::ready_ns, MonotonicNs());
}

void BatchDelays::Finished(std::span<const Job> jobs) {
  Worker& worker = t_worker;
  worker.others.clear();
  if (worker.delay_ns != worker.max_delay_ns) {
    std::vector<Faults::Member> members;
    for (const Job& job : jobs) members.push_back({job.request_id, job.enqueued_ns});
    faults_->BatchWaited(members, worker.max_delay_ns, worker.closed_ns);
  }
  for (const Worker::Member& member : worker.members) {
    worker.others.push_back(member.request);
    faults_->log().WriteDelays(member.enqueued_ns, member.request, member.delays);
    faults_->log().WriteBatch(member.enqueued_ns, member.request, member.work);
  }
  worker.members.clear();
  worker.busy_until_ns = MonotonicNs();
}

}  // namespace image_server
