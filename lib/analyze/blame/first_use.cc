// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/first_use.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "analyze/facts/arguments.h"
#include "analyze/facts/host_work.h"
#include "analyze/facts/subjects.h"
#include "base/quantile.h"
#include "model/graph_work.h"
#include "model/kernel_name.h"

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

using facts::EventNameId;

constexpr size_t kLeastLater = 4;  // of its like, to know the usual length
// How many calls after a loading call may launch the loaded kernel.
constexpr uint32_t kMostCalls = 8;
// Slow launches in more of the batches than this are no first uses.
constexpr double kMostSlowLaunches = 0.05;

// Visits calls that launch kernels outside of CUDA graphs, each with its kernel.
template <class Visit> void VisitLaunches(const Trace& trace, const Visit& visit) {
  for (uint32_t row = 0; row < trace.gpu.size(); ++row) {
    const uint32_t call = trace.gpu.call[row];
    if (trace.gpu.kind[row] == model::GpuKind::kKernel && call != kNone && !model::IsOfGraph(trace, row))
      visit(call, trace.gpu.name[row]);
  }
}

// By kernel; kNone: it was not launched.
std::vector<uint32_t> FirstLaunchOf(const Trace& trace) {
  std::vector<uint32_t> first(trace.strings.size(), kNone);
  VisitLaunches(trace, [&](uint32_t call, model::StringId kernel) {
    const int64_t begin_ns = trace.calls.begin_ns[call];
    uint32_t& known = first[kernel];
    const int64_t known_ns = known != kNone ? trace.calls.begin_ns[known] : INT64_MAX;
    if (begin_ns < known_ns || (begin_ns == known_ns && call < known)) known = call;
  });
  return first;
}

// Since when calls are recorded without a break up to `at_ns`. The first of all calls began at `first_ns`.
int64_t CallsRecordedSince(const Trace& trace, int64_t first_ns, int64_t at_ns) {
  int64_t deep_ns = INT64_MAX;  // the begin of the unbroken stretch around `at_ns`
  int64_t until_ns = INT64_MIN;
  for (const model::DepthRow& row : trace.depths) {
    if (row.begin_ns > at_ns) break;
    if (row.depth < Depth::kKernels) continue;
    if (row.begin_ns > until_ns) deep_ns = row.begin_ns;
    until_ns = std::max(until_ns, row.end_ns);
  }
  return deep_ns != INT64_MAX ? std::max(first_ns, deep_ns) : first_ns;
}

// Whether work that began at these moments, in order, had been absent before for longer than its longest later pause.
bool IsNew(const std::vector<int64_t>& begins_ns, int64_t since_ns) {
  int64_t longest_ns = 0;
  for (size_t i = 1; i < begins_ns.size(); ++i) longest_ns = std::max(longest_ns, begins_ns[i] - begins_ns[i - 1]);
  return begins_ns.front() - since_ns > longest_ns;
}

}  // namespace

Like::Like(std::vector<int64_t> like_ns) : is_known(like_ns.size() >= kLeastLater) {
  if (!is_known) return;
  p99_ns = base::Quantile(like_ns, 0.99);
  median_ns = base::Median(std::move(like_ns));
}

int64_t FirstCostNs(int64_t first_ns, const Like& like, double least_ns) {
  if (!like.is_known || static_cast<double>(first_ns) <= least_ns || first_ns <= like.p99_ns) return 0;
  return first_ns - like.median_ns;
}

std::vector<FirstLaunch> SlowFirstLaunches(const Trace& trace, double least_ns) {
  const auto took_ns = [&](uint32_t call) { return trace.CallEnd(call) - trace.calls.begin_ns[call]; };
  const std::vector<uint32_t> first = FirstLaunchOf(trace);
  struct Launches {
    std::vector<int64_t> later_ns;   // lengths of all but the first
    std::vector<int64_t> begins_ns;  // of all
  };
  std::map<model::StringId, Launches> of_kernel;  // the few with a long first launch
  for (model::StringId kernel = 0; kernel < first.size(); ++kernel) {
    if (first[kernel] != kNone && static_cast<double>(took_ns(first[kernel])) > least_ns) of_kernel[kernel];
  }
  if (of_kernel.empty()) return {};
  VisitLaunches(trace, [&](uint32_t call, model::StringId kernel) {
    const auto of = of_kernel.find(kernel);
    if (of == of_kernel.end()) return;
    of->second.begins_ns.push_back(trace.calls.begin_ns[call]);
    if (call != first[kernel]) of->second.later_ns.push_back(took_ns(call));
  });
  const int64_t first_ns = *std::min_element(trace.calls.begin_ns.begin(), trace.calls.begin_ns.end());
  std::vector<FirstLaunch> slow;
  for (auto& [kernel, of] : of_kernel) {
    const int64_t cost_ns = FirstCostNs(took_ns(first[kernel]), Like(std::move(of.later_ns)), least_ns);
    if (cost_ns <= 0) continue;
    std::sort(of.begins_ns.begin(), of.begins_ns.end());
    const int64_t since_ns = CallsRecordedSince(trace, first_ns, of.begins_ns.front());
    slow.push_back({first[kernel], kernel, cost_ns, IsNew(of.begins_ns, since_ns)});
  }
  return slow;
}

