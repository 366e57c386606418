// SPDX-License-Identifier: Apache-2.0
#include "pitot/analyze/asked.h"

#include <algorithm>
#include <cinttypes>
#include <string>
#include <string_view>

#include "analyze/blame/index_data.h"
#include "analyze/facts/patience.h"
#include "analyze/verdict/late_token.h"
#include "analyze/verdict/stalled_scope.h"
#include "base/causes.h"
#include "base/columns.h"
#include "base/message.h"
#include "model/request_text.h"
#include "pitot/analyze/tokens.h"

namespace pitot::verdict {
namespace {

using model::FiringRow;
using model::kNone;
using model::RequestRow;
using model::Trace;

bool HasRequest(const FiringRow& firing) { return firing.request_id != 0; }
bool HasFired(const Trace& trace) { return std::any_of(trace.firings.begin(), trace.firings.end(), HasRequest); }

std::string_view FailureWord(Outcome outcome) {
  switch (outcome) {
    case Outcome::kFailed:
      return base::kFailed;
    case Outcome::kTimedOut:
      return base::kTimedOut;
    case Outcome::kAbandoned:
      return base::kAbandoned;
    default:
      return {};
  }
}

// Whether the trigger of failures fired for it. A rule of the host's may have any name.
bool IsFailure(const Trace& trace, const FiringRow& firing, const RequestRow& row) {
  const std::string_view cause = trace.strings[firing.cause], word = FailureWord(row.outcome);
  return row.end_known && !word.empty() && cause.substr(0, cause.find(' ')) == word;
}

// The request of a scope, or the first member of its batch.
uint32_t RequestOf(const Trace& trace, uint32_t event) {
  if (event == kNone) return kNone;
  if (trace.events.request[event] != kNone) return trace.events.request[event];
  const uint32_t batch = trace.events.batch[event];
  if (batch == kNone) return kNone;
  uint32_t first = kNone;
  const model::BatchRow& row = trace.batches[batch];
  for (uint32_t m = row.first_member; m < row.first_member + row.member_count; ++m)
    first = std::min(first, trace.members[m].request);  // rows are in order of their begin
  return first;
}

Asked Find(const blame::Index& index) {
  const Trace& trace = index.trace;
  Asked asked;
  if (trace.firings.empty()) {
    asked.request = ChooseRequest(trace, 0);
    return asked;
  }
  const FiringRow& first = trace.firings[0];
  const uint32_t row = HasRequest(first) ? index.requests.Row(first.request_id) : kNone;
  asked.token = ChooseToken(index);
  if (asked.token != kNone) {
    asked.kind = FiredKind::kToken;
    asked.request = trace.tokens[asked.token].request;
  } else if (row != kNone && IsFailure(trace, first, trace.requests[row])) {
    asked.kind = FiredKind::kFailure;
    asked.request = row;
  } else if (HasRequest(first)) {
    asked.kind = FiredKind::kRequest;
  } else if (IsOfStalledScope(trace, first)) {
    asked.kind = FiredKind::kScope;
    asked.event = FindStalledScope(trace, first);
    asked.request = RequestOf(trace, asked.event);
  } else {
    asked.kind = FiredKind::kWindow;
  }
  if (asked.request == kNone && HasFired(trace)) asked.request = ChooseRequest(trace, 0);
  return asked;
}

Status NoRequest(const Trace& trace, const Asked& asked) {
  for (const FiringRow& firing : trace.firings) {
    if (!HasRequest(firing)) continue;
    return base::Error(StatusCode::kNotFound,
                       "request %016" PRIx64 ", which fired (%s), was lost: it is not in the trace", firing.request_id,
                       std::string(trace.strings[firing.detail]).c_str());
  }
  if (asked.kind == FiredKind::kScope) return Status(StatusCode::kNotFound, "the scope works for no request");
  if (asked.kind == FiredKind::kWindow) return Status(StatusCode::kNotFound, "no request fired");
  return Status(StatusCode::kNotFound, "no request began and ended in its window");
}

std::string FailureText(const Trace& trace, const RequestRow& row) {
  std::string text = "Request " + model::RequestName(trace, row) + " (" + std::string(trace.strings[row.route]) + ") ";
  text += row.outcome == Outcome::kTimedOut    ? "timed out"
          : row.outcome == Outcome::kAbandoned ? "was abandoned"
                                               : "failed";
  if (row.begin_known) text += " after " + base::Duration(row.duration_ns);
  if (row.outcome == Outcome::kTimedOut && row.deadline_ns != 0)
    text += ", its deadline " + base::Duration(row.deadline_ns);
  if (row.reason != 0) text += ": " + std::string(trace.strings[row.reason]);
  return text;
}

// "; 2 more requests failed": firings of the same cause.
std::string MoreFailures(const Trace& trace, const RequestRow& row) {
  std::vector<uint64_t> others;
  for (const FiringRow& firing : trace.firings) {
    if (firing.cause == trace.firings[0].cause && firing.request_id != row.id) others.push_back(firing.request_id);
  }
  std::sort(others.begin(), others.end());
  const auto count = static_cast<size_t>(std::unique(others.begin(), others.end()) - others.begin());
  if (count == 0) return "";
  return "; " + base::Plural(count, "more request") +
         (row.outcome == Outcome::kTimedOut    ? " timed out"
          : row.outcome == Outcome::kAbandoned ? (count == 1 ? " was abandoned" : " were abandoned")
                                               : " failed");
}

// Whether it was slow as well; "" if that is not known.
std::string SlowText(const Asked& asked, const Trace& trace, const Judgement* judgement) {
  if (judgement == nullptr || judgement->verdict.level == Baseline::Level::kNone) return "";
  return IsAboutLatency(trace, asked, judgement->verdict) ? ", and was slow as well" : ", and was not slow";
}

std::string WindowText(const Trace& trace) {
  const FiringRow& first = trace.firings[0];
  const std::string cause(trace.strings[first.cause]), detail(trace.strings[first.detail]);
  if (cause == base::kManual)
    return "The host asked for this incident" + (detail.empty() ? "." : ": \"" + detail + "\".") +
           (HasFired(trace) ? "" : " No request fired.");
  return "\"" + cause + "\" fired, for no request" + (detail.empty() ? "." : ": " + detail + ".");
}

}  // namespace
}  // namespace pitot::verdict

