// SPDX-License-Identifier: Apache-2.0
#include "serialize/report_gpu.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <iterator>
#include <map>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/memory_option.h"
#include "base/overhead_name.h"
#include "model/host_language.h"
#include "model/moment.h"
#include "model/recorded.h"

namespace pitot::report {
namespace {

using base::Bytes;
using base::Count;
using base::Cut;
using base::Duration;
using base::Format;
using base::Lines;
using base::PadLeft;
using base::PadRight;
using base::Plural;
using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::kOpen;
using model::Trace;

constexpr uint32_t kMaxDevices = 8;
constexpr size_t kMaxGaps = 3;     // per device
constexpr size_t kMaxKernels = 8;  // per device
constexpr size_t kMaxCopies = 5;   // per device
constexpr size_t kMaxSpans = 5;    // per device
constexpr size_t kMaxGpuWaits = 5;
constexpr size_t kWaitNames = 65;  // columns of a wait's names: of its call, stream and thread
constexpr size_t kMaxOverheads = 4;
constexpr size_t kMaxGpuLosses = 8;

// Reasons why CUDA events did not time scopes: counts of the collector (docs/guide/gpu.md).
struct UntimedReason {
  const char* key;
  const char* scopes;
};
constexpr UntimedReason kUntimed[] = {
    {"cuda_events.before_driver", "while the process had not loaded CUDA's driver"},
    {"cuda_events.no_context", "without a current context"},
    {"cuda_events.before_pool", "before the events of their context were made"},
    {"cuda_events.pool_failed", "of contexts without events: making them failed"},
    {"cuda_events.contexts_refused", "of more than 16 contexts"},
    {"cuda_events.no_pair", "beyond the events of their context (CudaEventOptions::pairs_per_context)"},
    {"cuda_events.capturing", "on streams under capture"},
    {"cuda_events.record_failed", "with events that could not be recorded"},
    {"cuda_events.no_time", "with an impossible time between their events"},
    {"cuda_events.dropped", "with a destroyed context"},
    {"cuda_events.stream_unsure", "on streams that might have been destroyed by their end"},
    {"cuda_events.ended_elsewhere", "of batches that ended on another thread"},
    {"cuda_events.further_streams", "launches on further streams of a batch"},
};

std::string Percent(int64_t part, int64_t whole) {
  return Format("%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}
template <class Covered> std::string Coverage(const Covered& coverage) {
  return coverage.is_known ? base::Coverage(coverage.covered_ns, coverage.ran_ns) : "unknown";
}

// The sum of similar rows.
struct Sum {
  uint64_t count = 0;
  uint64_t bytes = 0;
  int64_t ns = 0;
  int64_t longest_ns = 0;
  void Add(int64_t row_ns, uint64_t row_bytes = 0) {
    ++count;
    bytes += row_bytes;
    ns += row_ns;
    longest_ns = std::max(longest_ns, row_ns);
  }
  void Add(const Sum& other) {
    count += other.count;
    bytes += other.bytes;
    ns += other.ns;
    longest_ns = std::max(longest_ns, other.longest_ns);
  }
};
using Sums = std::map<std::string, Sum>;

// Sorts by time, the longest first.
std::vector<std::pair<std::string, Sum>> Longest(const Sums& sums) {
  std::vector<std::pair<std::string, Sum>> rows(sums.begin(), sums.end());
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  return rows;
}

bool IsSpan(const Trace& trace, uint32_t row) { return trace.gpu.kind[row] == GpuKind::kSpan; }

// Pads the texts of each column to one width, two columns apart. Drops columns with nothing below their head. If all
// together are wider than `most`, the widest lose the middle of their texts.
template <size_t kCount> void FitColumns(std::array<std::vector<std::string>, kCount>* columns, size_t most) {
  std::array<size_t, kCount> widths = {};
  for (size_t i = 0; i < kCount; ++i) {
    const std::vector<std::string>& texts = (*columns)[i];
    if (std::all_of(texts.begin() + 1, texts.end(), [](const std::string& text) { return text.empty(); })) continue;
    for (const std::string& text : texts) widths[i] = std::max(widths[i], 2 + base::Width(text));
  }
  for (size_t all = std::accumulate(widths.begin(), widths.end(), size_t{0}); all > most; --all)
    --*std::max_element(widths.begin(), widths.end());
  for (size_t i = 0; i < kCount; ++i) {
    for (std::string& text : (*columns)[i])
      text = widths[i] == 0 ? "" : "  " + PadRight(base::CutMiddle(text, widths[i] - 2), widths[i] - 2);
  }
}

// The longest gaps: parts of `recorded` outside of `busy`, which lies in it. Earlier gaps come first among equals.
// Keeps only the longest at any time, because there may be as many gaps as kernels.
Intervals LongestGaps(const Intervals& recorded, const Intervals& busy) {
  Intervals longest;
  const auto add = [&longest](const Interval& gap) {
    const auto is_shorter = [&](const Interval& other) {
      return other.end_ns - other.begin_ns < gap.end_ns - gap.begin_ns;
    };
    if (gap.begin_ns >= gap.end_ns) return;
    longest.insert(std::find_if(longest.begin(), longest.end(), is_shorter), gap);
    if (longest.size() > kMaxGaps) longest.pop_back();
  };
  auto next = busy.begin();
  for (const Interval& part : recorded) {
    int64_t idle_ns = part.begin_ns;
    for (; next != busy.end() && next->begin_ns < part.end_ns; ++next) {
      add({idle_ns, next->begin_ns});
      idle_ns = next->end_ns;
    }
    add({idle_ns, part.end_ns});
  }
  return longest;
}

}  // namespace

GpuReport::GpuReport(const Trace& trace, const model::RequestIndex& index)
    : trace_(trace),
      index_(index),
      coverage_(trace),
      time_(trace, coverage_),
      operator_times_(trace),
      parts_(trace, coverage_),
      state_(trace),
      why_no_kernels_(model::WhyNoKernels(trace)) {
  std::vector<Interval> deep;
  for (const model::DepthRow& row : trace.depths) {
    if (row.depth >= Depth::kGraphs) deep.push_back({row.begin_ns, row.end_ns});
  }
  const Intervals window = model::Union({{trace.window_begin_ns, trace.window_end_ns}});
  bool has_others = false;
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) has_others = has_others || !IsSpan(trace, row);
  // Without depths in the trace, activities were recorded all the time, if there are any. Spans are none.
  const bool is_all_recorded = trace.depths.empty() && has_others;
  deep_ = is_all_recorded ? window : model::Intersection(window, model::Union(std::move(deep)));
}

Intervals GpuReport::RecordedOf(uint32_t device) const {
  std::vector<Interval> lost;
  for (const model::GpuLossRow& loss : trace_.gpu_losses) {
    if (loss.device == kNone || device == kNone || loss.device == device) lost.push_back({loss.begin_ns, loss.end_ns});
  }
  return model::Difference(deep_, model::Union(std::move(lost)));
}

// The time of GPU activities without an owner that may be the request's. O(n): an index would be as large as the
// trace.
int64_t GpuReport::NobodysNs(uint32_t request) const {
  const model::RequestRow& of = trace_.requests[request];
  const Interval during{of.begin_ns, trace_.RequestEnd(of)};
  std::vector<Interval> rows;
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    const int64_t begin_ns = std::max(trace_.gpu.begin_ns[row], during.begin_ns);
    const int64_t end_ns = std::min(trace_.gpu.begin_ns[row] + trace_.gpu.duration_ns[row], during.end_ns);
    if (begin_ns < end_ns && model::IsNobodys(trace_, row) &&
        coverage_.MayBeOf(request, trace_.streams[trace_.gpu.stream[row]].device))
      rows.push_back({begin_ns, end_ns});
  }
  return model::TotalNs(model::Union(std::move(rows)));
}

std::string GpuReport::OfRequest(uint32_t request) const {
  if (!coverage_.HasGpu()) return {};
  int64_t of_batches_ns = 0;
  bool is_batch_by_events = false;
  for (const uint32_t batch : index_.Batches(request)) {
    of_batches_ns += time_.Batch(batch);
    is_batch_by_events |= time_.IsByEvents(batch);
  }
  const model::KernelCoverage coverage = coverage_.Of(index_, request);
  const bool is_known = time_.Request(request) != 0 || coverage.IsWhole();
  // Includes the gaps between kernels.
  const int64_t by_events_ns = time_.RequestByEvents(request);
  std::string text = is_known
                         ? (by_events_ns != 0 ? "at most " : "") + Duration(time_.Request(request)) + " of GPU time"
                         : "GPU time not known";
  if (by_events_ns != 0)
    text +=
        by_events_ns == time_.Request(request) ? " by CUDA events" : " (" + Duration(by_events_ns) + " by CUDA events)";
  if (of_batches_ns > time_.Request(request))
    text += std::string(", its share of ") + (is_batch_by_events ? "at most " : "the ") + Duration(of_batches_ns) +
            " of its batches";
  text += "; kernel coverage " + Coverage(coverage);
  if (coverage_.IsDamaged()) text += ": the dump is damaged, and GPU work may be missing";
  const model::RequestRow& row = trace_.requests[request];
  const int64_t unknown_ns = NobodysNs(request);
  // Times below a hundredth of the request are ignored.
  if (unknown_ns > (trace_.RequestEnd(row) - row.begin_ns) / 100)
    text += "; GPUs worked another " + Duration(unknown_ns) + " meanwhile, for unknown requests";
  return text;
}

std::string GpuReport::PartsOf(uint32_t request) const {
  std::string parts = parts_.Text(request);
  const model::RequestRow& row = trace_.requests[request];
  if (!parts.empty() || !coverage_.HasGpu() || coverage_.IsDamaged() ||
      model::IsGpuWorkRecorded(trace_, row.begin_ns, trace_.RequestEnd(row)))
    return parts;
  return why_no_kernels_.empty() ? "not recorded" : "not recorded: see GPU below";
}

std::string GpuReport::OperatorsOf(uint32_t request) const {
  const model::OperatorCoverage coverage = operator_times_.Of(trace_, index_, request);
  if (const std::string why = model::WhyRefused(trace_, "collector.torch"); !why.empty()) return "not recorded: " + why;
  if (!coverage.is_known || coverage.covered_ns == coverage.ran_ns) return {};
  std::string text = "not recorded";
  if (coverage.covered_ns != 0)
    text = "recorded in " + Coverage(coverage) + (coverage.batches != 0 ? " of its batches' time" : " of its time");
  const std::string depth = Attribute("depth.of_request." + base::RequestId(trace_.requests[request].id));
  if (!depth.empty()) text += ": while it ran the depth was " + depth;
  return text + "; to record more: Options::depth or Recorder::SetDepth";
}

std::optional<uint64_t> GpuReport::BatchesTimed() const {
  bool has_spans = false;
  std::vector<bool> is_timed(trace_.batches.size());
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    if (!IsSpan(trace_, row)) continue;
    has_spans = true;
    const uint32_t call = trace_.gpu.call[row];
    if (call != kNone && trace_.calls.batch[call] != kNone) is_timed[trace_.calls.batch[call]] = true;
  }
  if (!has_spans) return std::nullopt;
  return static_cast<uint64_t>(std::count(is_timed.begin(), is_timed.end(), true));
}

