// SPDX-License-Identifier: Apache-2.0
//
// A20: do launch shapes waste the device? It goes by grid, block, registers and shared memory alone, without counters:
// threads that fill no warp, grids that leave multiprocessors empty, a last wave that does. It follows the
// LaunchConfiguration and TheoreticalOccupancy rules of Nsight Compute. The saving is a bound, for kernels that ran
// alone on their device, because others could fill the empty part. The cost is at most how much shorter the window
// would be: time that the host or another path takes meanwhile is not saved.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "analyze/catalogue/catalogue.h"
#include "analyze/facts/copies.h"
#include "analyze/facts/evidence.h"
#include "analyze/facts/patience.h"
#include "analyze/facts/replay.h"
#include "analyze/facts/subjects.h"
#include "model/kernel_name.h"
#include "model/occupancy.h"
#include "pitot/model/indexes.h"

namespace pitot::catalogue {
namespace a20 {
namespace {

using facts::Accumulate;
using facts::AddNumber;
using facts::Conclude;
using facts::EachOf;
using facts::ForDevicesAtWork;
using facts::GpuName;
using facts::InfoOf;
using facts::Judged;
using facts::Longest;
using facts::Pace;
using facts::Percent;
using facts::Replay;
using facts::SeverityOf;
using facts::Share;
using facts::TimeOf;
using model::Interval;
using model::kNone;
using model::Trace;

constexpr Threshold kThresholds[] = {
    {"cost_share", 0.05, "1", "pitot"},
    {"tail", 0.2, "1", "Nsight Compute"},
    {"occupancy_low", 0.8, "1", "Nsight Compute"},
    {"low_occupancy_share", 0.5, "1", "pitot"},
};

enum Waste : uint32_t { kPartialWarps, kSmallGrid, kTail, kWastes };

// For a launch shape: the share of a kernel's time that each waste may cost, 0 if unknown.
struct Geometry {
  double share[kWastes] = {};
  double occupancy = -1;  // theoretical; negative: unknown
};

double Product(const uint32_t (&sizes)[3]) {
  return static_cast<double>(sizes[0]) * static_cast<double>(sizes[1]) * static_cast<double>(sizes[2]);
}

Geometry GeometryOf(const model::DeviceRow& device, const model::KernelShape& shape, double tail) {
  Geometry geometry;
  const double threads = Product(shape.block), blocks = Product(shape.grid), multiprocessors = device.multiprocessors;
  if (threads == 0 || blocks == 0) return geometry;
  const double threads_per_warp = model::ThreadsPerWarp(device), warps = std::ceil(threads / threads_per_warp);
  geometry.share[kPartialWarps] = 1 - threads / (warps * threads_per_warp);
  if (device.multiprocessors != 0 && blocks < multiprocessors)
    geometry.share[kSmallGrid] = (multiprocessors - blocks) / multiprocessors;
  const double percent = TheoreticalOccupancyPercent(device, shape);
  if (percent == 0 || device.multiprocessors == 0) return geometry;
  geometry.occupancy = percent / 100;
  const double most_warps = std::floor(device.threads_per_multiprocessor / threads_per_warp);
  const double waves = blocks / (multiprocessors * std::max(1.0, std::round(geometry.occupancy * most_warps / warps)));
  // One wave of many is short; of a few it counts.
  if (waves > 1 && waves != std::floor(waves) && 1 / (1 + std::floor(waves)) >= tail)
    geometry.share[kTail] = (std::ceil(waves) - waves) / std::ceil(waves);
  return geometry;
}

struct Wasted {
  double ns = 0;
  std::vector<std::pair<uint32_t, float>> rows;  // the kernels, and the share of each
  std::unordered_map<model::StringId, double> by_kernel;
  Longest longest{EvidenceTable::kGpu, "launched with this shape"};
};

class LaunchGeometry final : public Analyzer {
 public:
  AnalyzerInfo Info() const noexcept override { return InfoOf("a20", "launch shapes", kThresholds); }

  Status Run(Analysis& analysis) override {
    Exposure exposure(analysis);
    ForDevicesAtWork(analysis, [&](uint32_t device) {
      if (device != kNone) OfDevice(analysis, device, &exposure);
    });
    return Status();
  }

