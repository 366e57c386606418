// SPDX-License-Identifier: Apache-2.0
#include "session/self_check.h"

#include <errno.h>

#include <algorithm>
#include <new>

#include "base/columns.h"
#include "model/missing_call.h"

namespace pitot::session {
namespace {

using model::kNone;
using model::RequestRow;
using model::Trace;

constexpr int64_t kStaysNs = 1'000'000'000;  // a member of a batch, after its request has ended
constexpr uint64_t kFewestThreads = 2;
constexpr size_t kSystemNameBytes = 15;

constexpr const char* kNames[] = {"outcomes", "tokens", "batches", "stages", "threads"};

// Whether each request has an event, a queue, a batch or a part of its own.
std::vector<bool> HaveWork(const Trace& trace) {
  std::vector<bool> have(trace.requests.size());
  const auto note = [&](uint32_t request) {
    if (request != kNone) have[request] = true;
  };
  for (const uint32_t request : trace.events.request) note(request);
  for (const model::HandoffRow& row : trace.handoffs) note(row.request);
  for (const model::MemberRow& row : trace.members) note(row.request);
  for (const model::AsyncRow& row : trace.asyncs) note(row.request);
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    if (!trace.requests[row].stages.empty()) have[row] = true;
  }
  return have;
}

}  // namespace

std::optional<std::string> SelfCheck::TokensOf(const Trigger* trigger) {
  if (trigger == nullptr || !trigger->WatchesTokens()) return std::nullopt;
  const char* const route = trigger->Route();
  return route != nullptr ? route : "";
}

void SelfCheck::NoteTokens(const std::string& route) noexcept {
  try {
    const base::MutexLock lock(&mutex_);
    token_routes_.push_back(route);
  } catch (const std::bad_alloc&) {
    // The trigger is added all the same.
  }
}

bool SelfCheck::IsWatched(std::string_view route) {
  const base::MutexLock lock(&mutex_);
  return std::any_of(token_routes_.begin(), token_routes_.end(),
                     [&](const std::string& watched) { return watched.empty() || watched == route; });
}

void SelfCheck::Note(Kind kind, bool has_it) {
  if (has_it)
    found_[kind].is_called = true;
  else
    ++found_[kind].count;
}

void SelfCheck::LookAtRequests(const Trace& trace) {
  const std::vector<bool> have_work = HaveWork(trace);
  for (uint32_t row = 0; row < trace.requests.size(); ++row) {
    const RequestRow& request = trace.requests[row];
    if (!request.begin_known || !request.end_known || trace.RequestEnd(request) <= looked_until_ns_) continue;
    Note(kOutcomes, request.outcome != Outcome::kCancelled && request.outcome != Outcome::kAbandoned);
    Note(kStages, have_work[row]);
    if (IsWatched(trace.strings[request.route])) Note(kTokens, request.output_tokens != 0);
  }
}

// Members that are left behind in an open batch.
void SelfCheck::LookAtBatches(const Trace& trace) {
  uint64_t left_behind = 0;
  for (const model::MemberRow& member : trace.members) {
    if (member.leave_ns != 0 || member.batch == kNone || member.request == kNone) continue;
    const RequestRow& request = trace.requests[member.request];
    const bool is_over = request.end_known && trace.RequestEnd(request) < trace.window_end_ns - kStaysNs;
    if (is_over && trace.batches[member.batch].duration_ns == model::kOpen) ++left_behind;
  }
  found_[kBatches].count = left_behind;
}

// A thread that nobody named has the program's name.
void SelfCheck::LookAtThreads(const Trace& trace) {
  const std::string_view program = std::string_view(program_invocation_short_name).substr(0, kSystemNameBytes);
  uint64_t unnamed = 0, named = 0;
  for (const model::ThreadRow& thread : trace.threads) {
    if (thread.event_count == 0 || thread.tid == trace.pid) continue;
    const std::string_view name = trace.strings[thread.name];
    ++(name.empty() || name == program ? unnamed : named);
  }
  found_[kThreads].count = unnamed > named ? unnamed : 0;
}

std::string SelfCheck::TextOf(Kind kind) const {
  const std::string requests = base::Plural(found_[kind].count, "request");
  switch (kind) {
    case kOutcomes:
      return "all of " + requests +
             " ended as cancelled or abandoned, so nothing is learned: call Request::Finish with pitot::Outcome::kOk";
    case kTokens:
      return "a trigger watches tokens, and none of " + requests + " put one out: call pitot::Emit for each";
    case kBatches:
      return requests + " ended and stayed in open batches: call Batch::Leave for each, or Batch::Finish";
    case kStages:
      return "none of " + requests + " has a scope, a queue or a batch: put PITOT_SCOPE into the code that serves them";
    default:
      return base::Plural(found_[kind].count, "thread") +
             " have the program's name: call pitot::SetThreadName in each, so that verdicts can tell them apart";
  }
}

std::vector<std::string> SelfCheck::Look(Trace* trace) {
  LookAtRequests(*trace);
  LookAtBatches(*trace);
  LookAtThreads(*trace);
  looked_until_ns_ = std::max(looked_until_ns_, trace->window_end_ns);
  std::vector<std::string> fresh;
  for (const Kind kind : {kOutcomes, kTokens, kBatches, kStages, kThreads}) {
    Found& found = found_[kind];
    if (found.is_called || found.count < (kind == kThreads ? kFewestThreads : kFewestRequests)) continue;
    const std::string text = TextOf(kind), key = std::string(model::kMissingCall) + kNames[kind];
    trace->attributes.push_back({trace->strings.Add(key), trace->strings.Add(text)});
    if (!found.is_logged) fresh.push_back(text);
    found.is_logged = true;
  }
  return fresh;
}

}  // namespace pitot::session
