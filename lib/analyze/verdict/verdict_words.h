// SPDX-License-Identifier: Apache-2.0
//
// Sentences of a verdict that its text and its page share.
#ifndef PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_
#define PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

constexpr int64_t kTenth = 100'000;  // of a ms
// What words say of a verdict's times, in tenths of a ms: causes, what was common and the rest add up to latency -
// typical as they are printed, too, because of them those are rounded the other way that lose least by it.
struct PrintedVerdict {
  explicit PrintedVerdict(const Verdict& verdict);
  int64_t latency, typical, common, rest;
  std::vector<int64_t> causes;
};
std::string Tenths(int64_t tenths);        // "33.5"
std::string SignedTenths(int64_t tenths);  // "+13.5 ms"

// What is in no cause, and what it is made of: "rest +0.4 ms within the normal range", "offset by -2.0 ms of parts
// shorter than usual", "rest +16.5 ms: +13.5 ms of 4 lesser causes, +3.0 ms within the normal range".
std::string RestText(const Verdict& verdict);

// "would save at most 5.1 ms"; and where that is far from all that the part could bring, "; with none of it at most 3.2
// times as fast".
std::string SavingText(const Verdict& verdict, const Cause& cause);

// "more work, not slower: 4 times the usual size"; or "done in more launches than usual (1.82 times), and no part
// stands out", of a request that has the same size as those that it is compared with: that is the server's doing. Of a
// verdict whose more_of is not empty.
std::string MoreWorkText(const Verdict& verdict);

// "which were slow, too: of all 400 of its route and size in the trace half took at most 8.1 ms", of those that it is
// compared with; and "of the 12 like it that were open meanwhile 9 lost half as much, or more: look at that moment,
// too". "" where it is not so.
std::string LikeText(const Verdict& verdict);
std::string MeanwhileText(const Verdict& verdict);

// "confidence 0.56 (requests of other sizes had to do)".
std::string ConfidenceText(const Cause& cause);
// "but contradicted by gpu_clock: either ..."; "" where nothing does.
std::string ContradictionText(const Cause& cause);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_LIB_ANALYZE_VERDICT_VERDICT_WORDS_H_
