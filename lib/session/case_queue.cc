// SPDX-License-Identifier: Apache-2.0
#include "session/case_queue.h"

#include <algorithm>
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
  const MutexLock lock(&mutex_);
  added.has_waited = is_busy_ || IsVerdictAwaited();
  Push(std::move(added));
  changed_.NotifyAll();
  if (waiting_.size() <= kMostCases) return std::nullopt;
  const auto judged =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) { return waiting.it.is_judged; });
  return TakeAt(judged != waiting_.end() ? judged : waiting_.begin());
}

void CaseQueue::PutBack(Case&& judged) {
  const MutexLock lock(&mutex_);
  Push(std::move(judged));
}

void CaseQueue::Push(Case&& added) {
  const uint64_t bytes = added.trace ? RowBytesOf(*added.trace) + 1 : 0;
  waiting_.reserve(waiting_.size() + 1);
  waiting_.push_back({std::move(added), bytes});
  if (bytes != 0) MakeRoom();
  CountAwaited();
}

void CaseQueue::CountAwaited() noexcept {
  awaited_ = static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) {
    return !waiting.it.is_judged && !waiting.it.incident->is_sample;
  }));
}

// Takes traces, the oldest first, until the rest has room; at least one stays.
void CaseQueue::MakeRoom() noexcept {
  size_t count = 0;
  uint64_t total = 0;
  for (const Waiting& waiting : waiting_) count += waiting.bytes != 0 ? 1 : 0, total += waiting.bytes;
  for (const bool is_judged : {true, false}) {
    for (Waiting& oldest : waiting_) {
      if (count <= 1 || (count <= kMostWaiting && total <= most_bytes_)) return;
      if (oldest.bytes == 0 || oldest.it.is_judged != is_judged) continue;
      --count;
      total -= std::exchange(oldest.bytes, 0);
      oldest.it.trace.reset();
      oldest.it.is_displaced = true;
    }
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
  std::optional<Case> next = Next();
  is_busy_ = next && !next->is_judged;
  return next;
}

bool CaseQueue::IsEmpty() noexcept {
  const MutexLock lock(&mutex_);
  return waiting_.empty();
}

std::optional<Case> CaseQueue::TakeWaiting() noexcept {
  const MutexLock lock(&mutex_);
  return Next();
}

std::optional<Case> CaseQueue::Next() noexcept {
  if (waiting_.empty()) return std::nullopt;
  auto at =
      std::find_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) { return !waiting.it.is_judged; });
  if (at == waiting_.end()) at = waiting_.begin();
  return TakeAt(at);
}

Case CaseQueue::TakeAt(std::vector<Waiting>::iterator at) noexcept {
  Case taken(std::move(at->it));
  waiting_.erase(at);
  CountAwaited();
  return taken;
}

}  // namespace pitot::session
