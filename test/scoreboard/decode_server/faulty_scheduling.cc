// SPDX-License-Identifier: Apache-2.0
#include "scoreboard/decode_server/faulty_scheduling.h"

#include <utility>

namespace decode_server {

FaultyScheduling::FaultyScheduling(Faults* faults, std::function<void(uint64_t bytes)> allocate, Scheduler::Clock clock)
    : faults_(faults), allocate_(std::move(allocate)), clock_(std::move(clock)) {}

void FaultyScheduling::MadeLong(uint64_t request) {
  const std::lock_guard lock(long_mutex_);
  long_.insert(request);
}

bool FaultyScheduling::IsLong(uint64_t request) {
  const std::lock_guard lock(long_mutex_);
  return long_.erase(request) != 0;
}

bool FaultyScheduling::MayJoin(const Job& job, size_t needed, size_t free) {
  if (needed > free) return false;
  if (needed + faults_->KvTokensTaken() > free) {
    if (held_back_ != job.request_id) held_back_ns_ = clock_();
    held_back_ = job.request_id;
    return false;
  }
  if (held_back_ == job.request_id) faults_->HeldBack(job.request_id, held_back_ns_, clock_());
  held_back_ = 0;
  if (ended_ns_ > job.enqueued_ns) {
    faults_->log().WriteQueued(job.enqueued_ns, ended_ns_, job.request_id, members_);
  }
  return true;
}

void FaultyScheduling::IterationBegins(std::span<const uint64_t> requests) {
  members_.assign(requests.begin(), requests.end());
  faults_->InIteration(requests, allocate_);
}

void FaultyScheduling::PassBegins(std::span<const uint64_t>) {
  begun_ns_ = clock_();
  begun_ = scoreboard::ThreadUseNow();
}

void FaultyScheduling::PassEnds(std::span<const uint64_t> requests) {
  const scoreboard::ThreadUse ended = scoreboard::ThreadUseNow();
  const scoreboard::Delays delays = scoreboard::DelaysOfCode(begun_, ended);
  const scoreboard::Work work = scoreboard::WorkBetween(begun_, ended);
  for (const uint64_t request : requests) {
    faults_->log().WriteDelays(scoreboard::MonotonicNs(), request, delays);
    faults_->log().WriteBatch(scoreboard::MonotonicNs(), request, work);
  }
  ended_ns_ = clock_();
  if (requests.size() == 1 && IsLong(requests[0])) {
    faults_->LongPromptTaken(requests[0], members_, begun_ns_, ended_ns_);
  }
}

}  // namespace decode_server
