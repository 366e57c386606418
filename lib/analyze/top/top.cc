// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/top.h"

#include <algorithm>
#include <array>
#include <new>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analyze/top/nest.h"
#include "analyze/top/roof.h"
#include "analyze/top/rows.h"
#include "analyze/top/selection.h"
#include "analyze/top/top_calls.h"
#include "analyze/top/top_index.h"
#include "base/columns.h"
#include "base/message.h"
#include "model/flatten.h"
#include "model/kernel_name.h"
#include "model/lacking.h"
#include "model/occupancy.h"
#include "model/request_text.h"

namespace pitot::top {

using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::StringId;
using model::Trace;

namespace {

using facts::FindAboveNext;
using facts::FineNs;
using facts::GroupTimes;
using facts::InWindow;
using facts::IsInWindow;
using facts::kLeastUnits;
using facts::PartOf;
using facts::RoundTogether;

// "64x2": without trailing dimensions of 1.
std::string ExtentText(const uint32_t (&extent)[3]) {
  std::string text = std::to_string(extent[0]);
  if (extent[1] > 1 || extent[2] > 1) text += "x" + std::to_string(extent[1]);
  if (extent[2] > 1) text += "x" + std::to_string(extent[2]);
  return text;
}

// The occupancy of a row's launch shapes.
class OccupancySum {
 public:
  void Add(const model::Occupancy& occupancy, int64_t ns) {
    if (occupancy.limit == model::OccupancyLimit::kUnknown) return;
    const auto weight = static_cast<double>(std::max<int64_t>(ns, 1));
    percent_ += occupancy.percent * weight;
    weight_ += weight;
    by_limit_[occupancy.percent >= 100 ? 0 : static_cast<size_t>(occupancy.limit)] += weight;
  }
  void Tell(TopRow* row) const {
    if (weight_ == 0) return;
    constexpr const char* kLimits[kLimitCount] = {"", "block size", "blocks", "registers", "shared memory"};
    row->occupancy_percent = percent_ / weight_;
    row->occupancy_limit = kLimits[std::max_element(by_limit_.begin(), by_limit_.end()) - by_limit_.begin()];
  }