 private:
  // How much shorter the window would be without a waste. The replay is prepared at the first question.
  class Exposure {
   public:
    explicit Exposure(const Analysis& analysis) : analysis_(analysis) {}
    int64_t Of(const Wasted& wasted) {
      const Trace& trace = analysis_.trace();
      if (!replay_) replay_.emplace(trace, analysis_.indexes());
      std::vector<double> lengths(trace.gpu.size(), 1);
      for (const auto& [row, share] : wasted.rows) lengths[row] = 1.0 - share;
      Pace pace;
      pace.of_rows = &lengths;
      const int64_t saved_ns = trace.window_end_ns - trace.window_begin_ns - replay_->Run(pace);
      return std::clamp<int64_t>(saved_ns, 0, static_cast<int64_t>(std::min(wasted.ns, 9e18)));
    }

   private:
    const Analysis& analysis_;
    std::optional<Replay> replay_;
  };

  // Kernels of a device while nothing else ran on it.
  static std::vector<uint32_t> Alone(Analysis& analysis, uint32_t device) {
    const Trace& trace = analysis.trace();
    std::vector<uint32_t> rows, alone;
    std::vector<int8_t> communicates(trace.strings.size(), -1);
    for (const uint32_t row : EachOf(analysis, trace.gpu.size())) {
      if (trace.gpu.kind[row] != model::GpuKind::kSpan && trace.streams[trace.gpu.stream[row]].device == device)
        rows.push_back(row);
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [&](uint32_t a, uint32_t b) { return trace.gpu.begin_ns[a] < trace.gpu.begin_ns[b]; });
    int64_t until_ns = INT64_MIN;
    for (size_t i = 0; i < rows.size(); ++i) {
      const Interval time = TimeOf(trace, rows[i]);
      const bool is_alone =
          time.begin_ns >= until_ns && (i + 1 == rows.size() || trace.gpu.begin_ns[rows[i + 1]] >= time.end_ns);
      int8_t& is_communication = communicates[trace.gpu.name[rows[i]]];
      if (is_communication < 0) is_communication = model::IsCommunicationKernel(trace.strings[trace.gpu.name[rows[i]]]);
      // Communication is made to leave room.
      if (is_alone && trace.gpu.shape[rows[i]] != kNone && is_communication == 0) alone.push_back(rows[i]);
      until_ns = std::max(until_ns, time.end_ns);
    }
    return alone;
  }

  static void OfDevice(Analysis& analysis, uint32_t device, Exposure* exposure) {
    const Trace& trace = analysis.trace();
    const double tail = analysis.threshold("tail").value, low = analysis.threshold("occupancy_low").value;
    std::vector<Geometry> geometries;
    for (const model::KernelShape& shape : trace.shapes)
      geometries.push_back(GeometryOf(trace.devices[device], shape, tail));
    Wasted wasted[kWastes], unoccupied;
    int64_t known_ns = 0;
    for (const uint32_t row : Alone(analysis, device)) {
      const Geometry& geometry = geometries[trace.gpu.shape[row]];
      if (geometry.occupancy >= 0) Accumulate(&known_ns, trace.gpu.duration_ns[row]);
      if (geometry.occupancy >= 0 && geometry.occupancy < low) See(trace, row, 1, &unoccupied);
      for (uint32_t waste = 0; waste < kWastes; ++waste) {
        if (geometry.share[waste] <= 0) continue;
        See(trace, row, geometry.share[waste], &wasted[waste]);
        wasted[waste].rows.emplace_back(row, static_cast<float>(geometry.share[waste]));
      }
    }
    const int64_t busy_ns = TotalNs(DeviceBusy(trace, device));
    constexpr const char* kNames[kWastes] = {"partial_warps", "small_grid", "tail"};
    const std::string subject = GpuName(trace, device);
    for (uint32_t waste = 0; waste < kWastes; ++waste) {
      if (wasted[waste].ns == 0) continue;
      AddNumber(analysis, kNames[waste], subject, wasted[waste].ns, "ns");
      Judge(analysis, subject, static_cast<Waste>(waste), wasted[waste], busy_ns, exposure);
    }
    if (known_ns == 0) return;
    AddNumber(analysis, "low_occupancy", subject, unoccupied.ns, "ns");
    JudgeOccupancy(analysis, subject, unoccupied, known_ns);
  }
  static void See(const Trace& trace, uint32_t row, double share, Wasted* wasted) {
    const double ns = static_cast<double>(trace.gpu.duration_ns[row]) * share;
    wasted->ns += ns;
    wasted->by_kernel[trace.gpu.name[row]] += ns;
    wasted->longest.Show(row, TimeOf(trace, row));
  }
  // The kernel with most of it; on a tie the first by name.
  static std::string Dearest(const Trace& trace, const Wasted& wasted) {
    std::pair<double, model::StringId> most = {-1, 0};
    for (const auto& [name, ns] : wasted.by_kernel) {
      if (ns > most.first || (ns == most.first && name < most.second)) most = {ns, name};
    }
    return model::ReadKernelName(trace.strings[most.second]).brief;
  }

