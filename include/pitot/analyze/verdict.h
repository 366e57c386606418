// SPDX-License-Identifier: Apache-2.0
//
// Explains why a request was slow. A verdict names the parts of its time outside of the normal range, by how much, with
// what confidence, and the culprit. It estimates the saving if they were normal, and gives advice. `pitot why` prints
// it.
//
// Numbers add up: the excess over the typical latency is the sum of the causes' excesses, the common part, and the
// rest, in whole ns. "Undetermined" is an answer.
//
// A tree goes on where a cause is a wait for somebody else: what did *that* do, and what of it is unusual? Its leaves
// wait for nobody. The largest is the root.
#ifndef PITOT_ANALYZE_VERDICT_H_
#define PITOT_ANALYZE_VERDICT_H_

#include <stddef.h>
#include <stdint.h>

#include <memory>
#include <string>
#include <unordered_map>
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

// Thresholds. Those without another source are explained in docs/reference/why.md#why-this-test.
struct VerdictOptions {
  double alpha = 0.02;        // largest p of a cause
  double alpha_few = 0.05;    // the same with fewer than `least_many` normal requests, or if no p that small can occur
  uint32_t least_many = 131;  // for 1 / (m + 1) <= 0.02, with the 3/8 of them that calibrate
  uint32_t least = 60;        // with fewer requests the next larger level is used
  uint32_t least_few = 20;    // with so many of no level, they are compared at the least p that they allow; then there
                              // is no verdict
  double least_share = 0.10;  // of the excess
  int64_t least_excess_ns = 200'000;  // of a cause
  // Everything is slower by more than this, and by more than in 98 % of normal requests.
  double least_common_factor = 0.08;
  // Nor by more than this: clocks fall to a fifth at most (3.9 to 0.8 GHz, data sheets of server CPUs; 1980 to 345 MHz
  // is an idle H100).
  double most_common_factor = 4;
  double least_common_share = 0.30;  // of the excess: a smaller common part is not a verdict
  double least_stretched = 0.20;     // of typical latency, in parts of `execution`: with less, not all was slower
  double more_work_share = 0.60;     // share of the excess explained by more of the same work
  double normal_percentile = 0.75;   // a latency up to here is never unusual, whatever its parts: it calibrates
  double usual_percentile = 0.95;    // nor is one up to here, if no part is unusual
  double route_percentile = 0.90;    // nor, for its route, is one up to here, whatever its size
  double most_unknown = 0.50;        // of the positive excess in parts without an explanation: more is undetermined
  uint32_t most_causes = 3;
  // Blames that a slower clock or CPU stretches, as a bit for each. By default code, calls, copies and kernels.
  uint32_t execution = BlameBit(Blame::kHostOncpuPre) | BlameBit(Blame::kHostOncpuFramework) |
                       BlameBit(Blame::kHostOncpuPost) | BlameBit(Blame::kLaunchApi) | BlameBit(Blame::kH2d) |
                       BlameBit(Blame::kD2h) | BlameBit(Blame::kD2dMemset) | BlameBit(Blame::kGpuExecExpected);
};

enum class VerdictKind : uint8_t {
  kCauses = 1,        // see `causes`
  kUniform = 2,       // everything was slower by `common_factor`; there may be causes, too
  kMoreWork = 3,      // it was more work, not slower: `more_of`; without causes
  kDiffuse = 4,       // slow, but no part is outside of its normal range
  kNotUnusual = 5,    // not slow among similar requests
  kUndetermined = 6,  // see `why_not`
};
PITOT_EXPORT const char* VerdictKindName(VerdictKind kind) noexcept;

