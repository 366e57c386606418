// SPDX-License-Identifier: Apache-2.0
#include "session/case_queue.h"

#include <utility>

namespace pitot::session {
namespace {

using base::MutexLock;

// The approximate size of a trace's tables that grow with the recorded data, in bytes: rows as in model/trace.h.
uint64_t RowBytesOf(const model::Trace& trace) {
  constexpr uint64_t kEvent = 36, kCall = 40, kOperation = 80, kSample = 20, kRequest = 256;
  return kEvent * trace.events.size() + sizeof(model::ArgValue) * trace.arg_values.size() + kCall * trace.calls.size() +
         kOperation * trace.gpu.size() + kSample * trace.samples.counter.size() + kRequest * trace.requests.size() +
         sizeof(model::BatchRow) * trace.batches.size() + sizeof(model::MemberRow) * trace.members.size() +
         sizeof(model::HandoffRow) * trace.handoffs.size() + sizeof(model::TokenRow) * trace.tokens.size();
}

}  // namespace

std::optional<Case> CaseQueue::Add(Case&& added) {
  const uint64_t bytes = added.trace ? RowBytesOf(*added.trace) + 1 : 0;
  const MutexLock lock(&mutex_);
  waiting_.reserve(waiting_.size() + 1);
  added.has_waited = is_busy_ || !waiting_.empty();
  waiting_.push_back({std::move(added), bytes});
  if (bytes != 0) MakeRoom();
  changed_.NotifyAll();
  return waiting_.size() > kMostCases ? Next() : std::nullopt;
}

// Takes traces of all but the newest, the oldest first, until that one has room.
void CaseQueue::MakeRoom() noexcept {
  size_t count = 0;
  uint64_t total = 0;
  for (const Waiting& waiting : waiting_) count += waiting.bytes != 0 ? 1 : 0, total += waiting.bytes;
  for (Waiting& oldest : waiting_) {
    if (count <= 1 || (count <= kMostWaiting && total <= most_bytes_)) return;
    if (oldest.bytes == 0) continue;
    --count;
    total -= std::exchange(oldest.bytes, 0);
    oldest.it.trace.reset();
    oldest.it.is_displaced = true;
  }
}

void CaseQueue::Close() noexcept {
  const MutexLock lock(&mutex_);
  is_closed_ = true;
  changed_.NotifyAll();
}

std::optional<Case> CaseQueue::Await() noexcept {
  const MutexLock lock(&mutex_);
  is_busy_ = false;
  while (waiting_.empty() && !is_closed_) changed_.Wait(&mutex_);
  is_busy_ = !waiting_.empty();
  return Next();
}

std::optional<Case> CaseQueue::TakeWaiting() noexcept {
  const MutexLock lock(&mutex_);
  return Next();
}

std::optional<Case> CaseQueue::Next() noexcept {
  if (waiting_.empty()) return std::nullopt;
  std::optional<Case> next(std::move(waiting_.front().it));
  waiting_.erase(waiting_.begin());
  return next;
}

}  // namespace pitot::session