 private:
  static constexpr size_t kLimitCount = static_cast<size_t>(model::OccupancyLimit::kSharedMemory) + 1;
  double percent_ = 0, weight_ = 0;
  std::array<double, kLimitCount> by_limit_{};  // first those at 100 %
};

void CountKernels(const TopIndex& index, const TopOptions& options, const Selection& selection, Rows* rows) {
  const Trace& trace = index.trace;
  std::unordered_map<uint64_t, uint32_t> cache;  // of kernels, by name and shape
  std::unordered_map<uint32_t, OccupancySum> occupancies;
  for (uint32_t gpu_row = 0; gpu_row < trace.gpu.size(); ++gpu_row) {
    const GpuKind kind = trace.gpu.kind[gpu_row];
    if (kind == GpuKind::kSpan || !IsInWindow(trace, gpu_row) || !selection.HasGpu(gpu_row)) continue;
    uint32_t row = kNone;
    if (kind == GpuKind::kKernel) {
      const uint32_t shape = options.groups_by_shape ? trace.gpu.shape[gpu_row] : kNone;
      const auto [found, is_new] = cache.try_emplace(uint64_t{trace.gpu.name[gpu_row]} << 32 | shape, kNone);
      if (is_new) {
        const model::KernelName name = model::ReadKernelName(trace.strings[trace.gpu.name[gpu_row]]);
        std::string shape_text;
        if (shape != kNone)
          shape_text =
              "grid " + ExtentText(trace.shapes[shape].grid) + ", block " + ExtentText(trace.shapes[shape].block);
        found->second = rows->Of(name.full.empty() ? "(unnamed)" : name.full, shape_text);
        (*rows)[found->second].row.brief_name = name.brief;
      }
      row = found->second;
    } else {
      row = rows->Of(model::ActivityName(trace, gpu_row));
    }
    const Interval time = InWindow(trace, gpu_row);
    const uint32_t device = trace.streams[trace.gpu.stream[gpu_row]].device;
    if (kind == GpuKind::kKernel && trace.gpu.shape[gpu_row] != kNone && device != kNone)
      occupancies[row].Add(TheoreticalOccupancy(trace.devices[device], trace.shapes[trace.gpu.shape[gpu_row]]),
                           time.end_ns - time.begin_ns);
    const bool is_cut = time.end_ns - time.begin_ns != trace.gpu.duration_ns[gpu_row];
    Tally& tally = (*rows)[row];
    ++tally.row.calls;
    ++tally.row.gpu_records;
    tally.row.cut_calls += is_cut;
    tally.AddSelfGpu(rows->UnitOfGpu(gpu_row), time.end_ns - time.begin_ns);
    tally.row.gpu_total_ns = tally.row.self_gpu_ns;
    tally.busy += index.shares.busy[gpu_row];
    tally.exposed += index.shares.exposed[gpu_row];
    if (!is_cut) tally.gpu_ns.Add(time.end_ns - time.begin_ns);
  }
  for (const auto& [row, sum] : occupancies) sum.Tell(&(*rows)[row].row);
}

// The work done in a context.
struct Work {
  int64_t cpu_ns = 0;
  std::vector<Interval> gpu;  // of no request; for the others see GpuTime
  uint64_t gpu_records = 0;
  FineNs busy = 0, exposed = 0;
};

struct FoundWork {
  std::vector<Work> batches, requests;
  Work others;
};

FoundWork FindWork(const TopIndex& index) {
  const Trace& trace = index.trace;
  FoundWork work{std::vector<Work>(trace.batches.size()), std::vector<Work>(trace.requests.size()), {}};
  const auto of = [&](uint32_t request, uint32_t batch) -> Work& {
    return batch != kNone ? work.batches[batch] : request != kNone ? work.requests[request] : work.others;
  };
  for (uint32_t thread = 0; thread < trace.threads.size(); ++thread) {
    const Interval known = KnownOf(trace, trace.threads[thread]);
    model::VisitSegments(trace, thread, known, [&](const model::Segment& segment) {
      of(trace.events.request[segment.event], trace.events.batch[segment.event]).cpu_ns +=
          segment.end_ns - segment.begin_ns;
    });
  }
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == GpuKind::kSpan) continue;
    const uint32_t call = trace.gpu.call[row];
    Work& some = call == kNone ? work.others : of(trace.calls.request[call], trace.calls.batch[call]);
    ++some.gpu_records;
    some.busy += index.shares.busy[row];
    some.exposed += index.shares.exposed[row];
    if (&some == &work.others)
      some.gpu.push_back({trace.gpu.begin_ns[row], trace.gpu.begin_ns[row] + trace.gpu.duration_ns[row]});
  }
  return work;
}

void Add(const Work& work, int64_t gpu_ns, Tally* tally) {
  tally->row.self_cpu_ns += work.cpu_ns;
  tally->row.self_gpu_ns += gpu_ns;
  tally->row.gpu_records += work.gpu_records;
  tally->busy += work.busy;
  tally->exposed += work.exposed;
}

