// SPDX-License-Identifier: Apache-2.0
//
// Why was this request slow: which parts of its time are outside of what normal requests show, by how much, how sure
// that is, whom to blame, what it would save to have them normal, and what to do. What `pitot why` shows.
//
// Numbers add up: the excess over the typical latency is the sum of the causes' excesses, of what everything had in
// common, and of the rest, in whole ns. "Undetermined" is an answer.
#ifndef PITOT_ANALYZE_VERDICT_H_
#define PITOT_ANALYZE_VERDICT_H_

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <vector>

#include "pitot/analyze/baseline.h"
#include "pitot/analyze/why.h"
#include "pitot/export.h"
#include "pitot/model/trace.h"
#include "pitot/request.h"
#include "pitot/status.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

struct Drift;

// Thresholds. Where no other source is named they are those of analyzers.md section 2.9, whose simulation chose them.
struct VerdictOptions {
  double alpha = 0.02;                // a cause's p is at most this
  double alpha_few = 0.05;            // the same where normal requests are fewer than `least_many`, or no p is as small
  uint32_t least_many = 131;          // for 1 / (m + 1) <= 0.02, of the 3/8 that calibrate
  uint32_t least = 60;                // fewer: the next larger level, then nothing is said
  double least_share = 0.10;          // of the excess
  int64_t least_excess_ns = 200'000;  // of a cause
  double least_common_factor = 0.08;  // everything slower by more than this, and than 98 % of normal requests
  double least_common_share = 0.30;   // of the excess: a factor that is less of it is no verdict
  double more_work_share = 0.60;      // of the excess that more of the same work explains
  double normal_percentile = 0.75;    // a latency up to here is not unusual, whatever its parts are: it calibrates
  double usual_percentile = 0.95;     // nor is one up to here, where no part is
  double most_unknown = 0.50;         // of the positive excess in parts that say nothing: undetermined
  uint32_t most_causes = 3;
  // Blames that a slower clock or CPU stretches: a bit for each. By default code, calls, copies and kernels.
  uint32_t execution = BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) |
                       BlameBit(Blame::kHostOncpuPost) | BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kH2d) |
                       BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset) | BlameBit(Blame::kGpuExecExpected);
};

enum class VerdictKind : uint8_t {
  kCauses = 1,        // `causes` says which
  kUniform = 2,       // everything was slower by `common_factor`; there may be causes beside that
  kMoreWork = 3,      // it was more work, not slower: `more_of`; no cause
  kDiffuse = 4,       // slow, and no part is outside of its normal range
  kNotUnusual = 5,    // not slow among its like
  kUndetermined = 6,  // `why_not` says why nothing can be said
};
PITOT_EXPORT const char* VerdictKindName(VerdictKind kind) noexcept;

// What to do about a cause: a code that stays, and words.
struct Advice {
  const char* code;
  const char* text;
};
// What is proved of a cause beside its blame, where that makes a difference to the advice. Counters of the host: the
// process was throttled by its CPU quota meanwhile; memory was read from a disk. The executor: it did another request's
// work by itself, in a batch that both were in. The walk: it was done for the first time in the trace; there were more
// launches than usual, another thread was in the driver, or each took longer than most; many short waits for a GPU;
// others came to wait for a lock that it held meanwhile; what was waited for took longer than twice the median of its
// like; its thread went into a scope that had not ended, and nothing says whether it ran since; it slept in a wait that
// the program recorded.
enum class Proof : uint8_t {
  kNone = 0,
  kQuota = 1,
  kMajorFaults = 2,
  kInOwnBatch = 3,
  kFirstUse = 4,
  kMoreLaunches = 5,
  kInDriver = 6,
  kSlowLaunches = 7,
  kManyWaits = 8,
  kHeldLock = 9,
  kNoUsual = 10,
  kStolen = 11,
  kBehindLong = 12,
  kUnseen = 13,
  kNamedWait = 14,
};
// By what the first of Cause::longest says, where that makes a difference. Never null.
PITOT_EXPORT Advice AdviceFor(Blame blame, BatchClose close, Proof proof = Proof::kNone) noexcept;
// Of a verdict without causes; code "" where it needs none.
PITOT_EXPORT Advice AdviceFor(VerdictKind kind) noexcept;

