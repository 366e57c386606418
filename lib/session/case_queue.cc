// SPDX-License-Identifier: Apache-2.0
#include "session/case_queue.h"

#include <algorithm>
#include <utility>

namespace pitot::session {
namespace {

using base::MutexLock;

// What is usual: much, even in a small trace.
uint64_t NormBytesOf(const model::Trace& trace) {
  uint64_t bytes = sizeof(model::NormRow) * trace.norms.size();
  for (const model::NormRow& norm : trace.norms) bytes += sizeof(model::NormPart) * norm.parts.size();
  return bytes;
}

// The approximate size of a trace's tables that grow with the recorded data, in bytes: rows as in model/trace.h.
uint64_t RowBytesOf(const model::Trace& trace) {
  constexpr uint64_t kEvent = 36, kCall = 40, kOperation = 80, kSample = 20, kRequest = 256;
  return kEvent * trace.events.size() + sizeof(model::ArgValue) * trace.arg_values.size() + kCall * trace.calls.size() +
         kOperation * trace.gpu.size() + kSample * trace.samples.counter.size() + kRequest * trace.requests.size() +
         sizeof(model::BatchRow) * trace.batches.size() + sizeof(model::MemberRow) * trace.members.size() +
         sizeof(model::HandoffRow) * trace.handoffs.size() + sizeof(model::TokenRow) * trace.tokens.size() +
         NormBytesOf(trace);
}

// The worker makes the trace of a sample: counted is the room for it.
uint64_t BytesOf(const Case& it) {
  if (it.trace) return RowBytesOf(*it.trace) + 1;
  return it.incident->is_sample ? it.incident->row_bytes : 0;
}

}  // namespace

void CaseQueue::MakeRoom(const CaseRoom& room) noexcept {
  const MutexLock lock(&mutex_);
  Displace(room);
}

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
  const uint64_t bytes = BytesOf(added);
  waiting_.reserve(waiting_.size() + 1);
  waiting_.push_back({std::move(added), bytes});
  Displace({~uint64_t{0}, 1});
  CountAwaited();
}

void CaseQueue::CountAwaited() noexcept {
  awaited_ = static_cast<size_t>(std::count_if(waiting_.begin(), waiting_.end(), [](const Waiting& waiting) {
    return !waiting.it.is_judged && !waiting.it.incident->is_sample;
  }));
}

// Whether the traces have room, with the worker's work on the largest of them.
bool CaseQueue::Fit(const CaseRoom& room) const noexcept {
  size_t count = 0;
  uint64_t total = busy_bytes_, largest = busy_bytes_;
  for (const Waiting& waiting : waiting_) {
    count += waiting.bytes != 0 ? 1 : 0;
    total += waiting.bytes;
    largest = std::max(largest, waiting.bytes);
  }
  return count <= kMostWaiting && total - largest + room.times * largest <= room.bytes;
}

// Takes traces, the oldest first, until the rest has room.
void CaseQueue::Displace(const CaseRoom& room) noexcept {
  for (const bool is_judged : {true, false}) {
    for (Waiting& oldest : waiting_) {
      if (Fit(room)) return;
      if (!oldest.it.trace || oldest.it.is_judged != is_judged) continue;
      oldest.bytes = 0;
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
  busy_bytes_ = 0;
  while (waiting_.empty() && !is_closed_) changed_.Wait(&mutex_);
  std::optional<Case> next = Next();
  is_busy_ = next && !next->is_judged;
  busy_bytes_ = next ? BytesOf(*next) : 0;
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
