// SPDX-License-Identifier: Apache-2.0
#include "read/own_rows.h"

#include <algorithm>

#include "model/fill_columns.h"
#include "pitot/wait.h"
#include "read/sort_rows.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;

namespace {

constexpr int64_t kNotKnown = -1;  // the begin of a row that was only named

// By old row: the new one, or kNone for those that go. Removes them.
template <class Row> std::vector<uint32_t> Removed(std::vector<Row>* rows) {
  std::vector<uint32_t> places(rows->size(), kNone);
  uint32_t kept = 0;
  for (uint32_t row = 0; row < rows->size(); ++row) {
    if ((*rows)[row].begin_ns == kNotKnown) continue;
    places[row] = kept;
    if (kept != row) (*rows)[kept] = std::move((*rows)[row]);
    ++kept;
  }
  rows->resize(kept);
  return places;
}
template <class Rows, class Reference> void RemoveRows(Rows* rows, const Reference& reference) {
  rows->erase(std::remove_if(rows->begin(), rows->end(), [&](auto& row) { return reference(row) == kNone; }),
              rows->end());
}

}  // namespace

bool OwnRows::TakeTime(int64_t begin_ns, int64_t duration_ns) {
  const bool is_open = duration_ns == kOpen;
  const bool is_good = begin_ns >= 0 && begin_ns <= model::kMaxTimeNs &&
                       (is_open || (duration_ns >= 0 && duration_ns <= model::kMaxTimeNs - begin_ns &&
                                    duration_ns <= model::kMaxTimeNs - total_ns_));
  times_out_of_range_ += !is_good;
  if (is_good && !is_open) total_ns_ += duration_ns;
  return is_good;
}

int64_t OwnRows::Ended(int64_t begin_ns, int64_t end_ns) {
  const bool is_good = end_ns >= begin_ns && end_ns <= model::kMaxTimeNs && TakeTime(begin_ns, end_ns - begin_ns);
  return is_good ? end_ns - begin_ns : 0;
}

uint32_t OwnRows::NewRequest() {
  trace_.requests.emplace_back();
  trace_.requests.back().begin_ns = kNotKnown;
  return static_cast<uint32_t>(trace_.requests.size() - 1);
}

uint32_t OwnRows::NewBatch() {
  trace_.batches.emplace_back();
  trace_.batches.back().begin_ns = kNotKnown;
  return static_cast<uint32_t>(trace_.batches.size() - 1);
}

uint32_t OwnRows::Thread(int64_t tid, std::string_view name) {
  model::ThreadRow row;
  row.number = static_cast<uint32_t>(trace_.threads.size() + 1);
  row.tid = tid;
  row.name = Intern(name);
  trace_.threads.push_back(row);
  return row.number - 1;
}

uint32_t OwnRows::Device(uint32_t ordinal, std::string_view name) {
  model::DeviceRow row;
  row.ordinal = ordinal;
  row.name = Intern(name);
  trace_.devices.push_back(row);
  return static_cast<uint32_t>(trace_.devices.size() - 1);
}

uint32_t OwnRows::Stream(const model::StreamRow& row) {
  trace_.streams.push_back(row);
  return static_cast<uint32_t>(trace_.streams.size() - 1);
}

void OwnRows::AddEvent(uint32_t thread, uint32_t site, int64_t begin_ns, int64_t duration_ns, uint32_t request,
                       uint32_t batch, const std::vector<ChromeValue>& args) {
  model::EventColumns& events = trace_.events;
  events.args.push_back(sites_.AddValues(site, args));
  events.begin_ns.push_back(begin_ns);
  events.duration_ns.push_back(duration_ns);
  events.site.push_back(site);
  events.thread.push_back(thread);
  events.request.push_back(request);
  events.batch.push_back(batch);
}

void OwnRows::AddWait(uint32_t thread, int64_t begin_ns, int64_t duration_ns, uint32_t request, uint32_t batch,
                      const Wait& wait) {
  if (wait.kind.empty())
    return AddEvent(thread, Site(SiteKind::kWait, "wait", {}), begin_ns, duration_ns, request, batch, {});
  int number = 1;
  while (number < static_cast<int>(WaitKind::kOther) && wait.kind != WaitKindName(static_cast<WaitKind>(number)))
    ++number;
  const std::string kind = std::to_string(number), owner_thread = std::to_string(wait.owner_thread),
                    owner_request = std::to_string(wait.owner_request), spurious = std::to_string(wait.spurious);
  // Their types must not depend on the values.
  std::vector<ChromeValue> args = {{"kind", kind, false},
                                   {"resource", wait.resource, true},
                                   {"owner_thread", owner_thread, false},
                                   {"owner_request", "0", false}};
  if (wait.spurious != 0) args.push_back({"spurious", spurious, false});
  const uint32_t site = Site(SiteKind::kWait, "wait", args);
  args[3].text = owner_request;
  AddEvent(thread, site, begin_ns, duration_ns, request, batch, args);
  if (wait.owner_request > INT64_MAX) trace_.arg_values[trace_.events.args.back() + 3] = wait.owner_request;
}

