// SPDX-License-Identifier: Apache-2.0
#include "analyze/top/nest.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "analyze/blame/walk_waits.h"
#include "analyze/facts/host_work.h"
#include "model/losses.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {

using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::kOpen;
using model::StringId;
using model::Trace;

namespace {

constexpr std::string_view kBetween = " / ";  // between the scopes of a path

// What a kernel that Inductor generated says of itself, which is all that is known of it: "fused_add_relu" of
// "triton_poi_fused_add_relu_3", "" where it says nothing. False for kernels of others. In torch/_inductor names are
// [model_]triton_<category>_<what is fused>_<number>, or "triton_" for all without config.triton.unique_kernel_names.
bool IsCompiled(std::string_view kernel, std::string_view* fused) {
  constexpr std::string_view kTriton = "triton_", kFused = "fused_";
  *fused = {};
  if (kernel == kTriton) return true;
  size_t at = kernel.find(kTriton);
  while (at != std::string_view::npos && at != 0 && kernel[at - 1] != '_') at = kernel.find(kTriton, at + 1);
  if (at == std::string_view::npos) return false;
  std::string_view rest = kernel.substr(at + kTriton.size());
  // foreach, persistent_reduction, pointwise, reduction, split_scan, template, unknown; LibTorch 2.0 names none.
  constexpr std::string_view kCategories[] = {"for_", "per_", "poi_", "red_", "spl_", "tem_", "unk_"};
  const bool has_category =
      std::find(std::begin(kCategories), std::end(kCategories), rest.substr(0, 4)) != std::end(kCategories);
  if (has_category) rest.remove_prefix(4);
  if (rest.substr(0, kFused.size()) != kFused) return has_category && rest.substr(0, 1) == "_";
  rest = rest.substr(0, rest.find_last_of('_'));
  if (rest.size() > kFused.size()) *fused = rest;
  return true;
}

bool Contains(const Intervals& set, int64_t at_ns) {
  const auto after =
      std::partition_point(set.begin(), set.end(), [&](const Interval& i) { return i.begin_ns <= at_ns; });
  return after != set.begin() && at_ns < (after - 1)->end_ns;
}

uint32_t ArgumentNamed(std::string_view name, const Trace& trace, const model::SiteRow& site) {
  const bool is_text = name == "shapes";
  for (uint32_t i = 0; i < site.arg_names.size(); ++i) {
    const bool fits = is_text ? model::IsText(site.arg_types[i]) : site.arg_types[i] == ArgType::kUint;
    if (fits && trace.strings[site.arg_names[i]] == name) return i;
  }
  return kNone;
}

}  // namespace

Interval KnownOf(const Trace& trace, const model::ThreadRow& thread) {
  return {std::clamp(thread.history_begin_ns, trace.window_begin_ns, trace.window_end_ns), trace.window_end_ns};
}

Nest::Nest(const TopIndex& index, const TopOptions& options, const Selection& selection, Rows* rows)
    : trace_(index.trace),
      options_(options),
      selection_(selection),
      launches_(trace_),
      waiting_(trace_),
      shares_(index.shares),
      rows_(*rows),
      first_calls_(FirstCalls(trace_)),
      shallow_(index.operators.NotRecorded()),
      has_operator_depths_(!trace_.operator_depths.empty()) {
  std::vector<std::vector<Interval>> lost(trace_.threads.size());
  for (const model::LossRow& loss : trace_.losses) {
    if (loss.thread != kNone && model::IsOfEvents(loss.reason))
      lost[loss.thread].push_back({loss.begin_ns, loss.end_ns});
  }
  for (auto& intervals : lost) lost_.push_back(model::Union(std::move(intervals)));
  for (const model::SiteRow& site : trace_.sites) {
    shapes_.push_back(ArgumentNamed("shapes", trace_, site));
    flops_.push_back(ArgumentNamed("flops", trace_, site));
  }
}

void Nest::Count() {
  for (uint32_t thread = 0; thread < trace_.threads.size(); ++thread) CountThread(thread);
  thread_ = kNone;
  for (uint32_t call = first_calls_.back(); call < trace_.calls.size(); ++call) CountLaunch(call);
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    if (trace_.gpu.call[row] == kNone) CountGpu(row);
  }
}

bool Nest::HasRow(SiteKind kind) const {
  switch (options_.by) {
    case TopBy::kOperator:
      return kind == SiteKind::kOperator;
    case TopBy::kLayer:
      return kind == SiteKind::kScope || kind == SiteKind::kLeaf || kind == SiteKind::kPhase;
    default:
      return model::IsScope(kind);
  }
}