// The number of batches that CUDA events timed, and the reasons for untimed scopes. "" if all were timed.
std::string GpuReport::WhyNotTimed() const {
  std::string untimed;
  for (const UntimedReason& reason : kUntimed) {
    const uint64_t scopes = std::strtoull(Attribute(reason.key).c_str(), nullptr, 10);
    if (scopes != 0) untimed += (untimed.empty() ? "" : ", ") + Count(scopes) + " " + reason.scopes;
  }
  const std::string under_way = Attribute("cuda_events.under_way"), failed = Attribute("cuda_events.failed");
  const uint64_t batches = trace_.batches.size();
  const std::optional<uint64_t> timed = BatchesTimed();
  const bool has_reason = !untimed.empty() || !under_way.empty() || !failed.empty();
  if (!has_reason && timed.value_or(batches) == batches) return {};
  std::string text =
      "timed " + Count(timed.value_or(0)) + " of " + Count(batches) + (batches == 1 ? " batch" : " batches");
  if (!under_way.empty()) text += "; not yet done by the GPU: " + under_way;
  if (!untimed.empty()) text += "; scopes not timed since the collector started: " + untimed;
  if (!failed.empty()) text += "; the driver failed " + failed;
  return text;
}

void GpuReport::Write(const During& during, Lines* lines) {
  const std::string &why = why_no_kernels_, not_timed = WhyNotTimed();
  if (!coverage_.HasGpu() && trace_.calls.size() == 0 && !state_.IsKnown() && why.empty() && not_timed.empty() &&
      trace_.overheads.empty())
    return;
  lines->Blank();
  lines->Add(0, "GPU");
  if (!why.empty()) {
    lines->Blank();
    lines->AddWrapped(3, "kernels were not recorded: ", model::InHostLanguage(trace_, why));
  }
  if (!not_timed.empty()) {
    lines->Blank();
    lines->AddWrapped(3, "CUDA events ", not_timed);
  }
  const auto devices = static_cast<uint32_t>(trace_.devices.size());
  for (uint32_t device = 0; device < std::min(devices, kMaxDevices); ++device) Device(device, during, lines);
  const bool has_unknown = std::any_of(trace_.streams.begin(), trace_.streams.end(),
                                       [](const model::StreamRow& stream) { return stream.device == kNone; });
  if (has_unknown) Device(kNone, during, lines);
  if (devices > kMaxDevices) {
    lines->Blank();
    lines->Add(3, "and " + Plural(devices - kMaxDevices, "device") + " more");
  }
  state_.Write(lines);
  Waits(during, lines);
  Profiles(during, lines);
  Overheads(lines);
  Losses(during, lines);
}

