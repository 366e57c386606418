// SPDX-License-Identifier: Apache-2.0
//
// Which call caused which work: by ids of correlation, by arrows, by External id.
#include <algorithm>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "base/call_class.h"
#include "read/kineto_builder.h"

namespace pitot::read {

using model::kNone;

namespace {

constexpr int kGroupShift = 44;  // ids of correlation have 32 bits

}  // namespace

int64_t KinetoBuilder::CorrelationOf(const KinetoEvent& event, uint32_t group) {
  const auto of_group = [&](int64_t id) {
    return group == 0 ? id : (id & ((int64_t{1} << kGroupShift) - 1)) | int64_t{group} << kGroupShift;
  };
  if (event.correlation > 0) return of_group(event.correlation);
  if (event.correlation != KinetoEvent::kNone) return event.correlation;
  has_uncorrelated_ = true;
  return event.external_id > 0 ? KinetoEvent::kNone - of_group(event.external_id) : KinetoEvent::kNone;
}

void KinetoBuilder::AddArrow(const KinetoEvent& event) {
  const bool is_end = event.phase == "f";
  if ((!is_end && event.phase != "s") || event.arrow <= 0 || !event.begin_ns) return;
  arrows_.push_back(
      {event.arrow, *event.begin_ns, {ProcessOf(event.pid), is_end ? StreamNumber(event) : Number(event.tid)}, is_end});
}

void KinetoBuilder::LinkGpu(const std::vector<uint32_t>& calls) {
  const auto find = [&](int64_t correlation) {
    const auto found = std::lower_bound(calls.begin(), calls.end(), correlation,
                                        [&](uint32_t call, int64_t id) { return call_correlations_[call] < id; });
    return found != calls.end() && call_correlations_[*found] == correlation ? *found : kNone;
  };
  trace_.gpu.call.reserve(gpu_correlations_.size());
  for (const int64_t correlation : gpu_correlations_)
    trace_.gpu.call.push_back(correlation > 0 ? find(correlation) : kNone);
  LinkByArrows();
  LinkByExternalIds();
  report_.gpu_unlinked += static_cast<uint64_t>(std::count(trace_.gpu.call.begin(), trace_.gpu.call.end(), kNone));
  for (const Sync& sync : syncs_) {
    const uint32_t call = sync.correlation > 0 ? find(sync.correlation) : kNone;
    if (call == kNone) continue;
    trace_.calls.stream[call] = sync.stream;
    trace_.calls.device[call] = sync.device;
  }
}

void KinetoBuilder::LinkByArrows() {
  if (arrows_.empty()) return;
  const model::CallColumns& calls = trace_.calls;
  std::map<std::pair<uint32_t, int64_t>, uint32_t> begins;  // calls by group and id
  for (const Arrow& arrow : arrows_) {
    const auto thread = threads_.find(arrow.of);
    if (arrow.is_end || thread == threads_.end()) continue;
    const auto rows = std::equal_range(calls.thread.begin(), calls.thread.end(), thread->second);
    const auto first = calls.begin_ns.begin() + (rows.first - calls.thread.begin());
    const auto last = calls.begin_ns.begin() + (rows.second - calls.thread.begin());
    const auto call = std::lower_bound(first, last, arrow.begin_ns);
    if (call != last && *call == arrow.begin_ns)
      begins.try_emplace({arrow.of.first.group, arrow.id}, static_cast<uint32_t>(call - calls.begin_ns.begin()));
  }
  std::map<std::pair<uint32_t, int64_t>, uint32_t> work;  // rows by stream and begin
  for (uint32_t row = 0; row < trace_.gpu.size(); ++row) {
    if (gpu_correlations_[row] <= KinetoEvent::kNone)
      work.try_emplace({trace_.gpu.stream[row], trace_.gpu.begin_ns[row]}, row);
  }
  for (const Arrow& arrow : arrows_) {
    const auto device = devices_.find({arrow.of.first.group, arrow.of.first.pid});
    if (!arrow.is_end || device == devices_.end()) continue;
    const auto stream = streams_.find({device->second, 0, arrow.of.second});
    if (stream == streams_.end()) continue;
    const auto row = work.find({stream->second, arrow.begin_ns});
    const auto call = begins.find({arrow.of.first.group, arrow.id});
    if (row != work.end() && call != begins.end()) trace_.gpu.call[row->second] = call->second;
  }
}

// Several calls of an operator may have its id. Then work and launches are tied in their order.
void KinetoBuilder::LinkByExternalIds() {
  if (!has_uncorrelated_) return;
  const auto with_ids = [](const std::vector<int64_t>& correlations, const auto& picks, const auto& begins_ns) {
    std::vector<std::tuple<int64_t, int64_t, uint32_t>> rows;  // by id and begin
    for (uint32_t row = 0; row < correlations.size(); ++row) {
      if (correlations[row] < KinetoEvent::kNone && picks(row))
        rows.push_back({correlations[row], begins_ns[row], row});
    }
    std::sort(rows.begin(), rows.end());
    return rows;
  };
  const auto is_submission = [&](uint32_t call) {
    return base::IsSubmission(base::CallClassOf(trace_.strings[trace_.calls.name[call]]));
  };
  const auto calls = with_ids(call_correlations_, is_submission, trace_.calls.begin_ns);
  const auto is_open = [&](uint32_t row) { return trace_.gpu.call[row] == kNone; };
  auto next = calls.begin();
  for (const auto& [id, begin_ns, row] : with_ids(gpu_correlations_, is_open, trace_.gpu.begin_ns)) {
    while (next != calls.end() && std::get<0>(*next) < id) ++next;
    if (next == calls.end() || std::get<0>(*next) != id) continue;
    trace_.gpu.call[row] = std::get<2>(*next);
    if (next + 1 != calls.end() && std::get<0>(*(next + 1)) == id) ++next;
  }
}

}  // namespace pitot::read