FirstUses::FirstUses(const Trace& trace, const Threads& threads, const GpuOps& gpu, const BlameOptions& options)
    : trace_(trace), threads_(threads) {
  for (const FirstLaunch& first : SlowFirstLaunches(trace, static_cast<double>(options.first_use_ns)))
    launches_.emplace(first.call, first);
  FindSlowLaunches(options, gpu);
  FindCode(threads, gpu, options.first_use_ns);
  FindBatches(static_cast<double>(options.first_use_ns));
}

// Finds launches of batches with counted launches that took long enough for a record. A run of pitot::ProfileKernels
// makes launches slow, too.
void FirstUses::FindSlowLaunches(const BlameOptions& options, const GpuOps& gpu) {
  model::Intervals profiles;
  for (const model::OverheadRow& row : trace_.overheads) {
    if (facts::IsProfiling(trace_.strings[row.name]))
      profiles.push_back({row.begin_ns, row.begin_ns + row.duration_ns});
  }
  const auto is_beside_profile = [&](uint32_t call) {
    return std::any_of(profiles.begin(), profiles.end(), [&](const model::Interval& profile) {
      return profile.begin_ns < trace_.CallEnd(call) && trace_.calls.begin_ns[call] < profile.end_ns;
    });
  };
  std::vector<uint32_t> slow;
  std::unordered_set<uint32_t> batches;
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    const uint32_t batch = trace_.calls.batch[call];
    if (!gpu.IsLaunchCounted(call) || gpu.ClassOf(call) != CallClass::kLaunch) continue;
    if (trace_.calls.duration_ns[call] < options.first_use_ns || is_beside_profile(call)) continue;
    slow.push_back(call);
    batches.insert(batch);
  }
  if (static_cast<double>(batches.size()) > kMostSlowLaunches * static_cast<double>(trace_.batches.size())) return;
  for (const uint32_t call : slow) launches_.emplace(call, FirstLaunch{call, 0, trace_.calls.duration_ns[call], false});
}

// Finds code that ends at a kernel's first launch, or in a call that loads code. It must take longer than other code
// between calls of scopes of its name; by name, because many names may share a site (operators, NVTX).
void FirstUses::FindCode(const Threads& threads, const GpuOps& gpu, int64_t least_ns) {
  std::unordered_map<uint32_t, model::StringId> first_launches;  // by call
  const std::vector<uint32_t> first_call = FirstLaunchOf(trace_);
  for (model::StringId kernel = 0; kernel < first_call.size(); ++kernel) {
    if (first_call[kernel] != kNone) first_launches.emplace(first_call[kernel], kernel);
  }
  const auto use_of = [&](uint32_t call) {
    Use use;
    const CallClass of = gpu.ClassOf(call);
    use.is_load = of == CallClass::kLoad || of == CallClass::kCompile;
    for (uint32_t i = call; i < trace_.calls.size() && i - call <= (use.is_load ? kMostCalls : 0); ++i) {
      if (trace_.calls.thread[i] != trace_.calls.thread[call]) break;
      if (const auto first = first_launches.find(i); first != first_launches.end()) {
        use.kernel = first->second;
        break;
      }
    }
    return use;
  };
  struct Found {
    uint32_t call;
    model::StringId name;
    int64_t ns;
    Use use;
  };
  std::vector<Found> found;
  const auto visit = [&](const auto& visitor) {
    for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread) {
      const std::vector<Piece>& pieces = threads.Pieces(thread);
      for (size_t i = 0; i < pieces.size(); ++i) {
        if (pieces[i].event == kNone || pieces[i].call != kNone) continue;
        const bool ends_in_call = i + 1 < pieces.size() && pieces[i + 1].begin_ns == pieces[i].end_ns;
        visitor(pieces[i].event, pieces[i].end_ns - pieces[i].begin_ns, ends_in_call ? pieces[i + 1].call : kNone);
      }
    }
  };
  std::unordered_map<model::StringId, std::vector<int64_t>> usual_ns;  // by name
  std::unordered_set<uint32_t> calls;                                  // of the uses found
  visit([&](uint32_t event, int64_t ns, uint32_t call) {
    if (ns <= least_ns || call == kNone || trace_.sites[trace_.events.site[event]].kind == SiteKind::kWait) return;
    const Use use = use_of(call);
    if (!use.is_load && use.kernel == 0) return;
    const model::StringId name = EventNameId(trace_, event);
    found.push_back({call, name, ns, use});
    calls.insert(call);
    usual_ns[name];
  });
  if (found.empty()) return;
  visit([&](uint32_t event, int64_t ns, uint32_t call) {
    const auto usual = usual_ns.find(EventNameId(trace_, event));
    if (usual != usual_ns.end() && calls.count(call) == 0) usual->second.push_back(ns);
  });
  std::unordered_map<model::StringId, Like> like;  // once for all firsts of a scope
  for (auto& [name, all_ns] : usual_ns) like.emplace(name, std::move(all_ns));
  for (const Found& one : found) {
    if (FirstCostNs(one.ns, like.at(one.name), static_cast<double>(least_ns)) > 0)
      after_code_.emplace(one.call, one.use);
  }
}