std::string GpuReport::At(int64_t ns) const { return model::MomentText(trace_, ns); }
std::string GpuReport::StreamNumber(uint32_t stream) const {
  const model::StreamRow& row = trace_.streams[stream];
  std::string number = Format("%u (context %u)", row.stream, row.context);
  if (row.name != 0) number += " " + Text(row.name);
  return number;
}
uint64_t GpuReport::StreamsUsed(uint32_t device) const {
  return static_cast<uint64_t>(
      std::count_if(trace_.streams.begin(), trace_.streams.end(), [&](const model::StreamRow& stream) {
        const uint32_t first = stream.first_event, last = first + stream.event_count;
        for (uint32_t row = first; stream.device == device && row < last; ++row) {
          if (!IsSpan(trace_, row)) return true;
        }
        return false;
      }));
}

std::string GpuReport::DeviceHead(uint32_t device, const Intervals& busy, const Intervals& recorded) const {
  const int64_t recorded_ns = model::TotalNs(recorded);
  std::string head =
      device == kNone ? std::string("GPU (unknown)")
                      : Format("GPU %u ", trace_.devices[device].ordinal) + Cut(Text(trace_.devices[device].name), 32);
  if (coverage_.IsDamaged()) {
    return head + (busy.empty() ? std::string(": nothing") : ": " + Duration(model::TotalNs(busy))) +
           " of its work is left in a damaged dump; the missing part is not known";
  }
  if (recorded_ns == 0) return head + ": its work was not recorded";
  head += (busy.empty() ? std::string(": idle in ") : ": busy " + Percent(model::TotalNs(busy), recorded_ns) + " of ") +
          (recorded_ns == trace_.window_end_ns - trace_.window_begin_ns ? "the window"
                                                                        : "the recorded " + Duration(recorded_ns));
  return busy.empty() ? head : head + ", on " + Plural(StreamsUsed(device), "stream");
}

