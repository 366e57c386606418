// SPDX-License-Identifier: Apache-2.0
//
// A06: are there many copies that are too small? A copy takes t0 + bytes / bandwidth. Below t0 x bandwidth it is mostly
// t0, and several would have cost hardly more than one.
#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/subjects.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a06 {
namespace {

using facts::Add;
using facts::AddNumber;
using facts::Conclude;
using facts::CopiesOf;
using facts::DevicesAtWork;
using facts::DirectionOf;
using facts::GpuName;
using facts::InfoOf;
using facts::IsTransfer;
using facts::Judged;
using facts::Longest;
using facts::SeverityOf;
using facts::Share;
using facts::TimeOf;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"copies_per_second", 100, "1", "pitot"},
    {"copies_per_request", 5, "1", "pitot"},  // more than this counts as often, too
    {"exposed_share", 0.05, "1", "pitot"},
    {"start", 10000, "ns", "pitot, without large copies"},
    {"bandwidth", 25, "bytes/ns", "PCIe 4 x16, without large copies"},
};

constexpr uint64_t kTinyBytes = 4096, kLargeBytes = 1 << 20;

// The time of copies in one direction.
struct Line {
  double start_ns = 0, bytes_per_ns = 0;
  double Knee() const { return start_ns * bytes_per_ns; }
};

