// SPDX-License-Identifier: Apache-2.0
#include "model/one_start.h"

#include <set>
#include <tuple>
#include <utility>

namespace pitot::model {
namespace {

std::set<std::pair<uint64_t, int64_t>> RequestsOf(const Trace& trace) {
  std::set<std::pair<uint64_t, int64_t>> requests;
  for (const RequestRow& row : trace.requests) requests.emplace(row.id, row.begin_ns);
  return requests;
}

std::set<std::tuple<int64_t, int64_t>> EventsOf(const Trace& trace) {
  std::set<std::tuple<int64_t, int64_t>> events;
  for (uint32_t row = 0; row < trace.events.size(); ++row)
    events.emplace(trace.threads[trace.events.thread[row]].tid, trace.events.begin_ns[row]);
  return events;
}

template <class Set> bool Share(const Set& a, const Set& b) {
  for (const auto& one : a) {
    if (b.count(one) != 0) return true;
  }
  return false;
}

}  // namespace

bool MayBeOfOneProcess(const Trace& a, const Trace& b) {
  if (a.pid == 0 || a.pid != b.pid || !AreOfOneStart(a, b)) return false;
  return !DoOverlap(a, b) || Share(RequestsOf(a), RequestsOf(b)) || Share(EventsOf(a), EventsOf(b));
}

}  // namespace pitot::model