void GpuReport::Device(uint32_t device, const During& during, Lines* lines) {
  const Intervals recorded = RecordedOf(device);
  const Intervals busy = model::Intersection(model::DeviceBusy(trace_, device), recorded);
  lines->Blank();
  lines->AddWrapped(3, "", DeviceHead(device, busy, recorded));

  const Intervals gaps = coverage_.IsDamaged() || busy.empty() ? Intervals() : LongestGaps(recorded, busy);
  std::string text;
  for (size_t i = 0; i < gaps.size(); ++i) {
    const std::string requests = during(gaps[i].begin_ns, gaps[i].end_ns);
    text += (i == 0 ? "" : "; ") + Duration(gaps[i].end_ns - gaps[i].begin_ns) + " from " + At(gaps[i].begin_ns) +
            (requests.empty() ? "" : ", during" + requests);
  }
  if (!text.empty()) lines->AddWrapped(7, "idle       ", text);
  const model::LaunchLag lag = model::FindLaunchLag(trace_, device);
  if (lag.early != 0) {
    lines->AddWrapped(7, "clock      ",
                      Count(lag.early) + " of " + Count(lag.rows) +
                          " began before the calls causing them: its clock is early by " + Duration(-lag.smallest_ns) +
                          " or more");
  }
  Kernels(device, lines);
  Copies(device, lines);
  Spans(device, lines);
}

