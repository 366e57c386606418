// SPDX-License-Identifier: Apache-2.0
#include "analyze/verdict/cause_evidence.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "analyze/verdict/place.h"
#include "analyze/verdict/proof.h"

namespace pitot::verdict {

using model::kNone;

namespace {

constexpr double kLeastOfCulprit = 0.1;  // of a cause's time
constexpr size_t kMostLongest = 3;

// The part's segments, the longest first.
std::vector<uint32_t> SegmentsOf(const RequestBlame& blame, Blame part) {
  std::vector<uint32_t> segments;
  for (uint32_t i = 0; i < blame.segments.size(); ++i) {
    if (blame.segments[i].blame == part) segments.push_back(i);
  }
  const auto length = [&](uint32_t i) { return blame.segments[i].end_ns - blame.segments[i].begin_ns; };
  std::stable_sort(segments.begin(), segments.end(), [&](uint32_t a, uint32_t b) { return length(a) > length(b); });
  return segments;
}

// Finds the place with most of its time: a thousand short calls may add up to more than the longest one.
void FindPlace(const blame::Index& index, const RequestBlame& blame, Cause* cause) {
  const Places::Most most = Places(index).Find(blame.segments, cause->longest);
  cause->place_ns = most.ns;
  const auto first = std::find(cause->longest.begin(), cause->longest.end(), most.longest);
  if (first != cause->longest.end()) std::rotate(cause->longest.begin(), first, first + 1);
}

// Finds the culprit with most of its time, if it has much of it.
void FindCulprit(const RequestBlame& blame, Cause* cause) {
  using Key = std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>;
  std::vector<std::pair<Key, uint32_t>> parts;  // and the segment
  for (const uint32_t i : cause->longest) {
    const Culprit& by = blame.segments[i].by;
    if (!by.IsKnown()) continue;
    const bool is_ours = by.request != kNone || by.batch != kNone;
    const bool is_thread_known = is_ours || by.thread != kNone;
    parts.emplace_back(Key{by.request, by.batch, is_ours ? kNone : by.thread, is_thread_known ? kNone : by.event}, i);
  }
  std::stable_sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t first = 0, last = 0; first < parts.size(); first = last) {
    int64_t ns = 0;
    for (; last < parts.size() && parts[last].first == parts[first].first; ++last)
      ns += blame.segments[parts[last].second].end_ns - blame.segments[parts[last].second].begin_ns;
    if (ns <= cause->by_ns) continue;
    cause->by_ns = ns;
    cause->by = blame.segments[parts[first].second].by;
  }
  if (static_cast<double>(cause->by_ns) < kLeastOfCulprit * static_cast<double>(cause->blame_ns)) {
    cause->by = {};
    cause->by_ns = 0;
  }
}

}  // namespace

void FindEvidence(const blame::Index& index, const RequestBlame& blame, Cause* cause) {
  cause->longest = SegmentsOf(blame, cause->blame);
  FindCulprit(blame, cause);
  FindPlace(index, blame, cause);
  if (!cause->longest.empty()) cause->stacks = StacksOfCode(index, blame.segments, blame.segments[cause->longest[0]]);
  if (cause->longest.size() > kMostLongest) cause->longest.resize(kMostLongest);
}

}  // namespace pitot::verdict