// Outer before inner, as far as they are in what is known of the thread.
std::vector<Nest::Scope> Nest::ScopesOf(const model::ThreadRow& thread) const {
  const Interval known = KnownOf(trace_, thread);
  std::vector<Scope> scopes;
  scopes.reserve(thread.event_count);
  for (uint32_t event = thread.first_event; event < thread.first_event + thread.event_count; ++event) {
    if (!HasRow(trace_.sites[trace_.events.site[event]].kind)) continue;
    const int64_t begin_ns = trace_.events.begin_ns[event], end_ns = trace_.EventEnd(event);
    if (begin_ns >= known.end_ns || (begin_ns < known.begin_ns && end_ns <= known.begin_ns)) continue;
    const bool is_open = trace_.events.duration_ns[event] == kOpen;
    scopes.push_back({std::max(begin_ns, known.begin_ns), std::min(end_ns, known.end_ns), event,
                      is_open ? INT64_MAX : end_ns, is_open || begin_ns < known.begin_ns || end_ns > known.end_ns,
                      kNone, 0});
  }
  const auto before = [&](const Scope& a, const Scope& b) {
    const int64_t a_ns = trace_.events.begin_ns[a.event], b_ns = trace_.events.begin_ns[b.event];
    return a_ns != b_ns ? a_ns < b_ns : a.full_end_ns > b.full_end_ns;
  };
  // Events are in this order but for scopes that are open.
  if (!std::is_sorted(scopes.begin(), scopes.end(), before)) std::stable_sort(scopes.begin(), scopes.end(), before);
  return scopes;
}

void Nest::CountThread(uint32_t thread) {
  thread_ = thread;
  scopes_ = ScopesOf(trace_.threads[thread]);
  waits_ = WaitsOf(thread);
  wait_ = 0;
  uint32_t call = first_calls_[thread];
  const auto launch_until = [&](int64_t until_ns) {
    for (; call < first_calls_[thread + 1] && trace_.calls.begin_ns[call] < until_ns; ++call) {
      Advance(trace_.calls.begin_ns[call]);
      CountLaunch(call);
    }
  };
  now_ns_ = INT64_MIN;
  for (uint32_t scope = 0; scope < scopes_.size(); ++scope) {
    launch_until(scopes_[scope].begin_ns);
    Push(scope);
  }
  launch_until(INT64_MAX);
  Advance(INT64_MAX);
  open_.clear();
  if (options_.by == TopBy::kOperator && has_operator_depths_) CountNotRecorded();

  for (const Scope& scope : scopes_) {
    if (scope.is_cut || !selection_.HasEvent(scope.event)) continue;
    rows_[scope.row].cpu_ns.push_back(scope.end_ns - scope.begin_ns);
    rows_[scope.row].gpu_ns.push_back(scope.gpu_ns);
  }
}

Intervals Nest::WaitsOf(uint32_t thread) const {
  std::vector<Interval> waits;
  for (uint32_t call = first_calls_[thread]; call < first_calls_[thread + 1]; ++call) {
    if (waiting_.Has(call)) waits.push_back({trace_.calls.begin_ns[call], trace_.CallEnd(call)});
  }
  const auto is_wait = [](const model::SiteRow& site) { return site.kind == SiteKind::kWait; };
  if (std::any_of(trace_.sites.begin(), trace_.sites.end(), is_wait)) {
    const Interval known = KnownOf(trace_, trace_.threads[thread]);
    for (const model::Segment& segment : model::FlattenThread(trace_, thread, known.begin_ns, known.end_ns)) {
      if (is_wait(trace_.sites[trace_.events.site[segment.event]])) waits.push_back({segment.begin_ns, segment.end_ns});
    }
  }
  return model::Union(std::move(waits));
}

int64_t Nest::WaitedUntil(int64_t until_ns) {
  while (wait_ < waits_.size() && waits_[wait_].end_ns <= now_ns_) ++wait_;
  int64_t ns = 0;
  for (size_t i = wait_; i < waits_.size() && waits_[i].begin_ns < until_ns; ++i)
    ns += std::min(waits_[i].end_ns, until_ns) - std::max(waits_[i].begin_ns, now_ns_);
  return ns;
}

void Nest::CountNotRecorded() {
  if (scopes_.empty()) return;
  const Interval known = KnownOf(trace_, trace_.threads[thread_]);
  std::vector<Interval> inside, operators;
  for (const model::Segment& segment : model::FlattenThread(trace_, thread_, known.begin_ns, known.end_ns)) {
    const bool is_wait = trace_.sites[trace_.events.site[segment.event]].kind == SiteKind::kWait;
    if (!is_wait && selection_.HasEvent(segment.event)) inside.push_back({segment.begin_ns, segment.end_ns});
  }
  for (const Scope& scope : scopes_) operators.push_back({scope.begin_ns, scope.end_ns});
  const int64_t ns = model::TotalNs(model::Difference(model::Intersection(shallow_, model::Union(std::move(inside))),
                                                      model::Union(std::move(operators))));
  if (ns == 0) return;
  TopRow& row = rows_[rows_.Of("(operators not recorded)")].row;
  row.self_cpu_ns += ns;
  row.cpu_total_ns += ns;
}