void GpuReport::Kernels(uint32_t device, Lines* lines) {
  const model::GpuColumns& gpu = trace_.gpu;
  std::unordered_map<model::StringId, Sum> compiled;  // kernels
  Sums sums;
  std::map<std::string, size_t> kinds;  // instantiations with the same brief name
  Sum all;
  const auto named = [](std::string name) { return name.empty() ? std::string("(unnamed)") : name; };
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (trace_.streams[gpu.stream[row]].device != device) continue;
    if (gpu.kind[row] != GpuKind::kKernel && gpu.kind[row] != GpuKind::kGraph) continue;
    Sum& sum =
        gpu.kind[row] == GpuKind::kKernel ? compiled[gpu.name[row]] : sums[named(model::ActivityName(trace_, row))];
    sum.Add(gpu.duration_ns[row]);
    all.Add(gpu.duration_ns[row]);
  }
  for (const auto& [id, sum] : compiled) {
    const std::string name = named(model::ReadKernelName(trace_.strings[id]).brief);
    sums[name].Add(sum);
    ++kinds[name];
  }
  if (sums.empty()) return;
  lines->Add(7, PadRight("kernel", 42) + PadLeft("count", 10) + PadLeft("time", 12) + PadLeft("share", 9) +
                    PadLeft("longest", 12));
  const auto add = [&](const std::string& name, const Sum& sum) {
    lines->Add(7, PadRight(name, 42) + PadLeft(Count(sum.count), 10) + PadLeft(Duration(sum.ns), 12) +
                      PadLeft(all.ns == 0 ? "-" : Percent(sum.ns, all.ns), 9) + PadLeft(Duration(sum.longest_ns), 12));
  };
  const auto rows = Longest(sums);
  Sum rest;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i >= kMaxKernels) {
      rest.Add(rows[i].second);
      continue;
    }
    const size_t count = kinds[rows[i].first];
    const std::string of = count > 1 ? " (" + Count(count) + " kinds)" : "";
    add(model::ShortName(rows[i].first, std::min(model::kShortName, 42 - of.size())) + of, rows[i].second);
  }
  if (rest.count != 0) add("and " + Count(rows.size() - kMaxKernels) + " more", rest);
}

void GpuReport::Copies(uint32_t device, Lines* lines) {
  const model::GpuColumns& gpu = trace_.gpu;
  Sums sums;
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (trace_.streams[gpu.stream[row]].device != device) continue;
    if (gpu.kind[row] != GpuKind::kMemcpy && gpu.kind[row] != GpuKind::kMemset) continue;
    sums[model::ActivityName(trace_, row)].Add(gpu.duration_ns[row], gpu.bytes[row]);
  }
  if (sums.empty()) return;
  lines->Add(7, PadRight("copies and sets", 42) + PadLeft("count", 10) + PadLeft("time", 12) + PadLeft("bytes", 13) +
                    PadLeft("rate", 14));
  const auto rows = Longest(sums);
  for (size_t i = 0; i < rows.size() && i < kMaxCopies; ++i) {
    const Sum& sum = rows[i].second;
    const double rate = static_cast<double>(sum.bytes) / static_cast<double>(sum.ns);  // bytes per ns: 10^9 a second
    lines->Add(7, PadRight(rows[i].first, 42) + PadLeft(Count(sum.count), 10) + PadLeft(Duration(sum.ns), 12) +
                      PadLeft(Bytes(sum.bytes), 13) + PadLeft(sum.ns == 0 ? "-" : Format("%.2f GB/s", rate), 14));
  }
  if (rows.size() > kMaxCopies) lines->Add(7, "and " + Plural(rows.size() - kMaxCopies, "kind") + " more");
}