void CountRequests(const TopIndex& index, const Selection& selection, Rows* rows) {
  const Trace& trace = index.trace;
  const FoundWork work = FindWork(index);
  const model::GpuTime time(trace);
  std::vector<Tally> tallies(trace.requests.size() + 1);
  Tally& others = tallies.back();
  Add(work.others, model::TotalNs(model::Union(work.others.gpu)), &others);
  for (uint32_t request = 0; request < trace.requests.size(); ++request) {
    tallies[request].row.calls = 1;
    Add(work.requests[request], time.Request(request), &tallies[request]);
  }
  for (uint32_t batch = 0; batch < trace.batches.size(); ++batch) {
    const Work& all = work.batches[batch];
    const std::vector<model::GpuTime::Share>& shares = time.Shares(batch);  // by id
    if (shares.empty()) Add(all, time.Batch(batch), &others);
    const auto count = static_cast<int64_t>(shares.size());
    for (int64_t i = 0; i < count; ++i) {
      const model::GpuTime::Share& share = shares[static_cast<size_t>(i)];
      Work part;
      part.cpu_ns = all.cpu_ns / count + (i < all.cpu_ns % count ? 1 : 0);
      part.gpu_records = all.gpu_records;
      if (time.Batch(batch) != 0) {
        part.busy = PartOf(all.busy, share.ns, time.Batch(batch));
        part.exposed = PartOf(all.exposed, share.ns, time.Batch(batch));
      }
      Add(part, 0, &tallies[share.request]);  // its GPU time is in time.Request
    }
  }
  const auto keep = [&](Tally& tally, uint32_t request, const std::string& name) {
    tally.row.name = name;
    tally.row.request = request;
    tally.row.cpu_total_ns = tally.row.self_cpu_ns;
    tally.row.gpu_total_ns = tally.row.self_gpu_ns;
    rows->all().push_back(std::move(tally));
  };
  const bool has_gpu = index.coverage.HasGpu(), is_none_known = !model::IsLacking(trace, "GPU work");
  const bool has_threads = !model::IsLackingThreads(trace);
  for (uint32_t request = 0; request < trace.requests.size(); ++request) {
    if (selection.request() != kNone && request != selection.request()) continue;
    TopRow& row = tallies[request].row;
    row.is_gpu_known =
        has_gpu ? row.self_gpu_ns != 0 || index.coverage.Of(index.requests, request).IsWhole() : is_none_known;
    row.is_cpu_known = has_threads || row.self_cpu_ns != 0;
    keep(tallies[request], request,
         model::RequestName(trace, request) + " " + std::string(trace.strings[trace.requests[request].route]));
  }
  const bool has_others = others.row.self_cpu_ns != 0 || others.row.gpu_records != 0 || others.row.self_gpu_ns != 0;
  if (selection.request() == kNone && has_others) keep(others, kNone, "(no request)");
}

// The finished rows, with all columns derived from the counts.
std::vector<TopRow> Finish(Rows* rows) {
  std::vector<FineNs> busy, exposed;
  for (const Tally& tally : rows->all()) busy.push_back(tally.busy), exposed.push_back(tally.exposed);
  const std::vector<int64_t> busy_ns = RoundTogether(busy), exposed_ns = RoundTogether(exposed, &busy_ns);
  std::vector<TopRow> finished;
  for (size_t i = 0; i < busy.size(); ++i) {
    Tally& tally = rows->all()[i];
    tally.row.gpu_busy_ns = busy_ns[i];
    tally.row.gpu_exposed_ns = exposed_ns[i];
    tally.row.cpu_p50_ns = tally.cpu_ns.Quantile(0.5);
    tally.row.cpu_p99_ns = tally.cpu_ns.Quantile(0.99);
    tally.row.gpu_p50_ns = tally.gpu_ns.Quantile(0.5);
    tally.row.gpu_p99_ns = tally.gpu_ns.Quantile(0.99);
    // Leaves out scopes outside of the chosen request, and scopes around captures that never ran themselves.
    if (tally.row.calls != 0 || tally.row.gpu_records != 0 || tally.row.gpu_total_ns != 0 ||
        tally.row.self_cpu_ns != 0 || tally.row.spans != 0)
      finished.push_back(std::move(tally.row));
  }
  return finished;
}

int64_t Key(const TopRow& row, TopBy by, TopSort sort) {
  const bool is_kernel = by == TopBy::kKernel;
  switch (sort) {
    case TopSort::kSelfCpu:
      return row.self_cpu_ns;
    case TopSort::kCpuTotal:
      return row.cpu_total_ns;
    case TopSort::kCpuAverage:
      return row.CpuAverageNs();
    case TopSort::kDefault:
      return row.span_ns;
    case TopSort::kSelfGpu:
      return row.self_gpu_ns;
    case TopSort::kGpuTotal:
      return row.gpu_total_ns;
    case TopSort::kGpuAverage:
      return row.GpuAverageNs();
    case TopSort::kGpuBusy:
      return row.gpu_busy_ns;
    case TopSort::kGpuExposed:
      return row.gpu_exposed_ns;
    case TopSort::kCalls:
      return static_cast<int64_t>(row.calls);
    case TopSort::kP50:
      return is_kernel ? row.gpu_p50_ns : row.cpu_p50_ns;
    case TopSort::kP99:
      return is_kernel ? row.gpu_p99_ns : row.cpu_p99_ns;
    case TopSort::kCpuP50:
      return row.cpu_p50_ns;
    case TopSort::kCpuP99:
      return row.cpu_p99_ns;
    case TopSort::kCpuMax:
      return row.cpu_max_ns;
    case TopSort::kGpuP50:
      return row.gpu_p50_ns;
    case TopSort::kGpuP99:
      return row.gpu_p99_ns;
    case TopSort::kGpuRecords:
      return static_cast<int64_t>(row.gpu_records);
    case TopSort::kSelfNoCalls:
      return row.self_no_calls_ns;
    case TopSort::kSelfWait:
      return row.self_wait_ns;
    case TopSort::kFlops:
      return static_cast<int64_t>(std::min<uint64_t>(row.flops, INT64_MAX));
    case TopSort::kName:
      break;
  }
  return 0;
}

