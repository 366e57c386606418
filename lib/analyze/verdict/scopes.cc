// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/scopes.h"

#include <algorithm>
#include <bit>
#include <new>

#include "analyze/blame/index_data.h"
#include "analyze/facts/arguments.h"
#include "base/columns.h"
#include "pitot/analyze/verdict.h"

PITOT_NAMESPACE_BEGIN
namespace analyze {
namespace {

using model::kNone;
using model::Trace;

constexpr uint32_t kFewest = 20;  // needed for a p99 with some meaning
constexpr size_t kMostSaid = 3;

// Waits for others: the threads' work meanwhile was not for the request.
constexpr uint32_t kOfOthers = BlameBit(Blame::kAdmissionQueue) | BlameBit(Blame::kHandoff) |
                               BlameBit(Blame::kQueueWaitOthers) | BlameBit(Blame::kBatchWindow) |
                               BlameBit(Blame::kExecutorBusy) | BlameBit(Blame::kHostLock) | BlameBit(Blame::kHostGil);

// Whether a segment is in a scope of the request that the host named. Waits are not, because their culprit explains
// them; nor operators, because their sites have no names of their own.
bool IsInScope(const Trace& trace, const BlameSegment& segment) {
  const uint32_t event = segment.event;
  if (event == kNone || (kOfOthers & BlameBit(segment.blame)) != 0) return false;
  if (trace.events.duration_ns[event] == model::kOpen) return false;
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  return model::IsScope(site.kind) && site.kind != SiteKind::kWait && site.kind != SiteKind::kOperator;
}
std::string_view NameOf(const Trace& trace, uint32_t event) {
  return trace.strings[facts::EventNameId(trace, event)];  // its own, if the site's names are given at run time
}

}  // namespace

uint32_t DurationSketch::BucketOf(int64_t ns) noexcept {
  const uint64_t least = uint64_t{1} << kFirst, most = (least << kOctaves) - 1;
  const uint64_t value = std::clamp<uint64_t>(ns < 0 ? 0 : static_cast<uint64_t>(ns), least, most);
  const auto octave = static_cast<uint32_t>(std::bit_width(value)) - 1;
  return (octave - kFirst) * kParts + static_cast<uint32_t>(value >> (octave - 4) & (kParts - 1));
}

void DurationSketch::Add(int64_t ns) noexcept {
  if (size_ >= kMost) {
    size_ = 0;
    for (uint16_t& count : counts_) size_ += count = static_cast<uint16_t>(count / 2);
  }
  ++counts_[BucketOf(ns)];
  ++size_;
}

int64_t DurationSketch::Quantile(double q) const noexcept {
  if (size_ == 0) return 0;
  auto rank = static_cast<uint32_t>(q * (size_ - 1) + 0.5);
  uint32_t bucket = 0;
  for (; rank >= counts_[bucket]; ++bucket) rank -= counts_[bucket];
  const uint32_t octave = kFirst + bucket / kParts;
  const int64_t width = int64_t{1} << (octave - 4);
  return (kParts + bucket % kParts) * width + width / 2;
}

Status ScopeTimes::Add(const BlameIndex& index, const RequestBlame& blame) noexcept {
  try {
    const Trace& trace = index.data()->index.trace;
    const std::string_view route = trace.strings[trace.requests[blame.request].route];
    std::vector<uint32_t> events;
    for (const BlameSegment& segment : blame.segments) {
      if (IsInScope(trace, segment)) events.push_back(segment.event);
    }
    std::sort(events.begin(), events.end());
    events.erase(std::unique(events.begin(), events.end()), events.end());
    for (const uint32_t event : events) {
      const std::string_view scope = NameOf(trace, event);
      auto cell = std::find_if(cells_.begin(), cells_.end(),
                               [&](const Cell& one) { return one.scope == scope && one.route == route; });
      if (cell == cells_.end()) {
        if (cells_.size() >= kMostScopes) continue;
        cells_.push_back({std::string(route), std::string(scope), {}});
        cell = cells_.end() - 1;
      }
      cell->sketch.Add(trace.events.duration_ns[event]);
    }
    return Status();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory for the durations of scopes");
  }
}

const DurationSketch* ScopeTimes::Find(std::string_view route, std::string_view scope) const noexcept {
  for (const Cell& cell : cells_) {
    if (cell.scope == scope && cell.route == route) return &cell.sketch;
  }
  return nullptr;
}

std::string ScopeTimes::Text(const BlameIndex& index, const RequestBlame& blame, const Verdict& verdict,
                             size_t columns) const {
  const Trace& trace = index.data()->index.trace;
  const std::string_view route = trace.strings[trace.requests[blame.request].route];
  base::Lines lines(columns);
  std::vector<uint32_t> said;
  for (const Cause& cause : verdict.causes.empty() ? verdict.largest : verdict.causes) {
    for (const uint32_t segment : cause.longest) {
      const uint32_t event = blame.segments[segment].event;
      if (!IsInScope(trace, blame.segments[segment]) || std::find(said.begin(), said.end(), event) != said.end())
        continue;
      const DurationSketch* const usual = Find(route, NameOf(trace, event));
      if (usual == nullptr || usual->size() < kFewest || said.size() >= kMostSaid) continue;
      said.push_back(event);
      lines.AddWrapped(0, "scope       ",
                       "\"" + std::string(NameOf(trace, event)) + "\" took " +
                           base::Duration(trace.events.duration_ns[event]) + "; normally p50 " +
                           base::Duration(usual->Quantile(0.5)) + ", p99 " + base::Duration(usual->Quantile(0.99)) +
                           " (of " + std::to_string(usual->size()) + ")");
    }
  }
  return lines.text();
}

}  // namespace analyze
PITOT_NAMESPACE_END
