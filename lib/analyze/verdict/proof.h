// SPDX-License-Identifier: Apache-2.0
//
// The walk's proof of a cause, where it makes a difference to the advice (advice.cc).
#ifndef PITOT_LIB_ANALYZE_VERDICT_PROOF_H_
#define PITOT_LIB_ANALYZE_VERDICT_PROOF_H_

#include <vector>

#include "analyze/blame/walk.h"
#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Whether a segment's thread got no CPU time although it neither slept nor was switched.
bool IsStolen(const model::Trace& trace, const BlameSegment& segment);

// Whether a segment's thread was in an unfinished scope, and nothing says whether it ran.
bool IsUnseen(const BlameSegment& segment);

// Whether counters of a segment's thread show if it had a CPU; true for all but code and time that is not recorded.
bool IsCounted(const blame::Index& index, const BlameSegment& segment);

// Whether a segment is a slow call for a kernel, and nothing shows that its thread ran: it may have waited for the
// driver.
bool MayAwaitDriver(const blame::Index& index, const BlameSegment& segment);

// The function of code like `at` among the segments, by stacks (Stacks::OfCode). Unrecorded time has one if the thread
// was busy.
StackPlace StacksOfCode(const blame::Index& index, const std::vector<BlameSegment>& segments, const BlameSegment& at);
// The same for the longest segment of a part.
StackPlace StacksOfPart(const blame::Index& index, const RequestBlame& blame, Blame part);
// Whether samples show that the thread did not sleep there: it ran, or waited for a CPU.
bool HasRun(const StackPlace& place);

// Whether most of a request's sleep was in waits recorded by the program. These name the resource, not its holder. A
// wait for a GPU (WaitKind::kDevice) names nothing: the question is what the GPU did.
bool IsNamedSleep(const model::Trace& trace, const RequestBlame& blame);
bool IsDeviceSleep(const model::Trace& trace, const RequestBlame& blame);

// Whether most of the model code of a request may be a wait for a GPU instead, in a process that uses one, and why.
enum class GpuDoubt : uint8_t {
  kNone,
  kUnseen,  // neither calls, nor kernels, nor counters show what the GPU did meanwhile
  kBusy,    // the GPU worked meanwhile, and the thread made no recorded call: it may have polled
};
GpuDoubt MayAwaitGpu(const blame::Index& index, const RequestBlame& blame);

// Whether most of such a part was while the whole process stood still: blocked for no recorded reason, or not recorded.
bool IsStill(const blame::Index& index, const RequestBlame& blame, Blame part);

// Whether most of the unusual time in such a part, not recorded, is in a span of the request, and stacks show nothing.
// Not in one as long as the request.
bool IsInSpan(const blame::Index& index, const RequestBlame& blame, Blame part);

// Whether stacks show where the thread was in most of such a part: blocked for no recorded reason; or not recorded, and
// busy or asleep in a system call. Or a span does (IsInSpan).
bool IsPlaced(const blame::Index& index, const RequestBlame& blame, Blame part);

// Whether most of the model code and sleep of a request may be another's work in the same batch, or something else
// there, and why that is not known.
blame::MixedWork::Doubt MayBeMixed(const blame::Index& index, const RequestBlame& blame);

// Reads only `more_of` of `verdict`.
Proof ProofOf(const blame::Index& index, const RequestBlame& blame, const Cause& cause, const Verdict& verdict);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_PROOF_H_
