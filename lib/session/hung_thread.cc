// SPDX-License-Identifier: Apache-2.0
#include "session/hung_thread.h"

#include <algorithm>
#include <vector>

namespace pitot::session {
namespace {

using model::kNone;
using model::kOpen;
using model::Trace;

// The open batches with a request, as flags; any with kNone.
std::vector<bool> OpenBatches(const Trace& trace, uint32_t request) {
  std::vector<bool> open(trace.batches.size());
  for (size_t row = 0; request == kNone && row < open.size(); ++row)
    open[row] = trace.batches[row].duration_ns == kOpen;
  for (const model::MemberRow& member : trace.members) {
    if (member.batch != kNone && member.request == request && member.leave_ns == 0 &&
        trace.batches[member.batch].duration_ns == kOpen)
      open[member.batch] = true;
  }
  return open;
}

uint32_t ThreadAt(const Trace& trace, uint64_t id) {
  const auto found = std::find_if(trace.requests.begin(), trace.requests.end(),
                                  [id](const model::RequestRow& row) { return id != 0 && row.id == id; });
  const uint32_t request =
      found != trace.requests.end() ? static_cast<uint32_t>(found - trace.requests.begin()) : kNone;
  const std::vector<bool> batches = OpenBatches(trace, request);
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (trace.events.duration_ns[event] != kOpen) continue;
    const uint32_t batch = trace.events.batch[event];
    if ((request != kNone && trace.events.request[event] == request) || (batch != kNone && batches[batch]))
      return trace.events.thread[event];
  }
  const auto batch = std::find(batches.begin(), batches.end(), true);
  if (batch != batches.end()) return trace.batches[static_cast<size_t>(batch - batches.begin())].thread;
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
