// SPDX-License-Identifier: Apache-2.0
//
// A08: is it copies rather than computing? Counts, in a device's working time, copies from and to the host not hidden
// by computing. Idle time is a04's. The cost of a first call is not counted here, or small programs would look bound by
// work they do once.
#include <string>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a08 {
namespace {

using facts::Add;
using facts::Conclude;
using facts::CopiesOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::InfoOf;
using facts::IsTransfer;
using facts::Judged;
using facts::Longest;
using facts::Percent;
using facts::Share;
using facts::TimeOf;
using model::GpuClass;
using model::Interval;
using model::Intervals;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"bound_share", 0.5, "1", "pitot"},
    {"heavy_share", 0.3, "1", "XProf"},
    {"copies_to_kernels", 2, "1", "pitot"},
};

class TransferBound final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a08", "copies versus computing", kThresholds); }

  Status Run(Analysis& analysis) override {
    ForDevicesAtWork(analysis, [&](uint32_t device) { OfDevice(analysis, device); });
    return Status();
  }

 private:
  static void OfDevice(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    const model::IntervalSets& sets = analysis.indexes().sets;
    std::vector<Interval> times;
    Longest longest(EvidenceTable::kGpu, "a copy");
    for (const uint32_t row : CopiesOf(analysis, device)) {
      if (!IsTransfer(trace, row)) continue;
      times.push_back(TimeOf(trace, row));
      longest.Show(row, times.back());
    }
    if (times.empty()) return;
    const Intervals copies = Union(std::move(times)), computing = sets.Gpu(device, GpuClass::kCompute);
    const Intervals exposed = Difference(Difference(copies, computing), sets.Gpu(device, GpuClass::kCommunication));
    const int64_t busy_ns = TotalNs(DeviceBusy(trace, device)), exposed_ns = TotalNs(exposed);
    const int64_t copies_ns = TotalNs(copies), computing_ns = TotalNs(computing);
    const double share = Share(exposed_ns, busy_ns);
    const std::string subject = GpuName(trace, device);
    Add(analysis, "transfers", subject, copies_ns);
    Add(analysis, "exposed_transfers", subject, exposed_ns);
    Add(analysis, "computing", subject, computing_ns);

    const Threshold bound = analysis.threshold("bound_share"), heavy = analysis.threshold("heavy_share");
    const bool is_bound =
        share >= bound.value && static_cast<double>(copies_ns) >=
                                    analysis.threshold("copies_to_kernels").value * static_cast<double>(computing_ns);
    if (!is_bound && share < heavy.value) return;
    const std::string summary = "copies from and to the host were " + Percent(share) +
                                " of its work, not hidden by computing: " + base::Duration(copies_ns) +
                                " of copies against " + base::Duration(computing_ns) + " of kernels";
    // Both at once take as long as the longer.
    const std::string advice =
        copies_ns > computing_ns
            ? "Keep data on the device between steps, or copy less: overlap alone leaves " +
                  base::Duration(copies_ns - computing_ns) + "."
            : std::string("Copy on a second stream from pinned memory while the kernels run: they can hide all of it.");
    Conclude(analysis,
             Judged(is_bound ? "a08.transfer_bound" : "a08.transfer_heavy", subject.c_str(),
                    "exposed transfers / time at work", share, is_bound ? bound : heavy),
             {.severity = is_bound ? Severity::kHigh : Severity::kMedium,
              .confidence = 0.9,
              .cost_ns = exposed_ns,
              .summary = summary,
              .recommendation = advice},
             longest);
  }
};

}  // namespace
}  // namespace a08

std::unique_ptr<Analyzer> MakeTransferBound() { return std::make_unique<a08::TransferBound>(); }

}  // namespace pitot::catalogue
