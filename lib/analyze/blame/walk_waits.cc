// SPDX-License-Identifier: Apache-2.0
#include "analyze/blame/walk_waits.h"

#include <algorithm>
#include <unordered_set>

namespace pitot::blame {

using model::kNone;
using model::Trace;

namespace {

constexpr int64_t kLeastOfHeld = 10;  // the waits for a lock add up to one part in so many of the time, or do not count

// The first `count` arguments of an event, if their types are known.
const uint64_t* Args(const Trace& trace, uint32_t event, size_t count) {
  const uint32_t first = trace.events.args[event];
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  if (first == kNone || site.arg_types.size() < count || trace.arg_values.size() - first < count) return nullptr;
  return trace.arg_values.data() + first;
}

// Reads an instant "release" of a lock, as pitot::Mutex records it: kind and resource.
bool ReadRelease(const Trace& trace, uint32_t event, model::StringId* resource) {
  const model::SiteRow& site = trace.sites[trace.events.site[event]];
  if (site.kind != SiteKind::kInstant || trace.strings[site.name] != "release") return false;
  const uint64_t* args = Args(trace, event, 2);
  if (args == nullptr || !model::IsText(site.arg_types[1]) || args[0] != static_cast<uint64_t>(WaitKind::kLock))
    return false;
  *resource = static_cast<model::StringId>(args[1]);
  return true;
}

}  // namespace

bool ReadWait(const Trace& trace, uint32_t event, WaitArgs* args) {
  if (event == kNone || trace.sites[trace.events.site[event]].kind != SiteKind::kWait) return false;
  const uint64_t* values = Args(trace, event, 4);
  *args = WaitArgs();
  if (values == nullptr) return true;  // a wait for something unknown
  args->kind = static_cast<WaitKind>(values[0]);
  if (model::IsText(trace.sites[trace.events.site[event]].arg_types[1]))
    args->resource = static_cast<model::StringId>(values[1]);
  args->owner_thread = static_cast<uint32_t>(values[2]);
  args->owner_request = values[3];
  return true;
}

uint32_t Outermost(const Trace& trace, const model::RequestIndex& requests, uint32_t request) {
  // Ids may be wrong: take no more steps than a real nesting has.
  for (int step = 0; step < 64 && request != kNone && trace.requests[request].parent_id != 0; ++step) {
    const uint32_t parent = requests.Row(trace.requests[request].parent_id);
    if (parent == kNone) break;
    request = parent;
  }
  return request;
}

Locks::Locks(const Trace& trace, const model::RequestIndex& requests, const Threads& threads)
    : trace_(trace), requests_(requests), threads_(threads) {
  for (uint32_t row = 0; row < trace.threads.size(); ++row) thread_rows_.emplace(trace.threads[row].number, row);
  // Sites are few and events many: most are skipped by their site alone.
  std::vector<bool> matters(trace.sites.size());
  for (size_t site = 0; site < trace.sites.size(); ++site)
    matters[site] = trace.sites[site].kind == SiteKind::kWait || trace.sites[site].kind == SiteKind::kInstant;
  std::vector<std::pair<uint32_t, WaitArgs>> waits;
  for (uint32_t event = 0; event < trace.events.size(); ++event) {
    if (!matters[trace.events.site[event]]) continue;
    WaitArgs args;
    if (model::StringId resource = 0; ReadRelease(trace, event, &resource)) {
      releases_[resource].push_back(trace.events.begin_ns[event]);
    } else if (ReadWait(trace, event, &args) && args.kind == WaitKind::kLock) {
      waits.emplace_back(event, args);
    }
  }
  for (auto& [resource, times] : releases_) std::sort(times.begin(), times.end());
  for (const auto& [event, args] : waits) {
    if (const uint32_t owner = OwnerRow(args); owner != kNone) behind_[owner].push_back(event);
    const int64_t granted_ns = GrantedNs(event, args);
    grants_[args.resource].push_back(
        {granted_ns, Holder(trace.events.thread[event], trace.events.request[event], granted_ns)});
  }
  for (auto& [resource, grants] : grants_) {
    std::stable_sort(grants.begin(), grants.end(),
                     [](const LockGrant& a, const LockGrant& b) { return a.at_ns < b.at_ns; });
  }
}

Culprit Locks::Holder(uint32_t thread, uint32_t request, int64_t at_ns) const {
  Culprit holder;
  holder.thread = thread;
  holder.request = request;
  int64_t until_ns = INT64_MAX;
  if (thread != kNone) holder.batch = threads_.BatchAt(thread, at_ns, &until_ns);
  return holder;
}

int64_t Locks::GrantedNs(uint32_t event, const WaitArgs& args) const {
  const int64_t end_ns = trace_.EventEnd(event);
  const auto releases = releases_.find(args.resource);
  if (releases == releases_.end()) return end_ns;
  const auto after = std::upper_bound(releases->second.begin(), releases->second.end(), end_ns);
  if (after == releases->second.begin() || *(after - 1) < trace_.events.begin_ns[event]) return end_ns;
  return *(after - 1);
}

LockGrant Locks::HeldBefore(uint32_t event, const WaitArgs& args, int64_t by_ns) const {
  const int64_t begin_ns = trace_.events.begin_ns[event];
  if (const auto found = grants_.find(args.resource); found != grants_.end()) {
    const auto after = std::partition_point(found->second.begin(), found->second.end(),
                                            [&](const LockGrant& grant) { return grant.at_ns < by_ns; });
    if (after != found->second.begin() && (after - 1)->at_ns >= begin_ns) return *(after - 1);
  }
  const uint32_t request = args.owner_request != 0 ? requests_.Row(args.owner_request) : kNone;
  return {INT64_MIN, Holder(OwnerRow(args), request, begin_ns)};
}

std::vector<model::Interval> Locks::Holds(model::StringId resource) const {
  std::vector<model::Interval> holds;
  const auto grants = grants_.find(resource);
  const auto releases = releases_.find(resource);
  if (grants == grants_.end() || releases == releases_.end()) return holds;
  for (const LockGrant& grant : grants->second) {
    const auto release = std::upper_bound(releases->second.begin(), releases->second.end(), grant.at_ns);
    if (release != releases->second.end()) holds.push_back({grant.at_ns, *release});
  }
  return holds;
}

std::vector<model::StringId> Locks::Held() const {
  std::vector<model::StringId> held;
  for (const auto& [resource, grants] : grants_) {
    if (releases_.count(resource) != 0) held.push_back(resource);
  }
  std::sort(held.begin(), held.end());
  return held;
}

int64_t Locks::KeptUntilNs(uint32_t thread, model::StringId resource, model::Interval when) const {
  int64_t until_ns = when.begin_ns;
  const auto behind = behind_.find(thread);
  if (behind == behind_.end()) return until_ns;
  const auto releases = releases_.find(resource);
  for (const uint32_t event : behind->second) {
    WaitArgs args;
    const int64_t begin_ns = trace_.events.begin_ns[event];
    if (begin_ns >= when.end_ns || !ReadWait(trace_, event, &args) || args.resource != resource) continue;
    int64_t released_ns = trace_.EventEnd(event);
    if (releases != releases_.end()) {
      const auto next = std::upper_bound(releases->second.begin(), releases->second.end(), begin_ns);
      if (next != releases->second.end()) released_ns = std::min(released_ns, *next);
    }
    until_ns = std::max(until_ns, std::min(released_ns, when.end_ns));
  }
  return until_ns;
}

LockQueue Locks::Behind(uint32_t thread, int64_t begin_ns, int64_t end_ns) const {
  const auto found = behind_.find(thread);
  if (found == behind_.end()) return {};
  struct Queue {
    std::unordered_set<uint32_t> threads;
    int64_t waited_ns = 0;
  };
  std::unordered_map<model::StringId, Queue> queues;
  for (const uint32_t event : found->second) {
    WaitArgs args;
    const int64_t at_ns = trace_.events.begin_ns[event];
    if (at_ns < begin_ns || at_ns >= end_ns || !ReadWait(trace_, event, &args)) continue;
    Queue& queue = queues[args.resource];
    queue.threads.insert(trace_.events.thread[event]);
    queue.waited_ns += std::min(trace_.EventEnd(event), end_ns) - at_ns;
  }
  LockQueue most;
  for (const auto& [resource, queue] : queues) {
    const auto threads = static_cast<uint32_t>(queue.threads.size());
    const bool is_more = threads > most.threads || (threads == most.threads && resource < most.resource);
    if (queue.waited_ns >= (end_ns - begin_ns) / kLeastOfHeld && is_more) most = {resource, threads};
  }
  return most;
}

}  // namespace pitot::blame