struct Cause {
  Blame blame = Blame::kUntraced;
  int64_t blame_ns = 0;   // of this request
  int64_t normal_ns = 0;  // usually
  int64_t common_ns = 0;  // of the difference, what everything had in common: the factor times normal_ns
  int64_t excess_ns = 0;  // blame_ns - normal_ns - common_ns
  double share = 0;       // of the request's excess
  double p = 1;           // how often the farthest part of a normal request is as far
  // How often a normal request launches as much, where launches explain the excess and the part is made of them; else
  // 1. It names the part where it is at most half of the options' alpha.
  double p_of_launches = 1;
  double confidence = 0;  // 0 to 1, how often causes like it are true: docs/reference/why.md says of what it is made
  // Of the factors of its confidence the least, in words: "few normal requests"; "" where none takes a twentieth.
  const char* unsure = "";
  // Another of the causes (BlameName) that cannot be true of the same kernels or calls, and why: both are half as sure.
  // "" where there is none.
  const char* contradicted_by = "";
  const char* contradiction = "";
  // At most so much would be saved, were it normal: where another way was nearly as long, that remains. No more than
  // the request's excess.
  int64_t saving_ns = 0;
  // The latency, were it nothing at all: as often as this is in the latency is how many times as fast the request could
  // be at most (Amdahl, 1967); 0: there is no limit.
  int64_t without_ns = 0;
  Culprit by;         // who had most of it
  int64_t by_ns = 0;  // how much
  // Segments of RequestBlame, at most three: the longest in the place (scope and call, operation of a GPU, or queue)
  // that had most of it, then the longest of all.
  std::vector<uint32_t> longest;
  int64_t place_ns = 0;  // how much that place had
  Advice advice = {"", ""};
};

// How much shorter a request would be without one of its segments: less than that is long where another way was nearly
// as long (CRISP, Zhang et al., 2022).
struct Drag {
  uint32_t segment = 0;  // of RequestBlame
  int64_t ns = 0;
};

struct Verdict {
  VerdictKind kind = VerdictKind::kUndetermined;
  std::string why_not;  // kUndetermined
  // "size", "steps", "tokens", "launches": that there were `more_factor` times as many explains most of the excess
  // (kMoreWork), or, beside causes, `more_ns` of the rest; or that there were as many launches is why causes are.
  std::string more_of;
  double more_factor = 1;
  int64_t more_ns = 0;  // what parts that are no causes were longer by for it; in rest_ns

  int64_t latency_ns = 0;
  int64_t typical_ns = 0;  // the sum of `normal`
  double percentile = 1;   // the share of normal requests that took at most as long
  Baseline::Level level = Baseline::Level::kNone;
  uint32_t baseline_size = 0;
  // Requests that were recorded at different depths are compared: what GPUs did counts as Blame::kHostOncpuFramework,
  // the code that waited for them, in `normal`, `causes` and `largest`.
  bool is_coarse = false;
  double alpha = 0;    // that `p` was tested with: half of the options' where launches were tested and are normal
  double least_p = 1;  // that could have come out
  BlameVector normal;

  double common_factor = 0;
  int64_t common_ns = 0;        // its part of the excess; 0 unless kUniform
  std::string clocks;           // kUniform: which were lower meanwhile, or that none was; "" where none was recorded
  std::vector<Cause> causes;    // by excess, largest first
  std::vector<Cause> largest;   // where there are none: the parts with the largest excess, at most three
  Advice advice = {"", ""};     // kUniform without causes: they have their own
  int64_t joint_saving_ns = 0;  // of all causes together: not the sum
  std::vector<Drag> drags;      // of the longest segments, at most three; of requests that are slow
  // Of the excess, in no cause: latency - typical = common + causes + rest. Unless kUniform, the causes' common_ns too.
  int64_t rest_ns = 0;
  // Of the rest, parts outside of their normal range that are no cause: too small, or beyond most_causes.
  uint32_t unnamed = 0;
  int64_t unnamed_ns = 0;