// What to do about a cause: a stable code, and words.
struct Advice {
  const char* code;
  const char* text;
};
// What else is proved of a cause, if it changes the advice.
enum class Proof : uint8_t {
  kNone = 0,
  kQuota = 1,         // host counters: its CPU quota throttled the process meanwhile
  kMajorFaults = 2,   // host counters: memory was read from a disk
  kInOwnBatch = 3,    // the executor worked for another request alone, in a batch with both
  kFirstUse = 4,      // it was done for the first time in the trace
  kMoreLaunches = 5,  // there were more launches than usual
  kInDriver = 6,      // another thread was in the driver
  kSlowLaunches = 7,  // each launch took longer than most
  kManyWaits = 8,     // many short waits for a GPU
  kHeldLock = 9,      // others came to wait for a lock it held meanwhile
  kNoUsual = 10,      // the usual time of such GPU work is not known
  kStolen = 11,       // a hypervisor or interrupts took the CPU away
  kBehindLong = 12,   // the awaited work took over twice the median of its like
  kUnseen = 13,       // its thread entered a scope that had not ended; it may have run or not
  kNamedWait = 14,    // it slept in a wait recorded by the program
  kMayAwaitGpu = 15,  // its thread waited for a GPU, or may have: nothing recorded shows what that did
  kMayBeMixed = 16,   // a member of the same batch, with work that is not known well enough, may have made it long
  kStoodStill = 17,   // the whole process stood still
  kLargeMember = 18,  // a member of its batch brought much more work than usual
  kLowClock = 19,     // hardware counters: the GPU's clock was lower than usual
  kOthersOnGpu = 20,  // hardware counters and NVML: another process worked on the GPU around then
  kMemoryBound = 21,  // hardware counters: the GPU's memory was busier than usual, and bounds its work
  kHeldLoop = 22,     // a step of another task held its event loop
  kMayPollGpu = 23,   // the GPU worked for most of it, and its thread made no recorded call
  kPlaced = 24,       // stacks show where its thread was
  kUncounted = 25,    // code, and no counter shows whether its thread ran or slept
  kBusy = 26,         // not recorded, and samples show that its thread ran, and where
  kAllStopped = 27,   // an interpreter had stopped all of its threads, and no collection is known
  kInSpan = 28,       // not recorded, and most of its unusual time is in a span of the request
};
// Advice for the first segment of Cause::longest, which `close` and `proof` refine. Never null.
PITOT_EXPORT Advice AdviceFor(Blame blame, BatchClose close, Proof proof = Proof::kNone) noexcept;
// For a verdict without causes; code "" if it needs none.
PITOT_EXPORT Advice AdviceFor(VerdictKind kind) noexcept;

struct Cause {
  Blame blame = Blame::kUntraced;
  int64_t blame_ns = 0;   // in this request
  int64_t normal_ns = 0;  // usually
  int64_t common_ns = 0;  // the common part of the difference: the factor times normal_ns
  int64_t excess_ns = 0;  // blame_ns - normal_ns - common_ns
  // The time it cost: a wait for a turn counts less if other waits of the request went on meanwhile, and were shorter
  // for it.
  int64_t lost_ns = 0;
  double share = 0;  // of the request's excess
  double p = 1;      // how often the most extreme part of a normal request is as extreme
  // How often a normal request launches as much, if launches explain the excess and the part consists of them;
  // otherwise 1. The part qualifies as a cause if this is at most half of the options' alpha.
  double p_of_launches = 1;
  double confidence = 0;  // 0 to 1, how often such causes are true; docs/reference/why.md lists its factors
  // The factor that lowers the confidence most, in words: "few normal requests"; "" if each takes less than a
  // twentieth.
  const char* unsure = "";
  // Another cause (BlameName) that excludes this one for the same kernels or calls, and why. Both then have half the
  // confidence. "" if there is none.
  const char* contradicted_by = "";
  const char* contradiction = "";
  // The saving if it were normal, at most. If a parallel path was nearly as long, that path remains. Not more than the
  // request's excess.
  int64_t saving_ns = 0;
  // The latency if this part took no time. The latency divided by it is the largest possible speed-up (Amdahl, 1967).
  // 0: no limit.
  int64_t without_ns = 0;
  Culprit by;         // the culprit of most of it
  int64_t by_ns = 0;  // the culprit's part of it
  // Segments of RequestBlame, at most three. The first is the longest in the place (scope and call, GPU operation, or
  // queue) with most of the time; then the longest ones of all.
  std::vector<uint32_t> longest;
  int64_t place_ns = 0;  // time in that place
  StackPlace stacks;     // of code, recorded or not: its function there
  Advice advice = {"", ""};
};