// The actual order for kDefault, which remains for layers that are known by spans alone.
TopSort Resolve(TopSort sort, const TopTable& table) {
  if (sort != TopSort::kDefault) return sort;
  if (table.gpu_ns == 0 && table.span_ns != 0) return sort;  // by the time of spans
  // The table by call sorts by CPU: for GPU work there is the table by kernel.
  return table.gpu_ns != 0 && table.by != TopBy::kCall ? TopSort::kSelfGpu : TopSort::kSelfCpu;
}

void Sort(TopSort sort, TopTable* table) {
  std::sort(table->rows.begin(), table->rows.end(), [&](const TopRow& a, const TopRow& b) {
    const int64_t key_a = Key(a, table->by, sort), key_b = Key(b, table->by, sort);
    if (key_a != key_b) return key_a > key_b;
    return std::tie(a.name, a.shape, a.request) < std::tie(b.name, b.shape, b.request);
  });
}

// Adds how sure the order of the first rows is. A single request leaves nothing to draw; by request, the rows are the
// units of the draw themselves.
void AddCertainty(TopSort sort, const Selection& selection, Rows* rows, TopTable* table) {
  constexpr size_t kMostRanked = 64;
  if ((sort != TopSort::kSelfCpu && sort != TopSort::kSelfGpu) || table->by == TopBy::kRequest ||
      selection.request() != kNone || rows->units() < kLeastUnits)
    return;
  std::vector<GroupTimes*> times;
  for (size_t i = 0; i < std::min(kMostRanked, table->rows.size()); ++i) {
    Tally& tally = (*rows)[rows->Of(table->rows[i].name, table->rows[i].shape)];
    times.push_back(sort == TopSort::kSelfCpu ? &tally.self_cpu_by_unit : &tally.self_gpu_by_unit);
  }
  const std::vector<double> above = FindAboveNext(times);
  for (size_t i = 0; i < above.size(); ++i) table->rows[i].above_next = above[i];
  table->resampled = rows->units();
}

// How much of the window had every kernel recorded.
model::KernelCoverage CoverageOfWindow(const Trace& trace, bool is_damaged) {
  std::vector<Interval> told, kernels, lost;
  for (const model::DepthRow& row : trace.depths) {
    told.push_back({row.begin_ns, row.end_ns});
    if (row.depth >= Depth::kKernels) kernels.push_back({row.begin_ns, row.end_ns});
  }
  for (const model::GpuLossRow& loss : trace.gpu_losses) lost.push_back({loss.begin_ns, loss.end_ns});
  // A whole graph hides its kernels.
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    if (trace.gpu.kind[row] == GpuKind::kGraph) lost.push_back(InWindow(trace, row));
  }
  const Intervals window = model::Union({{trace.window_begin_ns, trace.window_end_ns}});
  model::KernelCoverage coverage;
  coverage.is_known = !is_damaged && !model::Intersection(window, model::Union(std::move(told))).empty();
  coverage.ran_ns = model::TotalNs(window);
  coverage.covered_ns = model::TotalNs(
      model::Difference(model::Intersection(window, model::Union(std::move(kernels))), model::Union(std::move(lost))));
  return coverage;
}

