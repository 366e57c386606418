// SPDX-License-Identifier: Apache-2.0
//
// What an incident is about: what its trigger fired for, and the request or token to be judged. `pitot why`, and the
// judge in a host, open with it. Not every incident is about a slow request: a scope may be open for too long, a
// request may have failed, or the host asked.
#ifndef PITOT_ANALYZE_ASKED_H_
#define PITOT_ANALYZE_ASKED_H_

#include <stddef.h>
#include <stdint.h>

#include <string>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/judgement.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct Drift;

// By the first firing.
enum class FiredKind : uint8_t {
  kNothing = 0,  // no trigger fired
  kRequest = 1,  // a request: its latency, or the host's own rule
  kToken = 2,    // a late token
  kFailure = 3,  // a request that failed, timed out or was abandoned
  kScope = 4,    // a scope that was open for too long
  kWindow = 5    // no request: the host asked, or a trigger of its own
};
PITOT_EXPORT const char* FiredKindName(FiredKind kind) noexcept;  // "request", "scope"

// The subject of a verdict: the time before a token, or without a token the whole request. Rows of the trace.
struct Asked {
  uint32_t request = model::kNone;  // the token's, if there is one; kNone: there is none to judge
  uint32_t token = model::kNone;
  FiredKind kind = FiredKind::kNothing;
  uint32_t event = model::kNone;  // the scope that was open for too long
};

// Fills `asked` with the subject of an incident, by its first firing:
// - a late token: the latest of all tokens that fired a trigger of the same name, measured from the token before;
// - a failure: the request that failed first;
// - a scope: the request it works for, or the first of its batch;
// - a request: ChooseRequest(trace, 0).
// If that gives no request, it is the slowest that fired. Without any firing it is ChooseRequest(trace, 0), too.
// Errors: kInvalidArgument (the index was not made), kNotFound (there is no request to judge; the rest is filled),
//   kResourceExhausted (BlameOptions::is_over), kInternal.
// Cost: O(log n) of the tokens for each firing; for a scope O(n) of its thread's events.
PITOT_EXPORT Status ChooseAsked(const BlameIndex& index, Asked* asked) noexcept;

// JudgeToken of its token, or without one JudgeRequest of its request.
PITOT_EXPORT Status JudgeAsked(const model::Trace& trace, const Asked& asked, const Baseline* kept,
                               Judgement* judgement) noexcept;

// Whether the verdict on the request's latency belongs to what fired. It does not if a request failed or was abandoned
// that was not slow.
PITOT_EXPORT bool IsAboutLatency(const model::Trace& trace, const Asked& asked, const Verdict& verdict) noexcept;

// What fired, in a sentence that opens a report: "Scope "step" on engine has been open for 12.00 s: it waits for lock
// "weights", held by loader." "" for a request or token: the verdict's own sentence tells it. `judgement` is of its
// request; null: there is none. Throws std::bad_alloc.
PITOT_EXPORT std::string FiredSentence(const BlameIndex& index, const Asked& asked, const Judgement* judgement);

// The opening of a report: FiredSentence or else the verdict's, then the lines of `head`, then the verdict if the
// incident is about latency. Words are wrapped at `columns`. Throws std::bad_alloc.
PITOT_EXPORT std::string AskedText(const BlameIndex& index, const Asked& asked, const Judgement* judgement,
                                   const std::string& head, size_t columns = 100);

// VerdictJson with an object "fired", and FiredSentence as its summary. Without a judgement it has the reason `why_not`
// in place of a verdict. Throws std::bad_alloc.
PITOT_EXPORT std::string FiredJson(const BlameIndex& index, const Asked& asked, const Judgement* judgement,
                                   const std::string& why_not, const Drift* drifts = nullptr, size_t drift_count = 0);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_ASKED_H_