// How much shorter a request would be without one of its segments. This is less than the segment's length if a parallel
// path was nearly as long (CRISP, Zhang et al., 2022).
struct Drag {
  uint32_t segment = 0;  // of RequestBlame
  int64_t ns = 0;
};

enum class NodeKind : uint8_t {
  kVictim = 1,        // the request or token asked about
  kPart = 2,          // a part (`blame`) of the time of the node above
  kBatch = 3,         // ahead on an executor, or the holder of a lock: `by`
  kRequest = 4,       // the same; without children the work of a member of the same batch
  kThread = 5,        // the same, at work for nobody
  kGpuWork = 6,       // ahead on a GPU: `by`
  kLoad = 7,          // waits behind `count` others, none of them known to be longer than usual
  kCycle = 8,         // `by` is above in the tree: each waits for the other
  kCommon = 9,        // the factor common to all parts
  kRest = 10,         // within the normal range, or small
  kUnexplained = 11,  // nothing recorded says behind whom
  kBacklog = 12,      // the batch `by` left a backlog when it ended, and the executor has not been idle since
  kSeveral = 13,      // `count` culprits ahead, each a little longer than usual
  kMoreWork = 14      // it was more work, as requests of its size are
};
PITOT_EXPORT const char* NodeKindName(NodeKind kind) noexcept;  // "victim", "gpu_work"

// A node of the tree of blame. The excesses of a node's children add up to its own, in whole ns.
struct VerdictNode {
  NodeKind kind = NodeKind::kVictim;
  Blame blame = Blame::kUntraced;  // of a part; of a culprit the wait for it
  uint32_t parent = model::kNone;  // a place in Verdict::tree, before its own
  uint32_t hops = 0;               // culprits up to here
  int64_t ns = 0;                  // of the wait for a culprit; of a part in it
  // A part's time in all of the culprit's; a culprit's length.
  int64_t whole_ns = 0;
  int64_t normal_ns = -1;       // usually, of `whole_ns`; -1: not known
  bool is_normal_kept = false;  // that was learned before the window; otherwise its like in the window took so long
  int64_t excess_ns = 0;        // beyond that, as far as it lengthened the wait above
  Culprit by;
  uint32_t for_request = model::kNone;  // of a part: the request for which most of it was done in a batch
  BlameSegment at;                      // of a part: the longest segment in the place with most of it
  int64_t place_ns = 0;                 // time in that place
  StackPlace stacks;                    // of code, recorded or not: its function there
  uint32_t count = 0;                   // kLoad, kSeveral: culprits
  // False: a part says how long, and nothing recorded says why. kLoad: not all others are known to be as usual.
  // kGpuWork: its batch waited in turn for those above. kMoreWork: too few of its size are known.
  bool is_explained = true;
};

// The requests that came with the victim's wait, where there is too much to do.
struct Load {
  uint32_t ahead = 0;     // of it in its queue, when it came
  int64_t within_ns = 0;  // in which these and it had come
  uint32_t threads = 0;   // that took from the queue in the window
  model::StringId queue = 0;
};

// The largest leaf of the tree. Leaves of the same kind and part count together; those of the victim itself apart.
struct Root {
  uint32_t node = model::kNone;  // a place in Verdict::tree; kNone: there is no root
  NodeKind kind = NodeKind::kRest;
  Blame blame = Blame::kUntraced;
  Culprit by;             // whose: the request for which it was done, otherwise the culprit nearest above; none if most
                          // of it is in other such leaves
  uint32_t hops = 0;      // culprits between the victim and it; 3 or more are a convoy
  int64_t excess_ns = 0;  // of it, in all such leaves
  double share = 0;       // of the victim's excess
  // That of its cause, less for each culprit of which nothing usual is known, and for a part without an explanation.
  double confidence = 0;
  Advice advice = {"", ""};
};

