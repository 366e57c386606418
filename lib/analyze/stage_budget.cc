// SPDX-License-Identifier: Apache-2.0
//
// A30: can requests be as fast as they are to be, and by what? Each lever shortens some parts of the mean request; what
// levers save is worked out one after the other, on what the ones before have left, so that nothing is saved twice.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "analyze/catalogue.h"
#include "analyze/serving.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

constexpr Threshold kThresholds[] = {
    {"least_requests", 20, "1", "pitot"},
    {"target", 0, "ns", "pitot"},          // what the mean latency is to be; 0: nobody said
    {"kernel_speedup", 2, "1", "pitot"},   // of kernels in half the precision: a bound where memory limits them
    {"least_saving", 0.01, "1", "pitot"},  // of the latency: less is no lever
};

using Means = std::array<double, kBlames>;

double& At(Means* means, Blame blame) { return (*means)[static_cast<uint32_t>(blame)]; }
double Total(const Means& means) {
  double total = 0;
  for (const double part : means) total += part;
  return total;
}

struct Lever {
  const char* name;
  const char* text;
  void (*pull)(Means*, double kernel_speedup);
};

void Clear(Means* means, std::initializer_list<Blame> blames) {
  for (const Blame blame : blames) At(means, blame) = 0;
}
// Of two that can go on at once only the longer remains.
void Overlap(Means* means, Blame hidden, double beside_ns) {
  At(means, hidden) = std::max(0.0, At(means, hidden) - beside_ns);
}
double GpuOf(Means* means) { return At(means, Blame::kGpuExecExpected) + At(means, Blame::kGpuExcessUnknown); }

constexpr Lever kLevers[] = {
    {"no_batch_window", "close batches as soon as an executor is free",
     [](Means* m, double) { Clear(m, {Blame::kBatchWindow}); }},
    {"more_capacity", "more executors or fewer neighbours: no waiting behind others",
     [](Means* m, double) {
       Clear(m, {Blame::kQueueWaitOthers, Blame::kExecutorBusy, Blame::kGpuQueueWaitOthers, Blame::kGpuContention,
                 Blame::kAdmissionQueue});
     }},
    {"wake_sooner", "hand over to threads that are awake: fewer hops, spinning, a higher priority",
     [](Means* m, double) {
       Clear(m, {Blame::kHandoff, Blame::kSyncReturn});
     }},
    {"warm_up", "load and compile code before the first request",
     [](Means* m, double) { Clear(m, {Blame::kLazyLoadJit}); }},
    {"pool_memory", "allocate before the first request, and keep it",
     [](Means* m, double) { Clear(m, {Blame::kAllocStall}); }},
    {"graphs", "launch CUDA graphs in place of single kernels",
     [](Means* m, double) {
       Clear(m, {Blame::kLaunchApi, Blame::kLaunchLatency, Blame::kDispatchGap, Blame::kLaunchQueueFull});
     }},
    {"shard_locks", "hold no lock that requests share",
     [](Means* m, double) {
       Clear(m, {Blame::kHostLock, Blame::kHostGil});
     }},
    {"overlap_copies", "copy while computing: pinned memory, a stream of its own, two buffers",
     [](Means* m, double) {
       Overlap(m, Blame::kH2d, GpuOf(m));
       Overlap(m, Blame::kD2h, GpuOf(m));
     }},
    {"preprocess_on_gpu", "prepare inputs on the GPU, or the next one's while this one computes",
     [](Means* m, double) { Overlap(m, Blame::kHostOncpuPre, GpuOf(m)); }},
    {"postprocess_on_gpu", "finish outputs on the GPU, or beside the next one's work",
     [](Means* m, double) { Overlap(m, Blame::kHostOncpuPost, GpuOf(m)); }},
    {"lower_precision", "compute in half the precision",
     [](Means* m, double speedup) { At(m, Blame::kGpuExecExpected) /= speedup; }},
};