// From event to event, including the gaps between kernels.
void GpuReport::Spans(uint32_t device, Lines* lines) {
  const model::GpuColumns& gpu = trace_.gpu;
  Sums sums;
  for (uint32_t row = 0; row < gpu.size(); ++row) {
    if (IsSpan(trace_, row) && trace_.streams[gpu.stream[row]].device == device)
      sums[model::ActivityName(trace_, row)].Add(gpu.duration_ns[row]);
  }
  if (sums.empty()) return;
  lines->Add(7, PadRight("by CUDA events, with gaps between kernels", 42) + PadLeft("count", 10) + PadLeft("time", 12) +
                    PadLeft("", 9) + PadLeft("longest", 12));
  const auto rows = Longest(sums);
  for (size_t i = 0; i < rows.size() && i < kMaxSpans; ++i) {
    const Sum& sum = rows[i].second;
    lines->Add(7, PadRight(rows[i].first, 42) + PadLeft(Count(sum.count), 10) + PadLeft(Duration(sum.ns), 12) +
                      PadLeft("", 9) + PadLeft(Duration(sum.longest_ns), 12));
  }
  if (rows.size() > kMaxSpans) lines->Add(7, "and " + Plural(rows.size() - kMaxSpans, "kind") + " more");
}

std::string GpuReport::ThreadName(uint32_t thread) const {
  if (thread == kNone) return "unknown thread";
  const model::ThreadRow& row = trace_.threads[thread];
  return (row.name != 0 ? Text(row.name) : "thread") + " #" + std::to_string(row.number);
}

// The longest waits.
void GpuReport::Waits(const During& during, Lines* lines) const {
  const model::WaitingCalls waiting(trace_);
  std::vector<std::pair<int64_t, uint32_t>> waits;  // time, call
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    if (waiting.Has(call)) waits.emplace_back(trace_.CallEnd(call) - trace_.calls.begin_ns[call], call);
  }
  if (waits.empty()) return;
  const size_t shown = std::min(waits.size(), kMaxGpuWaits);
  std::partial_sort(
      waits.begin(), waits.begin() + static_cast<std::ptrdiff_t>(shown), waits.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  lines->Blank();
  lines->Add(3, "the longest of " + Plural(waits.size(), "wait") + " for GPUs");
  std::array<std::vector<std::string>, 3> names = {{{"call"}, {"stream"}, {"thread"}}};
  for (size_t i = 0; i < shown; ++i) {
    const uint32_t call = waits[i].second, stream = trace_.calls.stream[call];
    names[0].push_back(Text(trace_.calls.name[call]));
    names[1].push_back(stream == kNone ? "" : StreamNumber(stream));
    names[2].push_back(ThreadName(trace_.calls.thread[call]));
  }
  FitColumns(&names, kWaitNames);
  const auto row = [&](size_t i, const std::string& time, const std::string& from, const std::string& requests) {
    std::string text = PadLeft(time, 10);
    for (const std::vector<std::string>& column : names) text += column[i];
    lines->AddWrapped(3, text + "  " + PadRight(from, 12) + "  ", requests);
  };
  row(0, "time", "from", "during");
  for (size_t i = 0; i < shown; ++i) {
    const auto [ns, call] = waits[i];
    const std::string requests = during(trace_.calls.begin_ns[call], trace_.CallEnd(call)) +
                                 (trace_.calls.duration_ns[call] == kOpen ? " so far" : "");
    row(i + 1, Duration(ns), At(trace_.calls.begin_ns[call]), requests.empty() ? "" : requests.substr(1));
  }
}