// The request's stage with the largest difference from usual.
struct VerdictStage {
  model::StringId name = 0;  // 0: it has no stages
  int64_t ns = 0;
  int64_t usual_ns = -1;  // the median of the nearest requests of its route and size; -1: too few are known
};

// The size of a request that is usual for its size, or nearly, and unusual for its route.
struct SizeOfRoute {
  uint32_t requests = 0;       // of its route in the trace, with such a size; 0: its size explains nothing
  model::StringId name = 0;    // "pixels"
  double size = 0, usual = 0;  // its own; the median of its route
  int64_t usual_ns = 0;        // the median of its route
  double percentile = 1;       // the share of its route that took at most as long
  int64_t more_ns = 0;         // what its size explains: typical_ns - usual_ns
};

struct Verdict {
  VerdictKind kind = VerdictKind::kUndetermined;
  std::string why_not;  // reason for kUndetermined
  // "size", "steps", "tokens", "launches" or "waits for a GPU": there were `more_factor` times as many of these. For
  // kMoreWork that explains most of the excess. Next to causes it explains `more_ns` of the rest, or a number of
  // launches or waits explains the causes.
  std::string more_of;
  double more_factor = 1;
  int64_t more_ns = 0;  // longer time due to it, outside of causes; in rest_ns
  // Set if it took longer than nearly all of its route, and requests of its size usually take longer, too. Excesses and
  // causes are those beyond its size; the tree has both.
  SizeOfRoute of_route;

  int64_t latency_ns = 0;
  int64_t typical_ns = 0;  // the sum of `normal`
  double percentile = 1;   // the share of normal requests that took at most as long
  Baseline::Level level = Baseline::Level::kNone;
  uint32_t baseline_size = 0;
  // The compared requests were recorded at different depths. In `normal`, `causes` and `largest`, GPU work therefore
  // counts as Blame::kHostOncpuFramework, the code that waited for it.
  bool is_coarse = false;
  double alpha = 0;    // the one `p` was tested with: half of the options' if launches were tested and are normal
  double least_p = 1;  // the smallest p that could have come out
  BlameVector normal;
  bool is_baseline_kept = false;  // the compared requests or tokens were learned before; otherwise from this trace

  double common_factor = 0;
  int64_t common_ns = 0;        // the common part of the excess; 0 unless kUniform
  std::string clocks;           // kUniform: the clocks that were lower, or that none was; "" if none was recorded
  std::vector<Cause> causes;    // largest loss first
  std::vector<Cause> largest;   // without causes: the parts with the largest loss, at most three
  Advice advice = {"", ""};     // of kUniform and kMoreWork without causes; causes have their own
  int64_t joint_saving_ns = 0;  // of all causes together: not the sum
  std::vector<Drag> drags;      // of the longest segments, at most three; only for slow requests
  // The excess in no cause: latency - typical = common + causes + rest. Unless kUniform, causes include their
  // common_ns.
  int64_t rest_ns = 0;
  // Parts in the rest that are abnormal but not causes: too small, or beyond most_causes.
  uint32_t unnamed = 0;
  int64_t unnamed_ns = 0;

  // Set if the requests compared with were slow, too: half of the `like` requests of its route and size in the trace
  // took at most `like_median_ns`, and `typical_ns` is at least 1.5 times that. 0: not so.
  uint32_t like = 0;
  int64_t like_median_ns = 0;
  // Set if others were slow at that moment, too: of the `meanwhile` requests of its route and size in flight, at least
  // half (`meanwhile_slow`) lost at least half as much as it did. 0: not so.
  uint32_t meanwhile = 0;
  uint32_t meanwhile_slow = 0;

  // The victim first, each node after its parent; empty if it is not unusual. Without a baseline the excess is all of
  // the latency.
  std::vector<VerdictNode> tree;
  Root root;
  Load load;  // if the root is load
  VerdictStage stage;
};

// Returns the amount of work in a request, for baselines.
PITOT_EXPORT WorkDone WorkOf(const BlameIndex& index, const RequestBlame& blame) noexcept;

