// SPDX-License-Identifier: Apache-2.0
#include "read/sort_rows.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <vector>

#include "read/row_order.h"

namespace pitot::read {

using model::kNone;
using model::kOpen;
using model::Trace;

namespace {

// The old places of rows in their new order.
using Order = std::vector<uint32_t>;

template <class Key> Order OrderBy(size_t size, const Key& key) {
  Order order(size);
  std::iota(order.begin(), order.end(), 0u);
  const auto is_before = [&](uint32_t a, uint32_t b) { return key(a) < key(b); };
  if (!std::is_sorted(order.begin(), order.end(), is_before)) std::stable_sort(order.begin(), order.end(), is_before);
  return order;
}
// By old place: the new one.
std::vector<uint32_t> Places(const Order& order) {
  std::vector<uint32_t> places(order.size());
  for (uint32_t row = 0; row < order.size(); ++row) places[order[row]] = row;
  return places;
}
void Renumber(const std::vector<uint32_t>& places, uint32_t* row) {
  if (*row != kNone) *row = places[*row];
}
void Renumber(const std::vector<uint32_t>& places, std::vector<uint32_t>* rows) {
  for (uint32_t& row : *rows) Renumber(places, &row);
}

template <class Row> Order ByBegin(const std::vector<Row>& rows) {
  return OrderBy(rows.size(), [&](uint32_t row) { return rows[row].begin_ns; });
}
// The ranges of the rows of a sorted table, by the column that names the row of another.
template <class Owner> void SetRanges(const std::vector<uint32_t>& of, std::vector<Owner>* owners,
                                      uint32_t Owner::*first, uint32_t Owner::*count) {
  for (Owner& owner : *owners) owner.*first = owner.*count = 0;
  for (uint32_t row = 0; row < of.size(); ++row) {
    Owner& owner = (*owners)[of[row]];
    if ((owner.*count)++ == 0) owner.*first = row;
  }
}

void SortRequests(Trace* trace) {
  const Order order = ByBegin(trace->requests);
  Reorder(order, &trace->requests);
  const std::vector<uint32_t> places = Places(order);
  Renumber(places, &trace->events.request);
  Renumber(places, &trace->calls.request);
  for (auto& row : trace->members) Renumber(places, &row.request);
  for (auto& row : trace->handoffs) Renumber(places, &row.request);
  for (auto& row : trace->asyncs) Renumber(places, &row.request);
  for (auto& row : trace->tokens) Renumber(places, &row.request);
}

void SortBatches(Trace* trace) {
  const Order order = ByBegin(trace->batches);
  Reorder(order, &trace->batches);
  const std::vector<uint32_t> places = Places(order);
  Renumber(places, &trace->events.batch);
  Renumber(places, &trace->calls.batch);
  for (auto& row : trace->members) Renumber(places, &row.batch);
  for (auto& row : trace->handoffs) Renumber(places, &row.batch);
  auto& members = trace->members;
  Reorder(OrderBy(members.size(), [&](uint32_t row) { return std::pair(members[row].batch, members[row].join_ns); }),
          &members);
  std::vector<uint32_t> of;
  for (const auto& member : members) of.push_back(member.batch);
  SetRanges(of, &trace->batches, &model::BatchRow::first_member, &model::BatchRow::member_count);
}

void SortEvents(Trace* trace) {
  model::EventColumns& events = trace->events;
  const auto length = [&](uint32_t row) {
    return events.duration_ns[row] == kOpen ? INT64_MAX : events.duration_ns[row];
  };
  Reorder(OrderBy(events.size(),
                  [&](uint32_t row) { return std::tuple(events.thread[row], events.begin_ns[row], -length(row)); }),
          &events.begin_ns, &events.duration_ns, &events.site, &events.thread, &events.request, &events.batch,
          &events.args);
  SetRanges(events.thread, &trace->threads, &model::ThreadRow::first_event, &model::ThreadRow::event_count);
}

void SortGpu(Trace* trace) {
  model::CallColumns& calls = trace->calls;
  const Order of_calls =
      OrderBy(calls.size(), [&](uint32_t row) { return std::pair(calls.thread[row], calls.begin_ns[row]); });
  Reorder(of_calls, &calls.begin_ns, &calls.duration_ns, &calls.thread, &calls.request, &calls.batch, &calls.name,
          &calls.stream, &calls.device);
  model::GpuColumns& gpu = trace->gpu;
  Renumber(Places(of_calls), &gpu.call);
  Reorder(OrderBy(gpu.size(), [&](uint32_t row) { return std::pair(gpu.stream[row], gpu.begin_ns[row]); }),
          &gpu.begin_ns, &gpu.duration_ns, &gpu.kind, &gpu.stream, &gpu.name, &gpu.call, &gpu.shape, &gpu.bytes,
          &gpu.graph, &gpu.node, &gpu.scope_path);
  SetRanges(gpu.stream, &trace->streams, &model::StreamRow::first_event, &model::StreamRow::event_count);
}

}  // namespace

void SortRows(Trace* trace) {
  SortRequests(trace);
  SortBatches(trace);
  SortEvents(trace);
  SortGpu(trace);
  auto& handoffs = trace->handoffs;
  Reorder(OrderBy(handoffs.size(), [&](uint32_t row) { return handoffs[row].enqueue_ns; }), &handoffs);
  Reorder(ByBegin(trace->asyncs), &trace->asyncs);
  auto& tokens = trace->tokens;
  Reorder(OrderBy(tokens.size(), [&](uint32_t row) { return tokens[row].at_ns; }), &tokens);
  Reorder(ByBegin(trace->overheads), &trace->overheads);
  Reorder(ByBegin(trace->depths), &trace->depths);
  Reorder(ByBegin(trace->operator_depths), &trace->operator_depths);
  auto& firings = trace->firings;
  Reorder(OrderBy(firings.size(), [&](uint32_t row) { return firings[row].at_ns; }), &firings);
  model::SampleColumns& samples = trace->samples;
  Reorder(OrderBy(samples.size(), [&](uint32_t row) { return std::pair(samples.counter[row], samples.at_ns[row]); }),
          &samples.counter, &samples.at_ns, &samples.value);
}

}  // namespace pitot::read
