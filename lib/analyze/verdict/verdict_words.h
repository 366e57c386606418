// SPDX-License-Identifier: Apache-2.0
//
// Sentences that a verdict's text and page share.
#ifndef PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_
#define PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "analyze/verdict/namespace.h"
#include "pitot/analyze/verdict.h"

namespace pitot::verdict {

// Nine tenths are as good as all.
constexpr bool IsMostOf(int64_t part_ns, int64_t whole_ns) { return part_ns >= whole_ns - whole_ns / 10; }

constexpr int64_t kTenth = 100'000;  // of a ms
// A verdict's times as printed, in tenths of a ms. Causes, common part and rest add up to latency - typical in print,
// too. For that, the ones that lose least by it are rounded the other way.
struct PrintedVerdict {
  explicit PrintedVerdict(const Verdict& verdict);
  int64_t latency, typical, common, rest;
  std::vector<int64_t> causes;
};
// The parts of a verdict's text below its tree, in whole lines; each may be "".
struct VerdictParts {
  std::string request;   // id, route, latency, and what is typical
  std::string compared;  // the requests or tokens of the baseline
  std::string remarks;   // on these, and on the moment
  std::string why;       // the kind, causes with their numbers, the rest
  std::string advice;    // "what to do"
  std::string measure;   // a command
  std::string sure;      // the confidence, and the most that a fix would save
  std::string blame;     // "all of it"
  std::string quality;   // "evidence"
};
VerdictParts PartsOf(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict, size_t columns);

// The predicate of a cause of the verdict: "waited 69.1 ms for lock "cache", held by request 0000000000008690
// (/classify)".
std::string SentenceText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                         const Cause& cause);

std::string Tenths(int64_t tenths);        // "33.5"
std::string SignedTenths(int64_t tenths);  // "+13.5 ms"

// The requests or tokens whose latency is Verdict::typical_ns: "this route and size".
std::string TypicalOf(const Verdict& verdict, const RequestBlame& blame);

// The rest outside of the causes, and its parts: lesser causes, parts shorter than usual, and time within the normal
// range. Example: "rest +16.5 ms: +13.5 ms of 4 lesser causes, +3.0 ms within the normal range".
std::string RestText(const Verdict& verdict);

// The most a fix would save. If that is far from all the part could bring, also how much faster the request would be
// without the part.
std::string SavingText(const Verdict& verdict, const Cause& cause);

// Verdict::more_of of a request that waited for the GPU more often.
inline constexpr char kWaitsForGpu[] = "waits for a GPU";
// More work, not slower work, for a verdict with a `more_of`. More launches of a request as large as its baseline's are
// the server's doing instead: it did the same work in more pieces, and no part stands out.
std::string MoreWorkText(const model::Trace& trace, const RequestBlame& blame, const Verdict& verdict);

// Two remarks, each "" if it does not apply. LikeText: the requests of the baseline were slow, too, compared with the
// median of all of the same route and size in the trace. MeanwhileText: many similar requests in flight lost half as
// much or more, so the moment should be looked at, too.
std::string LikeText(const Verdict& verdict);
std::string MeanwhileText(const Verdict& verdict);
// What parts it compared, if requests were recorded at different depths; otherwise "".
std::string CoarseText(const Verdict& verdict);
// Runs of pitot::ProfileKernels in the time of the request or token: launches took longer.
struct ProfiledTime {
  uint32_t runs = 0;
  int64_t begin_ns = 0, end_ns = 0;  // of the first and the last, after the request's begin, within that time
};
ProfiledTime FindProfiles(const model::Trace& trace, const RequestBlame& blame);
// A remark on them; "" if there are none.
std::string ProfiledText(const model::Trace& trace, const RequestBlame& blame);

// "confidence 0.56 (", the weakest factor in words, ")".
std::string ConfidenceText(const Cause& cause);
// What to do, the root's first where it is another's doing.
std::vector<const char*> Advices(const Verdict& verdict);
// The confidence of the root, otherwise of the first cause, and the saving; "" without causes.
std::string SureText(const Verdict& verdict);
// The culprit's kernel, otherwise the request's own that took the time; 0: there is none.
model::StringId KernelOf(const model::Trace& trace, const RequestBlame& blame, const Cause& cause);
// A sentence on the contradicting cause and the reason; "" if there is none.
std::string ContradictionText(const Cause& cause);

}  // namespace pitot::verdict

#endif  // PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_
