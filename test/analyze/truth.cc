// SPDX-License-Identifier: Apache-2.0
#include "analyze/truth.h"

#include "pitot/model/index.h"

namespace pitot::test {

using analyze::Blame;
using analyze::BlameSegment;
using model::kNone;
using model::Trace;
using simulator::Cause;
using simulator::Segment;

namespace {

std::string Resource(const Trace& trace, uint32_t event) {
  return std::string(trace.strings[static_cast<model::StringId>(trace.arg_values[trace.events.args[event] + 1])]);
}
bool IsWait(const Trace& trace, uint32_t event) {
  return event != kNone && trace.sites[trace.events.site[event]].kind == SiteKind::kWait;
}
std::string NameOf(const Trace& trace, uint32_t event) {
  if (event == kNone) return "";
  return IsWait(trace, event) ? Resource(trace, event) : std::string(trace.EventName(event));
}

simulator::Culprit AsTruth(const Trace& trace, const analyze::Culprit& by) {
  simulator::Culprit culprit;
  if (by.thread != kNone) culprit.thread = trace.threads[by.thread].number;
  if (by.request != kNone) culprit.request = trace.requests[by.request].id;
  if (by.batch != kNone) culprit.batch = trace.batches[by.batch].id;
  culprit.doing = NameOf(trace, by.event);
  return culprit;
}

Segment OnGpu(const Trace& trace, const BlameSegment& from, Cause cause) {
  Segment to;
  to.begin_ns = from.begin_ns;
  to.end_ns = from.end_ns;
  to.cause = cause;
  to.name = std::string(trace.strings[trace.gpu.name[from.gpu]]);
  return to;
}

Segment AsTruth(const Trace& trace, const BlameSegment& from) {
  Segment to;
  to.begin_ns = from.begin_ns;
  to.end_ns = from.end_ns;
  if (from.thread != kNone) to.thread = trace.threads[from.thread].number;
  const std::string queue =
      from.handoff != kNone ? std::string(trace.strings[trace.handoffs[from.handoff].queue]) : std::string("accept");
  switch (from.blame) {
    case Blame::kAdmissionQueue:
    case Blame::kQueueWaitOthers:
    case Blame::kExecutorBusy:
      if (from.handoff == kNone &&
          from.blame != Blame::kAdmissionQueue) {  // in no queue: its thread did this for another
        to.cause = Cause::kOnCpu;
        to.name = NameOf(trace, from.event);
        to.culprit.request = trace.requests[from.by.request].id;
        break;
      }
      to.cause = Cause::kQueueWait;
      to.name = queue;
      to.culprit = AsTruth(trace, from.by);
      break;
    case Blame::kHandoff: {
      to.cause = Cause::kHandoff;
      const bool is_lock_or_result = IsWait(trace, from.event) && trace.arg_values[trace.events.args[from.event]] !=
                                                                      static_cast<uint64_t>(WaitKind::kQueue);
      to.name = from.handoff == kNone && is_lock_or_result ? Resource(trace, from.event) : queue;
      break;
    }
    case Blame::kBatchWindow:
      to.cause = Cause::kBatchWindow;
      to.name = NameOf(trace, from.event);
      if (from.batch == kNone) break;  // it never came into one
      to.culprit.batch = trace.batches[from.batch].id;
      to.close = static_cast<BatchClose>(trace.batches[from.batch].close);
      break;
    case Blame::kHostLock:
      to.cause = Cause::kLockWait;
      to.name = NameOf(trace, from.event);
      to.culprit = AsTruth(trace, from.by);
      break;
    case Blame::kHostPagefaultIo:
      to.cause = Cause::kIoWait;
      to.name = NameOf(trace, from.event);
      break;
    case Blame::kHostBlockedUnknown:
      // A wait for room in a queue is a handoff to the simulator.
      to.cause = trace.arg_values[trace.events.args[from.event]] == static_cast<uint64_t>(WaitKind::kSleep)
                     ? Cause::kSleep
                     : Cause::kHandoff;
      to.name = NameOf(trace, from.event);
      break;
    case Blame::kSyncReturn:
      to.cause = Cause::kSyncReturn;
      to.name = std::string(trace.strings[trace.calls.name[from.call]]);
      break;
    case Blame::kGpuExecExpected:
    case Blame::kGpuContention:
    case Blame::kGpuExcessUnknown:
      return OnGpu(trace, from, Cause::kKernel);
    case Blame::kLaunchLatency:
      return OnGpu(trace, from, Cause::kLaunchLatency);
    case Blame::kDispatchGap:
      return OnGpu(trace, from, Cause::kDispatchGap);
    case Blame::kGpuQueueWaitOthers:
      to.cause = Cause::kGpuQueueWait;
      to.thread = 0;
      to.culprit = AsTruth(trace, from.by);
      break;
    default:
      to.cause = from.call != kNone ? Cause::kCall : Cause::kOnCpu;
      to.name =
          from.call != kNone ? std::string(trace.strings[trace.calls.name[from.call]]) : NameOf(trace, from.event);
  }
  return to;
}

}  // namespace

std::vector<Segment> AsTruth(const Trace& trace, const analyze::RequestBlame& blame) {
  std::vector<Segment> path;
  for (const BlameSegment& segment : blame.segments) AppendSegment(AsTruth(trace, segment), &path);
  return path;
}

std::string Describe(const std::vector<Segment>& path) {
  std::string text;
  for (const Segment& segment : path) text += ToString(segment) + "\n";
  return text;
}

}  // namespace pitot::test