void OwnRows::AddCall(const Call& call) {
  model::CallColumns& calls = trace_.calls;
  if (call.id != 0) calls_.emplace_back(call.id, calls.size());
  calls.begin_ns.push_back(call.begin_ns);
  calls.duration_ns.push_back(call.duration_ns);
  calls.thread.push_back(call.thread);
  calls.request.push_back(call.request);
  calls.batch.push_back(call.batch);
  calls.name.push_back(Intern(call.name));
  calls.stream.push_back(call.stream);
  calls.device.push_back(call.device);
}

void OwnRows::AddWork(const Work& work) {
  model::GpuColumns& gpu = trace_.gpu;
  gpu.begin_ns.push_back(work.begin_ns);
  gpu.duration_ns.push_back(work.duration_ns);
  gpu.kind.push_back(work.kind);
  gpu.stream.push_back(work.stream);
  gpu.name.push_back(Intern(work.name));
  gpu.bytes.push_back(work.bytes);
  gpu.graph.push_back(work.graph);
  gpu.node.push_back(work.node);
  gpu.scope_path.push_back(Intern(work.scope_path));
  if (work.call != 0) of_calls_.emplace_back(work.call, gpu.size() - 1);
  gpu.shape.push_back(work.has_shape ? shapes_.Of(work.shape) : kNone);
}

void OwnRows::DropUnknown() {
  const std::vector<uint32_t> requests = Removed(&trace_.requests), batches = Removed(&trace_.batches);
  const auto move = [](const std::vector<uint32_t>& places, uint32_t* row) {
    if (*row != kNone) *row = places[*row];
    return *row;
  };
  for (uint32_t& row : trace_.events.request) move(requests, &row);
  for (uint32_t& row : trace_.calls.request) move(requests, &row);
  for (uint32_t& row : trace_.events.batch) move(batches, &row);
  for (uint32_t& row : trace_.calls.batch) move(batches, &row);
  for (auto& row : trace_.handoffs) move(batches, &row.batch);
  for (auto& row : trace_.members) move(batches, &row.batch);
  RemoveRows(&trace_.members, [&](auto& row) { return row.batch; });
  RemoveRows(&trace_.members, [&](auto& row) { return move(requests, &row.request); });
  RemoveRows(&trace_.handoffs, [&](auto& row) { return move(requests, &row.request); });
  RemoveRows(&trace_.asyncs, [&](auto& row) { return move(requests, &row.request); });
  RemoveRows(&trace_.tokens, [&](auto& row) { return move(requests, &row.request); });
}

// The call of each GPU work: the first with its id.
void OwnRows::FindCalls() {
  std::sort(calls_.begin(), calls_.end());
  std::sort(of_calls_.begin(), of_calls_.end());
  trace_.gpu.call.assign(trace_.gpu.size(), kNone);
  auto call = calls_.begin();
  for (const auto& [id, row] : of_calls_) {
    while (call != calls_.end() && call->first < id) ++call;
    if (call != calls_.end() && call->first == id) trace_.gpu.call[row] = call->second;
  }
}

Status OwnRows::Finish(bool is_damaged) {
  FindCalls();
  DropUnknown();
  SortRows(&trace_);
  // Open rows last until the window's end.
  const auto reach = [&](int64_t begin_ns, int64_t duration_ns) {
    if (duration_ns == kOpen) trace_.window_end_ns = std::max(trace_.window_end_ns, begin_ns);
  };
  for (uint32_t i = 0; i < trace_.events.size(); ++i) reach(trace_.events.begin_ns[i], trace_.events.duration_ns[i]);
  for (uint32_t i = 0; i < trace_.calls.size(); ++i) reach(trace_.calls.begin_ns[i], trace_.calls.duration_ns[i]);
  for (const auto& row : trace_.requests) reach(row.begin_ns, row.duration_ns);
  for (const auto& row : trace_.batches) reach(row.begin_ns, row.duration_ns);
  for (const auto& row : trace_.asyncs) reach(row.begin_ns, row.duration_ns);
  trace_.window_begin_ns = std::min(trace_.window_begin_ns, trace_.window_end_ns);
  for (model::ThreadRow& thread : trace_.threads) thread.history_begin_ns = trace_.window_begin_ns;
  if (is_damaged)
    trace_.losses.push_back({kNone, model::LossReason::kDamaged, trace_.window_begin_ns, trace_.window_end_ns, 0, 0});
  schema::FillColumns(&trace_);
  const std::string wrong = model::FindInconsistency(trace_);
  if (wrong.empty()) return {};
  return Status(StatusCode::kInvalidArgument,
                ("it has the mark of a file by Pitot, but its rows contradict each other: " + wrong).c_str());
}

}  // namespace pitot::read