class SmallCopies final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a06", "many small copies", kThresholds); }

  Status Run(Analysis& analysis) override {
    for (const uint32_t device : DevicesAtWork(analysis.trace())) {
      std::map<std::string_view, std::vector<uint32_t>> directions;
      for (const uint32_t row : CopiesOf(analysis, device)) {
        const bool has_size = analysis.trace().gpu.bytes[row] != 0;  // ROCm's copies in PyTorch's traces have none
        if (has_size && IsTransfer(analysis.trace(), row))
          directions[DirectionOf(analysis.trace(), row)].push_back(row);
      }
      for (const auto& [direction, rows] : directions)
        OfDirection(analysis, device, GpuName(analysis.trace(), device) + " " + std::string(direction), rows);
      if (analysis.IsOver()) break;
    }
    return Status();
  }

 private:
  // Fits the line by the fastest of each size, because a copy may wait for others on the way.
  static Line Fit(Analysis& analysis, const std::vector<uint32_t>& rows) {
    const model::GpuColumns& gpu = analysis.trace().gpu;
    Line line = {analysis.threshold("start").value, analysis.threshold("bandwidth").value};
    double fastest_ns = 0, widest = 0;
    for (const uint32_t row : rows) {
      const auto ns = static_cast<double>(std::max<int64_t>(1, gpu.duration_ns[row]));
      if (gpu.bytes[row] <= kTinyBytes && (fastest_ns == 0 || ns < fastest_ns)) fastest_ns = ns;
      if (gpu.bytes[row] >= kLargeBytes) widest = std::max(widest, static_cast<double>(gpu.bytes[row]) / ns);
    }
    // The device's part; the host's is the time of the call, and the threshold stands for it.
    if (fastest_ns > 0) line.start_ns = std::max(line.start_ns, fastest_ns);
    if (widest > 0) line.bytes_per_ns = widest;
    return line;
  }

  // The small copies of one direction.
  struct Small {
    std::vector<uint32_t> rows;
    uint64_t bytes = 0, of_requests = 0;
    uint64_t runs = 0;            // with nothing else of the stream between their copies
    std::vector<Interval> times;  // of copies and their calls
    Longest longest{EvidenceTable::kGpu, "a small copy"};
  };
  static Small SmallOf(const Trace& trace, const std::vector<uint32_t>& rows, const Line& line) {
    Small small;
    for (const uint32_t row : rows) {
      if (static_cast<double>(trace.gpu.bytes[row]) >= line.Knee()) continue;
      // The stream's work in between may need the copy before, or make the next one's data.
      const bool goes_on = !small.rows.empty() && small.rows.back() + 1 == row &&
                           trace.gpu.stream[small.rows.back()] == trace.gpu.stream[row];
      small.runs += goes_on ? 0 : 1;
      small.rows.push_back(row);
      small.bytes += trace.gpu.bytes[row];
      small.times.push_back(TimeOf(trace, row));
      const uint32_t call = trace.gpu.call[row];
      if (call != kNone) small.times.push_back({trace.calls.begin_ns[call], trace.CallEnd(call)});
      small.of_requests += !model::IsNobodys(trace, row);
      small.longest.Show(row, TimeOf(trace, row));
    }
    return small;
  }

  // How often small copies came, and their time that nothing hid.
  struct Rate {
    double a_second, a_request;
    int64_t exposed_ns;
    double exposed_share;
  };

  static void OfDirection(Analysis& analysis, uint32_t device, const std::string& subject,
                          const std::vector<uint32_t>& rows) {
    const Trace& trace = analysis.trace();
    const Line line = Fit(analysis, rows);
    const Small small = SmallOf(trace, rows, line);
    uint64_t bytes = 0;
    for (const uint32_t row : rows) bytes += trace.gpu.bytes[row];
    const Rate rate = RateOf(analysis, device, small);
    AddNumber(analysis, "copies", subject, static_cast<double>(rows.size()));
    AddNumber(analysis, "bytes", subject, static_cast<double>(bytes), "bytes");
    AddNumber(analysis, "small_below", subject, line.Knee(), "bytes");
    AddNumber(analysis, "small_copies", subject, static_cast<double>(small.rows.size()));
    AddNumber(analysis, "small_copies_per_second", subject, rate.a_second);
    AddNumber(analysis, "small_copies_in_runs", subject, static_cast<double>(small.runs));
    if (!trace.requests.empty()) AddNumber(analysis, "small_copies_a_request", subject, rate.a_request);
    Add(analysis, "small_copies_exposed", subject, rate.exposed_ns);
    Judge(analysis, subject, line, small, rate);
  }

  static Rate RateOf(Analysis& analysis, uint32_t device, const Small& small) {
    const Trace& trace = analysis.trace();
    const model::IntervalSets& sets = analysis.indexes().sets;
    // The device's own computing hides the time of copies and their calls.
    const Intervals exposed = Difference(Union(small.times), sets.Gpu(device, model::GpuClass::kCompute));
    const int64_t window_ns = trace.window_end_ns - trace.window_begin_ns, exposed_ns = TotalNs(exposed);
    const double rate =
        window_ns == 0 ? 0 : static_cast<double>(small.rows.size()) * 1e9 / static_cast<double>(window_ns);
    const double a_request = trace.requests.empty()
                                 ? 0
                                 : static_cast<double>(small.of_requests) / static_cast<double>(trace.requests.size());
    return {rate, a_request, exposed_ns, Share(exposed_ns, window_ns)};
  }

  static void Judge(Analysis& analysis, const std::string& subject, const Line& line, const Small& small,
                    const Rate& rate) {
    const Threshold least = analysis.threshold("exposed_share");
    const bool is_often = rate.a_second >= analysis.threshold("copies_per_second").value ||
                          rate.a_request > analysis.threshold("copies_per_request").value;
    if (!is_often || rate.exposed_share < least.value) return;
    // Copies with nothing else between them on their stream become one: a start for each such run, and the bytes.
    const double at_once_ns =
        static_cast<double>(small.runs) * line.start_ns + static_cast<double>(small.bytes) / line.bytes_per_ns;
    const std::string summary =
        base::Count(small.rows.size()) + " small copies, " + base::Format("%.0f", rate.a_second) + " a second, of " +
        base::Bytes(small.bytes / std::max<size_t>(1, small.rows.size())) + " on average, took " +
        base::Duration(rate.exposed_ns) + " not hidden by computing, with their calls";
    const std::string advice =
        small.runs < small.rows.size()
            ? "Gather consecutive copies in pinned memory: as " +
                  (small.runs == 1 ? "one copy" : base::Count(small.runs) + " copies") + " they take about " +
                  base::Duration(static_cast<int64_t>(std::min(at_once_ns, 9e18))) + ". Or make the data on the device."
            : "Other work of the stream lies between any two: make one copy ahead of it, or make the data on the "
              "device.";
    Conclude(analysis,
             Judged("a06.small_copies", subject.c_str(), "small copies and their calls, exposed / window",
                    rate.exposed_share, least),
             {.severity = SeverityOf(rate.exposed_share, least.value),
              .confidence = 0.85,
              .cost_ns = rate.exposed_ns,
              .summary = summary,
              .recommendation = advice},
             small.longest);
  }
};

}  // namespace
}  // namespace a06

std::unique_ptr<Analyzer> MakeSmallCopies() { return std::make_unique<a06::SmallCopies>(); }

}  // namespace pitot::catalogue
