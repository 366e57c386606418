// SPDX-License-Identifier: Apache-2.0
//
// A22: does a use of the framework have a cheaper way? Values read back one by one, the allocator's cache emptied for
// each request, softmax on the CPU. Tensors made there and copied, autograd in a server, sizes unsuited to tensor
// cores. Some need recorded operators and shapes (depth `ops`, TorchOptions::shapes).
#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/operator_patterns.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/subjects.h"

namespace pitot::catalogue {
namespace a22 {
namespace {

using facts::Accumulate;
using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::DirectionOf;
using facts::EachOf;
using facts::FindOperatorPatterns;
using facts::InfoOf;
using facts::Judged;
using facts::kAll;
using facts::Longest;
using facts::OperatorPatterns;
using facts::Pattern;
using facts::Percent;
using facts::SeverityOf;
using facts::Share;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"readback_bytes", 8, "bytes", "pitot"}, {"least", 10, "1", "PyTorch"},  // repeats of PyTorch's for-loop pattern
    {"readback_share", 0.01, "1", "pitot"},  {"emptying_share", 0.5, "1", "pitot"},
    {"least_requests", 5, "1", "pitot"},     {"host_share", 0.02, "1", "pitot"},
    {"copied_share", 0.005, "1", "pitot"},   {"autograd_share", 0.1, "1", "pitot"},
    {"unaligned_share", 0.05, "1", "pitot"},
};

// A pattern's numbers, and the words for them.
struct Said {
  const char* code;
  const char* metric;
  const char* threshold;
  double value;
  Severity severity;
  double confidence;
  int64_t cost_ns;
  std::string summary;
  const char* advice;
};

class FrameworkPatterns final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a22", "expensive framework patterns", kThresholds); }

  Status Run(Analysis& analysis) override {
    Readbacks(analysis);
    Emptying(analysis);
    if (!analysis.IsOver()) Operators(analysis);
    return Status();
  }

 private:
  static void Say(Analysis& analysis, const Said& said, const Longest& longest) {
    Conclude(analysis, Judged(said.code, kAll, said.metric, said.value, analysis.threshold(said.threshold)),
             {.severity = said.severity,
              .confidence = said.confidence,
              .cost_ns = said.cost_ns,
              .summary = said.summary,
              .recommendation = said.advice},
             longest);
  }
  static double OfWindow(const Trace& trace, int64_t ns) {
    return Share(ns, trace.window_end_ns - trace.window_begin_ns);
  }