// Compares a request with normal ones; `now_ns` decides which of them are fresh. Fills `verdict`.
//
// Threads: any, as long as none changes the baseline.
// Errors: kInvalidArgument (the index was not made, or there is no such row), kResourceExhausted.
// Cost: O(n log n) of the normal requests; for a slow request also O(n) of the trace's requests.
PITOT_EXPORT Status FindVerdict(const BlameIndex& index, const RequestBlame& blame, const Baseline& baseline,
                                int64_t now_ns, const VerdictOptions& options, Verdict* verdict) noexcept;

// Results of LearnBaseline for a trace, so that no request is walked twice when several are asked about.
class PITOT_EXPORT Learned {
 public:
  Learned() noexcept;
  ~Learned();
  Learned(Learned&& other) noexcept;
  Learned& operator=(Learned&& other) noexcept;

  struct Data;
  std::unique_ptr<Data> data;  // null until first use; about 250 bytes per request
  // Reason why the last request asked about has fewer than `least` to compare with, if losses in the time of others are
  // the reason; otherwise "".
  std::string why_few;
  // Reliable results by id, from earlier traces of this process as well; those of this trace are added. Windows of
  // incidents that follow each other overlap. Null: none.
  std::unordered_map<uint64_t, BaselineRow>* known = nullptr;
};

// Adds requests of the trace to `baseline` for comparison with the request of that row, if no baseline was kept. They
// ended well, and no trigger fired for them. First come the 512 of its route and size that ended nearest to it. If
// their median is over 1.5 times that of all, 512 from all over the trace are taken. If these are fewer than
// `options.least`, others of its route follow, then any. Requests without a reliable walk are left out. `learned`
// (null: nothing is kept) belongs to this index alone.
// Errors: as FindBlame and Baseline::Add.
// Cost: a walk of each request not learned yet; with `learned`, O(n log n) of the trace's requests once.
PITOT_EXPORT Status LearnBaseline(const BlameIndex& index, uint32_t request, const VerdictOptions& options,
                                  Baseline* baseline, Learned* learned = nullptr) noexcept;

// Describes one part: "behind request 0000000000008f0c (/segment, 13.8 ms)", "cudaMalloc in \"forward\" on executor".
// Throws std::bad_alloc.
PITOT_EXPORT std::string EvidenceText(const BlameIndex& index, const RequestBlame& blame, const Cause& cause);
// The verdict in one sentence: the victim, what happened to it, the root, and whose it is. Throws std::bad_alloc.
PITOT_EXPORT std::string VerdictSentence(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict);
// The verdict in one line: "waited 69.1 ms for lock "cache", held by request 0000000000008690 (/classify) (host_lock
// +69.2 ms, 95 %)". Throws std::bad_alloc.
PITOT_EXPORT std::string VerdictLine(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict);
// The tree in words, each line after its parent, without the victim. Throws std::bad_alloc.
struct TreeLine {
  uint32_t node = 0;  // a place in Verdict::tree
  size_t depth = 0;
  int64_t tenths = 0;  // of a ms; those of children add up to their parent's
  std::string text;
  const char* category = "";  // of a part
};
PITOT_EXPORT std::vector<TreeLine> TreeLines(const BlameIndex& index, const RequestBlame& blame,
                                             const Verdict& verdict);
// The verdict for people. Words are wrapped at `columns`; rows of tables have at most 100. Throws std::bad_alloc.
PITOT_EXPORT std::string VerdictText(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                                     size_t columns = 100);
// The same for programs, in whole ns, with the `drift_count` routes that are slower as a whole (pitot/analyze/drift.h).
// docs/reference/formats/json.md describes the fields. Throws std::bad_alloc.
PITOT_EXPORT std::string VerdictJson(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                                     const Drift* drifts = nullptr, size_t drift_count = 0);

}  // namespace analyze
PITOT_NAMESPACE_END

#endif  // PITOT_ANALYZE_VERDICT_H_
