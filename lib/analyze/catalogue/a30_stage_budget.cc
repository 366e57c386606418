// SPDX-License-Identifier: Apache-2.0
//
// A30: can requests reach their target latency, and how? Each lever shortens some parts of the mean request. Savings
// are computed one lever after the other, on the time left by the ones before, so nothing is saved twice. Levers can
// spoil each other (a faster GPU hides less), so all sets of them are tried.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/catalogue/serving.h"
#include "analyze/facts/evidence.h"

namespace pitot::catalogue {
namespace a30 {
namespace {

using facts::Add;
using facts::Conclude;
using facts::InfoOf;
using facts::Judged;

constexpr Threshold kThresholds[] = {
    {"least_requests", 20, "1", "pitot"},
    {"target", 0, "ns", "pitot"},          // the target of the mean latency; 0: none
    {"kernel_speedup", 2, "1", "pitot"},   // of kernels in half the precision: a bound where memory limits them
    {"least_saving", 0.01, "1", "pitot"},  // of the latency: less is not a lever
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
// Keeps only the longer of two parts that can go on at once.
void Overlap(Means* means, Blame hidden, double beside_ns) {
  At(means, hidden) = std::max(0.0, At(means, hidden) - beside_ns);
}
double GpuOf(Means* means) { return At(means, Blame::kGpuExecExpected) + At(means, Blame::kGpuExcessUnknown); }

// In the order in which they apply: shorter computing comes before hiding behind it.
constexpr Lever kLevers[] = {
    {"lower_precision", "compute in half the precision",
     [](Means* m, double speedup) { At(m, Blame::kGpuExecExpected) /= speedup; }},
    {"no_batch_window", "close batches as soon as an executor is free",
     [](Means* m, double) { Clear(m, {Blame::kBatchWindow}); }},
    {"more_capacity", "add executors or remove neighbours, to wait behind no others",
     [](Means* m, double) {
       Clear(m, {Blame::kQueueWaitOthers, Blame::kExecutorBusy, Blame::kGpuQueueWaitOthers, Blame::kGpuContention,
                 Blame::kAdmissionQueue});
     }},
    {"wake_sooner", "hand over to waking threads: fewer hops, spinning, a higher priority",
     [](Means* m, double) {
       Clear(m, {Blame::kHandoff, Blame::kSyncReturn});
     }},
    {"warm_up", "load and compile code before the first request",
     [](Means* m, double) { Clear(m, {Blame::kLazyLoadJit}); }},
    {"pool_memory", "allocate before the first request, and keep it",
     [](Means* m, double) { Clear(m, {Blame::kAllocStall}); }},
    {"graphs", "launch CUDA graphs instead of single kernels",
     [](Means* m, double) {
       Clear(m, {Blame::kLaunchApi, Blame::kLaunchLatency, Blame::kDispatchGap, Blame::kLaunchQueueFull});
     }},
    {"shard_locks", "hold no lock shared by requests",
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
    {"postprocess_on_gpu", "finish outputs on the GPU, or during the next one's work",
     [](Means* m, double) { Overlap(m, Blame::kHostOncpuPost, GpuOf(m)); }},
};
constexpr uint32_t kSets = 1u << std::size(kLevers);  // one bit a lever

class StageBudget final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a30", "ways to reach the latency target", kThresholds); }

  Status Run(Analysis& analysis) override {
    const Walks* const walks = analysis.walks();
    if (walks == nullptr) return Status(StatusCode::kResourceExhausted, "no memory");
    const double least = std::max(1.0, analysis.threshold("least_requests").value);
    for (const auto& [route, blames] : WalksByRoute(analysis.trace(), *walks, least)) {
      if (analysis.IsOver()) break;
      Plan(analysis, route, blames);
    }
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
    uint32_t useful = 0;  // a lever that saves nothing by itself saves nothing with others
    for (uint32_t k = 0; k < std::size(kLevers); ++k) {
      const double saved_ns = now_ns - Total(With(means, 1u << k, speedup));
      if (saved_ns < least_ns) continue;
      useful |= 1u << k;
      Add(analysis, (std::string(kLevers[k].name) + " alone saves").c_str(), route, std::llround(saved_ns));
    }
    double fastest_ns = now_ns;
    for (uint32_t set = 0; set < kSets; ++set) {
      if ((set & ~useful) == 0) fastest_ns = std::min(fastest_ns, Total(With(means, set, speedup)));
    }
    Add(analysis, "least latency", route, std::llround(fastest_ns));
    if (target.value <= 0 || now_ns <= target.value) return;
    // The fewest levers that reach it, with the largest saving; if none do, those that come as near as any.
    const bool is_reached = fastest_ns <= target.value;
    const double enough_ns = is_reached ? target.value : fastest_ns + least_ns;
    uint32_t best = useful;
    double left_ns = Total(With(means, useful, speedup));
    for (uint32_t set = 0; set < kSets; ++set) {
      const double total_ns = Total(With(means, set, speedup));
      if ((set & ~useful) != 0 || total_ns > enough_ns) continue;
      const int fewer = __builtin_popcount(best) - __builtin_popcount(set);
      if (left_ns > enough_ns || fewer > 0 || (fewer == 0 && total_ns < left_ns)) best = set, left_ns = total_ns;
    }
    std::string plan;
    for (uint32_t k = 0; k < std::size(kLevers); ++k) {
      if ((best >> k & 1) == 0) continue;
      const double saved_ns =
          Total(With(means, best & ((1u << k) - 1), speedup)) - Total(With(means, best & ((2u << k) - 1), speedup));
      plan += (plan.empty() ? "" : "; then ") + std::string(kLevers[k].text) + " (saves up to " +
              base::Duration(std::llround(saved_ns)) + ")";
    }
    Say(analysis, route, target, now_ns, left_ns, is_reached, plan, blames);
  }

  static Means With(Means means, uint32_t set, double speedup) {
    for (uint32_t k = 0; k < std::size(kLevers); ++k) {
      if ((set >> k & 1) != 0) kLevers[k].pull(&means, speedup);
    }
    return means;
  }

  static void Say(Analysis& analysis, const std::string& route, const Threshold& target, double now_ns, double left_ns,
                  bool is_reached, const std::string& plan, const std::vector<const RequestBlame*>& blames) {
    const std::string to = base::Duration(std::llround(target.value));
    const std::string summary =
        "requests take " + base::Duration(std::llround(now_ns)) + "; the target is " + to +
        (is_reached ? ": within reach, " + base::Duration(std::llround(left_ns)) + " at best"
                    : ": out of reach, known levers leave " + base::Duration(std::llround(left_ns)) + " at least");
    std::string advice = plan.empty() ? std::string("No known lever helps") : plan;
    advice[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(advice[0])));
    advice += is_reached ? "." : "; beyond that, use a smaller model, a faster GPU, smaller inputs or faster code.";
    const Evidence evidence = RequestEvidence(analysis.trace(), blames[blames.size() / 2]->request, "one of them");
    Conclude(analysis,
             Judged(is_reached ? "a30.plan" : "a30.unreachable", route.c_str(), "mean latency", now_ns, target),
             {.severity = is_reached ? Severity::kMedium : Severity::kHigh,
              .confidence = is_reached ? 0.6 : 0.8,  // savings are upper bounds: a target beyond them is out of reach
              .cost_ns = std::llround((now_ns - target.value) * static_cast<double>(blames.size())),
              .summary = summary,
              .recommendation = advice},
             evidence);
  }
};

}  // namespace
}  // namespace a30

std::unique_ptr<Analyzer> MakeStageBudget() { return std::make_unique<a30::StageBudget>(); }

}  // namespace pitot::catalogue
