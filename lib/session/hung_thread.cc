// SPDX-License-Identifier: Apache-2.0
#include "session/hung_thread.h"

#include <algorithm>
#include <cstdint>
#include <tuple>
#include <vector>

namespace pitot::session {
namespace {

using model::kNone;
using model::kOpen;
using model::Trace;

// What a thread does for the request or batch: the innermost of its open scopes, or a batch of its own.
struct Work {
  int64_t begin_ns = INT64_MIN;  // INT64_MIN: none
  bool waits = false;            // says so itself
  void Note(int64_t at_ns, bool is_wait) {
    if (at_ns >= begin_ns) *this = {at_ns, is_wait};
  }
};

// The open batches with a request, as flags; with kNone, the oldest open one.
std::vector<bool> OpenBatches(const Trace& trace, uint32_t request) {
  const auto is_open = [](const model::BatchRow& batch) { return batch.duration_ns == kOpen; };
  std::vector<bool> open(trace.batches.size());
  if (request == kNone) {
    const auto oldest = std::find_if(trace.batches.begin(), trace.batches.end(), is_open);
    if (oldest != trace.batches.end()) open[static_cast<size_t>(oldest - trace.batches.begin())] = true;
    return open;
  }
  for (const model::MemberRow& member : trace.members) {
    if (member.batch != kNone && member.request == request && member.leave_ns == 0 &&
        is_open(trace.batches[member.batch]))
      open[member.batch] = true;
  }
  return open;
}

std::vector<Work> WorkOfThreads(const Trace& trace, uint32_t request) {
  const std::vector<bool> batches = OpenBatches(trace, request);
  std::vector<Work> work(trace.threads.size());
  for (uint32_t row = 0; row < batches.size(); ++row) {
    const model::BatchRow& batch = trace.batches[row];
    if (batches[row] && batch.thread != kNone) work[batch.thread].Note(batch.begin_ns, false);
  }
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.duration_ns[event] != kOpen) continue;
    const uint32_t batch = trace.events.batch[event];
    if ((request != kNone && trace.events.request[event] == request) || (batch != kNone && batches[batch]))
      work[trace.events.thread[event]].Note(trace.events.begin_ns[event],
                                            trace.sites[trace.events.site[event]].kind == SiteKind::kWait);
  }
  return work;
}

uint32_t ThreadAt(const Trace& trace, uint64_t id) {
  const auto found = std::find_if(trace.requests.begin(), trace.requests.end(),
                                  [id](const model::RequestRow& row) { return id != 0 && row.id == id; });
  const uint32_t request =
      found != trace.requests.end() ? static_cast<uint32_t>(found - trace.requests.begin()) : kNone;
  const std::vector<Work> work = WorkOfThreads(trace, request);
  const auto is_less_likely = [](const Work& a, const Work& b) {
    const auto rank = [](const Work& it) { return std::tuple(it.begin_ns != INT64_MIN, !it.waits, it.begin_ns); };
    return rank(a) < rank(b);
  };
  const auto hung = std::max_element(work.begin(), work.end(), is_less_likely);
  if (hung != work.end() && hung->begin_ns != INT64_MIN) return static_cast<uint32_t>(hung - work.begin());
  if (request == kNone) return kNone;
  const auto handoff = std::find_if(trace.handoffs.rbegin(), trace.handoffs.rend(),
                                    [request](const model::HandoffRow& row) { return row.request == request; });
  return handoff != trace.handoffs.rend() && handoff->to_thread != kNone ? handoff->to_thread : found->begin_thread;
}

std::string PlaceOf(const ThreadView& thread) {
  constexpr size_t kFrames = 4;
  std::string place = std::string(", state ") + thread.state;
  if (!thread.wait.empty()) place += ", waits in " + thread.wait;
  for (size_t i = 0; i < std::min(thread.frames.size(), kFrames); ++i)
    place += (i == 0 ? ", at " : ", ") + thread.frames[i];
  return place + (thread.frames.size() > kFrames ? ", ..." : "");
}

}  // namespace

std::string HungThread(const Trace& trace, uint64_t request, const KernelView& view, ViewNumbers numbers) {
  const uint32_t row = ThreadAt(trace, request);
  if (row == kNone) return "";
  const model::ThreadRow& thread = trace.threads[row];
  const auto seen = std::find_if(view.threads.begin(), view.threads.end(),
                                 [&](const ThreadView& it) { return it.tid == thread.tid; });
  const bool is_seen = numbers == ViewNumbers::kOwn && seen != view.threads.end();
  return std::string(trace.strings[thread.name]) + " (" + std::to_string(thread.tid) + ")" +
         (is_seen ? PlaceOf(*seen) : "");
}

}  // namespace pitot::session