  static void Judge(Analysis& analysis, const std::string& subject, Waste waste, const Wasted& wasted, int64_t busy_ns,
                    Exposure* exposure) {
    const Threshold least = analysis.threshold("cost_share");
    const double share = busy_ns == 0 ? 0 : wasted.ns / static_cast<double>(busy_ns);
    if (share < least.value) return;
    constexpr const char* kCodes[kWastes] = {"a20.partial_warps", "a20.small_grid", "a20.tail"};
    constexpr const char* kWhat[kWastes] = {"blocks with partly filled warps",
                                            "grids with fewer blocks than the device has multiprocessors",
                                            "grids with a mostly empty last wave"};
    constexpr const char* kAdvice[kWastes] = {
        "Launch multiples of 32 threads.",
        "Use larger batches, a split along another dimension (split-K), or several such kernels at once on streams.",
        "Use a grid that is a multiple of the device's capacity, a persistent kernel, or larger batches."};
    const int64_t exposed_ns = exposure->Of(wasted);
    const std::string summary = std::string(kWhat[waste]) + " cost up to " +
                                base::Duration(static_cast<int64_t>(std::min(wasted.ns, 9e18))) + ", most in " +
                                Dearest(analysis.trace(), wasted) + "; without them the window would be " +
                                base::Duration(exposed_ns) + " shorter at most";
    Conclude(analysis, Judged(kCodes[waste], subject.c_str(), "upper bound of the cost / time at work", share, least),
             {.severity = exposed_ns > 0 ? SeverityOf(Share(exposed_ns, busy_ns), 2 * least.value) : Severity::kInfo,
              .confidence = 0.6,  // a kernel that waits for memory gains less
              .cost_ns = exposed_ns,
              .summary = summary,
              .recommendation = kAdvice[waste]},
             wasted.longest);
  }

  // Claims no cost: products of matrices are fast at a low occupancy, by design.
  static void JudgeOccupancy(Analysis& analysis, const std::string& subject, const Wasted& unoccupied,
                             int64_t known_ns) {
    const Threshold least = analysis.threshold("low_occupancy_share");
    const double share = unoccupied.ns / static_cast<double>(known_ns);
    if (share < least.value) return;
    const std::string summary =
        "kernels with " + Percent(share) + " of the time can fill less than " +
        Percent(analysis.threshold("occupancy_low").value) +
        " of a multiprocessor's warps, limited by registers, shared memory or blocks; most of the time in " +
        Dearest(analysis.trace(), unoccupied);
    Conclude(analysis,
             Judged("a20.low_occupancy", subject.c_str(), "time of such kernels / time of kernels", share, least),
             {.confidence = 0.5,
              .summary = summary,
              .recommendation =
                  "If these kernels wait for memory, use fewer registers or less shared memory for each block."},
             unoccupied.longest);
  }
};

}  // namespace
}  // namespace a20

std::unique_ptr<Analyzer> MakeLaunchGeometry() { return std::make_unique<a20::LaunchGeometry>(); }

}  // namespace pitot::catalogue