// Runs of pitot::ProfileKernels, and the shown requests they disturbed.
void GpuReport::Profiles(const During& during, Lines* lines) const {
  size_t runs = 0;
  for (const model::OverheadRow& overhead : trace_.overheads) {
    if (trace_.strings[overhead.name] != base::kProfilingKernels || ++runs > kMaxOverheads) continue;
    if (runs == 1) lines->Blank();
    const int64_t end_ns = overhead.begin_ns + overhead.duration_ns;
    lines->AddWrapped(3, "profiles   ",
                      "kernels were being profiled from " + At(overhead.begin_ns) + " to " + At(end_ns) +
                          ": launches took longer meanwhile" + during(overhead.begin_ns, end_ns));
  }
  if (runs > kMaxOverheads) lines->Add(14, "and " + Plural(runs - kMaxOverheads, "run") + " more");
}

void GpuReport::Overheads(Lines* lines) const {
  Sums sums;
  for (const model::OverheadRow& overhead : trace_.overheads) {
    if (trace_.strings[overhead.name] != base::kProfilingKernels)
      sums[overhead.name != 0 ? Text(overhead.name) : "(unnamed)"].Add(overhead.duration_ns);
  }
  if (sums.empty()) return;
  std::string text;
  const auto rows = Longest(sums);
  for (size_t i = 0; i < rows.size() && i < kMaxOverheads; ++i) {
    text += (i == 0 ? "" : ", ") + Cut(rows[i].first, 32) + " " + Duration(rows[i].second.ns);
    if (rows[i].second.count > 1) text += " (" + Count(rows[i].second.count) + " times)";
  }
  if (rows.size() > kMaxOverheads) text += " and " + Plural(rows.size() - kMaxOverheads, "kind") + " more";
  lines->Blank();
  lines->AddWrapped(3, "overheads  ", text);
}

std::string GpuReport::LossName(const model::GpuLossRow& loss) const {
  if (loss.stream != kNone) return "stream " + StreamNumber(loss.stream);
  return loss.device != kNone ? Format("GPU %u, any stream", trace_.devices[loss.device].ordinal) : "any stream";
}

void GpuReport::Losses(const During& during, Lines* lines) const {
  if (trace_.gpu_losses.empty()) return;
  const size_t shown = std::min(trace_.gpu_losses.size(), kMaxGpuLosses);
  size_t why = 16;  // wide enough for the reasons
  for (size_t i = 0; i < shown; ++i) why = std::clamp(Text(trace_.gpu_losses[i].reason).size(), why, size_t{40});
  lines->Blank();
  lines->Add(3, PadRight("lost on", 28) + "  " + PadRight("why", why) + "  " + PadRight("from", 12) + "  " +
                    PadRight("to", 12) + PadLeft("records", 12) + "  during");
  for (size_t i = 0; i < shown; ++i) {
    const model::GpuLossRow& loss = trace_.gpu_losses[i];
    lines->Add(3, PadRight(LossName(loss), 28) + "  " + PadRight(Text(loss.reason), why) + "  " + At(loss.begin_ns) +
                      "  " + At(loss.end_ns) + PadLeft(loss.records == 0 ? "unknown" : Count(loss.records), 12) + " " +
                      during(loss.begin_ns, loss.end_ns));
  }
  if (trace_.gpu_losses.size() > kMaxGpuLosses)
    lines->Add(3, "and " + Count(trace_.gpu_losses.size() - kMaxGpuLosses) + " more rows");
  base::MemoryOptions options;
  for (const model::GpuLossRow& loss : trace_.gpu_losses) {
    options.Add(trace_.strings[loss.reason], loss.device != kNone ? trace_.devices[loss.device].ordinal : kNone);
  }
  if (const char* const option = options.Text(); option != nullptr)
    lines->AddWrapped(3, "",
                      std::string("to lose less, use a larger ") + option +
                          (options.has_cupti() ? ": a quarter of it is for buffers" : ""));
}

}  // namespace pitot::report