  // Copies of a value to the host whose thread waits for them: in the call, or in its next one.
  static void Readbacks(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    const double most_bytes = analysis.threshold("readback_bytes").value;
    const Threshold least = analysis.threshold("readback_share");
    const model::WaitingCalls& waiting = analysis.indexes().waiting;
    std::vector<Interval> times, own;  // the second: after earlier work of the GPU
    facts::EarlierWork earlier(trace);
    Longest longest(EvidenceTable::kCalls, "waited for a value to be read back");
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      const uint32_t call = trace.gpu.call[row];
      const int64_t before_ns = earlier.EndBefore(row);
      if (trace.gpu.kind[row] != model::GpuKind::kMemcpy || call == kNone || trace.gpu.bytes[row] == 0 ||
          static_cast<double>(trace.gpu.bytes[row]) > most_bytes || DirectionOf(trace, row) != "DtoH")
        continue;
      const bool waits_next = call + 1 < trace.calls.size() &&
                              trace.calls.thread[call + 1] == trace.calls.thread[call] &&
                              model::IsSynchronization(trace.strings[trace.calls.name[call + 1]]);
      if (!waits_next && !waiting.Has(call)) continue;
      times.push_back({trace.calls.begin_ns[call], trace.CallEnd(waits_next ? call + 1 : call)});
      longest.Show(call, times.back());
      own.push_back({std::clamp(before_ns, times.back().begin_ns, times.back().end_ns), times.back().end_ns});
    }
    const uint64_t count = times.size();
    const int64_t ns = TotalNs(Union(std::move(times))), own_ns = TotalNs(Union(std::move(own)));
    if (trace.gpu.size() == 0) return;
    AddNumber(analysis, "readbacks", kAll, static_cast<double>(count));
    Add(analysis, "in_readbacks", kAll, ns);
    const double share = OfWindow(trace, ns);
    if (static_cast<double>(count) < analysis.threshold("least").value || share < least.value) return;
    Say(analysis,
        {"a22.scalar_readback", "in readbacks of single values / window", "readback_share", share,
         OfWindow(trace, own_ns) < least.value ? Severity::kInfo : SeverityOf(OfWindow(trace, own_ns), 5 * least.value),
         0.9, own_ns,
         base::Plural(count, "single value") +
             " read back from GPUs (.item(), a tensor as a condition); threads spent " + base::Duration(ns) +
             " in these copies and their waits, " + base::Duration(own_ns) + " of it after the GPU's earlier work",
         "Keep values on the GPU, or read many back at once, after launching the next work."},
        longest);
  }

  // Calls that free device memory, by the request or batch of their context.
  static void Emptying(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    std::vector<int8_t> frees(trace.strings.size(), -1);
    std::set<std::pair<uint32_t, uint32_t>> all, freeing;
    std::vector<Interval> times;
    Longest longest(EvidenceTable::kCalls, "device memory was freed");
    for (const uint32_t call : EachOf(analysis, trace.calls.size())) {
      const uint32_t batch = trace.calls.batch[call];
      const std::pair context = {batch, batch != kNone ? kNone : trace.calls.request[call]};
      if (context == std::pair(kNone, kNone)) continue;
      all.insert(context);
      int8_t& known = frees[trace.calls.name[call]];
      if (known < 0) {
        const std::string_view name = trace.strings[trace.calls.name[call]];
        known = name == "cudaFree" || name == "hipFree" || name.substr(0, 9) == "cuMemFree";
      }
      if (known == 0) continue;
      freeing.insert(context);
      times.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
      longest.Show(call, times.back());
    }
    const Threshold most = analysis.threshold("emptying_share");
    if (static_cast<double>(all.size()) < analysis.threshold("least_requests").value) return;
    const double share = static_cast<double>(freeing.size()) / static_cast<double>(all.size());
    if (share < most.value) return;
    const int64_t ns = TotalNs(Union(std::move(times)));
    Say(analysis,
        {"a22.empty_cache", "requests and batches freeing device memory", "emptying_share", share, Severity::kMedium,
         0.85, ns,
         base::Count(freeing.size()) + " of " + base::Count(all.size()) +
             " requests and batches freed device memory in the driver, in " + base::Duration(ns),
         "Do not call empty_cache() per request: the cache exists to avoid cudaMalloc and cudaFree (a24)."},
        longest);
  }

  static void Operators(Analysis& analysis) {
    const Trace& trace = analysis.trace();
    OperatorPatterns found = FindOperatorPatterns(trace, analysis.indexes());
    const double least = analysis.threshold("least").value;
    int64_t gpu_ns = 0;
    for (const int64_t ns : trace.gpu.duration_ns) Accumulate(&gpu_ns, ns);

    const auto time_in = [](Pattern* of) { return TotalNs(Union(std::move(of->times))); };
    const int64_t host_ns = time_in(&found.on_host), copied_ns = time_in(&found.copied);
    // In a program without a GPU the CPU is the place for it.
    if (const double share = OfWindow(trace, host_ns); gpu_ns > 0 && share >= analysis.threshold("host_share").value) {
      Say(analysis,
          {"a22.host_softmax", "in them / window", "host_share", share, Severity::kLow, 0.7, host_ns,
           base::Count(found.on_host.count) + " calls of softmax, argmax, topk and sort ran on the CPU, for " +
               base::Duration(host_ns) + ", in a program with a GPU",
           "Choose on the GPU, and copy only the choice."},
          found.on_host.longest);
    }
    if (const double share = OfWindow(trace, copied_ns);
        static_cast<double>(found.copied.count) >= least && share >= analysis.threshold("copied_share").value) {
      Say(analysis,
          {"a22.extra_copy", "in them / window", "copied_share", share, Severity::kLow, 0.8, copied_ns,
           base::Plural(found.copied.count, "tensor") + " made on the CPU and then copied to the GPU, in " +
               base::Duration(copied_ns),
           "Make tensors where they are used: pass device= to zeros, full and rand."},
          found.copied.longest);
    }
    if (const double share = Share(found.unaligned_gpu_ns, gpu_ns);
        share >= analysis.threshold("unaligned_share").value) {
      Say(analysis,
          {"a22.unaligned_product", "GPU time of such products / GPU time", "unaligned_share", share, Severity::kLow,
           0.6, found.unaligned_gpu_ns,
           base::Plural(found.unaligned.count, "product") + " of halves have a size not divisible by 8",
           "Pad these sizes to multiples of 8: tensor cores need that for full speed."},
          found.unaligned.longest);
    }
    if (found.operators_of_requests == 0) return;
    const double share = static_cast<double>(found.autograd.count) / static_cast<double>(found.operators_of_requests);
    AddNumber(analysis, "operators_under_autograd", kAll, share);
    if (share < analysis.threshold("autograd_share").value) return;
    Say(analysis,
        {"a22.autograd_on", "operators of requests followed by autograd", "autograd_share", share, Severity::kLow, 0.9,
         0, Percent(share) + " of the requests' operators are followed by autograd, for a backward pass",
         "Run requests in inference mode (c10::InferenceMode, torch.inference_mode). Each operator then needs less "
         "time "
         "and memory; the amount is not known."},
        found.autograd.longest);
  }
};

}  // namespace
}  // namespace a22

std::unique_ptr<Analyzer> MakeFrameworkPatterns() { return std::make_unique<a22::FrameworkPatterns>(); }

}  // namespace pitot::catalogue