  // Where those that it is compared with were slow, too: half of all of its route and size in the trace, so many, took
  // at most `like_median_ns`, and `typical_ns` is 1.5 times that or more. 0: it is not so.
  uint32_t like = 0;
  int64_t like_median_ns = 0;
  // Where that moment slowed others, too: of so many of its route and size that were open meanwhile half or more lost
  // at least half as much as it did. 0: it is not so.
  uint32_t meanwhile = 0;
  uint32_t meanwhile_slow = 0;
};

// What a request was as work, for baselines.
PITOT_EXPORT WorkDone WorkOf(const BlameIndex& index, const RequestBlame& blame) noexcept;

// Compares a request with normal ones; `now_ns` says which of them are fresh. Fills `verdict`.
//
// Threads: any that do not change the baseline. Errors: kInvalidArgument (an index that was not made, a row that is
// none), kResourceExhausted. Cost: O(n log n) of the normal requests, 1 ms for 512; of a slow one O(n) of the trace's
// requests, too.
PITOT_EXPORT Status FindVerdict(const BlameIndex& index, const RequestBlame& blame, const Baseline& baseline,
                                int64_t now_ns, const VerdictOptions& options, Verdict* verdict) noexcept;

// What LearnBaseline found of a trace, so that it walks no request twice where many are asked about.
class PITOT_EXPORT Learned {
 public:
  Learned() noexcept;
  ~Learned();
  Learned(Learned&& other) noexcept;
  Learned& operator=(Learned&& other) noexcept;

  struct Data;
  std::unique_ptr<Data> data;  // null until it was used; about 250 bytes for each request
  // Why the last request that was asked about has fewer than `least` to be compared with, where that is for what was
  // lost in the time of others; else "".
  std::string why_few;
};

// Adds requests of the trace to `baseline` that the request of that row can be compared with, where no baseline was
// kept: those that ended well and that no trigger fired for; the 512 of its route and size that ended nearest to it,
// or, where the median of these is more than 1.5 times that of all, 512 from all over the trace; and where they are
// fewer than `options.least` of its route, then of any. Requests whose walk is not reliable are left out. `learned`
// (null: nothing is kept) is of this index alone. Errors: as FindBlame and Baseline::Add. Cost: a walk of each that is
// not learned yet; with `learned`, once O(n log n) of the trace's requests.
PITOT_EXPORT Status LearnBaseline(const BlameIndex& index, uint32_t request, const VerdictOptions& options,
                                  Baseline* baseline, Learned* learned = nullptr) noexcept;

// What is to be said of one part: "behind request 0000000000008f0c (/segment, 13.8 ms)", "cudaMalloc in \"forward\" on
// executor".
// Throws std::bad_alloc.
PITOT_EXPORT std::string EvidenceText(const BlameIndex& index, const RequestBlame& blame, const Cause& cause);
// The verdict in a line: "host_lock +69.2 ms (95 %), held by request 0000000000008690 (/classify, 69.1 ms)". Throws
// std::bad_alloc.
PITOT_EXPORT std::string VerdictLine(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict);
// The verdict for people. Words are wrapped at `columns`; lines that are rows of a table have 100 at most. Throws
// std::bad_alloc.
PITOT_EXPORT std::string VerdictText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                                     size_t columns = 100);
// The same for programs, in whole ns, with `drift_count` routes that are slower as a whole (pitot/analyze/drift.h):
// docs/reference/formats/json.md says what its fields are. Throws std::bad_alloc.
PITOT_EXPORT std::string VerdictJson(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                                     const Drift* drifts = nullptr, size_t drift_count = 0);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_VERDICT_H_