PITOT_NAMESPACE_BEGIN
namespace analyze {

const char* FiredKindName(FiredKind kind) noexcept {
  static constexpr const char* kNames[] = {"nothing", "request", "token", "failure", "scope", "window"};
  const auto i = static_cast<size_t>(kind);
  return i < std::size(kNames) ? kNames[i] : "nothing";
}

Status ChooseAsked(const BlameIndex& index, Asked* asked) noexcept {
  if (index.data() == nullptr) return Status(StatusCode::kInvalidArgument, "index: not built");
  try {
    const model::Trace& trace = index.data()->index.trace;
    *asked = verdict::Find(index.data()->index);
    return asked->request != model::kNone ? Status() : verdict::NoRequest(trace, *asked);
  } catch (const facts::Over&) {
    return Status(StatusCode::kResourceExhausted, "no time left to find what fired");
  } catch (...) {
    return Status(StatusCode::kInternal, "what fired could not be found");
  }
}

Status JudgeAsked(const model::Trace& trace, const Asked& asked, const Baseline* kept, Judgement* judgement) noexcept {
  return asked.token != model::kNone ? JudgeToken(trace, asked.token, judgement)
                                     : JudgeRequest(trace, asked.request, kept, judgement);
}

bool IsAboutLatency(const model::Trace& trace, const Asked& asked, const Verdict& verdict) noexcept {
  if (asked.kind != FiredKind::kFailure || trace.requests[asked.request].outcome == Outcome::kTimedOut) return true;
  return verdict.level != Baseline::Level::kNone && verdict.kind != VerdictKind::kNotUnusual;
}

std::string FiredSentence(const BlameIndex& index, const Asked& asked, const Judgement* judgement) {
  if (index.data() == nullptr) return "";
  const blame::Index& rows = index.data()->index;
  const model::Trace& trace = rows.trace;
  switch (asked.kind) {
    case FiredKind::kFailure: {
      const model::RequestRow& row = trace.requests[asked.request];
      return verdict::FailureText(trace, row) + verdict::SlowText(asked, trace, judgement) +
             verdict::MoreFailures(trace, row) + ".";
    }
    case FiredKind::kScope:
      return verdict::StalledScopeText(rows, asked.event);
    case FiredKind::kWindow:
      return verdict::WindowText(trace);
    default:
      return "";
  }
}

std::string AskedText(const BlameIndex& index, const Asked& asked, const Judgement* judgement, const std::string& head,
                      size_t columns) {
  if (index.data() == nullptr) return "";
  const std::string fired = FiredSentence(index, asked, judgement);
  std::string verdict, latency;
  if (judgement != nullptr) {
    verdict = VerdictText(judgement->index, judgement->blame, judgement->verdict, columns);
    base::Lines sentence(columns);
    sentence.AddWrapped(0, "", VerdictSentence(judgement->index, judgement->blame, judgement->verdict));
    latency = sentence.text();
  }
  if (fired.empty()) return verdict.insert(std::min(latency.size(), verdict.size()), head);
  base::Lines opening(columns);
  opening.AddWrapped(0, "", fired);
  const bool is_about_latency =
      judgement != nullptr && IsAboutLatency(index.data()->index.trace, asked, judgement->verdict);
  return opening.text() + head + (judgement != nullptr || !head.empty() ? "\n" : "") +
         (is_about_latency ? verdict : latency);
}

}  // namespace analyze
PITOT_NAMESPACE_END