// Passes time to the innermost scope.
void Nest::Advance(int64_t to_ns) {
  while (!open_.empty() && now_ns_ < to_ns) {
    const Scope& top = scopes_[open_.back()];
    if (top.end_ns > now_ns_) {
      const int64_t until_ns = std::min(top.end_ns, to_ns);
      if (selection_.HasEvent(top.event)) {
        rows_[top.row].AddSelfCpu(rows_.UnitOfEvent(top.event), until_ns - now_ns_);
        rows_[top.row].row.self_wait_ns += WaitedUntil(until_ns);
      }
      now_ns_ = until_ns;
    }
    if (top.end_ns <= now_ns_) open_.pop_back();
  }
  now_ns_ = to_ns;
}

void Nest::Push(uint32_t index) {
  Scope& scope = scopes_[index];
  Advance(scope.begin_ns);
  scope.row = RowOf(scope.event);
  if (scope.end_ns > scope.begin_ns) open_.push_back(index);
  if (!selection_.HasEvent(scope.event)) return;
  Tally& tally = rows_[scope.row];
  ++tally.row.calls;
  tally.row.cut_calls += scope.is_cut;
  if (trace_.events.begin_ns[scope.event] >= trace_.window_begin_ns) tally.row.flops += ArgumentOf(scope.event, flops_);
  tally.AddCpuTotal(thread_, scope.begin_ns, scope.end_ns);
}

void Nest::CountLaunch(uint32_t call) {
  for (const uint32_t gpu_row : launches_.Gpu(call)) CountGpu(gpu_row);
}

void Nest::CountGpu(uint32_t gpu_row) {
  if (trace_.gpu.kind[gpu_row] == model::GpuKind::kSpan || !IsInWindow(trace_, gpu_row) || !selection_.HasGpu(gpu_row))
    return;
  const Interval time = InWindow(trace_, gpu_row);
  const int64_t ns = time.end_ns - time.begin_ns;
  const StringId path = trace_.gpu.scope_path[gpu_row];
  const std::vector<uint32_t>& captured = RowsOfPath(path);

  uint32_t row = kNone;
  if (!captured.empty()) row = captured.back();
  // A launch's scopes are those in which a graph was launched; what is in it was captured outside of all.
  if (row == kNone && path == 0 && !open_.empty()) row = scopes_[open_.back()].row;
  if (row == kNone) row = RowOutside(gpu_row);
  Tally& tally = rows_[row];
  tally.AddSelfGpu(rows_.UnitOfGpu(gpu_row), ns);
  ++tally.row.gpu_records;
  tally.busy += shares_.busy[gpu_row];
  tally.exposed += shares_.exposed[gpu_row];

  tally.AddGpuTotal(gpu_row, ns);
  for (const uint32_t around : captured) rows_[around].AddGpuTotal(gpu_row, ns);
  // Layers are a tree: what was captured in one is in none of those around the launch.
  if (path != 0 && options_.by == TopBy::kLayer) return;
  for (const uint32_t index : open_) {
    Scope& scope = scopes_[index];
    if (scope.end_ns <= now_ns_) continue;
    scope.gpu_ns += ns;
    rows_[scope.row].AddGpuTotal(gpu_row, ns);
  }
}

StringId Nest::NameOf(uint32_t event) const {
  const model::SiteRow& site = trace_.sites[trace_.events.site[event]];
  if (site.name_is_first_arg && trace_.events.args[event] != kNone)
    return static_cast<StringId>(trace_.arg_values[trace_.events.args[event]]);
  return site.name;
}

model::ArgValue Nest::ArgumentOf(uint32_t event, const std::vector<uint32_t>& of_sites) const {
  const uint32_t argument = of_sites[trace_.events.site[event]];
  return argument == kNone || trace_.events.args[event] == kNone
             ? 0
             : trace_.arg_values[trace_.events.args[event] + argument];
}