class StageBudget final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a30", "what it takes to be fast enough", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Walks* const walks = analysis.walks();
    if (walks == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
    const double least = std::max(1.0, analysis.threshold("least_requests").value);
    for (const auto& [route, blames] : WalksByRoute(analysis.trace(), *walks, least)) Plan(analysis, route, blames);
    return Status();
  }

 private:
  static void Plan(Analysis& analysis, const std::string& route, const std::vector<const RequestBlame*>& blames) {
    Means means{};
    for (const RequestBlame* blame : blames) {
      for (uint32_t k = 0; k < kBlames; ++k)
        means[k] += static_cast<double>(blame->blame.ns[k]) / static_cast<double>(blames.size());
    }
    const double now_ns = Total(means), speedup = std::max(1.0, analysis.threshold("kernel_speedup").value);
    const double least_ns = now_ns * analysis.threshold("least_saving").value;
    const Threshold target = analysis.threshold("target");
    Add(analysis, "mean latency", route, std::llround(now_ns));
    for (const Lever& lever : kLevers) {
      Means with = means;
      lever.pull(&with, speedup);
      if (now_ns - Total(with) >= least_ns)
        Add(analysis, (std::string(lever.name) + " alone saves").c_str(), route, std::llround(now_ns - Total(with)));
    }
    // The fewest levers: the one that saves most of what is left, again and again.
    std::string plan;
    bool is_reached = target.value <= 0 || now_ns <= target.value;
    const bool was_reached = is_reached;
    Means left = means, floor = means;
    for (const Lever& lever : kLevers) lever.pull(&floor, speedup);
    Add(analysis, "least latency", route, std::llround(Total(floor)));
    while (!is_reached) {
      const Lever* best = nullptr;
      Means after = left;
      for (const Lever& lever : kLevers) {
        Means with = left;
        lever.pull(&with, speedup);
        if (Total(left) - Total(with) >= least_ns && Total(with) < Total(after)) best = &lever, after = with;
      }
      if (best == nullptr) break;
      plan += (plan.empty() ? "" : "; then ") + std::string(best->text) + " (saves up to " +
              base::Duration(std::llround(Total(left) - Total(after))) + ")";
      left = after;
      is_reached = Total(left) <= target.value;
    }
    if (was_reached) return;
    Say(analysis, route, target, now_ns, Total(left), is_reached, plan, blames);
  }

  static void Say(Analysis& analysis, const std::string& route, const Threshold& target, double now_ns, double left_ns,
                  bool is_reached, const std::string& plan, const std::vector<const RequestBlame*>& blames) {
    const std::string to = base::Duration(std::llround(target.value));
    const std::string summary = "requests take " + base::Duration(std::llround(now_ns)) + ", and are to take " + to +
                                (is_reached ? ": within reach, " + base::Duration(std::llround(left_ns)) + " at best"
                                            : ": out of reach, " + base::Duration(std::llround(left_ns)) +
                                                  " is the least that known levers leave");
    const std::string advice =
        (plan.empty() ? std::string("no known lever helps") : plan) +
        (is_reached ? ""
                    : "; beyond that a smaller model, a faster GPU or smaller inputs, and code that is faster itself");
    Finding finding =
        Judged(is_reached ? "a30.plan" : "a30.unreachable", route.c_str(), "mean latency", now_ns, target);
    finding.severity = is_reached ? Severity::kMedium : Severity::kHigh;
    finding.confidence = is_reached ? 0.6 : 0.8;  // savings are upper bounds: what they do not reach nothing does
    finding.cost_ns = std::llround((now_ns - target.value) * static_cast<double>(blames.size()));
    finding.summary = summary.c_str();
    finding.recommendation = advice.c_str();
    const Evidence evidence = RequestEvidence(analysis.trace(), blames[blames.size() / 2]->request, "one of them");
    finding.evidence = &evidence;
    finding.evidence_count = 1;
    analysis.Add(finding);
  }
};

}  // namespace

std::unique_ptr<Analyzer> MakeStageBudget() { return std::make_unique<StageBudget>(); }

}  // namespace analyze
PITOT_NAMESPACE_END
