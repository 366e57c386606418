// SPDX-License-Identifier: Apache-2.0
#include "read/perfetto_slices.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "read/row_order.h"

namespace pitot::read {

using model::kOpen;

namespace {

// As OrderOf, but never empty.
template <class IsBefore>
std::vector<uint32_t> WholeOrder(const std::vector<uint32_t>& group, size_t groups, const IsBefore& is_before) {
  std::vector<uint32_t> order = OrderOf(group, groups, is_before);
  if (!order.empty()) return order;
  order.resize(group.size());
  std::iota(order.begin(), order.end(), 0u);
  return order;
}

}  // namespace

void PerfettoSlices::Begin(uint32_t track, const PerfettoEvent& event) {
  const bool is_call = !event.submitted.empty();
  const std::vector<ChromeValue> none;
  const std::vector<ChromeValue>& args = is_call ? none : event.args;
  const uint32_t site = builder_.Site(SiteKind::kScope, event.name, args);
  if (!builder_.AddEvent(track, site, {event.at_ns, kOpen}, args) || !is_call) return;
  calls_.emplace_back(trace_.events.size() - 1, static_cast<int64_t>(event.submitted[0] & INT64_MAX));
}

void PerfettoSlices::End(uint32_t track, const PerfettoEvent& event) {
  if (!builder_.IsInRange(event.at_ns)) return;
  if (!event.args.empty()) KeepArgs(event.args);
  ends_.push_back({event.at_ns, trace_.events.size(), event.name.empty() ? 0 : builder_.Intern(event.name)});
  end_tracks_.push_back(track);
}

void PerfettoSlices::KeepArgs(const std::vector<ChromeValue>& args) {
  constexpr uint64_t kMostBytes = 64 << 20;
  for (const ChromeValue& arg : args) {
    const uint64_t bytes = sizeof(Arg) + arg.key.size() + arg.text.size();
    if (arg_bytes_ + bytes > kMostBytes) {
      ++args_left_out_;
      continue;
    }
    arg_bytes_ += bytes;
    args_[ends_.size()].push_back({std::string(arg.key), std::string(arg.text), arg.is_text});
  }
}

// Those inside the slice end with it.
void PerfettoSlices::EndInnermost(uint32_t end) {
  constexpr size_t kMostSearched = 512;
  const size_t lowest = open_.size() - std::min(open_.size(), kMostSearched);
  const auto has_name = [&](uint32_t event) {
    return ends_[end].name == 0 || trace_.sites[trace_.events.site[event]].name == ends_[end].name;
  };
  size_t left = open_.size();
  while (left > lowest && !has_name(open_[left - 1])) --left;
  if (left == lowest) {
    ++ends_without_begin_;
    return;
  }
  if (const auto found = args_.find(end); found != args_.end()) {
    std::vector<ChromeValue> args;
    for (const Arg& arg : found->second) args.push_back({arg.key, arg.text, arg.is_text});
    builder_.AddArgs(open_[left - 1], args);
  }
  for (; open_.size() >= left; open_.pop_back()) builder_.EndEvent(open_.back(), ends_[end].at_ns);
}

void PerfettoSlices::Finish(const std::vector<uint32_t>& threads) {
  model::EventColumns& events = trace_.events;
  for (uint32_t& track : events.thread) track = threads[track];
  for (uint32_t& track : end_tracks_) track = threads[track];
  const std::vector<uint32_t> begins = WholeOrder(events.thread, trace_.threads.size(), [&](uint32_t a, uint32_t b) {
    return events.begin_ns[a] < events.begin_ns[b];
  });
  const std::vector<uint32_t> ends = WholeOrder(
      end_tracks_, trace_.threads.size(), [&](uint32_t a, uint32_t b) { return ends_[a].at_ns < ends_[b].at_ns; });
  const auto is_before = [&](uint32_t event, uint32_t end) {
    return std::tuple(events.thread[event], events.begin_ns[event], event) <
           std::tuple(end_tracks_[end], ends_[end].at_ns, ends_[end].events_before);
  };
  auto next = begins.begin();
  uint32_t thread = 0;
  for (const uint32_t end : ends) {
    const uint32_t thread_before = std::exchange(thread, end_tracks_[end]);
    if (thread != thread_before) open_.clear();
    for (; next != begins.end() && is_before(*next, end); ++next) {
      if (events.thread[*next] == thread && events.duration_ns[*next] == kOpen) open_.push_back(*next);
    }
    EndInnermost(end);
  }
  builder_.MakeCalls(calls_);
}

}  // namespace pitot::read
