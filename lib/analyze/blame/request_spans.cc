// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/request_spans.h"

#include <algorithm>

#include "analyze/blame/walk_threads.h"
#include "base/quantile.h"

namespace pitot::blame {

using model::kNone;

namespace {

constexpr size_t kLeastForUsual = 8;  // needed for a usual median

// As in verdicts, where a tenth is not worth a word.
bool IsWhole(int64_t part_ns, int64_t request_ns) { return part_ns >= request_ns - request_ns / 10; }

}  // namespace

// The span with the latest begin has the time.
std::vector<RequestSpans::Piece> RequestSpans::Flat(uint32_t request, const model::RequestIndex& requests) const {
  const model::RequestRow& row = trace_.requests[request];
  const int64_t end_ns = trace_.RequestEnd(row);
  std::vector<Piece> spans;
  const auto add = [&](int64_t begin_ns, int64_t ns, Name name) {
    const int64_t until_ns = ns == model::kOpen ? end_ns : begin_ns + ns;
    spans.push_back({begin_ns, until_ns, name, IsWhole(until_ns - begin_ns, end_ns - row.begin_ns)});
  };
  for (const uint32_t async : requests.Asyncs(request)) {
    const model::AsyncRow& of = trace_.asyncs[async];
    add(of.begin_ns, of.duration_ns, {trace_.sites[of.site].name, false});
  }
  if (row.begin_thread == kNone && row.end_thread == kNone) {
    for (const model::Stage& stage : row.stages) add(stage.begin_ns, stage.duration_ns, {stage.name, true});
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Piece& a, const Piece& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  Tenures tenures;
  for (uint32_t i = 0; i < spans.size(); ++i) tenures.Add(spans[i].begin_ns, spans[i].end_ns, i);
  tenures.Flatten();
  std::vector<Piece> flat;
  for (const Tenures::Tenure& one : tenures.all())
    flat.push_back({one.begin_ns, one.end_ns, spans[one.row].name, spans[one.row].is_whole});
  return flat;
}

RequestSpans::RequestSpans(const model::Trace& trace, const model::RequestIndex& requests) : trace_(trace) {
  starts_.push_back(0);
  for (uint32_t request = 0; request < trace.requests.size(); ++request) {
    const std::vector<Piece> flat = Flat(request, requests);
    pieces_.insert(pieces_.end(), flat.begin(), flat.end());
    starts_.push_back(static_cast<uint32_t>(pieces_.size()));
  }
  if (pieces_.empty()) return;
  for (uint32_t request = 0; request < trace.requests.size(); ++request) {
    const model::RequestRow& row = trace.requests[request];
    if (!row.begin_known || !row.end_known) continue;
    Like& like = likes_[{row.route, row.size_bucket}];
    like.latencies_ns.push_back(row.duration_ns);
    std::map<Name, Time> times;
    for (uint32_t i = starts_[request]; i < starts_[request + 1]; ++i) {
      Time& time = times[pieces_[i].name];
      time.ns += pieces_[i].end_ns - pieces_[i].begin_ns;
      time.is_whole |= pieces_[i].is_whole;
    }
    for (const auto& [name, time] : times) {
      like.spans_ns[name].push_back(time.ns);
      if (time.is_whole) ++like.wholes[name];
    }
  }
  for (auto& [key, like] : likes_) {
    for (auto& [name, times] : like.spans_ns) {
      if (2 * times.size() < like.latencies_ns.size()) continue;  // the median is 0
      times.resize(like.latencies_ns.size());                     // 0 in those without the span
      like.usual_of_ns[name] = base::Median(std::move(times));
    }
    like.spans_ns.clear();
    like.usual_ns = base::Median(like.latencies_ns);
  }
}

SlowSpan RequestSpans::InUnrecorded(const RequestBlame& blame) const {
  SlowSpan most;
  if (pieces_.empty() || blame.request == kNone || blame.token != kNone) return most;
  const model::RequestRow& row = trace_.requests[blame.request];
  const auto found = likes_.find({row.route, row.size_bucket});
  if (found == likes_.end() || found->second.latencies_ns.size() < kLeastForUsual) return most;
  const Like& like = found->second;
  const int64_t excess_ns = std::min(blame.blame[Blame::kUntraced], blame.end_ns - blame.begin_ns - like.usual_ns);
  if (excess_ns <= 0) return most;
  std::map<Name, Time> unrecorded;
  uint32_t piece = starts_[blame.request];
  for (const BlameSegment& segment : blame.segments) {
    if (segment.blame != Blame::kUntraced) continue;
    while (piece < starts_[blame.request + 1] && pieces_[piece].end_ns <= segment.begin_ns) ++piece;
    for (uint32_t i = piece; i < starts_[blame.request + 1] && pieces_[i].begin_ns < segment.end_ns; ++i) {
      Time& time = unrecorded[pieces_[i].name];
      time.ns += std::min(pieces_[i].end_ns, segment.end_ns) - std::max(pieces_[i].begin_ns, segment.begin_ns);
      time.is_whole |= pieces_[i].is_whole;
    }
  }
  int64_t most_ns = 0;
  for (const auto& [name, time] : unrecorded) {
    const auto usual = like.usual_of_ns.find(name);
    const int64_t usual_ns = usual != like.usual_of_ns.end() ? usual->second : 0;
    const int64_t longer_ns = time.ns - usual_ns;
    if (2 * longer_ns < excess_ns) continue;
    const auto wholes = like.wholes.find(name);
    const bool is_whole = time.is_whole && wholes != like.wholes.end() && 2 * wholes->second > like.latencies_ns.size();
    if (most.name != 0 && (is_whole == most.is_whole ? longer_ns <= most_ns : is_whole)) continue;
    most_ns = longer_ns;
    most = {name.first, name.second, time.ns, usual_ns, is_whole};
  }
  return most;
}

}  // namespace pitot::blame