uint32_t Nest::RowOf(uint32_t event) {
  const StringId name = NameOf(event);
  uint32_t beside = 0;  // what else tells rows apart: the layer around it, what a wait waited for, or shapes
  WaitArgs wait;
  const bool is_wait = ReadWait(trace_, event, &wait) && wait.resource != 0;
  if (options_.by == TopBy::kLayer) {
    beside = open_.empty() ? kNone : scopes_[open_.back()].row;
  } else if (is_wait) {
    beside = wait.resource;
  } else if (options_.groups_by_shape) {
    beside = static_cast<StringId>(ArgumentOf(event, shapes_));
  }
  const auto [found, is_new] = cache_.try_emplace(uint64_t{name} << 32 | beside, kNone);
  if (is_new) {
    const std::string_view text = trace_.strings[name].empty() ? "(unnamed)" : trace_.strings[name];
    if (options_.by == TopBy::kLayer && beside != kNone) {
      found->second = rows_.Of(rows_[beside].row.name + std::string(kBetween) + std::string(text));
    } else if (is_wait) {
      found->second = rows_.Of(std::string(text) + ": " + std::string(trace_.strings[wait.resource]));
    } else {
      found->second = rows_.Of(text, options_.by == TopBy::kLayer ? std::string_view() : trace_.strings[beside]);
    }
  }
  return found->second;
}

void Nest::SeeNames() {
  if (has_seen_names_) return;
  has_seen_names_ = true;
  for (uint32_t event = 0; event < trace_.events.size(); ++event) {
    const SiteKind kind = trace_.sites[trace_.events.site[event]].kind;
    if (!model::IsScope(kind)) continue;
    Seen& seen = names_[trace_.strings[NameOf(event)]];
    (kind == SiteKind::kOperator ? seen.as_operator : kind == SiteKind::kWait ? seen.as_wait : seen.as_scope) = true;
  }
}

// As it is in the trace; of what is not, as LibTorch names them.
bool Nest::IsOperator(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end()) return name.find("::") != std::string_view::npos;
  return found->second.as_operator;
}

const std::vector<uint32_t>& Nest::RowsOfPath(StringId path) {
  const auto [found, is_new] = paths_.try_emplace(path);
  std::vector<uint32_t>& rows = found->second;
  if (!is_new || path == 0) return rows;
  SeeNames();
  std::string layer;
  for (std::string_view rest = trace_.strings[path]; !rest.empty();) {
    const size_t size = std::min(rest.find(kBetween), rest.size());
    const std::string_view name = rest.substr(0, size);
    rest.remove_prefix(std::min(size + kBetween.size(), rest.size()));
    const bool is_operator = IsOperator(name);
    if (options_.by == TopBy::kOperator && !is_operator) continue;
    if (options_.by == TopBy::kLayer) {
      const auto seen = names_.find(name);
      if (is_operator || (seen != names_.end() && seen->second.as_wait && !seen->second.as_scope)) continue;
      layer.append(layer.empty() ? "" : kBetween).append(name);
      rows.push_back(rows_.Of(layer));
    } else {
      rows.push_back(rows_.Of(name));
    }
  }
  return rows;
}

bool Nest::AreEventsKnown(uint32_t call) const {
  if (thread_ == kNone) return true;  // it had none
  const int64_t at_ns = trace_.calls.begin_ns[call];
  return at_ns >= KnownOf(trace_, trace_.threads[thread_]).begin_ns && !Contains(lost_[thread_], at_ns);
}

uint32_t Nest::RowOutside(uint32_t gpu_row) {
  const bool is_by_operator = options_.by == TopBy::kOperator;
  const uint32_t call = trace_.gpu.call[gpu_row];
  const GpuKind kind = trace_.gpu.kind[gpu_row];
  const bool is_captured = trace_.gpu.scope_path[gpu_row] != 0;
  if (call == kNone && !is_captured) return rows_.Of("(launch unknown)");
  std::string_view fused;
  if (is_by_operator && kind == GpuKind::kKernel && IsCompiled(trace_.strings[trace_.gpu.name[gpu_row]], &fused))
    return rows_.Of("(compiled: " + std::string(fused.empty() ? "no operator" : fused) + ")");
  // What a graph runs belongs to where it was captured, not to where it is launched; nobody tells of that where nodes
  // are not told, and of copies, sets and whole graphs nowhere.
  if (!is_captured && (trace_.gpu.graph[gpu_row] != 0 || kind == GpuKind::kGraph))
    return rows_.Of(is_by_operator ? "(CUDA graph: operators unknown)" : "(CUDA graph: scopes unknown)");
  if (!is_captured && !AreEventsKnown(call))
    return rows_.Of(is_by_operator ? "(operators not recorded)" : "(scopes not recorded)");
  if (!is_by_operator) return rows_.Of("(no scope)");
  // Which operators a graph was captured in is known only if they were recorded then.
  if (is_captured || Contains(shallow_, trace_.calls.begin_ns[call])) return rows_.Of("(operators not recorded)");
  return rows_.Of("(no operator)");
}

}  // namespace analyze
PITOT_NAMESPACE_END