void AddQuality(const TopIndex& index, const Selection& selection, TopTable* table) {
  const Trace& trace = index.trace;
  table->window_ns = trace.window_end_ns - trace.window_begin_ns;
  table->has_gpu = index.coverage.HasGpu();
  table->is_damaged = index.coverage.IsDamaged();
  table->coverage = selection.request() != kNone ? index.coverage.Of(index.requests, selection.request())
                                                 : CoverageOfWindow(trace, table->is_damaged);
  table->operators = index.operators.Of(trace, index.requests, selection.request());
  for (const model::LossRow& loss : trace.losses) {
    if (loss.reason == model::LossReason::kOpenRequests) continue;
    ++table->losses;
    table->lost_events += loss.events;
  }
  table->gpu_losses = trace.gpu_losses.size();
  for (uint32_t row = 0; row < trace.gpu.size(); ++row)
    table->spans += trace.gpu.kind[row] == GpuKind::kSpan && selection.HasGpu(row);
  if (selection.request() == kNone) return;
  std::vector<bool> is_member(trace.requests.size());
  for (const uint32_t batch : index.requests.Batches(selection.request())) {
    const uint32_t first = trace.batches[batch].first_member;
    for (uint32_t row = first; row < first + trace.batches[batch].member_count; ++row) {
      const uint32_t request = trace.members[row].request;
      if (request != kNone && request != selection.request()) is_member[request] = true;
    }
  }
  table->other_members = static_cast<uint64_t>(std::count(is_member.begin(), is_member.end(), true));
}

}  // namespace

Status FindTop(const TopIndex& index, const TopOptions& options, TopTable* table) {
  const Trace& trace = index.trace;
  *table = TopTable();
  table->by = options.by;
  const bool has_shapes = options.by != TopBy::kLayer && options.by != TopBy::kCall && options.by != TopBy::kRequest;
  if (options.groups_by_shape && !has_shapes)
    return Status(StatusCode::kInvalidArgument, "groups_by_shape: layers, calls and requests have no shapes");
  const uint32_t request = options.request_id != 0 ? index.requests.Row(options.request_id) : kNone;
  if (options.request_id != 0 && request == kNone)
    return base::Error(StatusCode::kNotFound, "there is no request %s in the trace",
                       base::RequestId(options.request_id).c_str());
  const Selection selection(trace, index.requests, request);
  Rows rows(trace);
  switch (options.by) {
    case TopBy::kOperator:
    case TopBy::kLayer:
    case TopBy::kScope:
      Nest(index, options, selection, &rows).Count();
      break;
    case TopBy::kKernel:
      CountKernels(index, options, selection, &rows);
      break;
    case TopBy::kCall:
      CountCalls(index, selection, &rows);
      break;
    case TopBy::kRequest:
      CountRequests(index, selection, &rows);
      break;
  }
  if (options.finds_roofs && (options.by == TopBy::kOperator || options.by == TopBy::kLayer)) {
    const Roofs roofs(trace, options);
    for (Tally& tally : rows.all()) tally.row.roof = roofs.Of(tally.load);
    table->devices = roofs.Devices();
  }
  table->rows = Finish(&rows);
  for (const TopRow& row : table->rows) {
    table->cpu_ns += row.self_cpu_ns;
    table->wait_ns += row.self_wait_ns;
    table->gpu_ns += row.self_gpu_ns;
    table->gpu_busy_ns += row.gpu_busy_ns;
    table->gpu_exposed_ns += row.gpu_exposed_ns;
    table->span_ns += row.span_ns;
  }
  AddQuality(index, selection, table);
  const TopSort sort = Resolve(options.sort, *table);
  Sort(sort, table);
  AddCertainty(sort, selection, &rows, table);
  return Status();
}

}  // namespace pitot::top

PITOT_NAMESPACE_BEGIN
namespace analyze {

Status FindTop(const model::Trace& trace, const TopOptions& options, TopTable* table) noexcept {
  try {
    return top::FindTop(top::TopIndex(trace), options, table);
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory to count the trace");
  } catch (...) {
    return Status(StatusCode::kInternal, "the trace could not be counted");
  }
}

}  // namespace analyze
PITOT_NAMESPACE_END