// Finds the first batch of each thread, executor and number of members: libraries may keep their choice for a size by
// thread. Its like are the executor's later batches of this size, or of the nearest sizes. Smaller ones count as if
// time grew with members.
void FirstUses::FindBatches(double least_ns) {
  std::map<std::pair<model::StringId, uint32_t>, std::vector<int64_t>> usual_ns;  // by executor and members
  std::vector<uint32_t> firsts;
  std::set<std::tuple<uint32_t, model::StringId, uint32_t>> seen;
  for (uint32_t batch = 0; batch < trace_.batches.size(); ++batch) {
    const model::BatchRow& row = trace_.batches[batch];
    if (row.duration_ns == model::kOpen || row.member_count == 0) continue;
    if (seen.emplace(row.thread, row.executor, row.member_count).second) {
      firsts.push_back(batch);
    } else {
      usual_ns[{row.executor, row.member_count}].push_back(row.duration_ns);
    }
  }
  for (const uint32_t batch : firsts) {
    const model::BatchRow& row = trace_.batches[batch];
    if (static_cast<double>(row.duration_ns) <= least_ns) continue;
    std::vector<int64_t> like_ns;
    auto larger = usual_ns.lower_bound({row.executor, row.member_count}), smaller = larger;
    while (like_ns.size() < kLeastLater) {
      const bool has_larger = larger != usual_ns.end() && larger->first.first == row.executor;
      const bool has_smaller = smaller != usual_ns.begin() && std::prev(smaller)->first.first == row.executor;
      if (!has_larger && !has_smaller) break;
      const bool is_larger = has_larger && (!has_smaller || larger->first.second - row.member_count <=
                                                                row.member_count - std::prev(smaller)->first.second);
      const auto& [key, all_ns] = is_larger ? *larger++ : *--smaller;
      const double scale = std::max(1.0, static_cast<double>(row.member_count) / key.second);
      for (const int64_t ns : all_ns) like_ns.push_back(static_cast<int64_t>(static_cast<double>(ns) * scale));
    }
    if (FirstCostNs(row.duration_ns, Like(std::move(like_ns)), least_ns) > 0) first_batches_.insert(batch);
  }
}

int64_t FirstUses::LoadNs(uint32_t call) const {
  const auto launch = launches_.find(call);
  return launch != launches_.end() ? launch->second.cost_ns : 0;
}

bool FirstUses::IsGuess(uint32_t call) const {
  const auto launch = launches_.find(call);
  return launch != launches_.end() && launch->second.kernel == 0;
}

bool FirstUses::IsLoadProved(const BlameSegment& segment) const {
  const auto launch = launches_.find(segment.call);
  return launch == launches_.end() || launch->second.is_new;
}

const FirstUses::Use* FirstUses::After(uint32_t thread, const Piece& code) const {
  if (thread == kNone || code.event == kNone || code.call != kNone) return nullptr;
  const auto use = after_code_.find(threads_.At(thread, code.end_ns).call);
  return use != after_code_.end() ? &use->second : nullptr;
}

bool FirstUses::IsLoading(uint32_t thread, const Piece& code) const {
  const Use* use = After(thread, code);
  return use != nullptr && use->is_load;
}

std::string FirstUses::Of(const BlameSegment& segment) const {
  const auto first_use = [&](model::StringId kernel) {
    return "first use of " + model::ReadKernelName(trace_.strings[kernel]).brief;
  };
  if (const auto launch = launches_.find(segment.call); launch != launches_.end())
    return launch->second.kernel != 0 ? first_use(launch->second.kernel) : "perhaps the first use of a kernel";
  if (segment.call == kNone && segment.event != kNone) {
    const Use* use = After(segment.thread, threads_.At(segment.thread, segment.begin_ns));
    if (use != nullptr) return use->kernel != 0 ? first_use(use->kernel) : "just before code was loaded";
  }
  const uint32_t batch = segment.by.batch != kNone ? segment.by.batch : segment.batch;
  const bool is_of_batch = segment.blame == Blame::kHostOncpuFramework || segment.blame == Blame::kExecutorBusy ||
                           segment.blame == Blame::kLaunchApi;
  if (!is_of_batch || !IsFirstOfSize(batch)) return "";
  return "its thread's first batch of " + std::to_string(trace_.batches[batch].member_count);
}

}  // namespace pitot::blame
