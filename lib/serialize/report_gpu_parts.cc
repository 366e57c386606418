// SPDX-License-Identifier: Apache-2.0
#include "serialize/report_gpu_parts.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/columns.h"
#include "pitot/model/classes.h"

namespace pitot::report {
namespace {

using model::GpuKind;
using model::Interval;
using model::Intervals;
using model::kNone;
using model::Trace;

enum class CallKind : uint8_t { kOwn, kLaunch, kOther };  // kOwn: a mark of Pitot's, not a call of the API

CallKind KindOf(std::string_view name) {
  if (model::IsMark(name)) return CallKind::kOwn;
  return model::IsSubmission(name) ? CallKind::kLaunch : CallKind::kOther;
}

// Activities that include gaps are not exact.
bool HasGaps(GpuKind kind) { return kind == GpuKind::kGraph || kind == GpuKind::kSpan; }

// The times of a request in batches, by the batch's row.
using Memberships = std::multimap<uint32_t, Interval>;

Memberships MembershipsOf(const Trace& trace, uint32_t request) {
  Memberships memberships;
  for (const model::MemberRow& member : trace.members) {
    if (member.request == request)
      memberships.emplace(member.batch, Interval{member.join_ns, member.leave_ns != 0 ? member.leave_ns : INT64_MAX});
  }
  return memberships;
}

// Finds the request's part in the time of a call, or of an activity that it caused.
class Owner {
 public:
  Owner(const Trace& trace, uint32_t request)
      : trace_(trace), request_(request), memberships_(MembershipsOf(trace, request)) {}

  void Add(uint32_t call, int64_t begin_ns, int64_t end_ns, std::vector<Interval>* intervals) {
    const uint32_t batch = trace_.calls.batch[call];
    if (batch == kNone) {
      if (trace_.calls.request[call] == request_) intervals->push_back({begin_ns, end_ns});
      return;
    }
    if (batch != batch_) members_ = memberships_.equal_range(batch_ = batch);
    for (auto member = members_.first; member != members_.second; ++member) {
      const Interval part{std::max(begin_ns, member->second.begin_ns), std::min(end_ns, member->second.end_ns)};
      if (part.begin_ns < part.end_ns) intervals->push_back(part);
    }
  }

 private:
  const Trace& trace_;
  const uint32_t request_;
  const Memberships memberships_;
  uint32_t batch_ = kNone;  // asked for last
  std::pair<Memberships::const_iterator, Memberships::const_iterator> members_;
};

}  // namespace

GpuPartsIndex::GpuPartsIndex(const Trace& trace, const model::CoverageIndex& coverage)
    : trace_(trace), coverage_(coverage), waiting_(trace) {
  if (coverage.IsDamaged()) return;
  std::vector<Interval> deep;
  for (const model::DepthRow& row : trace.depths) {
    if (row.depth >= Depth::kKernels) deep.push_back({row.begin_ns, row.end_ns});
  }
  deep_ = model::Union(std::move(deep));
  // Lost calls may be of any thread.
  for (const model::LossRow& loss : trace.losses) {
    if (loss.reason != model::LossReason::kOpenRequests) lost_.push_back({loss.begin_ns, loss.end_ns});
  }
}

GpuParts GpuPartsIndex::Of(uint32_t request) const {
  Owner owner(trace_, request);
  const model::RequestRow& row_of = trace_.requests[request];
  const Interval ran{row_of.begin_ns, trace_.RequestEnd(row_of)};
  std::vector<Interval> worked, launching, waiting, calling, missing = lost_;
  for (const model::GpuLossRow& loss : trace_.gpu_losses) {
    if (coverage_.MayBeOf(request, loss.device)) missing.push_back({loss.begin_ns, loss.end_ns});
  }
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    const int64_t begin_ns = trace_.gpu.begin_ns[row], end_ns = begin_ns + trace_.gpu.duration_ns[row];
    if (end_ns <= ran.begin_ns || begin_ns >= ran.end_ns) continue;
    const GpuKind kind = trace_.gpu.kind[row];
    if (trace_.gpu.call[row] != kNone && !HasGaps(kind)) owner.Add(trace_.gpu.call[row], begin_ns, end_ns, &worked);
    // Activities without an owner, or with gaps that may be time of the host.
    const bool is_known = kind != GpuKind::kGraph && !model::IsNobodys(trace_, row);
    if (!is_known && coverage_.MayBeOf(request, trace_.streams[trace_.gpu.stream[row]].device))
      missing.push_back({begin_ns, end_ns});
  }
  std::unordered_map<model::StringId, CallKind> kinds;  // by name
  for (uint32_t call = 0; call < trace_.calls.size(); ++call) {
    if (trace_.CallEnd(call) <= ran.begin_ns || trace_.calls.begin_ns[call] >= ran.end_ns) continue;
    const auto [kind, is_new] = kinds.try_emplace(trace_.calls.name[call]);
    if (is_new) kind->second = KindOf(trace_.strings[trace_.calls.name[call]]);
    if (kind->second == CallKind::kOwn) continue;
    owner.Add(call, trace_.calls.begin_ns[call], trace_.CallEnd(call),
              waiting_.Has(call)                  ? &waiting
              : kind->second == CallKind::kLaunch ? &launching
                                                  : &calling);
  }
  Intervals rest = model::Union({ran});
  const auto take = [&rest](const Intervals& part) {
    const int64_t before_ns = model::TotalNs(rest);
    rest = model::Difference(rest, part);
    return before_ns - model::TotalNs(rest);
  };
  GpuParts parts;
  parts.worked_ns = take(model::Union(std::move(worked)));
  // Times of possible unrecorded GPU work are unknown rather than the host's.
  const Intervals known = model::Difference(model::Intersection(rest, deep_), model::Union(std::move(missing)));
  parts.unknown_ns = take(model::Difference(rest, known));
  parts.launching_ns = take(model::Union(std::move(launching)));
  parts.waiting_ns = take(model::Union(std::move(waiting)));
  parts.calling_ns = take(model::Union(std::move(calling)));
  parts.neither_ns = model::TotalNs(rest);
  return parts;
}

std::string GpuPartsIndex::Text(uint32_t request) const {
  const GpuParts parts = Of(request);
  if (!parts.IsAny()) return {};
  // Rounds the running sum to whole us, so that the parts add up.
  int64_t sum_ns = 0;
  const auto us = [&sum_ns](int64_t ns) {
    const int64_t before_us = sum_ns / 1000;
    sum_ns += ns;
    return base::Count(static_cast<uint64_t>(sum_ns / 1000 - before_us)) + " us";
  };
  std::string text = "GPUs worked for it " + us(parts.worked_ns);
  text += "; otherwise launching " + us(parts.launching_ns);
  text += ", waiting for GPUs " + us(parts.waiting_ns);
  if (parts.calling_ns != 0) text += ", in other CUDA calls " + us(parts.calling_ns);
  text += ", neither " + us(parts.neither_ns);
  if (parts.unknown_ns != 0) text += ", not known " + us(parts.unknown_ns);
  return text;
}

}  // namespace pitot::report
